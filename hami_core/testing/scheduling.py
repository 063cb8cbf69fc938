"""A scheduler with one node, for the suites: it books pods by the vendor's rules, and reads them as the agent does."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from hami_core.errors import RequestError
from hami_core.inventory import Inventory, PolicyDefaults
from hami_core.model import EMPTY, Allocation, ContainerKind, ContainerRef, ContainerSpec, NodeFacts, PodFacts
from hami_core.placement.request import pod_request
from hami_core.wire import keys
from hami_core.wire.pod import allocation_annotations, decode_allocation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hami_core.model import Advertisement, Device, Family, PodRequest, Request, Slice
    from hami_core.plugins.vendor import LoadedVendor

NODE: Final = "node"
NAMESPACE: Final = "default"
BOUND_AT: Final = 1_750_000_000
"""Time of every Bind in Unix seconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What the agent passes to `allocate` for one container: its slices, read from the pod's annotations."""

    slices: tuple[Slice, ...]
    container: ContainerRef

    @property
    def devices(self) -> frozenset[str]:
        """Ids of its devices."""
        return frozenset(piece.device_id for piece in self.slices)


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod after admission, with its request."""

    facts: PodFacts
    containers: tuple[ContainerSpec, ...]
    request: PodRequest


class Scheduler:
    """Webhook, Filter and Bind for one node.

    Args:
        loaded: The vendor.
        devices: Devices of the node. A device that is listed twice counts once.
        device_policy: Policy of pods that name none; empty: the default.
    """

    def __init__(self, loaded: LoadedVendor, devices: Iterable[Device], device_policy: str = "") -> None:
        self.loaded = loaded
        self.devices: dict[str, dict[str, Device]] = defaultdict(dict)
        for device in devices:
            self.devices[device.family].setdefault(device.id, device)
        self.families = {family.word: family for family in loaded.families}
        defaults = PolicyDefaults(device_policy=device_policy) if device_policy else PolicyDefaults()
        self.inventory = Inventory(loaded.rules(), defaults)
        self.inventory.set_node(NodeFacts(NODE), {word: tuple(have.values()) for word, have in self.devices.items()})
        self._admitted = 0

    def admit(self, *limits: Mapping[str, str], annotations: Mapping[str, str] = EMPTY) -> Pod:
        """Admit a pod as the webhook does. It has one container for each mapping of limits.

        Raises:
            RequestError: The vendor refuses an amount.
        """
        self._admitted += 1
        uid = f"3f1c1b5e-0000-4000-8000-{self._admitted:012}"
        facts = PodFacts(NAMESPACE, f"pod-{self._admitted}", uid, annotations)
        containers: list[ContainerSpec] = []
        for position, wanted in enumerate(limits):
            container = ContainerSpec(f"c{position}", ContainerKind.APP, dict(wanted))
            change = self.loaded.mutate_admission(container, facts)
            if change is not None:
                container = replace(container, limits={**container.limits, **change.limits})
                facts = replace(facts, annotations={**facts.annotations, **change.pod_annotations})
            containers.append(container)
        request = pod_request(uid, NAMESPACE, facts.name, containers, facts.annotations, self._parse)
        return Pod(facts, tuple(containers), request)

    def _parse(self, container: ContainerSpec, pod: PodFacts) -> tuple[Request, ...]:
        found = (self.loaded.parse_request(container, pod, family) for family in self.families.values())
        return tuple(request for request in found if request is not None)

    def book(self, pod: Pod) -> Allocation | None:
        """Book a pod. None: it does not fit."""
        booked = self.inventory.book(pod.request, NODE)
        return booked if isinstance(booked, Allocation) else None

    def place(
        self, family: Family, limits: Mapping[str, str], containers: int = 1, annotations: Mapping[str, str] = EMPTY
    ) -> tuple[Pod, Allocation] | None:
        """Book a pod whose containers ask for as few devices as the family gives, with these amounts of each."""
        for count in range(1, len(self.devices[family.word]) + 1):
            try:
                each = {**limits, family.resources.count: str(count)}
                pod = self.admit(*[each] * containers, annotations=annotations)
            except RequestError:
                continue
            booked = self.book(pod)
            if booked is not None:
                return pod, booked
        return None

    def portions(self, family: Family) -> list[dict[str, str]]:
        """Amounts of the family's first device: none named, then a quarter, half and all of its memory and cores.

        If the vendor refuses cores beside memory, a portion is memory alone.
        """
        device = next(iter(self.devices[family.word].values()))
        names = family.resources
        found: list[dict[str, str]] = [{}]
        for part in (4, 2, 1):
            units = device.usable_mib // part // max(family.memory_factor, 1)
            memory = {names.memory: str(units)} if names.memory else {}
            cores = {names.cores: str(100 // part)} if names.cores else {}
            amounts = memory | cores if self._admits(family, memory | cores) else memory
            if amounts:
                found.append(amounts)
        return found

    def _admits(self, family: Family, limits: Mapping[str, str]) -> bool:
        """Whether the vendor takes these amounts for some number of devices."""
        for count in range(1, len(self.devices[family.word]) + 1):
            with contextlib.suppress(RequestError):
                self.admit({**limits, family.resources.count: str(count)})
                return True
        return False

    def annotations(self, pod: Pod, allocation: Allocation) -> dict[str, str]:
        """All annotations of the pod once it is bound: its own, the framework's and the vendor's."""
        written = allocation_annotations(allocation, self.families, BOUND_AT, keys.PHASE_SUCCESS)
        added = self.loaded.patch_annotations(replace(pod.facts, decided_at_ns=BOUND_AT * 10**9), allocation)
        return {**pod.facts.annotations, **written, **added}

    def given(self, pod: Pod, annotations: Mapping[str, str]) -> list[Given]:
        """Read a bound pod as the agent does: one entry for each container with slices."""
        names = [(container.name, container.kind) for container in pod.containers]
        allocation = decode_allocation(annotations, self.families, names)
        found = [] if allocation is None else list(zip(pod.containers, allocation.containers, strict=True))
        return [Given(held.slices, self._ref(pod, spec, held.slices, annotations)) for spec, held in found]

    def _ref(
        self, pod: Pod, spec: ContainerSpec, slices: Sequence[Slice], annotations: Mapping[str, Any]
    ) -> ContainerRef:
        declared = {key for piece in slices for key in self.families[piece.family].pod_keys}
        shown = {key: value for key, value in annotations.items() if key in declared}
        facts = pod.facts
        return ContainerRef(facts.uid, facts.namespace, facts.name, spec.name, spec.kind, dict(spec.limits), shown)


def facts(said: Advertisement) -> NodeFacts:
    """The node object once an agent has advertised its devices and offered their slots to the kubelet."""
    capacity = {name: str(len(slots)) for name, slots in said.slots.items()}
    labels = {key: value for key, value in said.labels.items() if value is not None}
    return NodeFacts(NODE, said.annotations, labels, capacity, capacity)
