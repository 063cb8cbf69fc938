"""What would have to change for a pod to fit on a node that refuses it: the nearest misses.

Every answer comes from placing the pod again by the real rules, with one thing changed. A changed amount goes through
the vendor's own reading of the container's limits, so that the pod may be written exactly as the answer says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Protocol

from hami_core.model import EMPTY, Allocation
from hami_core.vendorkit import ceil_div
from hami_core.wire import keys
from hami_core.wire.reasons import QUOTA_NOT_FIT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from hami_core.model import DeviceUsage, Family, PodRequest, Request
    from hami_core.placement.place import Rejection

MAX_PODS: Final = 64
"""Most pods of a node that are tried, one by one, as if they had ended."""
MAX_DEVICES: Final = 16
"""Most devices of a node that are tried, one by one, as if they were offered."""


class ChangeKind(IntEnum):
    """Who has to act; the first kinds are the nearest misses."""

    LIMITS = 0
    """The pod's author asks for less."""
    SELECTION = 1
    """The pod's author selects devices less strictly."""
    CORDON = 2
    """An administrator uncordons devices."""
    QUOTA = 3
    """An administrator raises the namespace's quota."""
    HEALTH = 4
    """Devices become healthy."""
    PODS = 5
    """Other pods end."""

    @property
    def word(self) -> str:
        """Its name in JSON."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Change:
    """One change after which the pod fits on the node.

    Attributes:
        kind: Who has to act.
        text: The change in words, such as ``with nvidia.com/gpumem ≤ 8192``. Pods appear by UID.
        size: How large the change is, from 0; only comparable within a kind.
        container: The container whose limits change.
        limits: Resource → the most that fits, in the resource's own unit; 0: the pod must not ask for it.
        annotations: Annotations that the pod must not have.
        devices: Devices that have to be offered.
        pods: UIDs of pods that have to end.
    """

    kind: ChangeKind
    text: str
    size: float
    container: str = ""
    limits: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    annotations: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()


class Placing(Protocol):
    """Places a pod on the node as things might be, and changes nothing."""

    def __call__(
        self,
        request: PodRequest,
        *,
        without: Collection[str] = (),
        offered: Collection[str] = (),
        quota: bool = True,
    ) -> Allocation | Rejection:
        """As `hami_core.inventory.Inventory.try_place`."""
        ...


class Rewriting(Protocol):
    """Reads the pod again as if it were written otherwise."""

    def __call__(self, container: str, limits: Mapping[str, int], without: Collection[str] = ()) -> PodRequest | None:
        """The pod's request with these limits of a container, and without these annotations of the pod.

        A limit of 0 is left out. None: the vendor refuses a pod that is written so.
        """
        ...


@dataclass(frozen=True)
class Miss:
    """A pod and a node that refuses it.

    Attributes:
        request: The pod's request.
        devices: The node's devices with their usage.
        pods: UID of each other pod that holds devices there → MiB that it holds.
        families: Families by common word.
        annotations: The pod's annotations.
        place: Places the pod on this node.
        rewrite: Reads the pod again.
    """

    request: PodRequest
    devices: Sequence[DeviceUsage]
    pods: Mapping[str, int]
    families: Mapping[str, Family]
    annotations: Collection[str]
    place: Placing
    rewrite: Rewriting


def nearest(miss: Miss, *, amounts_only: bool = False) -> list[Change]:
    """Changes after which the pod would fit, the nearest miss first; each is enough by itself.

    Args:
        miss: The pod and the node.
        amounts_only: Look only at the pod's own amounts.

    Returns:
        At most a few changes of each kind. It is empty if the pod fits, if the node as a whole is closed, or if no
        single kind of change helps, for example because the pod is too large for an idle node.
    """
    refused = miss.place(miss.request)
    if isinstance(refused, Allocation) or not refused.container:
        return []
    asked = _asked(miss.request, refused)
    if asked is None:
        return []
    search = _Search(miss, refused, asked)
    found = list(search.limits())
    if not amounts_only:
        found += [*search.selection(), *search.offers(), *search.quota(), *search.pods()]
    return sorted(found, key=lambda change: (change.kind, change.size))


def _asked(request: PodRequest, refused: Rejection) -> Request | None:
    for container in request.containers:
        if container.name == refused.container:
            return next((one for one in container.requests if one.family == refused.family), None)
    return None


class _Search:
    def __init__(self, miss: Miss, refused: Rejection, asked: Request) -> None:
        self._miss = miss
        self._refused = refused
        self._asked = asked
        self._family = miss.families[refused.family]
        self._devices = [usage for usage in miss.devices if usage.device.family == refused.family]

    # --- the pod's amounts

    def limits(self) -> Iterator[Change]:
        """Less memory, less compute, both, fewer devices."""
        if self._family.count_is_size:
            return  # the count stands for memory and cores together, in the vendor's own sizes
        names = self._family.resources
        memory, cores = self._wanted_memory(), self._wanted_cores()
        found = 0
        for name, wanted, lowest, guess in (
            (names.memory, memory, 1, self._free_memory()),
            (names.cores, cores, 0, self._free_cores()),
        ):
            most = self._most(name, {}, wanted - 1, lowest, guess) if name and wanted > lowest else None
            if most is not None:
                found += 1
                yield self._change({name: most}, 1 - most / wanted)
        if not found and names.memory and names.cores and memory > 1 and cores:
            yield from self._both(names.memory, memory, names.cores, cores)
        for count in range(self._asked.count - 1, 0, -1):
            if self._fits_with({names.count: count}):
                yield self._change({names.count: count}, 1 - count / self._asked.count)
                return

    def _both(self, memory: str, wanted_memory: int, cores: str, wanted_cores: int) -> Iterator[Change]:
        most = self._most(memory, {cores: 0}, wanted_memory - 1, 1, self._free_memory())
        if most is None:
            return
        share = self._most(cores, {memory: most}, wanted_cores - 1, 0, self._free_cores())
        if share is not None:
            size = 2 - most / wanted_memory - share / wanted_cores
            yield self._change({memory: most, cores: share}, size)

    def _most(self, name: str, others: Mapping[str, int], highest: int, lowest: int, guess: int) -> int | None:
        """The greatest amount with which the pod fits; None: it does not fit even with the lowest.

        The guess is right for pods of one container. For others it only shortens the search.
        """

        def fits(amount: int) -> bool:
            return self._fits_with({**others, name: amount})

        if highest < lowest or not fits(lowest):
            return None
        low, high = lowest, highest + 1
        guess = min(max(guess, lowest), highest)
        for probe in (guess, guess + 1):
            if low < probe < high:
                low, high = (probe, high) if fits(probe) else (low, probe)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    def _fits_with(self, limits: Mapping[str, int]) -> bool:
        request = self._miss.rewrite(self._refused.container, self._written(limits))
        return request is not None and isinstance(self._miss.place(request), Allocation)

    def _written(self, limits: Mapping[str, int]) -> Mapping[str, int]:
        """A percentage gives way to an amount of memory."""
        names = self._family.resources
        return {**limits, names.memory_percentage: 0} if names.memory in limits and names.memory_percentage else limits

    def _wanted_memory(self) -> int:
        """Memory that the container asks for, in the unit of the resource."""
        largest = max((usage.device.usable_mib for usage in self._devices), default=0)
        return ceil_div(self._asked.memory_on(largest) * self._devices_of_an_amount, self._family.memory_factor)

    def _wanted_cores(self) -> int:
        return self._asked.cores * self._devices_of_an_amount

    def _free_memory(self) -> int:
        free = [usage.device.memory_mib - usage.used_memory_mib for usage in self._open_devices()]
        return self._weakest(free) * self._devices_of_an_amount // self._family.memory_factor

    def _free_cores(self) -> int:
        free = [usage.device.cores - usage.used_cores for usage in self._open_devices()]
        return self._weakest(free) * self._devices_of_an_amount

    def _weakest(self, free: list[int]) -> int:
        """The free amount of the last device that the container would get, if it gets the freest ones."""
        count = self._asked.count
        return sorted(free, reverse=True)[count - 1] if len(free) >= count else 0

    def _open_devices(self) -> list[DeviceUsage]:
        return [usage for usage in self._devices if usage.device.healthy and not usage.device.cordoned]

    @property
    def _devices_of_an_amount(self) -> int:
        return self._asked.count if self._family.amounts_are_totals else 1

    def _change(self, limits: Mapping[str, int], size: float) -> Change:
        parts = [f"{name} ≤ {amount}" for name, amount in limits.items() if amount]
        without = [name for name, amount in limits.items() if not amount]
        words = [f"with {' and '.join(parts)}"] if parts else []
        words += [f"without {' and '.join(without)}"] if without else []
        several = sum(1 for container in self._miss.request.containers if container.requests) > 1
        where = f" in container {self._refused.container}" if several else ""
        return Change(
            ChangeKind.LIMITS, " and ".join(words) + where, size, container=self._refused.container, limits=limits
        )

    # --- what the pod selects

    def selection(self) -> Iterator[Change]:
        """Without annotations of the pod that narrow its choice: models, ids, NUMA binding, mutex."""
        pairs = (*self._family.type_selectors, *self._family.uuid_selectors)
        selectors = [key for pair in pairs for key in (pair.use, pair.nouse)]
        known = dict.fromkeys((*selectors, *self._family.pod_keys, keys.DEVICE_POLICY))
        written = tuple(key for key in known if key and key in self._miss.annotations)
        for without in (*((key,) for key in written), *((written,) if len(written) > 1 else ())):
            request = self._miss.rewrite(self._refused.container, {}, without)
            if request is not None and isinstance(self._miss.place(request), Allocation):
                text = f"without the annotation{'s'[: len(without) > 1]} {', '.join(without)}"
                yield Change(ChangeKind.SELECTION, text, len(without), annotations=without)
                return

    # --- what an administrator can do

    def offers(self) -> Iterator[Change]:
        """With devices that are cordoned or not healthy."""
        for kind, word, closed in (
            (ChangeKind.CORDON, "not cordoned", [u for u in self._devices if u.device.cordoned and u.device.healthy]),
            (ChangeKind.HEALTH, "healthy", [u for u in self._devices if not u.device.healthy]),
        ):
            alone = [(usage,) for usage in closed[:MAX_DEVICES]]
            for group in (*alone, *([tuple(closed)] if len(closed) > 1 else [])):
                ids = tuple(usage.device.id for usage in group)
                if isinstance(self._miss.place(self._miss.request, offered=ids), Allocation):
                    yield Change(kind, f"if {_cards(group)} were {word}", len(ids), devices=ids)
                    break

    def quota(self) -> Iterator[Change]:
        """With a larger quota."""
        if QUOTA_NOT_FIT in self._refused.counts and self._fits(quota=False):
            yield Change(ChangeKind.QUOTA, "if the namespace's quota left room for it", 1)

    # --- other pods

    def pods(self) -> Iterator[Change]:
        """After one other pod ended, the smallest that is enough; else after several, as few as one pass finds."""
        by_size = sorted(self._miss.pods, key=lambda uid: (self._miss.pods[uid], uid))
        for uid in by_size[:MAX_PODS]:
            if self._fits(without=(uid,)):
                yield Change(ChangeKind.PODS, f"when pod {uid} has ended", 1, pods=(uid,))
                return
        if not self._fits(without=by_size):
            return
        enough = next(n for n in range(2, len(by_size) + 1) if self._fits(without=by_size[-n:]))
        ended = by_size[-enough:]
        for uid in tuple(ended):
            fewer = [other for other in ended if other != uid]
            ended = fewer if self._fits(without=fewer) else ended
        shown = f"pods {', '.join(ended)} have" if len(ended) <= 3 else f"{len(ended)} other pods have"
        yield Change(ChangeKind.PODS, f"when {shown} ended", len(ended), pods=tuple(ended))

    def _fits(self, *, without: Collection[str] = (), quota: bool = True) -> bool:
        return isinstance(self._miss.place(self._miss.request, without=without, quota=quota), Allocation)


def _cards(group: Sequence[DeviceUsage]) -> str:
    if len(group) == 1:
        return f"card {group[0].device.index} ({group[0].device.id})"
    return f"cards {', '.join(str(usage.device.index) for usage in group)}"


def is_never(miss: Miss) -> bool:
    """Whether the pod does not fit even on the idle node, with every device offered and without a quota."""
    every = [usage.device.id for usage in miss.devices]
    placed = miss.place(miss.request, without=tuple(miss.pods), offered=every, quota=False)
    return not isinstance(placed, Allocation)
