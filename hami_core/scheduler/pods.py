"""Converts API objects (pods, containers, nodes) to the model's values. Pure."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from hami_core.errors import RequestError, WireError
from hami_core.kube.objects import ObjectMeta, Pod, PodSpec, PodStatus
from hami_core.model import UNKNOWN_MODE, Booking, ContainerKind, ContainerSpec, NodeFacts, PodFacts, PodRequest
from hami_core.placement.request import pod_request
from hami_core.wire import keys
from hami_core.wire.pod import devices_asked, read_allocation
from hami_core.wire.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from hami_core.kube.objects import Container, ContainerStatus, Node
    from hami_core.kube.port import Undecodable
    from hami_core.model import Family, Request

    Parse = Callable[[ContainerSpec, PodFacts], tuple[Request, ...]]

MAX_CONTAINERS = 1000
"""Most containers that a pod may have. The API server's limit on object size allows few more."""


def container_specs(pod: Pod) -> list[ContainerSpec]:
    """The pod's containers as vendor hooks see them, in HAMi's order."""
    return [container_spec(container, kind) for kind, container in pod.containers()]


def container_spec(container: Container, kind: ContainerKind) -> ContainerSpec:
    """A container as vendor hooks see it."""
    return ContainerSpec(
        container.name,
        kind,
        {name: str(value) for name, value in container.resources.limits.items()},
        {name: str(value) for name, value in container.resources.requests.items()},
        frozenset(variable.name for variable in container.env),
        container.is_privileged,
    )


def facts(pod: Pod) -> PodFacts:
    """The pod as vendor hooks see it. Each vendor later gets only the annotations that it declared."""
    meta = pod.metadata
    return PodFacts(meta.namespace, meta.name, meta.uid, meta.annotations, pod.spec.runtime_class_name or "")


def request_of(pod: Pod, parse: Parse) -> PodRequest:
    """A pod's request.

    Raises:
        RequestError: Names the container or annotation at fault and the fix.
    """
    specs = container_specs(pod)
    if len(specs) > MAX_CONTAINERS:
        problem = f"{len(specs)} containers, at most {MAX_CONTAINERS} can be placed"
        raise RequestError(f"pod {pod.key}", "spec.containers", problem)
    meta = pod.metadata
    return pod_request(meta.uid, meta.namespace, meta.name, specs, meta.annotations, parse)


def first_asked(pod: Pod, names: Collection[str]) -> tuple[str, str] | None:
    """The first container that asks for one of these resources, and the resource; None: no container does.

    An amount of 0 asks for nothing. An amount that is not a number counts as a request.
    """
    for _, container in pod.containers() if names else ():
        for amounts in (container.resources.limits, container.resources.requests):
            for name, amount in amounts.items():
                if name in names and _is_asked(str(amount)):
                    return container.name, name
    return None


def _is_asked(amount: str) -> bool:
    try:
        return parse_quantity(amount) != 0
    except WireError:
        return True


@dataclass(frozen=True, slots=True)
class Holding:
    """The devices of a bound pod, by its annotations.

    Attributes:
        booking: The part that can be read; None: the pod has no allocation, or is not bound.
        unread: Common word → why the pod's devices of that family are unknown.
    """

    booking: Booking | None = None
    unread: Mapping[str, str] = field(default_factory=dict)


def holding_of(pod: Pod, families: Mapping[str, Family]) -> Holding:
    """The devices of a bound pod.

    The booking is on the node of ``spec.nodeName``, whatever the annotations say. A pod that isn't bound holds nothing.

    A pod may ask for a family's devices without an annotation that lists them. It holds nothing until one of its
    containers with devices has started, because our agent starts no container without an allocation. If one has
    started, its devices came from an annotation that is gone, or from another device plugin, so they are unknown.
    """
    if not pod.spec.node_name:
        return Holding()
    meta = pod.metadata
    containers = pod.containers()
    kinds, limits = [(c.name, kind) for kind, c in containers], [c.resources.limits for _, c in containers]
    reading = read_allocation(meta.annotations, families, kinds, limits)
    unread = dict(reading.unread)
    named = {name for amounts in limits for name in amounts}
    for family in families.values():
        missing = family.resources.count in named and family.allocated_key not in meta.annotations
        if missing and _has_started(pod, family):
            unread[family.word] = f"{family.allocated_key} is missing, and a container with devices has started"
    allocation = reading.allocation
    if allocation is None:
        return Holding(None, unread)
    if allocation.node != pod.spec.node_name:
        allocation = type(allocation)(pod.spec.node_name, allocation.containers)
    policy = meta.annotations.get(keys.DEVICE_POLICY, "")
    return Holding(Booking(meta.uid, meta.namespace, meta.name, allocation, policy), unread)


def with_unknown_modes(booking: Booking, families: Mapping[str, Family]) -> Booking:
    """The booking without the modes that were read from the pod's annotations."""
    keeping = {word for word, family in families.items() if family.mode_key}
    parts = tuple(
        replace(part, slices=tuple(replace(s, mode=UNKNOWN_MODE) if s.family in keeping else s for s in part.slices))
        for part in booking.allocation.containers
    )
    return replace(booking, allocation=replace(booking.allocation, containers=parts))


def _has_started(pod: Pod, family: Family) -> bool:
    """Whether a container that asks for the family's devices has started and may still hold them."""
    asking = {c.name: kind for kind, c in pod.containers() if devices_asked(family, [c.resources.limits])}
    if asking and is_init_done(pod):
        asking = {name: kind for name, kind in asking.items() if kind is not ContainerKind.INIT}
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return any(status.name in asking and _was_started(status) for status in statuses)


def _was_started(status: ContainerStatus) -> bool:
    state = status.state
    return bool(state.running or state.terminated or status.last_state.terminated or status.restart_count)


def is_init_done(pod: Pod) -> bool:
    """Whether there are init containers (without sidecars) and all have ended with success."""
    ordinary = {c.name for kind, c in pod.containers() if kind is ContainerKind.INIT}
    ended = {
        status.name
        for status in pod.status.init_container_statuses
        if status.state.terminated is not None and status.state.terminated.exit_code == 0
    }
    return bool(ordinary) and ordinary <= ended


def may_wait_long(pod: Pod) -> bool:
    """Whether kube-scheduler may keep the pod for minutes between Filter and Bind: volumes, pod group, preemption."""
    claims = any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in pod.spec.volumes)
    return claims or pod.is_in_group or bool(pod.status.nominated_node_name)


class _RoughSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _RoughStatus(msgspec.Struct, frozen=True):
    phase: str = ""


class _Rough(msgspec.Struct, frozen=True):
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


def rough_pod(found: Undecodable) -> Pod:
    """The readable part of a pod that can't be decoded: its name, and its node and phase if they are valid."""
    namespace, _, name = found.key.rpartition("/")
    spec, status = PodSpec(), PodStatus()
    with suppress(msgspec.MsgspecError):
        parts = msgspec.json.decode(found.body, type=_Rough)
        with suppress(msgspec.MsgspecError):
            spec = PodSpec(node_name=msgspec.json.decode(parts.spec, type=_RoughSpec).node_name)
        with suppress(msgspec.MsgspecError):
            status = PodStatus(phase=msgspec.json.decode(parts.status, type=_RoughStatus).phase)
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, uid=found.uid), spec=spec, status=status)


def families_named(body: bytes, families: Mapping[str, Family]) -> list[str]:
    """Common words of the families whose count resource or allocation annotation occurs in an object's text."""
    return [
        word
        for word, family in families.items()
        if f'"{family.resources.count}"'.encode() in body or f'"{family.allocated_key}"'.encode() in body
    ]


def node_facts(node: Node) -> NodeFacts:
    """A node as vendor hooks see it."""
    meta, status = node.metadata, node.status
    return NodeFacts(meta.name, meta.annotations, meta.labels, status.capacity, status.allocatable)
