"""The types that all parts exchange: frozen, typed values whose methods only compute from their fields.

Units are in the names. Memory is in MiB, cores in percent of one device. 100 is a whole device; a vendor advertises
more if the administrator scales cores. Counts are plain integers. Numbers from outside have been checked against their
bounds before they arrive here (see `hami_core.wire.quantity`).
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
"""Upper bound of every amount on the wire: HAMi keeps amounts in int32."""


# --- what a vendor serves -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resources:
    """Extended-resource names of one family; an empty string: the family has no such resource.

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
    """A pair of pod annotations: by one a pod names devices, by the other it refuses them; empty: not supported.

    Example:
        >>> by_id = SelectorKeys(use="acme.example/use-npu-uuid", nouse="acme.example/nouse-npu-uuid")
        >>> SelectorKeys(use="acme.example/use-npu-type", nouse="").nouse
        ''
    """

    use: str
    nouse: str


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another device plugin that serves a family's devices.

    Attributes:
        marks: Lower-case texts that identify it: one of them occurs in its image, its container's name or its command.
        whose: The plugin with its owner, for people.

    Example:
        >>> Neighbour(("acme-device-plugin",), "Acme's device plugin").whose
        "Acme's device plugin"
    """

    marks: tuple[str, ...]
    whose: str


@dataclass(frozen=True, slots=True)
class Caution:
    """A program that may conflict with our use of a family's devices, and what ``hami doctor`` says if it runs.

    Attributes:
        check: Name of the finding, which is shown as ``collision.<check>``.
        marks: Texts that identify the program: one of them occurs in its image or its container's name.
        field: The field or key that the finding is about.
        seen: What was found.
        fix: What to do.
        where: The object that the finding is about; empty: the program's pod.
        brings: `Neighbour.whose` of a device plugin that the program may install. The finding is an error only if that
            plugin runs. Empty: the program itself is the cause of a warning.

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
    """What ``hami doctor`` needs to know about a family, besides its names. Every field is optional.

    Attributes:
        neighbours: Other device plugins for these devices.
        not_plugins: Texts that identify programs from the same images that are not device plugins.
        take_off: How to remove such a plugin from a node by configuration.
        cautions: Further programs to warn of.
        node_labels: Labels and values that nodes with such devices have.
        unhealthy: Where to look if a device is unhealthy.

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
        word: HAMi's common word, such as ``NVIDIA`` or ``Ascend910B``: the family's key in allocations and registers.
        resources: Extended-resource names.
        allocated_key: Pod annotation that holds the durable allocation.
        to_allocate_key: Pod annotation that a node plugin consumes; empty: the family has none.
        kept_key: Pod annotation with a further copy of the allocation, for families whose node plugin may consume
            ``allocated_key`` instead. The allocation is then read from this copy, and the signature covers it. Pods of
            HAMi have no such copy: of their two lists, the one that names more devices counts. The form is
            ``hami.io/…-allocated``. Empty: plugins leave ``allocated_key`` alone.
        register_key: Node annotation that lists devices; empty: the devices follow from the node's capacity.
        handshake_key: Node annotation for HAMi's liveness handshake; empty: the family has none.
        foreign_lock: Node annotation by which HAMi's own plugin for the family finds its pod, and which it removes.
            Bind locks it on nodes that our agent does not serve. Empty: there is no such plugin.
        mode_key: Pod annotation in which Bind writes the `Slice.mode` of the pod's slices. Its form is
            ``hami.io/…-allocated``, which users can't set and the signature covers. If the family has one, hooks see
            how present containers share a device (`DeviceKind.shared_as`, `DeviceUsage.slices`). Empty: modes are not
            kept.
        pod_keys: Pod annotations that the family's hooks may read. They see these and the selectors below, no others.
        uuid_selectors: Annotation pairs that choose devices by id. A device must pass all pairs.
        type_selectors: Annotation pairs that choose devices by model. A device must pass all pairs.
        memory_factor: MiB per unit of the memory resource: 256 for Cambricon, 1 for most.
        depends_on_chosen: Whether `custom_filter` depends on the devices already chosen for the container. A device
            must also pass with nothing chosen.
        full_card_rule: Whether the rules on exclusive and fully booked cores apply (HAMi's generic Fit).
        device_type_on_wire: Whether allocation entries carry the device's registered type instead of the word (AMD).
        exact_uuid_selectors: Selector lists hold exact ids. `check_uuid` is then asked about each listed id, and once
            for all other devices together. False: it is asked about every device.
        account_modes: Device modes that `account` must be asked about; None: all. Nodes without such devices are placed
            by vector code.
        choose_policies: Device policies under which `choose` is asked; None: all. Pods choose their policy, so a
            rule that must hold for every pod needs None.
        choose_is_preference: `choose` never answers a `Reason`: every combination serves, some are better. Filter then
            judges nodes by vector code, without asking `choose`. If `choose` fails, devices are taken in order.
        scored_from: Number of devices of one container from which `score_node` is asked about a pod; None: it never is.
            Filter then judges nodes by vector code, about 1000 times as fast as by placing the pod on each of them.
        score_bound: Most that `score_node` adds or takes away for each container that asks for the family's devices.
            Filter then places the pod only on nodes that can still become one of the best. None: unknown, so Filter
            places it on every node.
        capabilities: What the family supports.
        offered_resource: Resource that the nodes' device plugin offers to the kubelet. While a node's allocatable has
            none of it, the plugin is away, and the family's devices on the node count as unhealthy. Empty: not watched.
        one_choice_per_pod: Whether all containers of a pod share devices: a container gets only devices that the
            pod's earlier containers got. For node plugins that read one list of devices for each pod.
        cores_are_units: Whether cores of devices and slices are compute units of the hardware, and not percent
            (AMD, Moore Threads). Metrics and explanations then show percent of the device's units.
        amounts_are_totals: Whether a container's limits of memory and cores are the sums for all of its devices, and
            not the amounts on each (Moore Threads).
        count_is_size: Whether the count resource is the size of a part of one device, and not a number of devices. A
            container then gets one device, and the size says how much memory and cores it has (Enflame).
        foreign_lock_protocol: What ``foreign_lock`` holds: ``hami`` is HAMi's ``<time>,<namespace>,<pod>``, ``time``
            only the time, in RFC 3339 form, for a vendor's plugin that serves one pod at a time.
        lock_timeouts_s: Node lock → age in seconds from which the lock counts as abandoned. ``--node-lock-timeout``
            applies to all other locks.
        doctor: What ``hami doctor`` needs to know.

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
    mode_key: str = ""
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
    scored_from: int | None = 1
    score_bound: float | None = None
    capabilities: Mapping[Capability, Grade] = field(default_factory=_empty)
    offered_resource: str = ""
    one_choice_per_pod: bool = False
    cores_are_units: bool = False
    kept_key: str = ""
    amounts_are_totals: bool = False
    count_is_size: bool = False
    foreign_lock_protocol: Literal["hami", "time"] = "hami"
    lock_timeouts_s: Mapping[str, float] = field(default_factory=_empty)
    doctor: DoctorNotes = DoctorNotes()


# --- devices -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MigPlacement:
    """The place of a MIG instance on its card, in memory slices: ``[start, start + size)``.

    Example:
        >>> place = MigPlacement(start=4, size=4)
        >>> range(place.start, place.start + place.size)
        range(4, 8)
    """

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A MIG instance that a node agent made.

    Attributes:
        card: UUID of the card.
        placement: Where it lies on the card.
        uuid: UUID of the MIG device.
        gpu_instance_id: The driver's id of the GPU instance, which may be 0.
        compute_instance_id: The driver's id of the compute instance, which may be 0.

    Example:
        >>> made = MigInstance("GPU-a", MigPlacement(4, 4), "MIG-b", gpu_instance_id=1, compute_instance_id=0)
        >>> made.placement.start
        4
    """

    card: str
    placement: MigPlacement
    uuid: str
    gpu_instance_id: int
    compute_instance_id: int


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A MIG profile that a card offers.

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
    """What `check_type` is asked about: the properties of a device that a request may select by.

    Attributes:
        family: Common word.
        type: Model, such as ``NVIDIA-A100-SXM4-40GB``.
        mode: Sharing mode.
        whole_only: `Device.whole_only`.
        whole_mib: `Device.usable_mib` of a device that is ``whole_only``; 0 for others.
        shared_as: The modes of the containers that share the device now (`Slice.mode`), sorted and joined by commas;
            empty if no container uses it, or its family has no ``mode_key``.

    Example:
        >>> Device("ACME-0", 0, 10, 32768, 100, "Acme-X1", "ACME").kind
        DeviceKind(family='ACME', type='Acme-X1', mode='', whole_only='', whole_mib=0, shared_as='')
    """

    family: str
    type: str
    mode: str = ""
    whole_only: str = ""
    whole_mib: int = 0
    shared_as: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """One physical device as its node advertises it (HAMi's DeviceInfo).

    Attributes:
        id: Id, unique on its node, normally the vendor's UUID.
        index: Ordinal on the node, ≥ 0.
        slots: How many containers may share the device (HAMi's ``count``).
        memory_mib: Memory that the node registers, scaling included.
        cores: Percent of compute on offer; 100 is one device's compute.
        type: Model, such as ``NVIDIA-A100-SXM4-40GB``.
        family: The family that the device belongs to.
        numa: NUMA node; 0 if unknown.
        mode: Sharing mode on the node. NVIDIA has ``hami-core``, ``mig`` and ``mps``.
        healthy: Whether new containers may get the device.
        cordoned: Whether an operator has closed the device to new containers.
        mig_profiles: Profiles on offer if the mode is ``mig``.
        pair_scores: Score of the link to each other device of the node, by id (topology).
        custom: The vendor's own data, as the node publishes it.
        reserved_mib: Part of ``memory_mib`` that the driver keeps for itself. No container can have it.
        not_offered: Why the node withholds the device from pods, for people; such a device is unhealthy. Empty: it is
            offered.
        whole_only: Why the device serves only one container, as a whole card, for people. Empty: it may be shared.

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
        """Memory that containers can have. Percentages and whole cards are counted from it."""
        return self.memory_mib - self.reserved_mib


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """A device and the sums of what is booked on it, holds included.

    Attributes:
        device: The device.
        used_slots: Slots in use.
        used_memory_mib: MiB in use.
        used_cores: Percent in use.
        pods: The pods that use it, as ``namespace/name``.
        mig_in_use: Placements of the booked MIG instances.
        slices: The slices booked on it, if its family has a ``mode_key``. An init container's slice is among them until
            all init containers have ended.

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
    slices: tuple[Slice, ...] = ()


# --- what is asked for -------------------------------------------------------------------------------------------


class ContainerKind(StrEnum):
    """The three lifetimes of a pod's containers. Ephemeral containers never hold devices.

    Example:
        >>> ContainerKind("init") is ContainerKind.INIT
        True
    """

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """What hooks see of a container: name, kind, resources and the names of its environment variables.

    ``limits`` and ``requests`` hold quantities as strings, as the API server keeps them.

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
    """What hooks see of a pod. ``annotations`` holds only the keys that the family declares.

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
    decided_at_ns: int = 0
    """Time of the Bind in Unix nanoseconds, for `patch_annotations`, since hooks have no clock; 0 in other hooks."""

    @property
    def decided_at(self) -> int:
        """Time of the Bind in whole Unix seconds."""
        return self.decided_at_ns // 10**9


@dataclass(frozen=True, slots=True)
class Request:
    """What one container asks of one family, as numbers.

    Attributes:
        family: Common word.
        count: Number of devices, ≥ 1.
        memory_mib: MiB on each device; 0: ``memory_percent`` counts.
        memory_percent: Percent of each device's memory, if ``memory_mib`` is 0. None: no memory is booked (HAMi's
            value 101).
        cores: Percent of each device's compute; 0: no share is asked for.
        annotations: The pod annotations that the family declares.
        numa_bind: Whether all devices must be on one NUMA node.
        custom: The vendor's own data, which the core does not read.
        mode: How the container shares its devices, the same for all containers of a pod; it becomes `Slice.mode`. An
            empty mode is the device's.
        preload: Whether the container gets a file ``/etc/ld.so.preload`` that names the vendor's library. A container
            has one such file, so the core refuses a container with two such requests.
        askers: How many containers of the pod ask for this family. The core sets it after `parse_request`.

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
    mode: str = ""
    preload: bool = False
    askers: int = 1

    def memory_on(self, usable_mib: int) -> int:
        """MiB that this request takes on a device. As in HAMi, an amount wins over a percentage, which rounds down.

        Args:
            usable_mib: Memory of the device that containers can have (`Device.usable_mib`).
        """
        if self.memory_mib > 0:
            return self.memory_mib
        if self.memory_percent is None:
            return 0
        return usable_mib * self.memory_percent // 100

    def scored_memory_on(self, device_memory_mib: int) -> int:
        """MiB that this request counts in a device's score. As in HAMi, a percentage above 0 wins over an amount."""
        if self.memory_percent:
            return device_memory_mib * self.memory_percent // 100
        return self.memory_mib


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """All requests of one container, at most one for each family."""

    name: str
    kind: ContainerKind
    requests: tuple[Request, ...] = ()


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the device score (`hami.io/device-scoring-weights`): whole numbers ≥ 0, not all 0."""

    slot: int = 1
    core: int = 1
    memory: int = 1


@dataclass(frozen=True, slots=True)
class PodRequest:
    """The request of a pod: every container in HAMi's order, init containers first, then app containers.

    Sidecars keep their place among the init containers; their kind tells them apart. An empty policy means that the pod
    names none.
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


UNKNOWN_MODE: Final = "unknown"
"""Mode of a slice in a family with a ``mode_key`` if the pod has no such annotation, or not our signature over it.

HAMi's scheduler writes no such annotation, and a tenant can edit the annotations of its pods.
"""


# --- what is given -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slice:
    """What one container gets of one device.

    Attributes:
        device_id: The device's id.
        family: Common word.
        memory_mib: Memory limit in MiB; 0: no limit.
        cores: Limit in percent of the device's compute; 0: no limit.
        type: The type field of the allocation's entry, normally the common word.
        mode: How the container shares the device: the request's mode, or else the device's at the time of booking.
            `UNKNOWN_MODE` in an allocation that does not say so reliably.
        slots: Number of slots booked, normally 1.
        index: The device's ordinal; -1: unknown, since allocations on the wire do not carry it.
        mig_profile: Profile of the reserved MIG instance, if any.
        mig_placement: Place of that instance on the card.

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
    """The slices of one container; none if it asked for nothing.

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
    """The slices of one pod on one node: one entry for every container, in HAMi's order (init containers first).

    Example:
        >>> main = ContainerSlices("main", ContainerKind.APP, (Slice("ACME-0", "ACME", 8192, 0),))
        >>> allocation = Allocation("node-1", (ContainerSlices("setup", ContainerKind.INIT), main))
        >>> allocation.families, [len(pieces) for pieces in allocation.of("ACME")]
        (('ACME',), [0, 1])
    """

    node: str
    containers: tuple[ContainerSlices, ...]

    def of(self, family: str) -> tuple[tuple[Slice, ...], ...]:
        """The slices of one family, by container."""
        return tuple(tuple(s for s in c.slices if s.family == family) for c in self.containers)

    @property
    def families(self) -> tuple[str, ...]:
        """Common words with at least one slice, in order of first use."""
        return tuple(dict.fromkeys(s.family for c in self.containers for s in c.slices))


@dataclass(frozen=True, slots=True)
class Booking:
    """An allocation of a pod as the scheduler keeps it.

    Attributes:
        uid: The pod's UID.
        namespace: Its namespace.
        name: Its name.
        allocation: Node and slices.
        device_policy: The device policy that the pod names; empty: it names none.
    """

    uid: str
    namespace: str
    name: str
    allocation: Allocation
    device_policy: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something was refused. It is shown as an extender reason, as an event or in an explanation.

    Attributes:
        code: HAMi's word if it has one, such as ``CardInsufficientMemory``; else the vendor's own in the same style.
        device: Device id; empty if the reason is about a node or a pod.
        needed: Amount asked for, in the unit that the code implies.
        available: Amount available.
        detail: More for people to read.

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
    """What `register` sees of a node object. Quantities are strings, as the API server keeps them.

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
"""What a node does with containers' limits: enforce them, only count what containers use, or neither."""
Serial = Literal["auto", "always", "never"]
"""When Allocate itself answers what a container gets: if the runtime turns out not to apply CDI specs, or as said."""


def _no_labels() -> None:
    """The labels of a node whose object nobody has read."""


@dataclass(frozen=True, slots=True)
class NodeContext:
    """The node that an agent serves, out of the agent's settings, so that a node side needs no settings for them.

    Attributes:
        name: Name of the node object.
        state_dir: The agent's folder on the host, at the same path in the agent's container. It outlives a reboot.
        cdi_dirs: Folders with other programs' CDI specs, such as those of the vendor's toolkit.
        config_file: HAMi's per-node file, which need not exist; None: no file is named.
        enforcement: Whether containers' limits are enforced (``enforce``), use is only counted (``observe``), or
            neither (``off``).
        legacy_metrics: Whether metrics are also served under their old names.
        mounted: Lists the host paths that containers mount now, or will mount when they restart. Ask it before removing
            a host file that `allocate` once named. Raises `DeviceError` if the list would not be complete. None: it is
            unknown what containers mount, so remove nothing.
        serial: Serial mode, in which Allocate itself answers what a container gets: ``always``, ``never``, or ``auto``:
            only if the container runtime turns out not to apply CDI specs.
        labels: Returns the node object's labels as last seen; None: not known yet, or not in this process. They may
            change at any time, so a hook asks again each time.

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
    mounted: Callable[[], frozenset[str]] | None = field(default=None, compare=False)
    serial: Serial = "auto"
    labels: Callable[[], Mapping[str, str] | None] = field(default_factory=lambda: _no_labels)


@dataclass(frozen=True, slots=True)
class Mutation:
    """What a vendor wants changed on one container and its pod at admission.

    Attributes:
        uses_devices: Whether the pod must go to our scheduler, because the container asks for this vendor's devices.
            Also True for a count of 0 beside other amounts, because no other scheduler ignores these amounts.
        limits: Resource limits to set or replace.
        requests: Resource requests to set or replace.
        env: Environment variables to set. They replace what the pod wrote under their names, and come last in the
            container's list, in this order.
        env_removed: Names of environment variables that the container must not set. The node plugin sets them, and the
            pod's value might win over the plugin's.
        pod_annotations: Annotations to set on the pod.
        runtime_class: runtimeClassName for a pod that has none; empty: it stays without.

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
    """A bind mount from the node into the container.

    Example:
        >>> Mount("/usr/lib/acme", "/usr/lib/acme").read_only
        True
    """

    host_path: str
    container_path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device node that the container gets. ``host_path`` is its path on the node; empty: the same as ``path``.

    With ``major`` and ``minor``, the numbers of a character device, a runtime with CDI makes the node even if the host
    has none yet. Major 0: the runtime reads both numbers from the node on the host.

    Example:
        >>> DeviceNode("/dev/acme0", host_path="/dev/acme/card0").permissions
        'rw'
        >>> DeviceNode("/dev/acme-caps/cap12", major=237, minor=12).minor
        12
    """

    path: str
    host_path: str = ""
    permissions: str = "rw"
    major: int = 0
    minor: int = 0


@dataclass(frozen=True, slots=True)
class OciHook:
    """An OCI hook in CDI's terms. ``name`` says when it runs: createRuntime, createContainer, startContainer and so on.

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
    """What the container runtime adds to a container so that it gets its slices: the answer of `allocate`.

    Attributes:
        env: Environment variables.
        mounts: Bind mounts.
        device_nodes: Device nodes.
        hooks: OCI hooks.
        limits: Files (name → content) that the agent mounts read-only at ``limits_path``.
        limits_path: Folder in the container; empty: no such folder.
        region: Files (name → content) that the agent mounts read-write at ``region_path``. The agent makes them once,
            with mode 0666, and never rewrites them while the container's record exists.
        region_path: Folder in the container; empty: no such folder.
        mig_instances: The MIG instances that were made for the container. The agent writes their ids into the pod's
            annotation ``hami.io/vgpu-mig-allocations``, for people and dashboards.

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
    mig_instances: tuple[MigInstance, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerRef:
    """A container on this node, as hooks of the node side see it.

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
    """Whether every slice is a whole card, with all memory, cores 0 or 100, no scaling, and no other container."""


@dataclass(frozen=True, slots=True)
class NativeSlot:
    """A slot that the kubelet hands out by itself, to pods of any scheduler: one device, or one part of it.

    Nobody books it. So the slot that the kubelet picks is what the container gets.

    Attributes:
        device: The card that it is a part of. The preferred allocation counts by it.
        edits: What the container runtime adds to a container with this slot. It can't have limits or a region.
        healthy: Whether containers can use it.
        numa: NUMA node; negative: none.

    Example:
        >>> one = NativeSlot("GPU-a", ContainerEdits(device_nodes=(DeviceNode("/dev/acme0"),)))
        >>> one.healthy, one.numa
        (True, -1)
    """

    device: str
    edits: ContainerEdits
    healthy: bool = True
    numa: int = -1


class Preference(StrEnum):
    """Which of the free slots the kubelet should hand out first.

    Example:
        >>> Preference("packed")
        <Preference.PACKED: 'packed'>
    """

    DISTRIBUTED = "distributed"
    """Those of the card with the most free slots; of several slots each from another card, if possible."""
    PACKED = "packed"
    """Those of the card with the fewest free slots."""
    NONE = "none"
    """The kubelet decides."""


@dataclass(frozen=True, slots=True)
class Advertisement:
    """What a node advertises of one vendor's devices.

    Attributes:
        annotations: Annotations for the node object.
        labels: Labels for the node object; None removes a label. A label that the vendor no longer mentions is left as
            it is.
        slots: Resource name → slot id → (healthy, NUMA node), for the kubelet. Slot ids have HAMi's form
            ``<uuid>-<k>``.
        env: Environment variables that every container with a slot gets, unless its pod sets them. They are given
            before the agent knows which container it is, so they must not show any device.
        native: Resource name → slot id → slot, for resources that the kubelet hands out by itself.
        preference: Which free slots the kubelet should hand out first. Of a resource in ``slots`` the booking decides
            the device, whatever slot the kubelet picks.

    Example:
        >>> said = Advertisement(slots={"acme.example/npu": {"ACME-0-0": (True, 0), "ACME-0-1": (True, 0)}})
        >>> sorted(said.slots["acme.example/npu"])
        ['ACME-0-0', 'ACME-0-1']
    """

    annotations: Mapping[str, str] = field(default_factory=_empty)
    labels: Mapping[str, str | None] = field(default_factory=_empty)
    slots: Mapping[str, Mapping[str, tuple[bool, int]]] = field(default_factory=_empty)
    env: Mapping[str, str] = field(default_factory=_empty)
    native: Mapping[str, Mapping[str, NativeSlot]] = field(default_factory=_empty)
    preference: Preference = Preference.DISTRIBUTED


@dataclass(frozen=True, slots=True)
class HealthChange:
    """A device's present health.

    Attributes:
        device_id: The device's id.
        healthy: Whether containers can use the device.
        reason: Why it is unhealthy, for people.
        rediscover: The device no longer matches what `discover` said, for example because its mode changed. The agent
            calls `discover` at once.

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
        name: Name with the unit at its end, as Prometheus advises. Names of counters, and no others, end in ``_total``.
        kind: Vendors may have gauges and counters.
        help: What is measured, in one sentence.
        labels: Names of the labels that every sample has.
        zoned: Whether samples also get HAMi's constant label ``zone="vGPU"``, which is not in ``labels``.
        buckets: Upper bounds of a histogram's buckets, in the unit of the name.

    Raises:
        ValueError: Prometheus does not accept the name, or the name does not fit the kind.

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
            raise ValueError(f"metric {self.name!r}: a name has letters, digits and _, and does not start with a digit")
        if (self.kind is MetricKind.COUNTER) != self.name.endswith("_total"):
            raise ValueError(f"metric {self.name} is a {self.kind}: only names of counters end in _total")

    @classmethod
    def gauge(cls, name: str, help: str, *labels: str, zoned: bool = False) -> MetricSpec:  # noqa: A002 - Prometheus' word
        """Return the table line of a value that goes up and down."""
        return cls(name, MetricKind.GAUGE, help, labels, zoned)

    @classmethod
    def counter(cls, name: str, help: str, *labels: str, zoned: bool = False) -> MetricSpec:  # noqa: A002 - as above
        """Return the table line of a value that starts at 0 and only grows."""
        return cls(name, MetricKind.COUNTER, help, labels, zoned)

    def agrees_with(self, other: MetricSpec) -> bool:
        """Whether both may be served under one name, because kind and labels are the same."""
        return (self.kind, set(self.labels), self.zoned) == (other.kind, set(other.labels), other.zoned)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric in a vendor's table, in the unit of the metric's name.

    Example:
        >>> Sample("hami_acme_temperature_celsius", {"device": "ACME-0"}, 61.0).value
        61.0
    """

    name: str
    labels: Mapping[str, str]
    value: float


# --- vendor rules for placement ----------------------------------------------------------------------------------


def no_reason(*_: object) -> Reason | None:
    """Accept everything: the rule of a vendor without one. Placement recognises this function and does not call it."""
    return None


@dataclass(frozen=True, slots=True)
class VendorRules:
    """One family's scheduler-side rules as plain callables, so that placement needs no plugin manager.

    Each callable means what the hook of the same name means (`hami_core.hookspecs`). It never raises: the code that
    builds the rules turns failures into refusals.
    """

    family: Family
    check_type: Callable[[Request, DeviceKind], Reason | None] = no_reason
    check_uuid: Callable[[Request, str], Reason | None] = no_reason
    custom_filter: Callable[[Request, DeviceUsage, tuple[DeviceUsage, ...]], Reason | None] = no_reason
    fit_mask: Callable[[Request, Mapping[str, np.ndarray]], np.ndarray | None] | None = None
    choose: (
        Callable[[Request, tuple[DeviceUsage, ...], str, tuple[DeviceUsage, ...]], tuple[int, ...] | Reason | None]
        | None
    ) = None
    account: Callable[[Request, DeviceUsage, Slice, tuple[DeviceUsage, ...]], Slice | Reason | None] | None = None
    score_node: Callable[[NodeFacts, Allocation, str, tuple[DeviceUsage, ...]], float] | None = None
    custom: Mapping[str, Any] = field(default_factory=_empty)
