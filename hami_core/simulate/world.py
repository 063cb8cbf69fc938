"""A cluster to simulate. Each policy gets its own copy, in the scheduler's own data structure."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from hami_core.kube.port import NODES, PODS, RESOURCE_QUOTAS, Page
from hami_core.scheduler.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from hami_core.kube.objects import Pod
    from hami_core.kube.port import Resource, WatchEvent
    from hami_core.model import Device, NodeFacts
    from hami_core.plugins import Loaded
    from hami_core.policies import PolicyDefaults

T = TypeVar("T")

SIMULATED: Final = "hami-simulate/"
"""Prefix of the UIDs of simulated pods. A snapshot with such a pod is refused."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An object of the cluster that can't be read, and what follows from that.

    Attributes:
        kind: ``Node``, ``Pod`` or ``ResourceQuota``.
        name: ``namespace/name``, or the name alone.
        problem: Why it can't be read.
        effect: What the scheduler does because of it.
    """

    kind: str
    name: str
    problem: str
    effect: str


class World(Protocol):
    """A cluster from which the scheduler's data structures can be made, again for each policy."""

    @property
    def loaded(self) -> Loaded:
        """The vendors."""

    def open(self, defaults: PolicyDefaults) -> Cluster:
        """Make the cluster as it is at the start of the simulation.

        Args:
            defaults: Policies of pods that name none.
        """

    def pending(self) -> Sequence[Pod]:
        """Pods of the cluster that wait for devices at the start."""


class StoredObjects:
    """The part of `hami_core.kube.port.KubeApi` that informers need, over objects in memory that never change.

    Args:
        pages: Plural of the resource → its objects.
    """

    def __init__(self, pages: Mapping[str, Page[Any]]) -> None:
        self._pages = pages

    async def list(self, resource: Resource[T], **_selection: object) -> Page[T]:
        """All objects of one kind."""
        return self._pages.get(resource.plural, Page((), "1"))

    async def watch(self, resource: Resource[T], **_selection: object) -> AsyncGenerator[WatchEvent[T], None]:
        """No changes."""
        del resource
        await asyncio.Event().wait()
        return
        yield


def cluster_of(pages: Mapping[str, Page[Any]], loaded: Loaded, defaults: PolicyDefaults) -> Cluster:
    """Make the scheduler's local copy of a cluster from stored objects, as its informers do."""
    return asyncio.run(_synced(pages, loaded, defaults))


async def _synced(pages: Mapping[str, Page[Any]], loaded: Loaded, defaults: PolicyDefaults) -> Cluster:
    api: Any = StoredObjects(pages)
    cluster = Cluster(api, loaded, defaults)
    tasks = [asyncio.create_task(informer.run()) for informer in cluster.informers]
    try:
        await cluster.synced()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return cluster


@dataclass(frozen=True, slots=True)
class DescribedWorld:
    """A cluster of idle nodes that need not exist.

    Attributes:
        loaded: The vendors.
        nodes: Each node with its devices by common word.
        quotas: Namespace and ``spec.hard`` of each ResourceQuota.
    """

    loaded: Loaded
    nodes: Sequence[tuple[NodeFacts, Mapping[str, Sequence[Device]]]]
    quotas: Sequence[tuple[str, Mapping[str, str]]] = ()

    def open(self, defaults: PolicyDefaults) -> Cluster:
        """Make the cluster."""
        api: Any = StoredObjects({})
        cluster = Cluster(api, self.loaded, defaults)
        for facts, devices in self.nodes:
            cluster.inventory.set_node(facts, devices)
        for number, (namespace, hard) in enumerate(self.quotas):
            cluster.inventory.set_quota(namespace, f"quota-{number}", hard)
        return cluster

    def pending(self) -> Sequence[Pod]:
        """No pods wait."""
        return ()


KINDS: Final[Mapping[str, Resource[Any]]] = {"Node": NODES, "Pod": PODS, "ResourceQuota": RESOURCE_QUOTAS}
"""Kinds of objects that a snapshot has."""
