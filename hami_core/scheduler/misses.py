"""A pod of the API and a node that refuses it, as `hami_core.placement.nearest` needs them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hami_core.errors import HamiError
from hami_core.placement.nearest import Miss
from hami_core.placement.pod_usage import amounts_by_family, uses
from hami_core.placement.request import pod_request
from hami_core.scheduler import pods

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from hami_core.kube.objects import Pod
    from hami_core.model import ContainerSpec, PodRequest
    from hami_core.scheduler.cluster import Cluster


def miss_of(cluster: Cluster, pod: Pod, request: PodRequest, node: str) -> Miss:
    """The pod and the node.

    Args:
        cluster: The local copy of the cluster.
        pod: The pod as it is written.
        request: Its request.
        node: The node.
    """
    inventory = cluster.inventory
    held: dict[str, int] = {}
    for booking in (*inventory.bookings_on(node), *inventory.holds_on(node)):
        if booking.uid != request.uid:
            amounts = amounts_by_family(uses(booking.allocation.containers)).values()
            held[booking.uid] = held.get(booking.uid, 0) + sum(amount.memory_mib for amount in amounts)
    return Miss(
        request,
        inventory.usage(node),
        held,
        cluster.families,
        pod.metadata.annotations,
        partial(inventory.try_place, name=node),
        partial(_rewritten, cluster, pod),
    )


def _rewritten(
    cluster: Cluster, pod: Pod, container: str, limits: Mapping[str, int], without: Collection[str] = ()
) -> PodRequest | None:
    specs = pods.container_specs(pod)
    if all(spec.name != container for spec in specs):
        return None
    specs = [_with(spec, limits) if spec.name == container else spec for spec in specs]
    meta = pod.metadata
    annotations = {key: value for key, value in meta.annotations.items() if key not in without}
    try:
        return pod_request(meta.uid, meta.namespace, meta.name, specs, annotations, cluster.loaded.parse)
    except HamiError:
        return None  # the vendor does not take such amounts


def _with(spec: ContainerSpec, limits: Mapping[str, int]) -> ContainerSpec:
    kept = {name: amount for name, amount in spec.limits.items() if name not in limits}
    asked = {name: amount for name, amount in spec.requests.items() if name not in limits}
    return replace(spec, limits=kept | {name: str(amount) for name, amount in limits.items() if amount}, requests=asked)
