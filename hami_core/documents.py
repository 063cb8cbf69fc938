"""Strict reading of documents that an administrator writes: device-config, per-node file, chart values, settings file.

Every reader of such a file uses this module. It accepts a document or refuses it with a `ConfigError` that names file,
entry, key, value and fix. It drops nothing silently. A duplicate key is refused. A key that the model does not have is
reported, with the most similar known key.
"""

from __future__ import annotations

import difflib
import json
import reprlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from hami_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from pydantic_core import ErrorDetails

__all__ = [
    "JsonObject",
    "Unknown",
    "below",
    "did_you_mean",
    "explained",
    "finding_in_words",
    "kind_of",
    "load_json",
    "load_mapping",
    "load_yaml",
    "none_of",
    "one_line",
    "read_model",
    "read_text",
    "shown",
]
"""Vendors may import these too: `hami_core.documents` is public."""

MAX_BYTES: Final = 4 << 20
"""Size limit of a document: four times what a ConfigMap holds."""
MAX_DEPTH: Final = 64
"""Limit of nesting."""
MAX_NODES: Final = 200_000
"""Limit of values in a document, counted after its aliases are expanded."""
_LONGEST_KEY: Final = 80
_INT64: Final = 2**63
_JSON_TAGS: Final = ("null", "bool", "int", "float", "str", "seq", "map")

M = TypeVar("M", bound=BaseModel)

_SHOWN: Final = 80


def shown(value: object) -> str:
    """Render a value for a message: on one line and short, however large the value is.

    Example:
        >>> shown("a" * 200)[-4:], shown({"a": 1})
        ('aaa…', "{'a': 1}")
    """
    text = reprlib.repr(value) if not isinstance(value, str) else repr(value[: _SHOWN + 1])
    return text if len(text) <= _SHOWN + 2 else text[:_SHOWN] + "…"


def one_line(text: object, limit: int = 300) -> str:
    """Shorten another program's message for use in ours: one printable line.

    Example:
        >>> one_line(ValueError("first  second"))
        'first second'
    """
    line = "".join(character if character.isprintable() else " " for character in str(text)[: 2 * limit])
    return " ".join(line.split())[:limit]


def did_you_mean(word: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return ``did you mean binpack?`` for a word that resembles a known one, else an empty text.

    Example:
        >>> did_you_mean("binpak", ["binpack", "spread"])
        'did you mean binpack?'
    """
    meant = resembling(word, known, cutoff)
    return f"did you mean {meant}?" if meant else ""


def resembling(word: object, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the known word that a word resembles most; empty if it resembles none.

    Example:
        >>> resembling("binpak", ["binpack", "spread"])
        'binpack'
    """
    by_folded = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(str(word)[:100].casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[near[0]] if near else ""


def none_of(word: object, known: Collection[str]) -> str:
    """Say that a word is not one of the known ones, and which was probably meant.

    Example:
        >>> none_of("binpak", ["binpack", "spread"])
        "'binpak' is none of binpack, spread; did you mean binpack?"
    """
    hint = did_you_mean(word, known)
    return f"{shown(word)} is none of {', '.join(known)}" + (f"; {hint}" if hint else "")


# --- text --------------------------------------------------------------------------------------------------------


def read_text(path: Path) -> str:
    """Read the text of a file, without a byte order mark.

    Raises:
        ConfigError: The file can't be read, is too long or is not UTF-8.

    Example:
        >>> from pathlib import Path
        >>> read_text(Path("/nonexistent"))
        Traceback (most recent call last):
        hami_core.errors.ConfigError: /nonexistent: can't be read: No such file or directory (name a file...)
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(str(path), f"can't be read: {why}", "name a file that this process may read") from error
    return decoded(data, str(path))


def decoded(data: bytes, where: str) -> str:
    """Decode the bytes of a document, without a byte order mark.

    Raises:
        ConfigError: The document is too long or is not UTF-8.
    """
    if len(data) > MAX_BYTES:
        raise ConfigError(where, f"is longer than {MAX_BYTES >> 20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(where, f"can't be read: byte {error.start} is not UTF-8", "save it as UTF-8") from None


# --- YAML ---------------------------------------------------------------------------------------------------------

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """PyYAML's loader, restricted to the values that JSON has: no dates, no base 60, no tags such as ``!!binary``."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        """Make a mapping whose keys are text as written: the key ``on`` is not a boolean."""
        self.flatten_mapping(node)
        return {key.value: self.construct_object(value, deep=deep) for key, value in node.value}


def _scalar(loader: _Loader, node: yaml.ScalarNode) -> Any:  # noqa: ANN401 - bool, int, float or text
    kind = node.tag.rpartition(":")[2]
    try:
        if ":" in loader.construct_scalar(node):
            return node.value  # YAML 1.1 reads 1:30 as a number to base 60
        value = getattr(loader, f"construct_yaml_{kind}")(node)
    except (ValueError, KeyError, IndexError, OverflowError):
        raise _fault(f"{shown(node.value)} is not a valid {kind}", node.start_mark) from None
    if isinstance(value, float):
        if value - value != 0:
            raise _fault(f"{node.value} is not a number in JSON; quote it if it is text", node.start_mark)
        # Helm reads every number as JSON does, where 2.0 and 2 are the same.
        return int(value) if value.is_integer() and abs(value) < _INT64 else value
    if type(value) is int and abs(value) >= _INT64:
        raise _fault("a number beyond 64 bits", node.start_mark)
    return value


_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in forms if not tag.endswith((":timestamp", ":value"))]
    for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.yaml_constructors = {
    tag: make
    for tag, make in yaml.SafeLoader.yaml_constructors.items()
    if tag is None or tag.rpartition(":")[2] in _JSON_TAGS
}
for _kind in ("bool", "int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _scalar)


def load_yaml(text: str, where: str) -> Any:  # noqa: ANN401 - any value
    """Read the single document of a YAML or JSON text; None if the text is empty.

    Raises:
        ConfigError: The text is not YAML (with line and column), or it has several documents.

    Example:
        >>> load_yaml("on: [1, two]", "settings.yaml")
        {'on': [1, 'two']}
    """
    documents = list(load_all_yaml(text, where))
    if len(documents) > 1:
        raise ConfigError(where, "holds several documents, expected one", "write no line --- between them")
    return documents[0] if documents else None


def load_mapping(text: str, where: str) -> dict[str, Any]:
    """Read a YAML or JSON text that must hold a mapping; an empty text gives an empty mapping.

    Raises:
        ConfigError: The text is not YAML (with line and column), or it holds something other than a mapping.

    Example:
        >>> load_mapping("{slots: 1, slots: 2}", "acme.yaml")
        Traceback (most recent call last):
        hami_core.errors.ConfigError: acme.yaml, line 1, column 12: duplicate key 'slots'
    """
    content = load_yaml(text, where)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(where, f"holds a {kind_of(content)}, expected a mapping of names to values", "write name: …")
    return content


def load_all_yaml(text: str, where: str) -> Iterator[Any]:
    """Read all documents of a YAML text.

    Raises:
        ConfigError: The text is not YAML; with line and column.
    """
    try:
        _check_events(text)
        yield from yaml.load_all(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        at = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        problem = one_line(getattr(error, "problem", None) or error)
        problem = problem if isinstance(error, _Refused) else f"is not YAML: {problem}"
        raise ConfigError(f"{where}{at}", problem) from error


@dataclass(slots=True)
class _Open:
    """A collection whose end has not been reached yet; ``keys`` is None for a list."""

    anchor: str | None
    keys: set[str] | None
    size: int = 1
    at_key: bool = True


def _check_events(text: str) -> None:
    """Refuse duplicate keys, deep nesting, and aliases that contain themselves or expand to too many values."""
    sizes: dict[str, int] = {}
    opened: list[_Open] = []
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionEndEvent):
            ended = opened.pop()
            size = ended.size
            sizes |= {ended.anchor: size} if ended.anchor else {}
        elif not isinstance(event, yaml.NodeEvent):
            continue
        else:
            _check_key(opened[-1] if opened else None, event)
            if isinstance(event, yaml.CollectionStartEvent):
                opened.append(_Open(event.anchor, set() if isinstance(event, yaml.MappingStartEvent) else None))
                if len(opened) > MAX_DEPTH:
                    raise _fault(f"nested more than {MAX_DEPTH} deep", event.start_mark)
                continue
            if isinstance(event, yaml.AliasEvent) and any(each.anchor == event.anchor for each in opened):
                raise _fault(f"*{event.anchor} contains itself", event.start_mark)
            size = sizes.get(event.anchor or "", 1) if isinstance(event, yaml.AliasEvent) else 1
            sizes |= {event.anchor: size} if event.anchor else {}
        if opened:
            opened[-1].size += size
            opened[-1].at_key = not opened[-1].at_key
            if opened[-1].size > MAX_NODES:
                raise _fault(f"holds more than {MAX_NODES} values", event.start_mark)


def _check_key(around: _Open | None, event: yaml.NodeEvent) -> None:
    if around is None or around.keys is None or not around.at_key:
        return
    if not isinstance(event, yaml.ScalarEvent):
        raise _fault("a key that is not plain text", event.start_mark)
    if event.value in around.keys and event.value != "<<":
        raise _fault(f"duplicate key {shown(event.value)}", event.start_mark)
    around.keys.add(event.value)


class _Refused(yaml.MarkedYAMLError):
    """Valid YAML that we do not accept."""


def _fault(problem: str, mark: Any) -> _Refused:  # noqa: ANN401 - PyYAML's mark
    return _Refused(None, None, problem, mark)


# --- JSON ---------------------------------------------------------------------------------------------------------


class JsonObject(dict[str, Any]):
    """An object of a JSON text that remembers its duplicate keys.

    Attributes:
        repeated: The keys that the text had more than once.

    Example:
        >>> load_json('{"name": "n1", "name": "n2"}', "nodes.json").repeated
        ('name',)
    """

    repeated: tuple[str, ...] = ()


def load_json(text: str, where: str) -> Any:  # noqa: ANN401 - any JSON value
    """Read a JSON text; its objects become `JsonObject`.

    Raises:
        ConfigError: The text is not JSON; with line and column.

    Example:
        >>> load_json('{"name": "n1"}', "nodes.json")
        {'name': 'n1'}
    """
    if not text.strip():
        raise ConfigError(where, "is empty", "write {} or leave the file out")
    try:
        content = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
        _check_depth(content)
    except json.JSONDecodeError as error:
        at = f"{where}, line {error.lineno}, column {error.colno}"
        raise ConfigError(at, f"is not JSON: {error.msg}", _likely_yaml(text)) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(where, f"is not JSON: {error}") from None
    return content


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    made = JsonObject(pairs)
    if len(made) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        made.repeated = tuple(key for key, count in counts.items() if count > 1)
    return made


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


def _check_depth(content: object) -> None:
    level = [content]
    for _ in range(MAX_DEPTH):
        level = [below for each in level for below in _children(each)]
        if not level:
            return
    raise ValueError(f"it is nested more than {MAX_DEPTH} deep")


def _children(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _likely_yaml(text: str) -> str:
    try:
        is_yaml = isinstance(load_yaml(text, ""), dict)
    except ConfigError:
        is_yaml = False
    return "it looks like YAML; write it as JSON" if is_yaml else 'for example {"name": "value"}'


# --- models -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unknown:
    """A key in a document that the model does not have.

    Attributes:
        path: Place in the document, such as ``nvidia.parts[1].sise``.
        hint: ``did you mean size?``; empty: no known key resembles it.

    Example:
        >>> print(Unknown("acme.sltos", "did you mean slots?"))
        acme.sltos (did you mean slots?)
    """

    path: str
    hint: str

    def __str__(self) -> str:
        return f"{self.path} ({self.hint})" if self.hint else self.path


def read_model(model: type[M], raw: object, where: str, path: str = "") -> tuple[M, tuple[Unknown, ...]]:
    """Validate one part of a document against a pydantic model.

    Args:
        model: The model.
        raw: Content of the part: a mapping, or another value that the model accepts.
        where: The file, for messages.
        path: Place of the part in the file, such as ``nvidia`` or ``nodeconfig[1] (n1)``; empty: the whole file.

    Returns:
        An instance of the model, and the keys that the model does not have.

    Raises:
        ConfigError: The content does not fit the model; names file, place, key, value and what is expected.

    Example:
        >>> from pydantic import BaseModel
        >>> class Acme(BaseModel):
        ...     slots: int = 10
        >>> made, unknown = read_model(Acme, {"slots": 4, "sltos": 5}, "device-config.yaml", "acme")
        >>> made.slots, [str(key) for key in unknown]
        (4, ['acme.sltos (did you mean slots?)'])
    """
    try:
        made = model.model_validate(raw)
    except ValidationError as error:
        raise explained(error, where, path) from error
    unknown: list[Unknown] = []
    for found in _compared(made, raw, path):
        if isinstance(found, str):
            raise ConfigError(f"{where}: {found}", "expected a number, got true or false", "write a number")
        unknown.append(found)
    return made, tuple(unknown)


def explained(error: ValidationError, where: str, path: str = "") -> ConfigError:
    """Turn a pydantic error into one of ours: the first finding in words, and the number of further ones.

    Example:
        >>> from pydantic import BaseModel, ValidationError
        >>> class Acme(BaseModel):
        ...     slots: int
        >>> try:
        ...     Acme.model_validate({})
        ... except ValidationError as error:
        ...     print(explained(error, "device-config.yaml", "acme"))
        device-config.yaml: acme.slots: is required (write it)
    """
    findings = error.errors(include_url=False)
    first = findings[0]
    place = path
    for part in first["loc"]:
        place = f"{place}[{part}]" if isinstance(part, int) else below(place, part)
    problem, fix = finding_in_words(first)
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return ConfigError(f"{where}: {place}" if place else where, problem + more, fix)


def below(path: str, key: object) -> str:
    """Join a place and a key within it: ``nvidia.deviceSplitCount``, ``nodeconfig[1] (n1): operatingmode``.

    Example:
        >>> below("acme", "slots"), below("nodes[1] (n1)", "mode")
        ('acme.slots', 'nodes[1] (n1): mode')
    """
    text = str(key) if len(str(key)) <= _LONGEST_KEY else str(key)[:_LONGEST_KEY] + "…"
    text = text if text.isprintable() else repr(text)
    return text if not path else f"{path}: {text}" if path.endswith(")") else f"{path}.{text}"


def finding_in_words(finding: ErrorDetails) -> tuple[str, str]:
    """Describe one finding of a pydantic error as problem and fix.

    Example:
        >>> from pydantic import BaseModel, ValidationError
        >>> class Acme(BaseModel):
        ...     slots: int
        >>> try:
        ...     Acme.model_validate({})
        ... except ValidationError as error:
        ...     print(finding_in_words(error.errors()[0]))
        ('is required', 'write it')
    """
    kind, context, value = finding["type"], finding.get("ctx", {}), finding["input"]
    got = f", got {shown(value)}"
    if kind == "missing":
        return "is required", "write it"
    if kind in {"literal_error", "enum"}:
        words = [word.strip(" '") for word in str(context["expected"]).replace(" or ", ", ").split(",")]
        words = [word for word in words if word]
        return f"{shown(value)} is none of {', '.join(words)}", did_you_mean(value, words) or "write one of them"
    if kind == "value_error":
        said = one_line(context.get("error", "") or finding["msg"])
        return said if shown(value) in said else said + got, ""
    for ends, expected in _EXPECTED:
        if kind.startswith(ends):
            return f"expected {expected}{got}", ""
    bound = next((f"{words} {context[name]}" for name, words in _BOUNDS if name in context), "")
    return (f"must be {bound}{got}", "") if bound else (f"{one_line(finding['msg'])}{got}", "")


_EXPECTED: Final = (
    ("int_", "a whole number"),
    ("float_", "a number"),
    ("finite_number", "a number"),
    ("bool_", "true or false"),
    ("string_type", "text; quote it"),
    ("list_type", "a list"),
    ("tuple_type", "a list"),
    ("dict_type", "a mapping of names to values"),
    ("model_type", "a mapping of names to values"),
    ("model_attributes_type", "a mapping of names to values"),
    ("datetime_", "a time such as 2026-01-31T00:00:00Z"),
    ("path_type", "a path"),
)
_BOUNDS: Final = (
    ("ge", "at least"),
    ("gt", "more than"),
    ("le", "at most"),
    ("lt", "less than"),
    ("min_length", "of a length of at least"),
    ("max_length", "of a length of at most"),
)


def _compared(section: BaseModel, raw: object, path: str) -> Iterator[Unknown | str]:
    """Yield unknown keys, and the places where pydantic accepted a boolean as a number."""
    if not isinstance(raw, dict):
        yield from _below(getattr(section, "root", None), raw, path)
        return
    fields = type(section).model_fields
    known = {name: name for name in fields} | {
        alias: name for name, field in fields.items() for alias in _aliases(field)
    }
    meant = [next(_aliases(field), name) for name, field in fields.items()]
    validators = type(section).__pydantic_decorators__.model_validators.values()
    by_validator = any(validator.info.mode == "before" for validator in validators)  # may rename keys
    for key, value in raw.items():
        place = below(path, key)
        if key in known:
            yield from _below(getattr(section, known[key]), value, place)
        elif type(section).model_config.get("extra") != "allow" and not by_validator:
            yield Unknown(place, did_you_mean(key, meant))


def _below(value: object, raw: object, path: str) -> Iterator[Unknown | str]:
    if isinstance(value, BaseModel):
        yield from _compared(value, raw, path)
    elif isinstance(value, list | tuple) and isinstance(raw, list) and len(value) == len(raw):
        for position, (item, raw_item) in enumerate(zip(value, raw, strict=True)):
            yield from _below(item, raw_item, f"{path}[{position}]")
    elif isinstance(value, dict) and isinstance(raw, dict):
        for key in value.keys() & raw.keys():
            yield from _below(value[key], raw[key], below(path, key))
    elif isinstance(raw, bool) and isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def _aliases(field: Any) -> Iterator[str]:  # noqa: ANN401 - pydantic's FieldInfo
    for alias in (field.alias, field.validation_alias):
        if isinstance(alias, str):
            yield alias
        for choice in getattr(alias, "choices", ()):
            if isinstance(choice, str):
                yield choice


def kind_of(value: object) -> str:
    """Name the type of a value in a document.

    Example:
        >>> kind_of({}), kind_of("one"), kind_of(1)
        ('mapping', 'text', 'number')
    """
    names: Mapping[type, str] = {dict: "mapping", list: "list", str: "text", bool: "boolean", int: "number"}
    return next((name for kind, name in names.items() if isinstance(value, kind)), "number")
