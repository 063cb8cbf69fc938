"""Merges an administrator's values into the chart's defaults as helm does, and checks them against the schema."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from hami_core.documents import below, did_you_mean, none_of, shown
from hami_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jsonschema.exceptions import ValidationError

    Given = Sequence[tuple[str, Mapping[str, Any]]]
    """Values files and ``--set`` flags with their content, in the order in which they were given."""

_KEY: Final = re.compile(r"(?P<name>(?:\\.|[^.\[\]=\\])+)|\[(?P<index>\d+)\]|\.")
_INDEX_LIMIT: Final = 65_536
_SHOWN: Final = 10
_ABSENT: Final = object()
_WORDS: Final = {"true": True, "false": False, "null": None}


def joined(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two values files, mapping by mapping; the second one wins."""
    merged = dict(first)
    for key, value in second.items():
        below = merged.get(key)
        merged[key] = joined(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def laid_over(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge ``given`` into ``defaults``, mapping by mapping; null removes a default."""
    merged = dict(defaults)
    for key, value in given.items():
        below = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(below, dict) and isinstance(value, dict):
            merged[key] = laid_over(below, value)
        else:
            merged[key] = value
    return merged


def assign(values: dict[str, Any], setting: str, *, kind: str = "any") -> None:
    """Apply one or several ``key.path[0]=value``, separated by commas, as helm's ``--set`` does.

    Args:
        values: Changed in place.
        setting: The text.
        kind: ``any`` (numbers, true, false, null and lists ``{a,b}`` are recognised), ``string``, or ``json`` (only
            one setting, with a JSON value).

    Raises:
        ConfigError: The text is malformed.
    """
    for part in [setting] if kind == "json" else _split(setting, ","):
        key, sign, text = part.partition("=")
        if not sign or not key.strip():
            raise ConfigError(f"--set {part}", "is not of the form key=value")
        _put(values, _path(key.strip(), part), _value(text, kind, part), part)


def check(values: Mapping[str, Any], schema: Mapping[str, Any], given: Given = ()) -> None:
    """Check values against the schema.

    Args:
        values: The values, merged into the chart's defaults.
        schema: The chart's schema.
        given: The files and flags that the values come from, for errors.

    Raises:
        ConfigError: Some values are wrong; the error names each of them.
    """
    from jsonschema import Draft7Validator  # noqa: PLC0415 - slow to import

    errors = sorted(Draft7Validator(schema).iter_errors(dict(values)), key=lambda error: list(map(str, error.path)))
    problems = [each for error in errors for each in _problems(error, given, schema)]
    for where, content in given:
        problems += [f"{where}: {each}" for each in _unknown_nulls(content, schema, (), schema)]
    if problems:
        shown_problems = "; ".join(problems[:_SHOWN])
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise ConfigError("values", shown_problems + more, "see the chart's reference page for all keys")


def _problems(error: ValidationError, given: Given, root: Mapping[str, Any]) -> Iterator[str]:
    path = [str(part) for part in error.absolute_path]
    schema: Any = error.schema
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = schema.get("properties", {})
        for key in sorted(map(str, error.instance.keys() - known.keys())):
            yield f"{_origin(given, [*path, key])}{_place([*path, key])}: {_unknown(key, known, root)}"
        return
    if error.validator == "required" and isinstance(error.instance, dict) and isinstance(error.validator_value, list):
        for key in error.validator_value:
            if key not in error.instance and repr(key) in error.message:
                place = f"{_origin(given, [*path, key])}{_place([*path, key])}"
                yield f"{place}: is null; leave the key out, or give a value"
        return
    # If a value may have several forms, name the words of an enumeration, else all forms except null.
    forms = [each for each in error.context or () if each.validator_value != "null"]
    forms = [each for each in forms if each.validator == "enum"] or forms or [error]
    yield f"{_origin(given, path)}{_place(path)}: {' or '.join(_problem(each) for each in forms)}"


def _unknown(key: str, known: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """Say that there is no such key, and which was probably meant: a key here, or one with this name elsewhere."""
    elsewhere = [place for place in _places(root, "") if place.rpartition(".")[2].casefold() == key.casefold()]
    hint = did_you_mean(key, _current(known), cutoff=0.9)
    if not hint:
        hint = f"did you mean {elsewhere[0]}?" if len(elsewhere) == 1 else did_you_mean(key, _current(known))
    return "there is no such value" + (f", {hint}" if hint else "")


def _places(schema: Mapping[str, Any], above: str) -> Iterator[str]:
    known = schema.get("properties", {})
    for key in _current(known):
        yield below(above, key)
        yield from _places(known[key], below(above, key))


def _current(known: Mapping[str, Any]) -> list[str]:
    """The keys without former ones that have a new name (see contrib/helm/generate.py)."""
    return [key for key, schema in known.items() if not schema.get("description", "").startswith("Now ")]


def _unknown_nulls(
    content: Mapping[str, Any], schema: Mapping[str, Any], path: tuple[str, ...], root: Mapping[str, Any]
) -> Iterator[str]:
    """Report unknown keys with value null. The merge removes these, so the schema never sees them."""
    known = schema.get("properties")
    if known is None:
        return
    for key, value in content.items():
        if key in known and isinstance(value, dict):
            yield from _unknown_nulls(value, known[key], (*path, key), root)
        elif key not in known and value is None:
            yield f"{_place([*path, key])}: {_unknown(key, known, root)}"


def _place(path: Sequence[str]) -> str:
    place = ""
    for part in path:
        place = f"{place}[{part}]" if part.isdecimal() else below(place, part)
    return place or "at the top"


def _problem(error: ValidationError) -> str:
    value: Any = error.instance
    wanted: Any = error.validator_value
    if error.validator == "enum":
        return none_of(value, [str(word) for word in wanted])
    if error.validator == "type":
        names = " or ".join([wanted] if isinstance(wanted, str) else wanted)
        return f"expected {names}, got {shown(value)}"
    if error.validator == "pattern":
        return f"{shown(value)} does not match {wanted}"
    bounds = {"minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most"}
    if error.validator in bounds:
        return f"must be {bounds[str(error.validator)]} {wanted}, got {shown(value)}"
    return error.message if len(error.message) < 200 else f"{shown(value)} does not fit"


def _origin(given: Given, path: Sequence[str]) -> str:
    """The last file or flag that sets a value."""
    for where, content in reversed(given):
        here: Any = content
        for part in path:
            if isinstance(here, list):
                here = dict(enumerate(here)).get(int(part) if part.isdecimal() else -1, _ABSENT)
            else:
                here = here.get(part, _ABSENT) if isinstance(here, dict) else _ABSENT
        if here is not _ABSENT:
            return f"{where}: "
    return ""


def _split(text: str, mark: str) -> Iterator[str]:
    """Split at each mark that is neither escaped nor in braces."""
    start, depth, at = 0, 0, 0
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] in "{}":
            depth += 1 if text[at] == "{" else -1
        elif text[at] == mark and depth == 0:
            yield text[start:at]
            start = at + 1
        at += 1
    if text[start:]:
        yield text[start:]


def _path(key: str, setting: str) -> list[str | int]:
    path: list[str | int] = []
    at = 0
    while at < len(key):
        match = _KEY.match(key, at)
        if match is None:
            raise ConfigError(f"--set {setting}", f"can't read the key from {key[at:]!r}")
        if match["name"] is not None:
            path.append(re.sub(r"\\(.)", r"\1", match["name"]))
        elif match["index"] is not None:
            path.append(int(match["index"]))
        at = match.end()
    return path


def _value(text: str, kind: str, setting: str) -> Any:  # noqa: ANN401 - any value
    if kind == "json":
        try:
            return json.loads(text)
        except ValueError as error:
            raise ConfigError(f"--set-json {setting}", f"is not JSON: {error}") from error
    if text.startswith("{") and text.endswith("}"):
        return [_scalar(item.strip(), kind) for item in _split(text[1:-1], ",")]
    return _scalar(text, kind)


def _scalar(text: str, kind: str) -> Any:  # noqa: ANN401 - any scalar
    text = re.sub(r"\\(.)", r"\1", text)
    if kind == "string":
        return text
    if text in _WORDS:
        return _WORDS[text]
    # As in helm, a text that begins with 0 (except 0 itself) is no number.
    return int(text) if re.fullmatch(r"0|-?[1-9]\d*", text) else text


def _put(values: dict[str, Any], path: Sequence[str | int], value: Any, setting: str) -> None:  # noqa: ANN401 - any value
    here: Any = values
    for part, following in zip(path, [*path[1:], None], strict=True):
        below: Any = value if following is None else [] if isinstance(following, int) else {}
        if isinstance(part, int):
            if not isinstance(here, list) or part >= _INDEX_LIMIT:
                raise ConfigError(f"--set {setting}", f"[{part}] is not an index of a list")
            here.extend([None] * (part + 1 - len(here)))
            here[part] = here[part] if following is not None and isinstance(here[part], type(below)) else below
        else:
            if not isinstance(here, dict):
                raise ConfigError(f"--set {setting}", f"{part} is below a value that has no keys")
            here[part] = here[part] if following is not None and isinstance(here.get(part), type(below)) else below
        here = here[part]
