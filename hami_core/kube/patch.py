"""Makes patches, also from the difference of two JSON documents. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Json = Any
"""A decoded JSON value (`Any`, because it comes unchecked from outside)."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch body, and the content type that names the kind of patch."""

    body: Json
    content_type: str


def merge_patch(body: Mapping[str, Json]) -> Patch:
    """A JSON merge patch (RFC 7386): null removes a key."""
    return Patch(dict(body), "application/merge-patch+json")


def json_patch(operations: Sequence[Mapping[str, Json]]) -> Patch:
    """A JSON patch (RFC 6902). It applies completely or not at all; ``test`` operations are preconditions."""
    return Patch([dict(op) for op in operations], "application/json-patch+json")


def metadata_patch(
    *,
    annotations: Mapping[str, str | None] | None = None,
    labels: Mapping[str, str | None] | None = None,
    uid: str = "",
    resource_version: str = "",
) -> Patch:
    """A merge patch of annotations and labels; None removes a key.

    Args:
        annotations: Keys to set or remove.
        labels: Keys to set or remove.
        uid: Change only the object with this UID; for another, the server answers 422, because a UID can't change.
        resource_version: Change only this version; for another, the server answers 409.
    """
    metadata: dict[str, Json] = {}
    if annotations:
        metadata["annotations"] = dict(annotations)
    if labels:
        metadata["labels"] = dict(labels)
    if uid:
        metadata["uid"] = uid
    if resource_version:
        metadata["resourceVersion"] = resource_version
    return merge_patch({"metadata": metadata})


def pointer(*parts: str | int) -> str:
    """A JSON pointer (RFC 6901) with escaped parts."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def diff(before: Json, after: Json, path: str = "") -> list[dict[str, Json]]:
    """JSON-patch operations that turn ``before`` into ``after``.

    Maps are compared key by key. Lists are compared element by element, and new elements are appended; a list that
    became shorter is replaced. Any other changed value is replaced. `diff` skips an object that is the same in both.
    """
    if before is after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        return _diff_maps(before, after, path)
    if isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        operations: list[dict[str, Json]] = []
        for index, element in enumerate(before):
            operations += diff(element, after[index], path + pointer(index))
        operations += [{"op": "add", "path": path + "/-", "value": item} for item in after[len(before) :]]
        return operations
    if before == after and type(before) is type(after):
        return []
    return [{"op": "replace", "path": path, "value": after}]


def _diff_maps(before: dict[str, Json], after: dict[str, Json], path: str) -> list[dict[str, Json]]:
    operations: list[dict[str, Json]] = []
    for key, value in after.items():
        if key in before:
            operations += diff(before[key], value, path + pointer(key))
        else:
            operations.append({"op": "add", "path": path + pointer(key), "value": value})
    operations += [{"op": "remove", "path": path + pointer(key)} for key in before if key not in after]
    return operations
