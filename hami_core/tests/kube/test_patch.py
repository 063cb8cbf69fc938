"""Patches: the difference of two documents, applied, gives the second."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hami_core.kube.patch import diff, metadata_patch, pointer

KEYS = st.text(alphabet="ab/~ c", min_size=0, max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=15,
)


def apply(document: Any, operations: list[dict[str, Any]]) -> Any:
    """Apply add, remove and replace of RFC 6902, independently of our code."""
    document = copy.deepcopy(document)
    for operation in operations:
        parts = [p.replace("~1", "/").replace("~0", "~") for p in operation["path"].split("/")[1:]]
        if not parts:
            document = operation["value"]
            continue
        target = document
        for part in parts[:-1]:
            target = target[int(part)] if isinstance(target, list) else target[part]
        last = parts[-1]
        if isinstance(target, list):
            if last == "-":
                assert operation["op"] == "add"
                target.append(operation["value"])
            else:
                assert operation["op"] == "replace"
                target[int(last)] = operation["value"]
        elif operation["op"] == "remove":
            del target[last]
        else:
            assert (last in target) == (operation["op"] == "replace")
            target[last] = operation["value"]
    return document


@given(JSON, JSON)
def test_the_difference_leads_from_one_to_the_other(before: Any, after: Any) -> None:
    result = apply(before, diff(before, after))
    assert result == after
    assert repr(result) == repr(after) or isinstance(after, (dict, list))


@given(JSON)
def test_no_difference_no_operations(document: Any) -> None:
    assert diff(document, copy.deepcopy(document)) == []


def test_pointers_are_escaped() -> None:
    assert pointer("metadata", "annotations", "hami.io/a~b", 0) == "/metadata/annotations/hami.io~1a~0b/0"


def test_metadata_patch_holds_its_preconditions() -> None:
    patch = metadata_patch(annotations={"a": "1", "b": None}, uid="u", resource_version="7")
    assert patch.content_type == "application/merge-patch+json"
    assert patch.body == {"metadata": {"annotations": {"a": "1", "b": None}, "uid": "u", "resourceVersion": "7"}}
