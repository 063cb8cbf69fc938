"""A small, independent implementation of RFC 6902, for tests that apply the webhook's patches."""

from __future__ import annotations

import copy
from typing import Any

import pytest


def apply(document: Any, operations: list[dict[str, Any]]) -> Any:
    """Apply add, remove and replace."""
    document = copy.deepcopy(document)
    for operation in operations:
        parts = [p.replace("~1", "/").replace("~0", "~") for p in operation["path"].split("/")[1:]]
        target = document
        for part in parts[:-1]:
            target = target[int(part)] if isinstance(target, list) else target[part]
        last = parts[-1]
        if isinstance(target, list) and last == "-":
            target.append(operation["value"])
        elif operation["op"] == "remove":
            del target[last]
        elif operation["op"] in {"add", "replace"}:
            target[int(last) if isinstance(target, list) else last] = operation["value"]
        else:
            raise ValueError(operation)
    return document


def test_a_missing_parent_is_an_error() -> None:
    with pytest.raises(KeyError):
        apply({}, [{"op": "add", "path": "/a/b", "value": 1}])
