"""Label and field selectors, in their query-string form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from hami_core.sim.resources import Object, Resource, bad_request

Test = Callable[[Object], bool]

_SET = re.compile(r"^\s*([^\s!=,()]+)\s+(in|notin)\s+\(([^()]*)\)\s*$")
_EQUAL = re.compile(r"^\s*([^\s!=,()]+)\s*(==|=|!=)\s*([^\s!=,()]*)\s*$")
_EXISTS = re.compile(r"^\s*(!?)\s*([^\s!=,()]+)\s*$")


def _split(text: str) -> list[str]:
    """Splits at commas outside parentheses."""
    return [part for part in re.split(r",(?![^(]*\))", text) if part.strip()]


def _label_test(part: str) -> Callable[[Mapping[str, str]], bool]:
    if match := _SET.match(part):
        key, operator, values = match[1], match[2], {v.strip() for v in match[3].split(",")}
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if match := _EQUAL.match(part):
        key, operator, value = match.groups()
        return lambda labels: (labels.get(key) == value) == (operator != "!=")
    if match := _EXISTS.match(part):
        absent, key = bool(match[1]), match[2]
        return lambda labels: (key in labels) != absent
    raise bad_request(f"unable to parse requirement: {part!r}")


def labels(text: str) -> Test:
    """The test of a label selector such as ``a=b,c in (d,e),!f``. Empty text matches every object."""
    tests = [_label_test(part) for part in _split(text)]
    return lambda obj: all(test(obj["metadata"].get("labels") or {}) for test in tests)


def label_object(selector: Mapping[str, Any] | None, found: Mapping[str, str]) -> bool:
    """Whether labels match a `metav1.LabelSelector` object. None matches all labels."""
    selector = selector or {}
    if any(found.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    operators: dict[str, Callable[[str, list[str]], bool]] = {
        "In": lambda key, values: found.get(key) in values,
        "NotIn": lambda key, values: found.get(key) not in values,
        "Exists": lambda key, _: key in found,
        "DoesNotExist": lambda key, _: key not in found,
    }
    return all(
        e["operator"] in operators and operators[e["operator"]](e["key"], e.get("values") or [])
        for e in selector.get("matchExpressions") or []
    )


def field_value(obj: Object, path: str) -> str:
    """The value at a dotted path as text; empty if there is none."""
    value: Any = obj
    if path == "source":
        return str((obj.get("source") or {}).get("component") or obj.get("reportingComponent") or "")
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if value is None:
        return "false" if path in {"spec.unschedulable", "spec.hostNetwork"} else ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def fields(text: str, resource: Resource) -> Test:
    """The test of a field selector such as ``spec.nodeName=n1,status.phase!=Failed``.

    Raises:
        ApiError: 400 for a field that this resource cannot be selected by, as the real server answers.
    """
    allowed = {"metadata.name", "metadata.namespace", *resource.fields}
    tests: list[Test] = []
    for part in _split(text):
        match = re.match(r"^\s*([^\s!=]+)\s*(==|=|!=)\s*(\S*)\s*$", part)
        if not match:
            raise bad_request(f"invalid field selector {part!r}: use field=value or field!=value")
        key, operator, value = match.groups()
        if key not in allowed:
            raise bad_request(f"field label not supported: {key}")
        tests.append(_field_test(key, value, equal=operator != "!="))
    return lambda obj: all(test(obj) for test in tests)


def _field_test(key: str, value: str, *, equal: bool) -> Test:
    return lambda obj: (field_value(obj, key) == value) == equal
