"""Discovery documents, which clients read before objects: groups, versions, resources."""

from __future__ import annotations

from typing import Any

from hami_core.sim import openapi
from hami_core.sim.resources import RESOURCES, Object

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_POD_SUBRESOURCES = (
    ("binding", {"kind": "Binding"}, ["create"]),
    ("ephemeralcontainers", {"kind": "Pod"}, ["get", "patch", "update"]),
    ("eviction", {"group": "policy", "version": "v1", "kind": "Eviction"}, ["create"]),
    ("exec", {"kind": "PodExecOptions"}, ["create", "get"]),
    ("log", {"kind": "Pod"}, ["get"]),
)
_IN_ALL = frozenset({"pods", "services", "daemonsets", "deployments", "replicasets", "jobs"})
"""What ``kubectl get all`` lists, as on a real API server."""
VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.3", "platform": "linux/amd64"}


def _group(group: str) -> Object:
    versions = sorted({r.version for r in RESOURCES if r.group == group})
    named = [{"groupVersion": f"{group}/{v}", "version": v} for v in versions]
    return {"name": group, "versions": named, "preferredVersion": named[0]}


def _resource_list(group: str, version: str) -> Object:
    found: list[Object] = []
    for resource in RESOURCES:
        if (resource.group, resource.version) != (group, version):
            continue
        common = {"namespaced": resource.namespaced, "kind": resource.kind}
        singular = {"singularName": resource.kind.lower(), "shortNames": list(resource.short)}
        listed = {"categories": ["all"]} if resource.plural in _IN_ALL else {}
        found.append({"name": resource.plural, **singular, **common, **listed, "verbs": _VERBS})
        if resource.status:
            found.append(
                {"name": f"{resource.plural}/status", "singularName": "", **common, "verbs": ["get", "patch", "update"]}
            )
        if resource.scale:
            scale = {"name": f"{resource.plural}/scale", "singularName": "", "namespaced": True, "kind": "Scale"}
            found.append({**scale, "group": "autoscaling", "version": "v1", "verbs": ["get", "patch", "update"]})
        if resource.plural == "pods":
            for sub, kind, verbs in _POD_SUBRESOURCES:
                found.append({"name": f"pods/{sub}", "singularName": "", "namespaced": True, **kind, "verbs": verbs})
    version_name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version_name, "resources": found}


def documents() -> dict[str, Any]:
    """Discovery documents by path."""
    groups = sorted({r.group for r in RESOURCES if r.group})
    info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
    found: dict[str, Any] = {
        "/version": VERSION,
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(g) for g in groups]},
        **openapi.documents(info),
    }
    found.update({f"/apis/{g}": {"kind": "APIGroup", "apiVersion": "v1", **_group(g)} for g in groups})
    for group, version in {(r.group, r.version) for r in RESOURCES}:
        found[f"/apis/{group}/{version}" if group else f"/api/{version}"] = _resource_list(group, version)
    return found
