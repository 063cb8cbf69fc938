"""OpenAPI v3 documents, which kubectl reads before it writes.

They have no schemas. They say only that each kind's PATCH takes ``fieldValidation``: then kubectl leaves the validation
of fields to the server.
"""

from __future__ import annotations

from typing import Any

from hami_core.sim.resources import RESOURCES, Object, Resource

_PARAMETER = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
EMPTY_V2 = b"\n\x032.0"
"""An OpenAPI v2 document without definitions, in protobuf. kubectl before 1.30 fetches it and needs nothing in it."""
V2_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def documents(info: Object) -> dict[str, Any]:
    """The documents by path: the index and one document for each group and version."""
    groups = {(r.group, r.version) for r in RESOURCES}
    names = {f"apis/{group}/{version}" if group else f"api/{version}": (group, version) for group, version in groups}
    index = {name: {"serverRelativeURL": f"/openapi/v3/{name}"} for name in sorted(names)}
    found: dict[str, Any] = {"/openapi/v3": {"paths": index}}
    for name, key in names.items():
        paths = dict(_path(name, r) for r in RESOURCES if (r.group, r.version) == key)
        document = {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}
        found[f"/openapi/v3/{name}"] = document
    return found


def _path(prefix: str, resource: Resource) -> tuple[str, Object]:
    space = "namespaces/{namespace}/" if resource.namespaced else ""
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    operation = {"x-kubernetes-group-version-kind": kind, "parameters": [_PARAMETER], "responses": {}}
    return f"/{prefix}/{space}{resource.plural}/{{name}}", {"patch": operation}
