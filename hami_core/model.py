"""The vocabulary: frozen, typed values every part speaks in. No behaviour beyond what follows from the fields.

Units are in the names: memory is MiB, cores are percent of one device (100 = a whole one; a vendor may advertise
more where the administrator scales cores). Counts are plain integers. Every number that came from outside was
bounded before it got here (see `hami_core.wire.quantity`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import numpy as np

    from hami_core.capability import Capability, Grade

EMPTY: Final[Mapping[str, Any]] = MappingProxyType({})
"""An immutable empty mapping, for defaults."""


def _empty() -> Any:  # noqa: ANN401 - any immutable mapping
    return EMPTY


INT32_MAX: Final = 2**31 - 1
"""Upper bound of every amount on the wire (HAMi keeps them in int32)."""


# --- what a vendor serves -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resources:
    """Extended-resource names of one family; an empty string means the family has none of that kind.

    Example:
        >>> Resources(count="acme.example/npu", memory="acme.example/npu-memory").names()
        ('acme.example/npu', 'acme.example/npu-memory')
    """

    count: str
    memory: str = ""
    memory_percentage: str = ""
    cores: str = ""
    priority: str = ""

    def names(self) -> tuple[str, ...]:
        """All names that are set, count first."""
        every = (self.count, self.memory, self.memory_percentage, self.cores, self.priority)
        return tuple(name for name in every if name)


@dataclass(frozen=True, slots=True)
class SelectorKeys:
    """One pair of pod annotations by which a pod names or refuses devices; empty string: not supported.

    Example:
        >>> by_id = SelectorKeys(use="acme.example/use-npu-uuid", nouse="acme.example/nouse-npu-uuid")
        >>> SelectorKeys(use="acme.example/use-npu-type", nouse="").nouse
        ''
    """

    use: str
    nouse: str


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another device plugin for a family's devices.

    Attributes:
        marks: Texts that give it away: one stands in its image, its container's name or its command, in small letters.
        whose: Whose it is, for people.

    Example:
        >>> Neighbour(("acme-device-plugin",), "Acme's device plugin").whose
        "Acme's device plugin"
    """

    marks: tuple[str, ...]
    whose: str


@dataclass(frozen=True, slots=True)
class Caution:
    """Another program that works with a family's devices, and what ``hami doctor`` says where it runs.

    Attributes:
        check: What the finding is called: ``collision.<check>``.
        marks: Texts that give it away: one stands in its image or its container's name.
        field: Which field or key the finding is about.
        seen: What is found.
        fix: What to do.
        where: What the finding is about; empty: the program's pod.
        brings: The `Neighbour.whose` of a device plugin that the program brings along. All is well where that one does
            not run. Empty: the program itself is what is warned of.

    Example:
        >>> meter = Caution("acme-meter", ("acme-meter",), "by pod", "Acme's meter runs", "use its figures by device")
        >>> meter.brings
        ''
    """

    check: str
    marks: tuple[str, ...]
    field: str
    seen: str
    fix: str
    where: str = ""
    brings: str = ""


@dataclass(frozen=True, slots=True)
class DoctorNotes:
    """What ``hami doctor`` has to know of a family beside its names; everything is optional.

    Attributes:
        neighbours: Other device plugins for these devices.
        not_plugins: Texts that give other programs out of these plugins' images away.
        take_off: How else than by hand a neighbour is taken off a node.
        cautions: Further programs to warn of.
        node_labels: Labels and values by which nodes say that they have such devices.
        unhealthy: Where to look when a device is unhealthy.

    Example:
        >>> notes = DoctorNotes(neighbours=(Neighbour(("acme-device-plugin",), "Acme's device plugin"),))
        >>> [neighbour.whose for neighbour in notes.neighbours]
        ["Acme's device plugin"]
    """

    neighbours: tuple[Neighbour, ...] = ()
    not_plugins: tuple[str, ...] = ()
    take_off: str = ""
    cautions: tuple[Caution, ...] = ()
    node_labels: tuple[tuple[str, str], ...] = ()
    unhealthy: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of device a vendor serves. Most vendors have one, Ascend has one per configured chip.

    Attributes:
        word: HAMi's common word (``NVIDIA``, ``Ascend910B``): the key of allocations and of the registry.
        resources: Extended-resource names.
        allocated_key: Pod annotation of the durable allocation.
        to_allocate_key: Pod annotation a node plugin consumes; empty where the family has none.
        register_key: Node annotation that lists devices; empty where they follow from capacity.
        handshake_key: Node annotation for HAMi's liveness handshake; empty where there is none.
        foreign_lock: Node annotation that HAMi's own plugin for the family finds its pod by and takes away. It is
            locked at Bind on nodes that our agent does not serve; empty where there is no such plugin.
        pod_keys: Pod annotations the family's hooks may read; nothing else of the pod is shown to them.
        uuid_selectors: Annotation pairs that choose devices by id; all pairs must pass.
        type_selectors: Annotation pairs that choose devices by model.
        memory_factor: MiB per unit of the memory resource (Cambricon 256, most 1).
        depends_on_chosen: Whether `custom_filter` depends on the devices already chosen for the container. A device
            has to pass with nothing chosen as well.
        full_card_rule: Whether the rules on exclusive and fully booked cores apply (HAMi's generic Fit).
        device_type_on_wire: Allocation entries carry the device's registered type in place of the word (AMD).
        exact_uuid_selectors: Selector lists name ids exactly, so all ids that stand in no list get one answer and
            `check_uuid` is asked for one of them only. False: every device is asked.
        account_modes: Device modes `account` must be asked about; None: all. Nodes without such devices are placed
            by vector code.
        choose_policies: Words of the device policy under which `choose` is asked; None: always. Pods name their
            policy, so a rule that every pod has to keep leaves this None.
        choose_is_preference: `choose` never answers a `Reason`: every combination serves, some are better. Nodes are
            then judged in columns, without asking it. Where it fails, devices are taken in order.
        capabilities: What the family supports.
        lock_timeouts_s: Node lock → age in seconds from which it counts as left behind; a lock that is not named here
            has the administrator's (``--node-lock-timeout``).
        doctor: What ``hami doctor`` has to know.

    Example:
        >>> acme = Family(
        ...     word="ACME",
        ...     resources=Resources(count="acme.example/npu", memory="acme.example/npu-memory"),
        ...     allocated_key="hami.io/acme-devices-allocated",
        ...     register_key="hami.io/node-acme-register",
        ...     pod_keys=("acme.example/priority",),
        ...     capabilities={Capability.SHARING: Grade(Support.FULL)},
        ... )
        >>> acme.memory_factor, acme.depends_on_chosen
        (1, False)
    """

    word: str
    resources: Resources
    allocated_key: str
    to_allocate_key: str = ""
    register_key: str = ""
    handshake_key: str = ""
    foreign_lock: str = ""
    pod_keys: tuple[str, ...] = ()
    uuid_selectors: tuple[SelectorKeys, ...] = ()
    type_selectors: tuple[SelectorKeys, ...] = ()
    memory_factor: int = 1
    depends_on_chosen: bool = False
    full_card_rule: bool = True
    device_type_on_wire: bool = False
    exact_uuid_selectors: bool = True
    account_modes: frozenset[str] | None = None
    choose_policies: frozenset[str] | None = None
    choose_is_preference: bool = False
    capabilities: Mapping[Capability, Grade] = field(default_factory=_empty)
    lock_timeouts_s: Mapping[str, float] = field(default_factory=_empty)
    doctor: DoctorNotes = DoctorNotes()


# --- devices -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MigPlacement:
    """Where a MIG instance lies on its card, in memory slices: ``[start, start + size)``.

    Example:
        >>> place = MigPlacement(start=4, size=4)
        >>> range(place.start, place.start + place.size)
        range(4, 8)
    """

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One MIG profile a card offers.

    Example:
        >>> small = MigProfile("1g.5gb", 4864, 14, 1, (MigPlacement(0, 1), MigPlacement(1, 1)))
        >>> small.memory_mib, len(small.placements)
        (4864, 2)
    """

    name: str
    memory_mib: int
    cores: int
    slice_count: int
    placements: tuple[MigPlacement, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """What `check_type` is asked about: everything devices have in common that a request may select by.

    ``whole_only`` and ``whole_mib`` are set for a device that serves one container as a whole only: why, and how much
    memory makes it whole (`Device.whole_only`, `Device.usable_mib`).

    Example:
        >>> Device("ACME-0", 0, 10, 32768, 100, "Acme-X1", "ACME").kind
        DeviceKind(family='ACME', type='Acme-X1', mode='', whole_only='', whole_mib=0)
    """

    family: str
    type: str
    mode: str = ""
    whole_only: str = ""
    whole_mib: int = 0


@dataclass(frozen=True, slots=True)
class Device:
    """One physical device as its node advertises it (HAMi's DeviceInfo).

    Attributes:
        id: Unique on its node, normally the vendor's UUID.
        index: Ordinal on the node, ≥ 0.
        slots: How many containers may share it (HAMi's ``count``).
        memory_mib: Memory the node registers, scaling included.
        cores: Percent offered, 100 = one device's compute.
        type: Model string, such as ``NVIDIA-A100-SXM4-40GB``.
        numa: NUMA node, 0 when unknown.
        mode: Sharing mode as the node says, NVIDIA: ``hami-core``, ``mig``, ``mps``.
        healthy: False: no new containers.
        cordoned: An operator took it out of service for new containers.
        family: The family it belongs to.
        mig_profiles: Profiles on offer when the mode is ``mig``.
        pair_scores: Link score to other devices of the node by id (topology).
        custom: The vendor's own data as published.
        reserved_mib: Part of ``memory_mib`` that the driver keeps for itself: no container can have it.
        not_offered: Why the node keeps the device from pods, for people; empty: it is offered. Not empty: unhealthy.
        whole_only: Why the device serves one container as a whole only, for people; empty: it may be shared.

    Example:
        >>> card = Device("ACME-0", 0, 10, 32768, 100, "Acme-X1", "ACME", reserved_mib=768)
        >>> card.usable_mib, card.healthy
        (32000, True)
    """

    id: str
    index: int
    slots: int
    memory_mib: int
    cores: int
    type: str
    family: str
    numa: int = 0
    mode: str = ""
    healthy: bool = True
    cordoned: bool = False
    mig_profiles: tuple[MigProfile, ...] = ()
    pair_scores: Mapping[str, int] = field(default_factory=_empty)
    custom: Mapping[str, Any] = field(default_factory=_empty)
    reserved_mib: int = 0
    not_offered: str = ""
    whole_only: str = ""

    @property
    def kind(self) -> DeviceKind:
        """The device's kind."""
        if self.whole_only:
            return DeviceKind(self.family, self.type, self.mode, self.whole_only, self.usable_mib)
        return DeviceKind(self.family, self.type, self.mode)

    @property
    def usable_mib(self) -> int:
        """Memory that containers can have. Percentages and whole devices refer to it."""
        return self.memory_mib - self.reserved_mib


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """A device and what is booked on it (sums; bookings and holds alike).

    ``pods`` are ``namespace/name``; ``mig_in_use`` the placements of the MIG instances booked.

    Example:
        >>> card = Device("ACME-0", 0, 10, 32768, 100, "Acme-X1", "ACME")
        >>> usage = DeviceUsage(card, used_slots=1, used_memory_mib=8192, pods=("default/one",))
        >>> usage.device.memory_mib - usage.used_memory_mib
        24576
    """

    device: Device
    used_slots: int = 0
    used_memory_mib: int = 0
    used_cores: int = 0
    pods: tuple[str, ...] = ()
    mig_in_use: tuple[MigPlacement, ...] = ()


# --- what is asked for -------------------------------------------------------------------------------------------


class ContainerKind(StrEnum):
    """The three lifetimes a container of a pod can have (ephemeral containers never hold devices).

    Example:
        >>> ContainerKind("init") is ContainerKind.INIT
        True
    """

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """What hooks see of a container: name, kind, its resource maps and the environment it already has.

    ``limits`` and ``requests`` hold quantities as the API server keeps them (strings).

    Example:
        >>> main = ContainerSpec("main", ContainerKind.APP, limits={"acme.example/npu": "2"})
        >>> main.limits["acme.example/npu"], main.privileged
        ('2', False)
    """

    name: str
    kind: ContainerKind
    limits: Mapping[str, str] = field(default_factory=_empty)
    requests: Mapping[str, str] = field(default_factory=_empty)
    env_names: frozenset[str] = frozenset()
    privileged: bool = False


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What hooks see of a pod. ``annotations`` holds only the keys the family declared.

    Example:
        >>> pod = PodFacts("default", "one", "3f1c", {"acme.example/priority": "high"})
        >>> pod.annotations.get("acme.example/priority", "low")
        'high'
    """

    namespace: str
    name: str
    uid: str
    annotations: Mapping[str, str] = field(default_factory=_empty)
    runtime_class: str = ""
    decided_at: int = 0
    """Unix seconds of the decision, where there is one (`patch_annotations`); hooks have no clock of their own."""


@dataclass(frozen=True, slots=True)
class Request:
    """What one container asks of one family, resolved to numbers.

    Attributes:
        family: Common word.
        count: Devices, ≥ 1.
        memory_mib: MiB on each device; 0: see ``memory_percent``.
        memory_percent: Percent of each device's memory when ``memory_mib`` is 0; None: not given (then no memory
            is booked, as in HAMi's value 101).
        cores: Percent of each device's compute, 0: no share asked for.
        annotations: The pod annotations the family declared.
        numa_bind: All devices on one NUMA node.
        custom: The vendor's own data, opaque to the core.

    Example:
        >>> half = Request("ACME", count=2, memory_percent=50)
        >>> half.memory_on(32000)
        16000
        >>> Request("ACME", count=1, memory_mib=3000).memory_on(32000)
        3000
    """

    family: str
    count: int
    memory_mib: int = 0
    memory_percent: int | None = None
    cores: int = 0
    annotations: Mapping[str, str] = field(default_factory=_empty)
    numa_bind: bool = False
    custom: Mapping[str, Any] = field(default_factory=_empty)

    def memory_on(self, usable_mib: int) -> int:
        """MiB this request takes on a device (HAMi: an absolute amount wins, a percentage truncates).

        Args:
            usable_mib: What containers can have of the device's memory (`Device.usable_mib`).
        """
        if self.memory_mib > 0:
            return self.memory_mib
        if self.memory_percent is None:
            return 0
        return usable_mib * self.memory_percent // 100

    def scored_memory_on(self, device_memory_mib: int) -> int:
        """MiB this request counts for in a device's score (HAMi: there a percentage above 0 outranks an amount)."""
        if self.memory_percent:
            return device_memory_mib * self.memory_percent // 100
        return self.memory_mib


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """All requests of one container, at most one a family."""

    name: str
    kind: ContainerKind
    requests: tuple[Request, ...] = ()


@dataclass(frozen=True, slots=True)
class Weights:
    """Device-score weights of `hami.io/device-scoring-weights`, whole numbers ≥ 0, not all zero."""

    slot: int = 1
    core: int = 1
    memory: int = 1


@dataclass(frozen=True, slots=True)
class PodRequest:
    """The effective request of a pod: every container in HAMi's order, init containers first, then app.

    Sidecars stand at their place among the init containers; their kind tells them apart.
    """

    uid: str
    namespace: str
    name: str
    containers: tuple[ContainerRequest, ...]
    node_policy: str = ""
    device_policy: str = ""
    weights: Weights = Weights()

    @property
    def families(self) -> tuple[str, ...]:
        """Common words asked for, in order of first use."""
        return tuple(dict.fromkeys(r.family for c in self.containers for r in c.requests))


# --- what is given -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slice:
    """What one container gets of one device.

    Attributes:
        device_id: The device.
        family: Common word.
        memory_mib: Limit, 0: none.
        cores: Percent, 0: no limit.
        type: What stands in the allocation's type field (normally the word).
        mode: Sharing mode of the device when booked.
        slots: Slots booked, normally 1.
        index: The device's ordinal; -1 when not known (it is not on the wire).
        mig_profile: MIG instance reserved, if any.
        mig_placement: Where.

    Example:
        >>> piece = Slice("ACME-0", "ACME", memory_mib=8192, cores=30)
        >>> piece.slots, piece.mig_profile
        (1, '')
    """

    device_id: str
    family: str
    memory_mib: int
    cores: int
    type: str = ""
    mode: str = ""
    slots: int = 1
    index: int = -1
    mig_profile: str = ""
    mig_placement: MigPlacement | None = None


@dataclass(frozen=True, slots=True)
class ContainerSlices:
    """The slices of one container, empty for one that asked for nothing.

    Example:
        >>> main = ContainerSlices("main", ContainerKind.APP, (Slice("ACME-0", "ACME", 8192, 0),))
        >>> sum(piece.memory_mib for piece in main.slices)
        8192
    """

    name: str
    kind: ContainerKind
    slices: tuple[Slice, ...] = ()


@dataclass(frozen=True, slots=True)
class Allocation:
    """The slices of one pod on one node: one entry per container in HAMi's order (init first), none left out.

    Example:
        >>> main = ContainerSlices("main", ContainerKind.APP, (Slice("ACME-0", "ACME", 8192, 0),))
        >>> allocation = Allocation("node-1", (ContainerSlices("setup", ContainerKind.INIT), main))
        >>> allocation.families, [len(pieces) for pieces in allocation.of("ACME")]
        (('ACME',), [0, 1])
    """

    node: str
    containers: tuple[ContainerSlices, ...]

    def of(self, family: str) -> tuple[tuple[Slice, ...], ...]:
        """Per container, the slices of one family."""
        return tuple(tuple(s for s in c.slices if s.family == family) for c in self.containers)

    @property
    def families(self) -> tuple[str, ...]:
        """Common words with at least one slice, in order of first use."""
        return tuple(dict.fromkeys(s.family for c in self.containers for s in c.slices))


@dataclass(frozen=True, slots=True)
class Booking:
    """An allocation of a pod as the scheduler keeps it."""

    uid: str
    namespace: str
    name: str
    allocation: Allocation


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something was refused: a value, rendered later as extender reason, event or long explanation.

    Attributes:
        code: HAMi's word where there is one (``CardInsufficientMemory``), else the vendor's own in the same style.
        device: Device id, empty when it is about a node or a pod.
        needed: Amount asked for, in the unit the code implies.
        available: Amount there is.
        detail: Further words for people.

    Example:
        >>> Reason("TooManyTenants", "ACME-0", needed=1, available=0, detail="four containers share it").code
        'TooManyTenants'
    """

    code: str
    device: str = ""
    needed: int | None = None
    available: int | None = None
    detail: str = ""


# --- nodes, admission, node side ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What `register` sees of a node object. Quantities are strings as the API server keeps them.

    Example:
        >>> node = NodeFacts("node-1", {"hami.io/node-acme-register": "[]"}, capacity={"acme.example/npu": "20"})
        >>> node.capacity.get("acme.example/npu")
        '20'
    """

    name: str
    annotations: Mapping[str, str] = field(default_factory=_empty)
    labels: Mapping[str, str] = field(default_factory=_empty)
    capacity: Mapping[str, str] = field(default_factory=_empty)
    allocatable: Mapping[str, str] = field(default_factory=_empty)


Enforcement = Literal["enforce", "observe", "off"]
"""What a node does with containers' limits: keep them, only count, or neither."""


@dataclass(frozen=True, slots=True)
class NodeContext:
    """The node that an agent serves, as the agent's settings have it: what a node side need not be told again.

    Attributes:
        name: Name of the node object.
        state_dir: The agent's folder on the host, at the same path in the agent's container; outlives a reboot.
        cdi_dirs: Where other programs' CDI specs are, such as those of the vendor's own toolkit.
        config_file: HAMi's per-node file, which need not exist; None: there is none.
        enforcement: Containers' limits are kept (``enforce``), only counted (``observe``), or neither (``off``).
        legacy_metrics: Whether metrics are served under their old names too.

    Example:
        >>> from pathlib import Path
        >>> node = NodeContext("node-1", Path("/var/lib/hami"), cdi_dirs=(Path("/etc/cdi"),))
        >>> str(node.state_dir / "acme"), node.enforcement
        ('/var/lib/hami/acme', 'enforce')
    """

    name: str
    state_dir: Path
    cdi_dirs: tuple[Path, ...] = ()
    config_file: Path | None = None
    enforcement: Enforcement = "enforce"
    legacy_metrics: bool = False


@dataclass(frozen=True, slots=True)
class Mutation:
    """What a vendor wants changed on one container (and its pod) at admission.

    Attributes:
        uses_devices: The container asks for this vendor's devices, so the pod must go to our scheduler. True as well
            for a count of 0 beside other amounts: no other scheduler passes over those.
        limits: Resource limits to set or replace.
        requests: Resource requests to set or replace.
        env: Environment variables to impose. After admission the container has exactly one entry of each name, last in
            the list and in this order; what the pod wrote under that name is gone.
        env_removed: Names of environment variables the container must not set: its node plugin does, and what a pod
            writes may outrank that.
        pod_annotations: Annotations to set on the pod.
        runtime_class: runtimeClassName for a pod that has none; empty: leave.

    Example:
        >>> wish = Mutation(uses_devices=True, env=(("ACME_LOG", "off"),), env_removed=frozenset({"ACME_VISIBLE"}))
        >>> wish.runtime_class
        ''
    """

    uses_devices: bool
    limits: Mapping[str, str] = field(default_factory=_empty)
    requests: Mapping[str, str] = field(default_factory=_empty)
    env: tuple[tuple[str, str], ...] = ()
    env_removed: frozenset[str] = frozenset()
    pod_annotations: Mapping[str, str] = field(default_factory=_empty)
    runtime_class: str = ""


@dataclass(frozen=True, slots=True)
class Mount:
    """A bind mount from node to container.

    Example:
        >>> Mount("/usr/lib/acme", "/usr/lib/acme").read_only
        True
    """

    host_path: str
    container_path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device node to make visible in the container; ``host_path`` empty: same as ``path``.

    Example:
        >>> DeviceNode("/dev/acme0", host_path="/dev/acme/card0").permissions
        'rw'
    """

    path: str
    host_path: str = ""
    permissions: str = "rw"


@dataclass(frozen=True, slots=True)
class OciHook:
    """An OCI hook as CDI writes it: ``name`` is createRuntime, createContainer, startContainer and so on.

    Example:
        >>> OciHook("createContainer", "/usr/bin/acme-hook", ("acme-hook", "prepare")).env
        ()
    """

    name: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerEdits:
    """What a container needs to see its slices: the answer of `allocate`.

    ``limits`` and ``region`` are files (name → content) the agent puts into the container's record folder: the
    first mounted read-only at ``limits_path``, the second read-write at ``region_path`` (files there are made
    once, with mode 0666, and never rewritten while the record lives). Empty path: no such folder.

    Example:
        >>> edits = ContainerEdits(env={"ACME_MEMORY_MIB": "8192"}, device_nodes=(DeviceNode("/dev/acme0"),))
        >>> [node.path for node in edits.device_nodes]
        ['/dev/acme0']
    """

    env: Mapping[str, str] = field(default_factory=_empty)
    mounts: tuple[Mount, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    hooks: tuple[OciHook, ...] = ()
    limits: Mapping[str, bytes] = field(default_factory=_empty)
    limits_path: str = ""
    region: Mapping[str, bytes] = field(default_factory=_empty)
    region_path: str = ""


@dataclass(frozen=True, slots=True)
class ContainerRef:
    """Which container `allocate` is called for, and what of its pod the node side may know.

    Example:
        >>> one = ContainerRef("3f1c", "default", "one", "main", ContainerKind.APP)
        >>> f"{one.namespace}/{one.pod}: {one.container}"
        'default/one: main'
    """

    pod_uid: str
    namespace: str
    pod: str
    container: str
    kind: ContainerKind
    limits: Mapping[str, str] = field(default_factory=_empty)
    annotations: Mapping[str, str] = field(default_factory=_empty)
    whole_devices: bool = False
    """Every slice is a whole device (all memory, cores 0 or 100, no scaling, nobody else on it)."""


@dataclass(frozen=True, slots=True)
class Advertisement:
    """What a node says of one vendor's devices: annotations and labels for the node object, slots for the kubelet.

    ``slots`` maps resource name to slot id → (healthy, NUMA node). Slot ids keep HAMi's form ``<uuid>-<k>``.
    ``env`` is what every container with a slot gets unless its pod says otherwise, before it is known which one it
    is: it must show no device.

    Example:
        >>> said = Advertisement(slots={"acme.example/npu": {"ACME-0-0": (True, 0), "ACME-0-1": (True, 0)}})
        >>> sorted(said.slots["acme.example/npu"])
        ['ACME-0-0', 'ACME-0-1']
    """

    annotations: Mapping[str, str] = field(default_factory=_empty)
    labels: Mapping[str, str] = field(default_factory=_empty)
    slots: Mapping[str, Mapping[str, tuple[bool, int]]] = field(default_factory=_empty)
    env: Mapping[str, str] = field(default_factory=_empty)


@dataclass(frozen=True, slots=True)
class HealthChange:
    """A device's health as its driver tells it now.

    ``rediscover``: the device is no longer as `discover` described it (its mode changed): discover anew at once.

    Example:
        >>> HealthChange("ACME-0", False, "the driver reports error 79").rediscover
        False
    """

    device_id: str
    healthy: bool
    reason: str = ""
    rediscover: bool = False


_METRIC_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class MetricKind(StrEnum):
    """Prometheus' kinds of metrics.

    Example:
        >>> MetricKind("counter")
        <MetricKind.COUNTER: 'counter'>
    """

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric: a line in the table of the scheduler, the agent or a vendor.

    Attributes:
        name: With the unit at its end, as Prometheus advises. Names of counters end in ``_total``, and no others do.
        kind: A vendor has gauges and counters.
        help: What is measured, one sentence.
        labels: Names of the labels that every sample has.
        zoned: Whether samples also get HAMi's constant label ``zone="vGPU"``; it is not among ``labels``.
        buckets: Upper bounds of a histogram's buckets, in the unit of the name.

    Raises:
        ValueError: No name that Prometheus takes, or one that does not fit the kind.

    Example:
        >>> MetricSpec.gauge("hami_acme_temperature_celsius", "Temperature of the device.", "device").labels
        ('device',)
    """

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    zoned: bool = False
    buckets: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not _METRIC_NAME.fullmatch(self.name):
            raise ValueError(f"metric {self.name!r}: a name has letters, digits and _, and starts with no digit")
        if (self.kind is MetricKind.COUNTER) != self.name.endswith("_total"):
            raise ValueError(f"metric {self.name} is a {self.kind}: names of counters end in _total, no others do")

    @classmethod
    def gauge(cls, name: str, help: str, *labels: str, zoned: bool = False) -> MetricSpec:  # noqa: A002 - Prometheus' word
        """A value that goes up and down."""
        return cls(name, MetricKind.GAUGE, help, labels, zoned)

    @classmethod
    def counter(cls, name: str, help: str, *labels: str, zoned: bool = False) -> MetricSpec:  # noqa: A002 - as above
        """A value that only grows, from 0 at the start of what it counts."""
        return cls(name, MetricKind.COUNTER, help, labels, zoned)

    def agrees_with(self, other: MetricSpec) -> bool:
        """Whether both may be served under one name: kind and labels are the same."""
        return (self.kind, set(self.labels), self.zoned) == (other.kind, set(other.labels), other.zoned)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric of a vendor's table, in the unit of the name.

    Example:
        >>> Sample("hami_acme_temperature_celsius", {"device": "ACME-0"}, 61.0).value
        61.0
    """

    name: str
    labels: Mapping[str, str]
    value: float


# --- vendor rules, as placement gets them ------------------------------------------------------------------------


def no_reason(*_: object) -> Reason | None:
    """The rule of a vendor that has none: accepts. Placement knows it by identity and does not call it."""
    return None


@dataclass(frozen=True, slots=True)
class VendorRules:
    """One family's scheduler-side rules as plain callables: placement knows no plugin manager.

    Each callable has the meaning of the hook of the same name (`hami_core.hookspecs`) and never raises: whoever
    builds the rules turns failures into refusals.
    """

    family: Family
    check_type: Callable[[Request, DeviceKind], Reason | None] = no_reason
    check_uuid: Callable[[Request, str], Reason | None] = no_reason
    custom_filter: Callable[[Request, DeviceUsage, tuple[DeviceUsage, ...]], Reason | None] = no_reason
    fit_mask: Callable[[Request, Mapping[str, np.ndarray]], np.ndarray | None] | None = None
    choose: Callable[[Request, tuple[DeviceUsage, ...], str], tuple[int, ...] | Reason | None] | None = None
    account: Callable[[Request, DeviceUsage, Slice, tuple[DeviceUsage, ...]], Slice | Reason | None] | None = None
    score_node: Callable[[NodeFacts, Allocation, str], float] | None = None
    custom: Mapping[str, Any] = field(default_factory=_empty)
