"""The vendor Moore Threads: one family, cards from the node's capacity, and annotations for Moore Threads' plugin.

The plugin offers core groups and memory to the kubelet. It reads one list of cards from the pod's annotations, so all
containers of a pod get the same cards. A part of a card has one of a few sizes; several cards are given as a whole.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from hami_core import (
    Capability,
    Caution,
    DoctorNotes,
    Family,
    Grade,
    Mutation,
    Neighbour,
    Reason,
    RequestError,
    Resources,
    SelectorKeys,
    Support,
    WireError,
    hookimpl,
)
from hami_core.vendorkit import (
    MODE_NOT_FIT,
    capacity_devices,
    card_number,
    default_check_type,
    default_parse_request,
    parse_whole,
    quantity_of,
)
from hami_mthreads.config import MthreadsConfig

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core import Allocation, ContainerSpec, Device, DeviceKind, NodeFacts, PodFacts, Request

WORD: Final = "Mthreads"
UNIT_MIB: Final = 512
"""MiB per unit of the memory resource."""
CARD_CORES: Final = 16
"""Core groups of one card."""
SLOTS: Final = 100
WHOLE_CARD: Final = "mthreads.com/gpu"
"""The plugin's own resource for cards that are not sliced. HAMi does not count them."""
CARDS_LABEL: Final = "mthreads.com/sgpu.cores"
"""Node label with the numbers of the sliced cards, such as ``0-2-3``."""
_NUMBERS: Final = re.compile(r"\d{1,4}([-,]\d{1,4})*", re.ASCII)

CAPABILITIES: Final[Mapping[Capability, Grade]] = {
    Capability.SHARING: Grade(Support.FULL),
    Capability.MEMORY_LIMIT: Grade(Support.PARTIAL, "kept by Moore Threads' kernel module, in a few sizes"),
    Capability.CORE_LIMIT: Grade(Support.PARTIAL, "depends on the policy of Moore Threads' kernel module on the node"),
    Capability.PERCENT_MEMORY: Grade(Support.UNSUPPORTED, "HAMi has no such resource for Moore Threads"),
    Capability.TYPE_SELECTORS: Grade(Support.UNSUPPORTED, "a node's capacity names no model"),
    Capability.UUID_SELECTORS: Grade(Support.FULL),
    Capability.NUMA_BINDING: Grade(Support.UNSUPPORTED, "a node's capacity names no NUMA nodes"),
    Capability.TOPOLOGY: Grade(Support.UNSUPPORTED, "no links between cards are read"),
    Capability.HARDWARE_PARTITIONS: Grade(Support.UNSUPPORTED, "cards are shared by a kernel module"),
    Capability.QUOTA: Grade(Support.FULL),
    Capability.NODE_AGENT: Grade(Support.UNSUPPORTED, "Moore Threads' device plugin serves the nodes"),
}
DOCTOR: Final = DoctorNotes(
    neighbours=(
        Neighbour(
            ("mt-universal-gpu-device-controller", "mt-gpu-device-plugin", "mthreads-device-plugin"),
            "Moore Threads' device plugin",
        ),
    ),
    cautions=(
        Caution(
            "mthreads-scheduler",
            ("mt-gpu-scheduler", "mt-gpu-webhook", "mt-mutating-webhook"),
            "gpuScheduler, gpuWebhook",
            "Moore Threads' own scheduler or webhook runs, and both it and HAMi place sGPU pods",
            "set gpuScheduler.enabled=false and gpuWebhook.enabled=false in the ClusterPolicy of their GPU operator",
        ),
    ),
)


class Mthreads:
    """The scheduler side."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)

    @hookimpl
    def config_model(self) -> type[MthreadsConfig]:
        """Section ``mthreads``."""
        return MthreadsConfig

    @hookimpl
    def families(self, config: MthreadsConfig) -> Sequence[Family]:
        """The one family ``Mthreads``."""
        self._config = config
        self._family = _family(self._config)
        return (self._family,)

    @hookimpl
    def register(self, node: NodeFacts) -> Sequence[Device] | None:
        """One card for every 16 core groups. The node's label says which cards of the node these are, if it is there.

        The plugin takes the number that we write into a pod for the card's own number. Without the label, as in HAMi
        v2.10, the sliced cards are taken to be the node's first ones.
        """
        cores = self._config.resource_core_name
        cards = capacity_devices(
            node, self._family, "mthreads", counted=cores, per_card=CARD_CORES, slots=SLOTS, cores=CARD_CORES
        )
        text = node.labels.get(CARDS_LABEL, "").strip()
        if not cards or not text:
            return cards
        numbers = sorted({int(part) for part in re.split("[-,]", text)}) if _NUMBERS.fullmatch(text) else []
        if len(numbers) != len(cards):
            problem = f"{text[:80]!r} does not name {len(cards)} cards, as the capacity of {cores} does"
            raise WireError(f"label {CARDS_LABEL}", -1, problem)
        return [
            replace(card, id=f"{node.name}-mthreads-{number}", index=number)
            for card, number in zip(cards, numbers, strict=True)
        ]

    @hookimpl
    def mutate_admission(self, container: ContainerSpec, pod: PodFacts) -> Mutation | None:
        """A container with a count uses cards. Without memory, or with several cards, it gets whole cards.

        As in HAMi, the amounts of whole cards replace what the container says. If the cluster has several card models,
        only the cores are written: the memory is that of the cards on the node that is chosen.
        """
        config, where = self._config, f"container {container.name}"
        name, memory = config.resource_count_name, config.resource_memory_name
        text = quantity_of(container, name)
        if text is None:
            return None
        if parse_whole(text, where=where, field=name) <= 0:
            raise RequestError(where, name, f"{name} must be greater than 0", "write 1 or more, or remove it")
        if quantity_of(container, WHOLE_CARD) is not None:
            problem = f"it can't be mixed with {WHOLE_CARD} in one container"
            raise RequestError(where, name, problem, "ask for one of them; HAMi does not count the other")
        request = default_parse_request(container, pod, self._family)
        if request is None:
            return None
        count, models = request.count, sorted(set(config.memory_per_card))
        has_memory = quantity_of(container, memory) is not None
        if has_memory and (count == 1 or len(models) > 1):
            legal = config.legal_units if count == 1 else [count * units for units in models]
            if request.memory_mib // UNIT_MIB not in legal:
                problem = f"sGPU memory request value is invalid, valid values are {legal}"
                raise RequestError(where, memory, problem, f"units of {UNIT_MIB} MiB; leave it out for whole cards")
        if has_memory and count == 1:
            if request.cores > CARD_CORES:
                problem = f"{request.cores} is above the {CARD_CORES} core groups of a card"
                raise RequestError(where, config.resource_core_name, problem, f"write 1 to {CARD_CORES}")
            return Mutation(uses_devices=True)
        amounts = {config.resource_core_name: str(count * CARD_CORES)}
        if len(models) == 1:
            amounts[memory] = str(count * models[0])
        announced = {"mthreads.com/request-gpu-num": str(count)} if count > 1 else {}
        return Mutation(uses_devices=True, limits=amounts, requests=amounts, pod_annotations=announced)

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        """Read the request by HAMi's rules. Memory and cores are the sums of all cards. Cores default to 0."""
        found = default_parse_request(container, pod, family)
        if found is None:
            return None
        return replace(found, memory_mib=found.memory_mib // found.count, cores=found.cores // found.count)

    @hookimpl
    def check_type(self, request: Request, kind: DeviceKind) -> Reason | None:
        """Refuse several cards if another container of the pod asks too: the plugin reads one list of cards per pod."""
        if request.count > 1 < request.askers:
            detail = f"all containers of a pod get the same card; {request.askers} ask, one of them for {request.count}"
            return Reason(MODE_NOT_FIT, detail=detail)
        return default_check_type(request, kind, self._family)

    @hookimpl
    def patch_annotations(self, pod: PodFacts, allocation: Allocation) -> Mapping[str, str]:
        """Annotations for Moore Threads' plugin: the pod's cards, the node, and the time in nanoseconds."""
        cards = [card_number(piece) for pieces in allocation.of(WORD) for piece in pieces]
        if not cards:
            return {}
        return {
            "mthreads.com/gpu-index": ",".join(map(str, dict.fromkeys(cards))),
            "mthreads.com/predicate-time": str(pod.decided_at_ns),
            "mthreads.com/predicate-node": allocation.node,
        }


def _family(config: MthreadsConfig) -> Family:
    return Family(
        word=WORD,
        resources=Resources(
            config.resource_count_name, memory=config.resource_memory_name, cores=config.resource_core_name
        ),
        allocated_key="hami.io/mthreads-vgpu-devices-allocated",
        offered_resource=config.resource_core_name,
        one_choice_per_pod=True,
        cores_are_units=True,
        amounts_are_totals=True,
        uuid_selectors=(SelectorKeys("mthreads.ai/use-gpuuuid", "mthreads.ai/nouse-gpuuuid"),),
        memory_factor=UNIT_MIB,
        capabilities=CAPABILITIES,
        doctor=DOCTOR,
    )
