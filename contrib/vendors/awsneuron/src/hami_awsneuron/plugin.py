"""The vendor AWS Neuron: whole devices, or cores of devices, for AWS's Neuron device plugin.

Cores are bit masks, as in HAMi: a device with 2 cores has 3, and a container books 1, 2 or 3.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from hami_awsneuron.config import AwsNeuronConfig
from hami_awsneuron.layout import MAX_CORES, MAX_DEVICES, TORUS_COUNTS, bits, is_ring, pick_cores, split_cores, together
from hami_core import (
    Capability,
    DoctorNotes,
    Family,
    Grade,
    Neighbour,
    Reason,
    Request,
    RequestError,
    Resources,
    SelectorKeys,
    Support,
    WireError,
    hookimpl,
)
from hami_core.vendorkit import (
    CARD_INSUFFICIENT_CORE,
    NUMA_NOT_FIT,
    capacity,
    capacity_devices,
    parse_whole,
    quantity_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core import Allocation, ContainerSpec, Device, DeviceUsage, NodeFacts, PodFacts, Slice

WORD: Final = "AWSNeuron"
TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
WHOLE: Final = "whole"
"""Key in `Request.custom` of a request for whole devices."""
_PLACE: Final = re.compile(r"(\d+)(?:/(\d+))?", re.ASCII)
"""`Slice.mode`: the device's index, and its real number of cores if the container asked for cores."""

CAPABILITIES: Final[Mapping[Capability, Grade]] = {
    Capability.SHARING: Grade(Support.FULL),
    Capability.CORE_LIMIT: Grade(Support.PARTIAL, "in whole cores, and two of each device"),
    Capability.MEMORY_LIMIT: Grade(Support.UNSUPPORTED, "HAMi has no such resource for AWS Neuron"),
    Capability.PERCENT_MEMORY: Grade(Support.UNSUPPORTED, "HAMi has no such resource for AWS Neuron"),
    Capability.TYPE_SELECTORS: Grade(Support.UNSUPPORTED, f"choose instance types by the node label {TYPE_LABEL}"),
    Capability.UUID_SELECTORS: Grade(Support.FULL),
    Capability.NUMA_BINDING: Grade(Support.UNSUPPORTED, "the nodes do not report NUMA nodes"),
    Capability.TOPOLOGY: Grade(Support.FULL),
    Capability.QUOTA: Grade(Support.UNSUPPORTED, "both resources are the kubelet's; use a quota of Kubernetes itself"),
    Capability.NODE_AGENT: Grade(Support.UNSUPPORTED, "AWS's Neuron device plugin serves the nodes"),
}


class AwsNeuron:
    """Scheduler side of the AWS Neuron vendor."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)

    @hookimpl
    def config_model(self) -> type[AwsNeuronConfig]:
        """Section ``awsneuron``."""
        return AwsNeuronConfig

    @hookimpl
    def families(self, config: AwsNeuronConfig) -> Sequence[Family]:
        """The one family ``AWSNeuron``."""
        self._family = _family(config)
        return (self._family,)

    @hookimpl
    def register(self, node: NodeFacts) -> Sequence[Device] | None:
        """One device for each of the node's capacity. Its cores are the node's, in equal parts, at most two of each."""
        names = self._family.resources
        devices = capacity_devices(node, self._family, WORD, memory_mib=0)
        if not devices:
            return devices
        cores = capacity(node, names.cores)
        each, rest = divmod(cores, len(devices))
        if not each or rest:
            problem = f"{cores} cores cannot be divided evenly among {len(devices)} devices ({names.count})"
            raise WireError(f"capacity {names.cores}", -1, problem)
        usable = min(each, MAX_CORES)
        about = {TYPE_LABEL: node.labels.get(TYPE_LABEL, "")}
        return [
            replace(device, slots=usable, cores=(1 << usable) - 1, mode=f"{device.index}/{each}", custom=about)
            for device in devices
        ]

    @hookimpl
    def parse_request(self, container: ContainerSpec, pod: PodFacts) -> Request | None:
        """Whole devices by their count, or cores, which are one core or all cores of several devices."""
        asked = self._asked(container)
        if asked is None:
            return None
        count, cores = asked
        custom = {} if cores else {WHOLE: True}
        return Request(WORD, count, cores=cores, annotations=pod.annotations, custom=custom)

    @hookimpl
    def choose(self, request: Request, candidates: tuple[DeviceUsage, ...]) -> tuple[int, ...] | Reason | None:
        """Pick neighbours among the idle devices: a run of a ring, or an aligned part of a torus."""
        if request.count == 1:
            return None
        at = {usage.device.index: position for position, usage in enumerate(candidates)}
        instance_type = str(candidates[0].device.custom[TYPE_LABEL])
        found = together(at, request.count, instance_type)
        if found is not None:
            return tuple(at[index] for index in found)
        if is_ring(instance_type):
            why = f"no {request.count} neighbours are idle"
        elif request.count in TORUS_COUNTS:
            why = f"no {request.count} devices are idle that start at a multiple of {request.count}"
        else:
            counts = ", ".join(map(str, TORUS_COUNTS))
            why = (
                f"instance type {instance_type or 'unknown'} gives {counts} devices to a container, not {request.count}"
            )
        return Reason(NUMA_NOT_FIT, needed=request.count, available=len(candidates), detail=why)

    @hookimpl
    def account(self, request: Request, device: DeviceUsage, piece: Slice) -> Slice | Reason:
        """Choose the cores: all of a whole device, else the lowest that are free."""
        of, is_whole = device.device, WHOLE in request.custom
        wanted = of.cores.bit_count() if is_whole else request.cores
        free = of.cores & ~device.used_cores
        mask = pick_cores(free, wanted)
        if mask is None:
            needed, available = (100 * cores // of.cores.bit_count() for cores in (wanted, free.bit_count()))
            return Reason(CARD_INSUFFICIENT_CORE, of.id, needed, available)
        return replace(piece, cores=mask, mode=str(of.index) if is_whole else of.mode)

    @hookimpl
    def patch_annotations(self, pod: PodFacts, allocation: Allocation) -> Mapping[str, str]:
        """Annotations for AWS's plugin: the ids of the pod's devices, or of its cores on the node."""
        ids: list[int] = []
        kinds: set[bool] = set()
        for piece in (piece for pieces in allocation.of(WORD) for piece in pieces):
            place = _PLACE.fullmatch(piece.mode)
            if place is None:
                raise WireError("allocation", -1, f"{piece.device_id} has no index")
            index, each = int(place[1]), place[2]
            kinds.add(each is not None)
            ids += [index] if each is None else [index * int(each) + core for core in bits(piece.cores)]
        if not ids:
            return {}
        names = self._family.resources
        if len(kinds) > 1:
            problem = (
                f"some containers ask for {names.count}, others for {names.cores}, and AWS's plugin reads one list"
            )
            raise RequestError(f"pod {pod.namespace}/{pod.name}", names.cores, problem, f"ask for {names.cores} in all")
        written = {
            "AWS_NEURON_IDS": ",".join(map(str, ids)),
            "NEURON_ALLOC_TIME": str(pod.decided_at_ns),
            "NEURON_ALLOCATED": "false",
            "aws.amazon.com/predicate-node": allocation.node,
        }
        return written | ({"NEURON_RESOURCE_TYPE": names.cores} if True in kinds else {})

    def _asked(self, container: ContainerSpec) -> tuple[int, int] | None:
        """Number of devices and cores of each that a container asks for, 0 cores for whole devices; None: nothing.

        Raises:
            RequestError: An amount is wrong, or both resources are named.
        """
        names = self._family.resources
        where = f"container {container.name}"
        count = _amount(container, names.count, MAX_DEVICES)
        cores = _amount(container, names.cores, MAX_DEVICES * MAX_CORES)
        if count is not None and cores is not None:
            problem = f"is written beside {names.count}, and the kubelet would give both"
            raise RequestError(where, names.cores, problem, "write one of them")
        if cores is None:
            return None if count is None else (count, 0)
        try:
            return split_cores(cores)
        except ValueError as error:
            fix = f"write 1 or a multiple of {MAX_CORES}"
            raise RequestError(where, names.cores, f"{names.cores} {error}", fix) from None


def _amount(container: ContainerSpec, name: str, most: int) -> int | None:
    """A container's amount of a resource, from 1 to ``most``; None: it names none. Errors begin with HAMi's words."""
    text = quantity_of(container, name)
    if text is None:
        return None
    where = f"container {container.name}"
    try:
        amount = parse_whole(text, where=where, field=name)
    except RequestError as error:
        raise RequestError(where, name, f"{name} must be an integer: {error.problem}", error.fix) from None
    if amount < 1:
        raise RequestError(where, name, f"{name} must be greater than 0", "or leave it out")
    if amount > most:
        raise RequestError(where, name, f"{name} must not exceed {most}", "ask for less")
    return amount


def _family(config: AwsNeuronConfig) -> Family:
    return Family(
        word=WORD,
        resources=Resources(config.resource_count_name, cores=config.resource_core_name),
        allocated_key="hami.io/aws-neuron-devices-allocated",
        offered_resource=config.resource_count_name,
        uuid_selectors=(SelectorKeys("aws.amazon.com/use-neuron-uuid", "aws.amazon.com/nouse-neuron-uuid"),),
        full_card_rule=False,
        cores_are_units=True,
        capabilities=CAPABILITIES,
        doctor=DoctorNotes(neighbours=(Neighbour(("neuron-device-plugin",), "AWS's Neuron device plugin"),)),
    )
