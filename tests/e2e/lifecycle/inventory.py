"""List the names of all objects of a cluster, to find those that an installation leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bed.bed import Bed

PASSING = {"events", "endpointslices", "endpoints", "controllerrevisions", "pods", "podmetrics", "nodemetrics"}
"""Kinds whose objects Kubernetes creates and deletes by itself."""


def objects(bed: Bed) -> set[str]:
    """``resource.group namespace/name`` of all objects that can be listed, without those of `PASSING`."""
    return {
        f"{resource} {item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
        for resource, path in _resources(bed)
        for item in bed.call("GET", path)["items"]
    }


def _resources(bed: Bed) -> Iterator[tuple[str, str]]:
    groups = bed.call("GET", "/apis")["groups"]
    paths = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    for path in paths:
        group = path.split("/")[2] if path.startswith("/apis/") else ""
        for found in bed.call("GET", path)["resources"]:
            if "list" in found["verbs"] and "/" not in found["name"] and found["name"] not in PASSING:
                yield f"{found['name']}.{group}".rstrip("."), f"{path}/{found['name']}"
