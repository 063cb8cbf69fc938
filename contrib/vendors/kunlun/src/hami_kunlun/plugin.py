"""The vendor Kunlun: whole cards (``kunlun``) and parts of cards (``XPU``), chosen by the server's topology.

Kunlunxin's plugin offers whole cards, and RiseUnion's vXPU plugin offers parts. The source of neither is public. What
they read is known from HAMi: the first one the cards' indexes, the second one HAMi's list of devices to allocate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from hami_core import (
    Capability,
    DoctorNotes,
    Family,
    Grade,
    Mutation,
    Neighbour,
    Reason,
    Request,
    RequestError,
    Resources,
    SelectorKeys,
    Support,
    hookimpl,
)
from hami_core.vendorkit import (
    CUSTOM_RULE,
    EXCLUSIVE_CONFLICT,
    MODE_NOT_FIT,
    NODE_LOCK_KEY,
    NUMA_NOT_FIT,
    amount_of,
    capacity_devices,
    card_number,
    default_check_type,
    is_zero_beside_amounts,
    memory_of,
    read_json_register,
    round_up_to,
)
from hami_kunlun.config import KunlunConfig
from hami_kunlun.topology import CARDS, COUNTS, SCORES, WING, pick, score

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core import Allocation, ContainerSpec, Device, DeviceKind, DeviceUsage, NodeFacts, PodFacts, Slice

WHOLE: Final = "kunlun"
"""Common word of whole cards."""
PART: Final = "XPU"
"""Common word of parts of cards (vXPU)."""
SLOTS: Final = 100
"""Containers that HAMi lists for a whole card. Only one can have it."""
CARD_MIB: Final = 98304
"""Memory of a P800 card."""
SIZES_MIB: Final = (CARD_MIB // 4, CARD_MIB // 2, CARD_MIB)
"""Sizes of a vXPU."""
INDEXES: Final = "BAIDU_COM_DEVICE_IDX"
"""Pod annotation in which Kunlunxin's plugin reads the cards of the pod's one container with cards."""
OWN_ENV: Final = frozenset({"CXPU_VISIBLE_DEVICES"})
"""Variable by which Kunlunxin's container toolkit learns a container's cards. A container's own value could win."""
SELECTORS: Final = (
    SelectorKeys("hami.io/use-xpu-uuid", "hami.io/no-use-xpu-uuid"),
    SelectorKeys("baidu.com/use-gpuuuid", "baidu.com/nouse-gpuuuid"),
)

CAPABILITIES: Final[dict[Capability, Grade]] = {
    Capability.SHARING: Grade(Support.PARTIAL, "parts of a card are of equal size: quarters or halves"),
    Capability.MEMORY_LIMIT: Grade(Support.PARTIAL, "rounded up to a quarter, a half or all of a card"),
    Capability.CORE_LIMIT: Grade(
        Support.UNSUPPORTED, "no resource: a vXPU has the same part of the cores as of the memory"
    ),
    Capability.PERCENT_MEMORY: Grade(Support.UNSUPPORTED, "HAMi has no such resource for Kunlunxin"),
    Capability.TYPE_SELECTORS: Grade(Support.UNSUPPORTED, "the nodes name no models of whole cards"),
    Capability.UUID_SELECTORS: Grade(Support.FULL),
    Capability.NUMA_BINDING: Grade(Support.UNSUPPORTED, "cards of one wing come first; there is no annotation to bind"),
    Capability.TOPOLOGY: Grade(Support.FULL),
    Capability.HARDWARE_PARTITIONS: Grade(Support.PARTIAL, "vXPUs are made by RiseUnion's vXPU plugin"),
    Capability.QUOTA: Grade(Support.FULL),
    Capability.NODE_AGENT: Grade(Support.UNSUPPORTED, "Kunlunxin's and RiseUnion's device plugins serve the nodes"),
}
WHOLE_ONLY: Final[dict[Capability, Grade]] = dict.fromkeys(
    (Capability.SHARING, Capability.MEMORY_LIMIT, Capability.CORE_LIMIT, Capability.HARDWARE_PARTITIONS),
    Grade(Support.UNSUPPORTED, "whole cards only; ask for vXPUs to share cards"),
)

DOCTOR: Final = DoctorNotes(
    neighbours=(
        Neighbour(("vxpu-device-plugin",), "RiseUnion's vXPU device plugin"),
        Neighbour(("xpu-device-plugin",), "Kunlunxin's XPU device plugin"),
    ),
    node_labels=(("xpu", "on"),),  # both plugins' manifests
)


class Kunlun:
    """Scheduler side of the Kunlun vendor."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)

    @hookimpl
    def config_model(self) -> type[KunlunConfig]:
        """Section ``kunlun``."""
        return KunlunConfig

    @hookimpl
    def families(self, config: KunlunConfig) -> Sequence[Family]:
        """Whole cards, and parts of cards."""
        self._handles = config.driver_handles
        self._whole = Family(
            word=WHOLE,
            resources=Resources(config.resource_count_name),
            allocated_key="hami.io/kunlun-allocated",
            uuid_selectors=SELECTORS,
            offered_resource=config.resource_count_name,
            score_bound=max(SCORES.values()),
            capabilities=CAPABILITIES | WHOLE_ONLY,
            doctor=DOCTOR,
        )
        self._part = Family(
            word=PART,
            resources=Resources(config.resource_vcount_name, memory=config.resource_vmemory_name),
            allocated_key="hami.io/xpu-devices-allocated",
            to_allocate_key="hami.io/xpu-devices-to-allocate",
            register_key="hami.io/node-register-xpu",
            handshake_key="hami.io/node-handshake-xpu",
            foreign_lock=NODE_LOCK_KEY,
            uuid_selectors=SELECTORS,
            account_modes=frozenset(),
            offered_resource=config.resource_vcount_name,
            scored_from=None,
            capabilities=CAPABILITIES,
            doctor=DOCTOR,
        )
        return self._whole, self._part

    @hookimpl
    def register(self, node: NodeFacts) -> Sequence[Device] | None:
        """Whole cards from the node's capacity, half of them on each NUMA node; parts from the vXPU plugin's register.

        The register's number of containers for a card is not used, as in HAMi: the memory says how many parts fit.
        """
        cards = capacity_devices(node, self._whole, WHOLE, slots=SLOTS, memory_mib=CARD_MIB) or ()
        whole = [replace(card, numa=int(card.index >= len(cards) // 2)) for card in cards]
        parts = read_json_register(node, self._part) or ()
        return [*whole, *(replace(card, slots=max(card.memory_mib // SIZES_MIB[0], 1)) for card in parts)]

    @hookimpl
    def mutate_admission(self, container: ContainerSpec, pod: PodFacts) -> Mutation | None:
        """Check the amounts, round a vXPU's memory up to a size that exists, and let no container choose its cards."""
        whole, part = (self.parse_request(container, pod, family) for family in (self._whole, self._part))
        if whole is None and part is None:
            return Mutation(uses_devices=True) if is_zero_beside_amounts(container, self._part) else None
        memory = self._part.resources.memory
        is_named = memory in container.limits or memory in container.requests
        written = {memory: str(part.memory_mib)} if part is not None and is_named else {}
        return Mutation(uses_devices=True, limits=written, requests=written, env_removed=OWN_ENV)

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        """Read 1, 2, 4 or 8 whole cards, or so many vXPUs of one size."""
        names = family.resources
        count = amount_of(container, names.count)
        if not count:
            return None
        if count not in COUNTS:
            legal = ", ".join(map(str, COUNTS))
            where = f"container {container.name}"
            raise RequestError(where, names.count, f"no {count} cards of a server go together", f"write one of {legal}")
        if family.word == WHOLE:
            return Request(WHOLE, count, memory_percent=100, annotations=pod.annotations)
        asked = memory_of(container, names.memory)
        memory = size_of(CARD_MIB if asked is None else asked)
        percent = 100 if asked is None else None
        return Request(PART, count, memory, percent, memory * 100 // CARD_MIB, annotations=pod.annotations)

    @hookimpl
    def check_type(self, request: Request, kind: DeviceKind) -> Reason | None:
        """Refuse a pod in which several containers ask for whole cards: the annotation holds the cards of one."""
        family = self._whole if request.family == WHOLE else self._part
        if request.family == kind.family == WHOLE and request.askers > 1:
            why = f"{INDEXES} holds the cards of one container of a pod, and {request.askers} ask for cards"
            return Reason(MODE_NOT_FIT, detail=why)
        return default_check_type(request, kind, family)

    @hookimpl
    def custom_filter(self, request: Request, device: DeviceUsage) -> Reason | None:
        """Give whole cards that nobody uses, and parts of cards with parts of the same size only."""
        if device.device.index not in CARDS:
            return Reason(CUSTOM_RULE, device.device.id, detail="a server's wings have cards 0 to 7")
        if not device.used_slots:
            return None
        if request.family == WHOLE:
            return Reason(EXCLUSIVE_CONFLICT, device.device.id, detail="a whole card must be unused")
        average = device.used_memory_mib // device.used_slots
        if average != request.memory_mib:
            detail = f"its parts have {average} MiB, and a card has parts of one size"
            return Reason(CUSTOM_RULE, device.device.id, request.memory_mib, average, detail)
        return None

    @hookimpl
    def choose(
        self, request: Request, candidates: tuple[DeviceUsage, ...], devices: tuple[DeviceUsage, ...]
    ) -> tuple[int, ...] | Reason:
        """Pick cards of one wing, or cards that the links between the wings join.

        The driver has a limited number of handles. Each card and each half or quarter takes one. HAMi does not count.
        """
        if request.family == PART and request.memory_mib < CARD_MIB:
            parts = sum(one.used_slots for one in devices if one.used_memory_mib < one.used_slots * CARD_MIB)
            left = self._handles - len(devices) - parts
            if left < request.count:
                detail = f"the driver has {self._handles} handles, {len(devices)} for the cards and {parts} for parts"
                return Reason("XpuHandlesExhausted", needed=request.count, available=max(left, 0), detail=detail)
        positions = {candidate.device.index: position for position, candidate in enumerate(candidates)}
        picked = pick(positions, request.count)
        if picked is None:
            free = ", ".join(map(str, sorted(positions)))
            wings = f"0 to {WING - 1} and {WING} to {CARDS[-1]}"
            return Reason(NUMA_NOT_FIT, detail=f"no wing ({wings}) and no linked group has {request.count}: {free} fit")
        return tuple(positions[card] for card in picked)

    @hookimpl
    def account(self, device: DeviceUsage, piece: Slice) -> Slice:
        """Book all cores of a whole card, as HAMi writes them into the allocation. It is not asked about parts."""
        return replace(piece, cores=device.device.cores)

    @hookimpl
    def score_node(self, allocation: Allocation, policy: str, devices: tuple[DeviceUsage, ...]) -> float:
        """Prefer nodes that whole cards leave usable. Under ``spread`` the smallest score wins, so it is negative.

        HAMi adds the same number under every policy, and nothing on nodes that also have other devices.
        """
        given = _indexes(allocation)
        before = [one.device.index for one in devices if one.device.family == WHOLE and one.used_slots]
        found = score(before, given) if given else 0
        return -found if policy == "spread" else found

    @hookimpl
    def patch_annotations(self, allocation: Allocation) -> Mapping[str, str]:
        """Indexes of the whole cards for Kunlunxin's plugin."""
        given = _indexes(allocation)
        return {INDEXES: ",".join(map(str, given))} if given else {}


def _indexes(allocation: Allocation) -> list[int]:
    """Indexes of the pod's whole cards."""
    return [card_number(piece) for pieces in allocation.of(WHOLE) for piece in pieces]


def size_of(memory_mib: int) -> int:
    """Return the size of the vXPU that holds an amount of memory; a whole card if the amount is larger than a card."""
    return round_up_to(memory_mib, SIZES_MIB) or CARD_MIB
