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
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from hami_core.model import DeviceUsage, Family, PodRequest, Request
    from hami_core.placement.place import Rejection

MAX_PODS: Final = 64
"""Most pods of a node that are tried, one by one, as if they had ended."""
NAMED_PODS: Final = 16
"""Of so many pods that have to end together, those that need not are left out."""
MAX_DEVICES: Final = 16
"""Most devices of a node that are tried, one by one, as if they were offered."""


class ChangeKind(IntEnum):
    """The kinds of changes, by who has to act. The first kinds are the nearest misses."""

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
        kind: Its kind.
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
        uncordoned: Collection[str] = (),
        healed: Collection[str] = (),
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
    """All changes of `search`, the nearest miss first."""
    return in_order(change for change in search(miss, amounts_only=amounts_only) if change is not None)


def in_order(found: Iterable[Change]) -> list[Change]:
    """Changes, the nearest miss first."""
    return sorted(found, key=lambda change: (change.kind, change.size))


def search(miss: Miss, *, amounts_only: bool = False) -> Iterator[Change | None]:
    """Changes after which the pod would fit; each is enough by itself.

    Args:
        miss: The pod and the node.
        amounts_only: Look only at the pod's own amounts.

    Yields:
        At most a few changes of each kind, and None between steps of the search, so that the caller may pause there. No
        change at all: the pod fits, the node as a whole is closed, or several things would have to change at once.
    """
    refused = miss.place(miss.request)
    if isinstance(refused, Allocation) or not refused.container:
        return
    asked = _asked(miss.request, refused)
    if asked is None:
        return
    found = _Search(miss, refused, asked)
    yield from found.limits()
    if not amounts_only:
        yield from found.selection()
        yield from found.offers()
        yield from found.quota()
        yield from found.pods()


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

    def limits(self) -> Iterator[Change | None]:
        """Less memory, less compute, both, fewer devices."""
        if self._family.count_is_size:
            return  # the count stands for memory and cores together, in the vendor's own sizes
        names, found = self._family.resources, False
        memory, cores, count = self._wanted_memory(), self._wanted_cores(), self._asked.count
        if names.memory and memory > 1:
            most = self._most(names.memory, {}, memory - 1, self._free_memory())
            if most:
                found = True
                yield self._change({names.memory: most}, 1 - most / memory)
        yield None
        if names.cores and cores:
            share = self._most_cores({}, cores - 1)
            if share is not None:
                found = True
                yield self._change({names.cores: share}, 1 - share / cores)
        yield None
        if not found and names.memory and names.cores and memory > 1 and cores:
            yield from self._both(memory, cores)
            yield None
        slots = sum(usage.device.slots for usage in self._devices)
        fewer = self._most(names.count, {}, min(count - 1, slots), len(self._open_devices()))
        if fewer:
            yield self._change({names.count: fewer}, 1 - fewer / count)

    def _both(self, wanted_memory: int, wanted_cores: int) -> Iterator[Change]:
        memory, cores = self._family.resources.memory, self._family.resources.cores
        most = self._most(memory, {cores: 0}, wanted_memory - 1, self._free_memory())
        share = self._most_cores({memory: most}, wanted_cores - 1) if most else None
        if most and share is not None:
            size = 2 - most / wanted_memory - share / wanted_cores
            yield self._change({memory: most, cores: share}, size)

    def _most_cores(self, others: Mapping[str, int], highest: int) -> int | None:
        """As `_most`; 0: the pod fits only if it asks for no cores, for which a vendor may have a default."""
        cores = self._family.resources.cores
        most = self._most(cores, others, highest, self._free_cores())
        return most or (0 if self._fits_with({**others, cores: 0}) else None)

    def _most(self, name: str, others: Mapping[str, int], highest: int, guess: int) -> int:
        """The greatest amount with which the pod fits; 0: it does not fit even with 1.

        The guess is right for pods of one container. For others it only shortens the search.
        """

        def fits(amount: int) -> bool:
            return self._fits_with({**others, name: amount})

        if highest < 1 or not fits(1):
            return 0
        low, high = 1, highest + 1
        guess = min(max(guess, 1), highest)
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

    def selection(self) -> Iterator[Change | None]:
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
            yield None

    # --- what an administrator can do

    def offers(self) -> Iterator[Change | None]:
        """With devices that are cordoned, or not healthy, or, if neither is enough, both."""
        cordoned = [usage for usage in self._devices if usage.device.cordoned and usage.device.healthy]
        broken = [usage for usage in self._devices if not usage.device.healthy and not usage.device.cordoned]
        closed = [usage for usage in self._devices if usage.device.cordoned or not usage.device.healthy]
        enough = False
        for kind, word, group in (
            (ChangeKind.CORDON, "not cordoned", cordoned),
            (ChangeKind.HEALTH, "healthy", broken),
        ):
            alone = [(usage,) for usage in group[:MAX_DEVICES]]
            for devices in (*alone, *([tuple(group)] if len(group) > 1 else [])):
                ids = _ids(devices)
                if self._fits(uncordoned=ids) if kind is ChangeKind.CORDON else self._fits(healed=ids):
                    enough = True
                    yield Change(kind, f"if {_cards(devices)} were {word}", len(ids), devices=ids)
                    break
                yield None
        ids = _ids(closed)
        if not enough and len(closed) > max(len(cordoned), len(broken)) and self._fits(uncordoned=ids, healed=ids):
            text = f"if {_cards(closed)} were healthy and not cordoned"
            yield Change(ChangeKind.HEALTH, text, len(ids), devices=ids)

    def quota(self) -> Iterator[Change]:
        """With a larger quota."""
        if QUOTA_NOT_FIT in self._refused.counts and self._fits(quota=False):
            yield Change(ChangeKind.QUOTA, "if the namespace's quota left room for it", 1)

    # --- other pods

    def pods(self) -> Iterator[Change | None]:
        """After one other pod ended, the smallest that is enough; else after several of the largest."""
        by_size = sorted(self._miss.pods, key=lambda uid: (self._miss.pods[uid], uid))
        for uid in by_size[:MAX_PODS]:
            if self._fits(without=(uid,)):
                yield _ended((uid,))
                return
            yield None
        if not self._fits(without=by_size):
            return
        low, high = 0, len(by_size)  # the pod fits without the `high` largest
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fits(without=by_size[-middle:]) else (middle, high)
            yield None
        ended = by_size[-high:]
        for uid in tuple(ended) if len(ended) <= NAMED_PODS else ():
            fewer = [other for other in ended if other != uid]
            ended = fewer if self._fits(without=fewer) else ended
            yield None
        yield _ended(tuple(ended))

    def _fits(
        self,
        *,
        without: Collection[str] = (),
        uncordoned: Collection[str] = (),
        healed: Collection[str] = (),
        quota: bool = True,
    ) -> bool:
        placed = self._miss.place(
            self._miss.request, without=without, uncordoned=uncordoned, healed=healed, quota=quota
        )
        return isinstance(placed, Allocation)


def _ended(pods: tuple[str, ...]) -> Change:
    shown = f"pod {pods[0]} has" if len(pods) == 1 else f"pods {', '.join(pods)} have"
    return Change(ChangeKind.PODS, f"when {shown} ended", len(pods), pods=pods)


def _ids(group: Sequence[DeviceUsage]) -> tuple[str, ...]:
    return tuple(usage.device.id for usage in group)


def _cards(group: Sequence[DeviceUsage]) -> str:
    if len(group) == 1:
        return f"card {group[0].device.index} ({group[0].device.id})"
    return f"cards {', '.join(str(usage.device.index) for usage in group)}"


def is_never(miss: Miss) -> bool:
    """Whether the pod does not fit even on the idle node, with every device offered and without a quota."""
    every = [usage.device.id for usage in miss.devices]
    placed = miss.place(miss.request, without=tuple(miss.pods), uncordoned=every, healed=every, quota=False)
    return not isinstance(placed, Allocation)
