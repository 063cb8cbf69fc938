"""Pods as the API has them → what placement and inventory speak of. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_core.errors import RequestError
from hami_core.model import Booking, ContainerKind, ContainerSpec, NodeFacts, PodFacts, PodRequest
from hami_core.placement.request import pod_request
from hami_core.wire.pod import decode_allocation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hami_core.kube.objects import Container, Node, Pod
    from hami_core.model import Family, Request
    from hami_core.placement.policy import PolicyDefaults

    Parse = Callable[[ContainerSpec, PodFacts], tuple[Request, ...]]

MAX_CONTAINERS = 1000
"""Most containers a pod may have; the API server's object size allows few more."""


def container_specs(pod: Pod) -> list[ContainerSpec]:
    """The pod's containers in HAMi's order: init containers, sidecars at their place among them, then app."""
    init = [
        container_spec(c, ContainerKind.SIDECAR if c.restart_policy == "Always" else ContainerKind.INIT)
        for c in pod.spec.init_containers
    ]
    return init + [container_spec(c, ContainerKind.APP) for c in pod.spec.containers]


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


def container_kinds(pod: Pod) -> list[tuple[str, ContainerKind]]:
    """Name and kind of each container, in the same order."""
    init = [
        (c.name, ContainerKind.SIDECAR if c.restart_policy == "Always" else ContainerKind.INIT)
        for c in pod.spec.init_containers
    ]
    return init + [(c.name, ContainerKind.APP) for c in pod.spec.containers]


def facts(pod: Pod) -> PodFacts:
    """The pod as vendor hooks see it (each is shown only the annotations it declared)."""
    meta = pod.metadata
    return PodFacts(meta.namespace, meta.name, meta.uid, meta.annotations, pod.spec.runtime_class_name or "")


def request_of(pod: Pod, parse: Parse, defaults: PolicyDefaults) -> PodRequest:
    """What a pod asks for.

    Raises:
        RequestError: Names the container or annotation at fault and the fix.
    """
    specs = container_specs(pod)
    if len(specs) > MAX_CONTAINERS:
        problem = f"{len(specs)} containers, at most {MAX_CONTAINERS} can be placed"
        raise RequestError(f"pod {pod.key}", "spec.containers", problem)
    meta = pod.metadata
    return pod_request(meta.uid, meta.namespace, meta.name, specs, meta.annotations, parse, defaults)


def booking_of(pod: Pod, families: Mapping[str, Family]) -> Booking | None:
    """The allocation a bound pod carries, or None.

    The node is where the pod *is*; a pod that isn't bound holds nothing, whatever its annotations say.

    Raises:
        WireError: The annotations are malformed.
    """
    if not pod.spec.node_name:
        return None
    meta = pod.metadata
    limits = [container.resources.limits for container in (*pod.spec.init_containers, *pod.spec.containers)]
    allocation = decode_allocation(
        meta.annotations, families, container_kinds(pod), strict=False, limits=limits, counted=True
    )
    if allocation is None:
        return None
    if allocation.node != pod.spec.node_name:
        allocation = type(allocation)(pod.spec.node_name, allocation.containers)
    return Booking(meta.uid, meta.namespace, meta.name, allocation)


def is_init_done(pod: Pod) -> bool:
    """Whether every init container that is no sidecar has ended with success."""
    ordinary = {c.name for c in pod.spec.init_containers if c.restart_policy != "Always"}
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


def node_facts(node: Node) -> NodeFacts:
    """A node as vendor hooks see it."""
    meta, status = node.metadata, node.status
    return NodeFacts(meta.name, meta.annotations, meta.labels, status.capacity, status.allocatable)
