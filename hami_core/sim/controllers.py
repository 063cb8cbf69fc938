"""Controllers for Deployments, ReplicaSets and Jobs, and the deletion of what a deleted object owned.

They run in the API server's process. They read its store, and write through its HTTP API like any client, so that
webhooks and policies see the pods that they create. Each change of an object, or of a pod that it owns, brings one
reconciliation of that object.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import orjson

from hami_core.sim.client import CallError, Client
from hami_core.sim.resources import (
    BY_PATH,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    WORKLOADS,
    ApiError,
    Object,
    Resource,
    now,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_core.sim.store import Store

_LOG = logging.getLogger(__name__)
_HASH = "pod-template-hash"
_RETRY_SECONDS = 1.0
_BY_KIND = {(r.api_version, r.kind): r for r in WORKLOADS}

Key = tuple[Resource, str, str]
"""Resource, namespace and name."""


class Controllers:
    """The loop.

    Args:
        store: The API server's store. It is only read.
        client: The API server's HTTP API.
    """

    def __init__(self, store: Store, client: Client) -> None:
        self._store = store
        self._client = client
        self._owned: defaultdict[str, set[Key]] = defaultdict(set)
        self._due: dict[Key, float] = {}
        """When each object that may need work is reconciled, in the loop's time."""
        self._ended: set[str] = set()
        """UIDs of deleted objects. What they owned is still to be deleted."""

    async def run(self) -> None:
        """Reconciles until cancelled."""
        store, loop = self._store, asyncio.get_running_loop()
        version = store.version
        for resource in dict.fromkeys(BY_PATH.values()):
            for obj in store.all(resource):
                self._note(resource, obj)
        self._ended = self._missing_owners()
        while True:
            for uid in list(self._ended):
                await self._end_owned(uid)
            for key in [k for k, due in self._due.items() if due <= loop.time()]:
                del self._due[key]
                await self._reconcile(key)
            wait = min(self._due.values(), default=math.inf) - loop.time()
            wait = min(wait, _RETRY_SECONDS) if self._ended else wait
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait == math.inf else max(0.0, wait)):
                    await store.changed(version)
            try:
                events = store.since(version)
            except ApiError:  # a test has dropped the history
                events = []
                for resource in WORKLOADS:
                    for obj in store.all(resource):
                        self._note(resource, obj)
            version = store.version
            for event in events:
                self._note(event.resource, event.obj, gone=event.type == "DELETED")

    def _note(self, resource: Resource, obj: Object, *, gone: bool = False) -> None:
        """Records whom an object belongs to, and that its controller and its owner's controller have work."""
        meta = obj["metadata"]
        key = (resource, meta.get("namespace", ""), meta["name"])
        if resource in WORKLOADS:
            self._due[key] = 0.0
        if gone and meta["uid"] in self._owned:
            self._ended.add(meta["uid"])
        for owner in meta.get("ownerReferences") or ():
            if gone:
                self._owned[owner["uid"]].discard(key)
            else:
                self._owned[owner["uid"]].add(key)
            if kind := _BY_KIND.get((owner["apiVersion"], owner["kind"])):
                self._due[kind, key[1], owner["name"]] = 0.0

    def _of(self, owner: Object, resource: Resource) -> Iterator[Object]:
        """The objects that an object owns."""
        uid = owner["metadata"]["uid"]
        for key in sorted(self._owned[uid], key=lambda k: k[1:]):
            obj = self._store.get(*key) if key[0] is resource else None
            if obj and any(o["uid"] == uid for o in obj["metadata"].get("ownerReferences") or ()):
                yield obj

    # ---- deletion of owned objects

    def _missing_owners(self) -> set[str]:
        """UIDs of Deployments, ReplicaSets and Jobs that are gone: the server was killed before it deleted the rest."""
        known = {
            owner["uid"]
            for keys in self._owned.values()
            for obj in filter(None, (self._store.get(*key) for key in keys))
            for owner in obj["metadata"]["ownerReferences"]
            if (owner["apiVersion"], owner["kind"]) in _BY_KIND
        }
        return known - {obj["metadata"]["uid"] for resource in WORKLOADS for obj in self._store.all(resource)}

    async def _end_owned(self, uid: str) -> None:
        """Deletes what a deleted object owned, unless it has another owner. A failure is tried again."""
        try:
            for key in list(self._owned[uid]):
                obj = self._store.get(*key)
                if obj and all(o["uid"] == uid for o in obj["metadata"].get("ownerReferences") or ()):
                    await self._delete(key[0], obj)
        except CallError as failure:
            _LOG.info("what %s owned is deleted later: %s", uid, failure)
        else:
            del self._owned[uid]
            self._ended.discard(uid)

    async def _delete(self, resource: Resource, obj: Object) -> None:
        body = {"preconditions": {"uid": obj["metadata"]["uid"]}, "propagationPolicy": "Background"}
        try:
            await self._client.call("DELETE", _path(resource, obj), body)
        except CallError as failure:
            if failure.code not in {404, 409}:
                raise

    # ---- one object

    async def _reconcile(self, key: Key) -> None:
        obj = self._store.get(*key)
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            return
        work = {DEPLOYMENTS: self._deployment, REPLICA_SETS: self._replica_set, JOBS: self._job}[key[0]]
        try:
            await work(obj)
        except CallError as failure:
            _LOG.info("%s %s/%s again: %s", key[0].plural, key[1], key[2], failure)
            self._due[key] = asyncio.get_running_loop().time() + _RETRY_SECONDS
        except Exception:  # noqa: BLE001 - one object of an unforeseen form must not stop the others
            _LOG.exception("%s %s/%s", key[0].plural, key[1], key[2])

    async def _create_pods(self, resource: Resource, owner: Object, count: int) -> None:
        meta, template = owner["metadata"], owner["spec"]["template"]
        labels = {k: v for k, v in (template.get("metadata") or {}).items() if k in {"labels", "annotations"}}
        body = {
            "metadata": {**labels, "generateName": f"{meta['name']}-", **_owned_by(owner)},
            "spec": template["spec"],
        }
        for _ in range(count):
            try:
                await self._client.call("POST", f"/api/v1/namespaces/{meta['namespace']}/pods", body)
            except CallError as failure:
                component = f"{resource.kind.lower()}-controller"
                await self._client.event(component, owner, "Warning", "FailedCreate", f"Error creating: {failure}")
                raise

    async def _write_status(self, resource: Resource, obj: Object, status: Object) -> None:
        old = obj.get("status") or {}
        known = {c["type"]: c for c in old.get("conditions") or []}
        for condition in status.get("conditions") or []:
            before = known.get(condition["type"]) or {}
            same = before.get("status") == condition["status"]
            condition["lastTransitionTime"] = before["lastTransitionTime"] if same else now()
        fresh = {**status, "observedGeneration": obj["metadata"]["generation"]}
        if any(old.get(k) != v for k, v in fresh.items()):
            body = {"metadata": {"uid": obj["metadata"]["uid"]}, "status": fresh}
            await self._client.call("PATCH", f"{_path(resource, obj)}/status", body, patch="merge")

    # ---- ReplicaSets

    async def _replica_set(self, replicas: Object) -> None:
        pods = [p for p in self._of(replicas, PODS) if _active(p)]
        ready = sum(_ready(p) for p in pods)
        status = {
            "replicas": len(pods), "fullyLabeledReplicas": len(pods), "readyReplicas": ready, "availableReplicas": ready
        }  # fmt: skip
        await self._write_status(REPLICA_SETS, replicas, status)
        wanted = replicas["spec"]["replicas"]
        # Pods that serve least go first: without a node, not ready, youngest.
        pods.sort(key=lambda p: p["metadata"]["creationTimestamp"], reverse=True)
        pods.sort(key=lambda p: (bool(p["spec"].get("nodeName")), _ready(p)))
        for pod in pods[: max(0, len(pods) - wanted)]:
            await self._delete(PODS, pod)
        await self._create_pods(REPLICA_SETS, replicas, wanted - len(pods))

    # ---- Deployments

    async def _deployment(self, deployment: Object) -> None:
        spec = deployment["spec"]
        sets = list(self._of(deployment, REPLICA_SETS))
        template = _hash(spec["template"])
        new = next((s for s in sets if s["metadata"]["labels"].get(_HASH) == template), None)
        old = [s for s in sets if s is not new]
        await self._write_deployment_status(deployment, new, sets)
        if spec.get("paused"):
            return
        if new is None:
            await self._create_replica_set(deployment, template)
            return  # the creation brings the next reconciliation
        for replicas, count in _rollout(spec, new, old, self._pods_of(old)):
            if replicas["spec"]["replicas"] != count:
                body = {"spec": {"replicas": count}}
                await self._client.call("PATCH", _path(REPLICA_SETS, replicas), body, patch="merge")

    def _pods_of(self, sets: list[Object]) -> int:
        return sum(
            1 for s in sets for p in self._of(s, PODS) if p["status"].get("phase") not in {"Succeeded", "Failed"}
        )

    async def _create_replica_set(self, deployment: Object, template: str) -> None:
        meta, spec = deployment["metadata"], deployment["spec"]
        kind, label = spec["template"].get("metadata") or {}, {_HASH: template}
        labels = {**(kind.get("labels") or {}), **label}
        selector = {**spec["selector"], "matchLabels": {**(spec["selector"].get("matchLabels") or {}), **label}}
        body = {
            "metadata": {"name": f"{meta['name']}-{template}", "labels": labels, **_owned_by(deployment)},
            "spec": {
                "replicas": 0, "selector": selector,
                "template": {**spec["template"], "metadata": {**kind, "labels": labels}},
            },
        }  # fmt: skip
        await self._client.call("POST", f"/apis/apps/v1/namespaces/{meta['namespace']}/replicasets", body)

    async def _write_deployment_status(self, deployment: Object, new: Object | None, sets: list[Object]) -> None:
        wanted, (_, spare) = deployment["spec"]["replicas"], _limits(deployment["spec"])
        total, ready = (sum(_count(s, part) for s in sets) for part in ("replicas", "readyReplicas"))
        updated = _count(new, "replicas") if new else 0
        enough, done = ready >= wanted - spare, updated == total == ready == wanted
        available = {
            "type": "Available", "status": "True" if enough else "False",
            "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            "message": f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        }  # fmt: skip
        progressing = {
            "type": "Progressing", "status": "True",
            "reason": "NewReplicaSetAvailable" if done else "ReplicaSetUpdated",
            "message": f"ReplicaSet {'has successfully progressed' if done else 'is progressing'}.",
        }  # fmt: skip
        status = {
            "replicas": total, "updatedReplicas": updated, "readyReplicas": ready, "availableReplicas": ready,
            "unavailableReplicas": max(0, wanted - ready), "conditions": [available, progressing],
        }  # fmt: skip
        await self._write_status(DEPLOYMENTS, deployment, status)

    # ---- Jobs

    async def _job(self, job: Object) -> None:
        spec, status = job["spec"], job.get("status") or {}
        if any(c["type"] in {"Complete", "Failed"} and c["status"] == "True" for c in status.get("conditions") or []):
            return
        pods = list(self._of(job, PODS))
        active = [p for p in pods if _active(p)]
        succeeded, failed = (sum(p["status"].get("phase") == phase for p in pods) for phase in ("Succeeded", "Failed"))
        completions, limit = spec.get("completions"), spec["backoffLimit"]
        over = succeeded >= completions if completions is not None else succeeded > 0 and not active
        tries = failed + sum(_restarts(p) for p in active)
        ending: list[Object] = []
        if tries > limit:
            ending = _conditions("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        elif over:
            ending = _conditions("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
        fresh: Object = {
            "startTime": status.get("startTime") or now(), "active": 0 if ending else len(active),
            "ready": 0 if ending else sum(_ready(p) for p in active), "succeeded": succeeded, "failed": failed,
        }  # fmt: skip
        if ending:
            fresh |= {"conditions": ending, **({} if tries > limit else {"completionTime": now()})}
        await self._write_status(JOBS, job, fresh)
        wanted = spec["parallelism"]
        if completions is not None:
            wanted = min(wanted, completions - succeeded)
        elif succeeded:
            wanted = min(wanted, len(active))
        if ending or spec["suspend"]:
            wanted = 0
        for pod in active[: max(0, len(active) - wanted)]:
            await self._delete(PODS, pod)
        await self._create_pods(JOBS, job, wanted - len(active))


def _conditions(kind: str, reason: str, message: str) -> list[Object]:
    return [{"type": kind, "status": "True", "reason": reason, "message": message, "lastProbeTime": now()}]


def _path(resource: Resource, obj: Object) -> str:
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    meta = obj["metadata"]
    space = f"/namespaces/{meta['namespace']}" if resource.namespaced else ""
    return f"{root}{space}/{resource.plural}/{meta['name']}"


def _owned_by(owner: Object) -> Object:
    meta = owner["metadata"]
    reference = {
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    return {"ownerReferences": [reference]}


def _hash(template: Object) -> str:
    """A name for a pod template. To Kubernetes, an empty field and an absent one are the same."""

    def filled(value: Any) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, dict):
            return {k: v for k, v in ((k, filled(v)) for k, v in value.items()) if v not in (None, "", 0, {}, [])}
        return [filled(v) for v in value] if isinstance(value, list) else value

    return hashlib.sha256(orjson.dumps(filled(template), option=orjson.OPT_SORT_KEYS)).hexdigest()[:10]


def _active(pod: Object) -> bool:
    ended = (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
    return not ended and not pod["metadata"].get("deletionTimestamp")


def _ready(pod: Object) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())


def _restarts(pod: Object) -> int:
    return sum(c.get("restartCount", 0) for c in pod["status"].get("containerStatuses") or ())


def _count(replicas: Object, part: str) -> int:
    return int((replicas.get("status") or {}).get(part) or 0)


def _limits(spec: Object) -> tuple[int, int]:
    """How many pods a rollout may have too many, and how many too few."""
    wanted, rolling = spec["replicas"], spec["strategy"].get("rollingUpdate") or {}

    def part(value: Any, rounded: Any) -> int:  # noqa: ANN401 - a number or a share, and math.ceil or math.floor
        share = isinstance(value, str) and value.endswith("%")
        return int(rounded(int(value[:-1]) * wanted / 100)) if share else int(value)

    more, fewer = part(rolling.get("maxSurge", 0), math.ceil), part(rolling.get("maxUnavailable", 0), math.floor)
    return more, fewer if more or fewer else 1


def _rollout(spec: Object, new: Object, old: list[Object], old_pods: int) -> Iterator[tuple[Object, int]]:
    """The size of each ReplicaSet now."""
    wanted = spec["replicas"]
    if spec["strategy"]["type"] == "Recreate":
        yield from ((s, 0) for s in old)
        yield new, 0 if old_pods else wanted
        return
    more, fewer = _limits(spec)
    total, size = sum(s["spec"]["replicas"] for s in [new, *old]), new["spec"]["replicas"]
    yield new, min(wanted, size + max(0, wanted + more - total))
    left = total - (wanted - fewer) - max(0, size - _count(new, "availableReplicas"))
    for replicas in sorted(old, key=lambda s: s["metadata"]["creationTimestamp"]):
        drop = max(0, min(left, replicas["spec"]["replicas"]))
        left -= drop
        yield replicas, replicas["spec"]["replicas"] - drop
