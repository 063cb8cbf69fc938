"""The vendor Ascend: its families, a node's devices, admission, device rules and annotations for the node plugin."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from hami_ascend.admission import HARD, POD_MODE, SOFT, asked_of
from hami_ascend.config import AscendConfig
from hami_ascend.sizes import may_run_out, shortage
from hami_ascend.topology import NETWORK_WEIGHT, NETWORKED_PREFIX, choose_modules, choose_networks, network_score
from hami_core import (
    Capability,
    DoctorNotes,
    Family,
    Grade,
    Mutation,
    Neighbour,
    Reason,
    Resources,
    SelectorKeys,
    Support,
    hookimpl,
)
from hami_core.vendorkit import (
    MODE_NOT_FIT,
    NODE_LOCK_KEY,
    default_check_type,
    default_check_uuid,
    default_parse_request,
    read_json_register,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_ascend.config import Chip
    from hami_core import (
        Allocation,
        ContainerSpec,
        Device,
        DeviceKind,
        DeviceUsage,
        NodeFacts,
        PodFacts,
        Request,
        Slice,
    )

NODE_MODE: Final = "hami-vnpu-core"
"""Node annotation, ``true`` or ``false``: whether the node's plugin shares NPUs in software."""
PREDICATE_TIME: Final = "predicate-time"
VISIBLE_DEVICES: Final = "ASCEND_VISIBLE_DEVICES"
VNPU_SPECS: Final = "ASCEND_VNPU_SPECS"
HIDE_ENV: Final = (VISIBLE_DEVICES, "")
OWN_ENV: Final = frozenset(
    {VISIBLE_DEVICES, VNPU_SPECS, "NPU_MEM_QUOTA", "NPU_PRIORITY", "NPU_GLOBAL_SHM_PATH", "NPU_LOCAL_SHM_PATH"}
)
"""Variables by which the node side tells Ascend's runtime and HAMi's ``libvnpu.so`` what a container may use."""

CAPABILITIES: Final[Mapping[Capability, Grade]] = {
    Capability.SHARING: Grade(Support.FULL),
    Capability.MEMORY_LIMIT: Grade(Support.FULL),
    Capability.CORE_LIMIT: Grade(Support.PARTIAL, "in percent by soft split only; a vNPU has the AI cores of its size"),
    Capability.PERCENT_MEMORY: Grade(Support.UNSUPPORTED, "HAMi has no such resource for Ascend"),
    Capability.TYPE_SELECTORS: Grade(Support.UNSUPPORTED, "each chip has resource names of its own"),
    Capability.UUID_SELECTORS: Grade(Support.FULL),
    Capability.NUMA_BINDING: Grade(Support.UNSUPPORTED, "the node does not report NUMA nodes"),
    Capability.TOPOLOGY: Grade(Support.FULL),
    Capability.HARDWARE_PARTITIONS: Grade(Support.FULL),
    Capability.QUOTA: Grade(Support.FULL),
    Capability.NODE_AGENT: Grade(Support.FULL),
}

DOCTOR: Final = DoctorNotes(
    neighbours=(
        Neighbour(("ascend-k8sdeviceplugin",), "Ascend's device plugin"),
        Neighbour(("ascend-device-plugin",), "HAMi's Ascend device plugin"),
    ),
    node_labels=(("ascend", "on"),),  # HAMi's chart
)


class Ascend:
    """Scheduler side of the Ascend vendor."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)

    def __init__(self) -> None:
        self._soft_split = False
        self._chips: dict[str, Chip] = {}
        self._families: tuple[Family, ...] = ()

    @hookimpl
    def config_model(self) -> type[AscendConfig]:
        """Section ``vnpus``."""
        return AscendConfig

    @hookimpl
    def families(self, config: AscendConfig | None) -> Sequence[Family]:
        """One family for each configured chip."""
        config = config or AscendConfig()
        self._soft_split = config.soft_split
        self._chips = {chip.common_word: chip for chip in config.configs}
        self._families = tuple(_family(chip) for chip in config.configs)
        return self._families

    @hookimpl
    def register(self, node: NodeFacts) -> Sequence[Device] | None:
        """The devices of every chip's register annotation. On soft-split nodes they have mode ``hami-core``.

        A register stays when its device plugin stops. Then the kubelet offers no NPU, and no pod gets one. HAMi finds
        this out by its handshake, which a stopped plugin leaves unanswered, and also asks for the kubelet's offer.
        """
        found = [read_json_register(node, family) for family in self._families]
        if all(devices is None for devices in found):
            return None
        changes: dict[str, Any] = {"mode": SOFT, "cores": 100} if self._is_soft(node) else {"mode": ""}
        return [replace(device, **changes) for devices in found for device in devices or ()]

    @hookimpl
    def mutate_admission(self, container: ContainerSpec, pod: PodFacts) -> Mutation | None:
        """Resolve count and memory for each requested chip, and hide NPUs from containers that request none.

        A container that gets NPUs loses its own variables of the names in `OWN_ENV`: with them it could take more
        NPUs, a larger vNPU or more memory. A count of 0 requests no NPU, but the pod still goes to our scheduler.
        """
        limits: dict[str, str] = {}
        requests: dict[str, str] = {}
        runtime_class = ""
        named = used = False
        for chip in self._chips.values():
            asked = asked_of(container, chip, soft=_is_soft_pod(pod.annotations))
            if asked is None:
                continue
            named, used = True, used or asked.count > 0
            if asked.count_changed:
                limits[chip.resource_name] = str(asked.count)
                if chip.resource_name in container.requests:
                    requests[chip.resource_name] = str(asked.count)
            if chip.resource_memory_name:
                limits[chip.resource_memory_name] = requests[chip.resource_memory_name] = str(asked.memory)
            runtime_class = runtime_class or ("" if pod.runtime_class else chip.runtime_class_name)
        hide = not used and any(chip.overwrite_env for chip in self._chips.values())
        if not (named or hide):
            return None
        return Mutation(
            named,
            limits,
            requests,
            env=(HIDE_ENV,) if hide else (),
            env_removed=OWN_ENV if used else frozenset(),
            runtime_class=runtime_class,
        )

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts, family: Family) -> Request | None:
        """Read the request by HAMi's rules. Cores default to 0. Admission has rounded memory to a vNPU size."""
        found = default_parse_request(container, pod, family)
        mode = _mode_of(pod.annotations)
        return found and replace(found, mode=mode, preload=mode == SOFT)

    @hookimpl
    def check_type(self, request: Request, kind: DeviceKind) -> Reason | None:
        """Accept only the requested chip, soft split only on nodes that do it, and one way of sharing on each NPU.

        HAMi lets containers of both ways share an NPU. Neither the driver nor HAMi's library expects the other there.
        """
        if kind.family == request.family:
            mode = _mode_of(request.annotations)
            if mode == SOFT != kind.mode:
                return Reason(MODE_NOT_FIT, detail=f"on a node that does not do soft split ({NODE_MODE})")
            if kind.shared_as not in {"", mode}:
                return Reason(MODE_NOT_FIT, detail=_used_in(kind.shared_as, mode))
        return default_check_type(request, kind, self._of(request.family))

    @hookimpl
    def account(self, request: Request, device: DeviceUsage, piece: Slice) -> Reason | None:
        """Refuse a vNPU for which the NPU has too few AI cores or AI CPUs left. HAMi counts memory only."""
        return None if piece.mode == SOFT else shortage(self._chips[request.family], device.slices, piece)

    @hookimpl
    def check_uuid(self, request: Request, device_id: str) -> Reason | None:
        """The chip's ``hami.io/use-…-uuid`` and ``hami.io/no-use-…-uuid``."""
        return default_check_uuid(request, device_id, self._of(request.family))

    @hookimpl
    def choose(self, request: Request, candidates: tuple[DeviceUsage, ...]) -> tuple[int, ...] | Reason | None:
        """Pick whole modules of a super pod's 910C, and NPUs of one network of other chips of the 910 family."""
        if self._chips[request.family].is_given_in_modules:
            return choose_modules(request, candidates)
        return choose_networks(request, candidates)

    @hookimpl
    def score_node(self, node: NodeFacts, allocation: Allocation, policy: str) -> float:
        """Prefer nodes whose NPUs would be in one network. Under ``spread`` the smallest score wins, so it is negative.

        HAMi adds the same number under every policy. Under ``spread`` it so prefers the nodes with the worst networks.
        """
        score = sum(
            network_score(node.annotations.get(self._of(word).register_key, "[]"), allocation, word)
            for word in allocation.families
            if word in self._chips and word.startswith(NETWORKED_PREFIX)
        )
        return -score if policy == "spread" else score

    @hookimpl
    def patch_annotations(self, pod: PodFacts, allocation: Allocation) -> Mapping[str, str]:
        """Annotations for HAMi's Ascend device plugin: the time, and devices with vNPU size, memory and cores."""
        soft = _is_soft_pod(pod.annotations)
        written: dict[str, str] = {}
        for word in allocation.families:
            chip = self._chips.get(word)
            if chip is None:
                continue
            entries = [_runtime_entry(piece, chip, soft=soft) for pieces in allocation.of(word) for piece in pieces]
            written[f"huawei.com/{word}"] = json.dumps(entries, separators=(",", ":"))
            written[PREDICATE_TIME] = str(pod.decided_at)
        return written

    def _of(self, word: str) -> Family:
        return next(family for family in self._families if family.word == word)

    def _is_soft(self, node: NodeFacts) -> bool:
        told = node.annotations.get(NODE_MODE)
        return self._soft_split if told is None else told == "true"


def _family(chip: Chip) -> Family:
    word = chip.common_word
    return Family(
        word=word,
        resources=Resources(chip.resource_name, memory=chip.resource_memory_name, cores=chip.resource_core_name),
        allocated_key=f"hami.io/{word}-devices-allocated",
        to_allocate_key=f"hami.io/{word}-devices-to-allocate",
        mode_key=f"hami.io/{word}-mode-allocated",
        register_key=f"hami.io/node-register-{word}",
        handshake_key=f"hami.io/node-handshake-{word}",
        foreign_lock=NODE_LOCK_KEY,
        pod_keys=(POD_MODE,),
        uuid_selectors=(SelectorKeys(f"hami.io/use-{word}-uuid", f"hami.io/no-use-{word}-uuid"),),
        memory_factor=chip.memory_factor or 1,
        account_modes=None if may_run_out(chip) else frozenset(),
        choose_policies=None if word.startswith(NETWORKED_PREFIX) else frozenset(),
        choose_is_preference=not chip.is_given_in_modules,
        scored_from=2 if word.startswith(NETWORKED_PREFIX) else None,  # one NPU is always in one network
        score_bound=NETWORK_WEIGHT,
        capabilities=CAPABILITIES,
        offered_resource=chip.resource_name,
        doctor=DOCTOR,
    )


def _is_soft_pod(annotations: Mapping[str, str]) -> bool:
    return annotations.get(POD_MODE) == SOFT


def _used_in(shared_as: str, wanted: str) -> str:
    names = {SOFT: f"soft split ({SOFT})", HARD: "hard split (vNPUs or whole NPUs)"}
    if shared_as in names:
        return f"used in {names[shared_as]}, while the pod asks for {names[wanted]}"
    return "used by pods whose annotations do not prove if they use hard or soft split"


def _mode_of(annotations: Mapping[str, str]) -> str:
    return SOFT if _is_soft_pod(annotations) else HARD


def _runtime_entry(piece: Slice, chip: Chip, *, soft: bool) -> dict[str, str | int]:
    """One device for the node plugin, with the keys in its order and without empty values."""
    size = None if soft else chip.size_of(piece.memory_mib)
    entry: dict[str, str | int] = {
        "UUID": piece.device_id,
        "temp": "" if size is None else size.name,
        "memory": piece.memory_mib,
        "core": piece.cores,
    }
    return {key: told for key, told in entry.items() if told}
