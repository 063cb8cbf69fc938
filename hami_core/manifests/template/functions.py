"""Functions of Go's text/template, of sprig and of helm, as far as the chart calls them."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from hami_core.documents import load_yaml
from hami_core.manifests.yamltext import dump

Value = Any


def text_of(value: Value) -> str:
    """What a template prints for a value; nothing for nothing, as helm.

    Raises:
        TypeError: It is a list or mapping, whose Go spelling nobody wants.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, int):
        return str(value)
    raise TypeError(f"a {type(value).__name__} can't be printed; use toYaml or toJson")


def _default(fallback: Value, value: Value = None) -> Value:
    return value or fallback


def _kind(value: Value) -> str:
    if isinstance(value, Mapping):
        return "map"
    names = {bool: "bool", str: "string", list: "slice", type(None): "invalid", int: "int64", float: "float64"}
    return names[type(value)]


def _printf(form: str, *values: Value) -> str:
    rest = list(values)

    def one(match: re.Match[str]) -> str:
        return text_of(rest.pop(0)) if match[0] != "%%" else "%"

    return re.sub(r"%[sdv%]", one, form)


def _indent(width: int, text: str) -> str:
    return "\n".join(" " * width + line for line in text.split("\n"))


def _whole(value: Value) -> int:
    try:
        return int(value or 0)
    except ValueError:
        return 0


def _dig(*arguments: Value) -> Value:
    *keys, fallback, value = arguments
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            return fallback
        value = value[key]
    return value


def _merge(first: Mapping[str, Value], *others: Mapping[str, Value]) -> Mapping[str, Value]:
    """What comes earlier wins, mapping by mapping."""
    merged = dict(first)
    for other in others:
        for key, value in other.items():
            if isinstance(merged.get(key), Mapping) and isinstance(value, Mapping):
                merged[key] = _merge(merged[key], value)
            elif not merged.get(key):
                merged[key] = value
    return merged


def _unique(items: list[Value]) -> list[Value]:
    return [item for index, item in enumerate(items) if item not in items[:index]]


def _index(value: Value, *keys: Value) -> Value:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else value[key]
    return value


def _to_json(value: Value) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    # Go writes these so that the text may stand in HTML.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _from_json(text: str) -> Value:
    return json.loads(text)


def _fail(problem: str) -> Value:
    raise ValueError(problem)


def _dict(*pairs: Value) -> dict[str, Value]:
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def _equal(first: Value, *others: Value) -> bool:
    return any(first == other and isinstance(first, bool) == isinstance(other, bool) for other in others)


FUNCTIONS: Final[Mapping[str, Callable[..., Value]]] = {
    "append": lambda items, item: [*(items or []), item],
    "base": posixpath.basename,
    "compact": lambda items: [item for item in items if item],
    "concat": lambda *lists: [item for items in lists for item in items or []],
    "contains": lambda part, text: part in text,
    "default": _default,
    "dict": _dict,
    "dig": _dig,
    "eq": _equal,
    "fail": _fail,
    "fromJson": _from_json,
    "fromJsonArray": _from_json,
    "fromYaml": lambda text: load_yaml(text, "fromYaml"),
    "get": lambda mapping, key: mapping.get(key, ""),
    "gt": lambda first, second: first > second,
    "has": lambda item, items: item in (items or []),
    "index": _index,
    "int64": _whole,
    "join": lambda between, items: between.join(text_of(item) for item in items),
    "kindIs": lambda kind, value: _kind(value) == kind,
    "last": lambda items: items[-1] if items else None,
    "list": lambda *items: list(items),
    "merge": _merge,
    "mul": lambda *numbers: _product(numbers),
    "ne": lambda first, second: not _equal(first, second),
    "nindent": lambda width, text: "\n" + _indent(width, text),
    "not": lambda value: not value,
    "omit": lambda mapping, *keys: {key: value for key, value in mapping.items() if key not in keys},
    "printf": _printf,
    "quote": lambda value: json.dumps(text_of(value), ensure_ascii=False),
    "regexMatch": lambda form, text: re.search(form, text) is not None,
    "regexReplaceAll": lambda form, text, new: re.sub(form, new, text),
    "replace": lambda old, new, text: text.replace(old, new),
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "splitList": lambda between, text: text.split(between),
    "ternary": lambda yes, no, holds: yes if holds else no,
    "toJson": _to_json,
    "toString": text_of,
    "toYaml": lambda value: dump(value).removesuffix("\n"),
    "trimPrefix": lambda part, text: text.removeprefix(part),
    "trimSuffix": lambda part, text: text.removesuffix(part),
    "trunc": lambda size, text: text[:size],
    "uniq": _unique,
}


def _product(numbers: tuple[int, ...]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result
