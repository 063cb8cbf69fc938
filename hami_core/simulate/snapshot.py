"""A snapshot of a live cluster: a Kubernetes List of its nodes, pods and ResourceQuotas.

`kubectl get nodes,pods,resourcequotas -A -o json` prints one. `take` makes a smaller one. Its objects go through the
scheduler's own informers and handlers (`hami_core.scheduler.cluster`), so what can't be read is handled as there.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hami_core.documents import shown
from hami_core.errors import ConfigError
from hami_core.kube.decode import page
from hami_core.kube.informer import PAGE
from hami_core.kube.objects import (
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceQuota,
)
from hami_core.kube.port import ApiError
from hami_core.placement.quota_spec import Fault
from hami_core.policies import PolicyDefaults
from hami_core.scheduler import pods, trim
from hami_core.simulate.world import KINDS, SIMULATED, Unreadable, cluster_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hami_core.kube.port import KubeApi, Page, Resource, Undecodable
    from hami_core.model import Family
    from hami_core.plugins import Loaded
    from hami_core.scheduler.cluster import Cluster

MAX_BYTES: Final = 2 << 30
"""Size limit of a snapshot."""
_LISTED: Final = "list the nodes, pods and ResourceQuotas with: kubectl get nodes,pods,resourcequotas -A -o json"


class _Items(msgspec.Struct):
    kind: str = ""
    items: list[msgspec.Raw] | None = None


class _Head(msgspec.Struct):
    kind: str = ""


class SnapshotWorld:
    """The cluster of a snapshot.

    Args:
        pages: Plural of each resource → its objects.
        loaded: The vendors.
    """

    def __init__(self, pages: Mapping[str, Page[Any]], loaded: Loaded) -> None:
        self.loaded = loaded
        self._pages = pages

    def open(self, defaults: PolicyDefaults) -> Cluster:
        """Make the cluster: nodes through the vendors' `register`, pods through their allocations, and quotas."""
        return cluster_of(self._pages, self.loaded, defaults)

    @cached_property
    def _found(self) -> tuple[list[Pod], list[Unreadable]]:
        """The pods that wait, and what can't be read. The cluster that tells is not kept: it is as large as a run's."""
        cluster = self.open(PolicyDefaults())
        waiting = [
            pod
            for pod in cluster.pods.store.values()
            if not (pod.spec.node_name or pod.is_terminal or pod.is_deleting or pod.spec.scheduling_gates)
            and cluster.asks(pod)
        ]
        waiting.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.key))
        return waiting, [*self._nodes(cluster), *_pods(cluster), *_quotas(cluster)]

    def pending(self) -> Sequence[Pod]:
        """Pods that ask for devices and have no node, oldest first."""
        return self._found[0]

    def unreadable(self) -> list[Unreadable]:
        """The objects that can't be read."""
        return list(self._found[1])

    def _nodes(self, cluster: Cluster) -> Iterator[Unreadable]:
        for name, bad in cluster.nodes.undecodable.items():
            yield Unreadable("Node", name, bad.error, "it takes no pods")
        for name, words in cluster.closed_nodes.items():
            errors = self.loaded.register(pods.node_facts(cluster.nodes.store[name])).errors
            effect = f"it gives no {', '.join(sorted(words))} devices"
            yield Unreadable("Node", name, "; ".join(map(str, errors)), effect)


def _pods(cluster: Cluster) -> Iterator[Unreadable]:
    for key, bad in cluster.pods.undecodable.items():
        known = cluster.unreadable.get(key)
        yield Unreadable("Pod", key, bad.error, _closed(known.node, known.problems) if known else "it is left out")
    for node in sorted(cluster.unreadable.nodes()):
        for uid in cluster.unreadable.on(node):
            found = cluster.unreadable.get(uid)
            if found is not None and uid not in cluster.pods.undecodable:
                yield Unreadable("Pod", found.key, "; ".join(found.problems.values()), _closed(node, found.problems))


def _quotas(cluster: Cluster) -> Iterator[Unreadable]:
    for name, bad in cluster.quotas.undecodable.items():
        yield Unreadable("ResourceQuota", name, bad.error, "its namespace gets no devices")
    cluster.review_quotas()
    for name, found in cluster.quota_findings.items():
        for finding in found:
            if finding.fault is Fault.UNREADABLE and name not in cluster.quotas.undecodable:
                yield Unreadable("ResourceQuota", name, str(finding), "its namespace gets none of that resource")


def _closed(node: str, problems: Mapping[str, str]) -> str:
    return f"node {node} gives no {', '.join(sorted(problems))} devices"


def read(data: bytes, loaded: Loaded, where: str) -> SnapshotWorld | None:
    """Read a snapshot.

    Args:
        data: The file's content.
        loaded: The vendors.
        where: The file, for messages.

    Returns:
        The cluster; None: the file is no List of Kubernetes.

    Raises:
        ConfigError: The file is a List, but names an object twice.
    """
    try:
        listed = msgspec.json.decode(data, type=_Items)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if not listed.kind.endswith("List"):
        return None
    raws: dict[str, list[bytes]] = {kind: [] for kind in KINDS}
    for number, raw in enumerate(listed.items or ()):
        try:
            kind = msgspec.json.decode(raw, type=_Head).kind or listed.kind.removesuffix("List")
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{where}: items[{number}]", f"is no Kubernetes object: {error}", _LISTED) from None
        if not kind:
            raise ConfigError(f"{where}: items[{number}]", "has no kind", _LISTED)
        if kind in raws:
            raws[kind].append(bytes(raw))
    if not raws["Node"]:
        raise ConfigError(where, "has no Node", _LISTED)
    return SnapshotWorld({KINDS[kind].plural: _page(KINDS[kind], raws[kind], where) for kind in KINDS}, loaded)


def _page(resource: Resource[Any], raws: Sequence[bytes], where: str) -> Page[Any]:
    found = page(resource, b'{"metadata":{"resourceVersion":"1"},"items":[' + b",".join(raws) + b"]}")
    bad = [_named(one, number) for number, one in enumerate(found.undecodable)]
    for one in (*(item.metadata for item in found.items), *bad):
        if one.uid.startswith(SIMULATED):
            problem = f"has {shown(one.uid)} for a UID, which is kept for simulated pods"
            raise ConfigError(where, problem, "remove the object")
    seen: set[str] = set()
    for key in (*(item.key for item in found.items), *(one.key for one in bad)):
        if key in seen:
            raise ConfigError(where, f"lists {resource.plural} {key!r} twice", _LISTED)
        seen.add(key)
    return replace(found, undecodable=tuple(bad))


def _named(bad: Undecodable, number: int) -> Undecodable:
    """An object that can't be decoded, under a name. Without a name, the informer would skip it."""
    return bad if bad.key else replace(bad, key=f"without-name-{number}")


# --- taking ------------------------------------------------------------------------------------------------------


async def take(api: KubeApi, families: Mapping[str, Family]) -> tuple[dict[str, Any], list[Unreadable]]:
    """Read a cluster, with the rights of the caller.

    Args:
        api: The cluster.
        families: Families by common word.

    Returns:
        The snapshot, and the objects in it that can't be read. It has only what the simulation needs: no environment,
        no images, and only pods with devices. A pod that can't be read stays in it so that its node gives no devices.

    Raises:
        ConfigError: The caller lacks a right.
        ApiError: The API server refused, or can't be reached.
    """
    items: list[dict[str, Any]] = []
    unreadable: list[Unreadable] = []
    names = {name for family in families.values() for name in family.resources.names()}
    keys = _pod_keys(families)
    for kind, resource in KINDS.items():
        async for found in _pages(api, resource):
            for bad in found.undecodable:
                unreadable.append(Unreadable(kind, bad.key, bad.error, "it stays unreadable in the snapshot"))
                items.append(_stub(kind, bad, families))
            for item in found.items:
                kept = _smaller(item, names, keys)
                if kept is not None:
                    items.append({"apiVersion": "v1", "kind": kind, **msgspec.to_builtins(kept)})
    return {"apiVersion": "v1", "kind": "List", "items": items}, unreadable


async def _pages(api: KubeApi, resource: Resource[Any]) -> Any:  # noqa: ANN401 - an async generator
    token = ""
    while True:
        try:
            found = await api.list(resource, limit=PAGE, continue_token=token)
        except ApiError as error:
            if error.status != 403:
                raise
            fix = "ask for the right to list nodes, pods and resourcequotas"
            raise ConfigError("cluster", f"you are not allowed to list {resource.plural}", fix) from error
        yield found
        token = found.continue_token
        if not token:
            return


def _pod_keys(families: Mapping[str, Family]) -> frozenset[str]:
    """Annotations of pods that scheduler and vendors read, besides those of ``hami.io/``."""
    found: set[str] = set()
    for family in families.values():
        selectors = (*family.uuid_selectors, *family.type_selectors)
        found |= {family.allocated_key, family.to_allocate_key, family.kept_key, family.mode_key, *family.pod_keys}
        found |= {key for pair in selectors for key in (pair.use, pair.nouse)}
    return frozenset(found)


def _stub(kind: str, bad: Undecodable, families: Mapping[str, Family]) -> dict[str, Any]:
    """An object that can't be decoded, without its content. It can't be read from the snapshot either."""
    namespace, _, name = bad.key.rpartition("/")
    meta = {"name": name, "namespace": namespace, "uid": bad.uid}
    stub: dict[str, Any] = {"apiVersion": "v1", "kind": kind, "metadata": meta}
    if kind != "Pod":
        return stub | {"spec": 0}
    rough = pods.rough_pod(bad)
    # `pods.families_named` finds these keys in the text, and the wrong type of the containers keeps it unreadable
    held = dict.fromkeys((families[word].resources.count for word in pods.families_named(bad.body, families)), "?")
    spec = {"nodeName": rough.spec.node_name, "containers": 0}
    return stub | {"spec": spec, "status": {"phase": rough.status.phase, **held}}


def _smaller(item: Any, names: set[str], keys: frozenset[str]) -> Node | Pod | ResourceQuota | None:  # noqa: ANN401 - any kind
    """The parts of an object that the simulation needs; None: it needs none."""
    meta = item.metadata
    if isinstance(item, Node):
        notes = {key: value for key, value in meta.annotations.items() if key != trim.LAST_APPLIED}
        kept = ObjectMeta(name=meta.name, uid=meta.uid, annotations=notes, labels=meta.labels)
        status = NodeStatus(capacity=item.status.capacity, allocatable=item.status.allocatable)
        return Node(metadata=kept, spec=NodeSpec(unschedulable=item.spec.unschedulable), status=status)
    if isinstance(item, Pod):
        return _smaller_pod(item, names, keys)
    found: ResourceQuota = item
    kept = ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid)
    return msgspec.structs.replace(found, metadata=kept)


def _smaller_pod(pod: Pod, names: set[str], keys: frozenset[str]) -> Pod | None:
    meta, spec = pod.metadata, pod.spec
    notes = {key: value for key, value in meta.annotations.items() if key in keys or key.startswith("hami.io/")}
    app, init = ([trim.container(one, names) for one in some] for some in (spec.containers, spec.init_containers))
    asks = any(c.resources.limits or c.resources.requests for c in (*app, *init))
    if not asks and keys.isdisjoint(notes):
        return None
    status = PodStatus(
        phase=pod.status.phase,
        init_container_statuses=[trim.container_status(one) for one in pod.status.init_container_statuses],
        container_statuses=[trim.container_status(one) for one in pod.status.container_statuses],
    )
    return Pod(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            creation_timestamp=meta.creation_timestamp,
            deletion_timestamp=meta.deletion_timestamp,
            annotations=notes,
        ),
        spec=PodSpec(
            containers_=app,
            init_containers_=init,
            node_name=spec.node_name,
            scheduler_name=spec.scheduler_name,
            scheduling_gates=spec.scheduling_gates,
        ),
        status=status,
    )
