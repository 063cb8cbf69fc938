"""Tables for `kubectl get`: columns and cells of the most used kinds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hami_core.sim.resources import WORKLOADS

if TYPE_CHECKING:
    from hami_core.sim.resources import Object, Resource

_COLUMNS: dict[str, tuple[str, ...]] = {
    "pods": ("Name", "Ready", "Status", "Restarts", "Age", "IP", "Node"),
    "nodes": ("Name", "Status", "Roles", "Age", "Version"),
    "events": ("Last Seen", "Type", "Reason", "Object", "Message"),
    "leases": ("Name", "Holder", "Age"),
    "namespaces": ("Name", "Status", "Age"),
    "deployments": ("Name", "Ready", "Up-to-date", "Available", "Age"),
    "replicasets": ("Name", "Desired", "Current", "Ready", "Age"),
    "jobs": ("Name", "Status", "Completions", "Age"),
}
_WIDE = {"IP", "Node"}


def _age(stamp: str | None) -> str:
    if not stamp:
        return "<unknown>"
    then = datetime.fromisoformat(stamp)
    seconds = max(0, int((datetime.now(UTC) - then).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _pod_status(pod: Object) -> str:
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for prefix, part in (("Init:", "initContainerStatuses"), ("", "containerStatuses")):
        for container in status.get(part) or []:
            state = container.get("state") or {}
            reason = (state.get("waiting") or state.get("terminated") or {}).get("reason")
            if reason and reason not in {"PodInitializing", "Completed"}:
                return prefix + str(reason)
    phase = "Completed" if status.get("phase") == "Succeeded" else status.get("phase")
    return str(status.get("reason") or phase or "Unknown")


def _pod(pod: Object) -> list[object]:
    status = pod.get("status") or {}
    found = status.get("containerStatuses") or []
    ready = f"{sum(bool(c.get('ready')) for c in found)}/{len(pod['spec']['containers'])}"
    restarts = sum(c.get("restartCount", 0) for c in found)
    place = [status.get("podIP") or "<none>", pod["spec"].get("nodeName") or "<none>"]
    return [pod["metadata"]["name"], ready, _pod_status(pod), restarts, _age(_born(pod)), *place]


def _born(obj: Object) -> str | None:
    born: str | None = obj["metadata"].get("creationTimestamp")
    return born


def _node(node: Object) -> list[object]:
    status = node.get("status") or {}
    conditions = {c["type"]: c["status"] for c in status.get("conditions") or []}
    state = "Ready" if conditions.get("Ready") == "True" else "NotReady"
    if (node.get("spec") or {}).get("unschedulable"):
        state += ",SchedulingDisabled"
    version = (status.get("nodeInfo") or {}).get("kubeletVersion", "")
    return [node["metadata"]["name"], state, "<none>", _age(_born(node)), version]


def _workload(resource: Resource, obj: Object) -> list[object]:
    spec, status = obj["spec"], obj.get("status") or {}
    if resource.plural == "jobs":
        ended = [c["type"] for c in status.get("conditions") or [] if c["status"] == "True"]
        done = f"{status.get('succeeded', 0)}/{spec.get('completions', '1')}"
        return [ended[-1] if ended else "Running", done]
    ready = status.get("readyReplicas", 0)
    if resource.plural == "replicasets":
        return [spec["replicas"], status.get("replicas", 0), ready]
    return [f"{ready}/{spec['replicas']}", status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]


def _cells(resource: Resource, obj: Object) -> list[object]:
    name = obj["metadata"]["name"]
    if resource.plural == "pods":
        return _pod(obj)
    if resource.plural == "nodes":
        return _node(obj)
    if resource.plural == "events":
        about = obj.get("involvedObject") or {}
        what = f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"
        seen = _age(obj.get("lastTimestamp") or obj.get("eventTime") or _born(obj))
        return [seen, obj.get("type", ""), obj.get("reason", ""), what, obj.get("message", "")]
    if resource.plural == "leases":
        return [name, (obj.get("spec") or {}).get("holderIdentity") or "", _age(_born(obj))]
    if resource in WORKLOADS:
        return [name, *_workload(resource, obj), _age(_born(obj))]
    if resource.plural == "namespaces":
        return [name, (obj.get("status") or {}).get("phase") or "", _age(_born(obj))]
    return [name, _age(_born(obj))]


def table(resource: Resource, objects: list[Object], meta: Object, *, columns: bool = True) -> Object:
    """A `meta.k8s.io/v1` Table. Its rows contain each object's metadata, which kubectl needs."""
    names = _COLUMNS.get(resource.plural, ("Name", "Age"))
    definitions = [
        {
            "name": n,
            "type": "string",
            "format": "name" if n == "Name" else "",
            "description": n,
            "priority": int(n in _WIDE),
        }
        for n in names
    ]
    rows = [
        {
            "cells": _cells(resource, obj),
            "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]},
        }
        for obj in objects
    ]
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
    return {**head, "columnDefinitions": definitions if columns else None, "rows": rows}
