"""JSON merge patch (RFC 7386), JSON patch (RFC 6902), and an approximation of strategic merge patch.

kubectl sends strategic merge patches for built-in kinds. Here some lists are merged by a key of their elements
(conditions by type, containers and environment by name; see `_LIST_KEYS`). All other lists are replaced.
"""

from __future__ import annotations

import copy
from typing import Any

from hami_core.sim.resources import ApiError, bad_request

Json = Any
"""Any JSON value."""

_LIST_KEYS = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "addresses": "type",
    "ownerReferences": "uid",
}


def merge(target: Json, patch: Json) -> Json:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic(target: Json, patch: Json, key: str = "") -> Json:
    """A merge in which lists with a known key are merged by element. `$setElementOrder` is ignored."""
    if isinstance(patch, list):
        merge_key = _LIST_KEYS.get(key)
        if not merge_key or not isinstance(target, list):
            return [e for e in copy.deepcopy(patch) if not (isinstance(e, dict) and e.get("$patch") == "delete")]
        return _merge_list(target, patch, merge_key)
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {k: v for k, v in patch.items() if k != "$patch"}
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if name.startswith(("$setElementOrder/", "$retainKeys", "$deleteFromPrimitiveList/")):
            continue
        if value is None:
            result.pop(name, None)
        else:
            result[name] = strategic(result.get(name), value, name)
    return result


def _merge_list(target: list[Json], patch: list[Json], merge_key: str) -> list[Json]:
    changed: list[Json] = []
    deleted: set[Json] = set()
    for element in patch:
        if not isinstance(element, dict) or merge_key not in element:
            raise bad_request(f"strategic merge patch: list element {element!r} lacks its merge key {merge_key!r}")
        value = element[merge_key]
        if element.get("$patch") == "delete":
            deleted.add(value)
            continue
        same = [old for old in target if isinstance(old, dict) and old.get(merge_key) == value]
        changed.append(strategic(same[0], element) if same else copy.deepcopy(element))
    return _in_order(target, changed, deleted, merge_key)


def _in_order(target: list[Json], changed: list[Json], deleted: set[Json], merge_key: str) -> list[Json]:
    """The list in the server's order: patched elements first, but still behind unpatched ones that preceded them."""
    place = {old.get(merge_key): index for index, old in enumerate(target) if isinstance(old, dict)}
    patched = {new[merge_key] for new in changed}
    left = [o for o in target if not (isinstance(o, dict) and o.get(merge_key) in patched | deleted)]
    result: list[Json] = []
    for new in changed:
        at = place.get(new[merge_key])
        while at is not None and left and place.get(left[0].get(merge_key), -1) < at:
            result.append(left.pop(0))
        result.append(new)
    return result + left


def json_patch(target: Json, operations: Json) -> Json:
    """RFC 6902.

    Raises:
        ApiError: 422 if an operation cannot be applied or a test fails, 400 if the patch is not a list.
    """
    if not isinstance(operations, list):
        text = "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        raise bad_request(f"error decoding patch: {text}")
    document = copy.deepcopy(target)
    for operation in operations:
        try:
            document = _apply(document, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            text = "the server rejected our request due to an error in our request"
            refusal = ApiError(422, "Invalid", text)
            refusal.details = {}
            raise refusal from error
    return document


def _tokens(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"pointer {pointer!r} does not begin with '/'")
    return [t.replace("~1", "/").replace("~0", "~") for t in pointer.split("/")[1:]]


def _get(document: Json, tokens: list[str]) -> Json:
    for token in tokens:
        document = document[_index(document, token)] if isinstance(document, list) else document[token]
    return document


def _index(array: list[Json], token: str, *, end: bool = False) -> int:
    if end and token == "-":  # noqa: S105 - a token of a JSON pointer
        return len(array)
    if not token.isascii() or not token.isdigit() or int(token) > len(array) - (0 if end else 1):
        raise IndexError(f"no element {token!r} in a list of {len(array)}")
    return int(token)


def _add(document: Json, pointer: str, value: Json) -> Json:
    tokens = _tokens(pointer)
    if not tokens:
        return value
    parent = _get(document, tokens[:-1])
    if isinstance(parent, list):
        parent.insert(_index(parent, tokens[-1], end=True), value)
    elif isinstance(parent, dict):
        parent[tokens[-1]] = value
    else:
        raise TypeError(f"{pointer!r} lies in neither an object nor a list")
    return document


def _remove(document: Json, pointer: str) -> Json:
    tokens = _tokens(pointer)
    parent = _get(document, tokens[:-1])
    return parent.pop(_index(parent, tokens[-1]) if isinstance(parent, list) else tokens[-1])


def _apply(document: Json, operation: Json) -> Json:
    name, pointer = operation["op"], operation["path"]
    if name == "add":
        return _add(document, pointer, copy.deepcopy(operation["value"]))
    if name == "remove":
        _remove(document, pointer)
        return document
    if name == "replace":
        if not pointer:
            return copy.deepcopy(operation["value"])
        _get(document, _tokens(pointer))
        _remove(document, pointer)
        return _add(document, pointer, copy.deepcopy(operation["value"]))
    if name == "test":
        if _get(document, _tokens(pointer)) != operation["value"]:
            raise ValueError(f"testing path {pointer} failed")
        return document
    if name == "move":
        return _add(document, pointer, _remove(document, operation["from"]))
    if name == "copy":
        return _add(document, pointer, copy.deepcopy(_get(document, _tokens(operation["from"]))))
    raise ValueError(f"unknown operation {name!r}")
