"""HAMi's per-node file, ``config.json``: one list, ``nodeconfig``, with an entry for each node that needs one.

All agents of a cluster mount the same file. So faults in an entry of another node are only warnings, and never stop
this node's agent. A fault in this node's own entry stops the start. Otherwise a filter or mode would not apply, and the
agent could offer cards that an administrator wants to keep.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from hami_core import ConfigError
from hami_core.documents import (
    JsonObject,
    Unknown,
    below,
    did_you_mean,
    kind_of,
    load_json,
    none_of,
    read_model,
    read_text,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Mode = Literal["hami-core", "mig", "mps"]
MigStrategy = Literal["none", "single", "mixed"]
LOG_LEVELS: Final = ("0", "1", "2", "3", "4")
DEFAULT_PATH: Final = Path("/config/config.json")
"""HAMi's path of the file. A file need not exist there."""
_LIST: Final = "nodeconfig"
_EXAMPLE: Final = '{"nodeconfig": [{"name": "node-1", "devicesplitcount": 4}]}'
_WARNINGS_SHOWN: Final = 5


class Filter(BaseModel):
    """Cards that are never offered."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    uuid: tuple[str, ...] = ()
    index: tuple[Annotated[int, Field(ge=0)], ...] = ()

    @field_validator("uuid", "index", mode="before")
    @classmethod
    def _null(cls, value: Any) -> Any:  # noqa: ANN401 - whatever the file holds
        return () if value is None else value


class NodeEntry(BaseModel):
    """One entry of the list. As in HAMi, null, zero and the empty text mean "not set"."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    operatingmode: Mode | None = None
    devicesplitcount: int | None = Field(default=None, ge=0, le=1000)
    devicememoryscaling: float | None = Field(default=None, ge=0, le=100, allow_inf_nan=False)
    devicecorescaling: float | None = Field(default=None, ge=0, le=100, allow_inf_nan=False)
    preconfigureddevicememory: int | None = Field(default=None, ge=0, le=2**31 - 1)
    libcudaloglevel: str | None = None
    enablenumatopology: bool | None = None
    filterdevices: Filter | None = None
    migstrategy: MigStrategy | None = None
    enablegetpreferredallocation: bool | None = None

    @field_validator("operatingmode", "migstrategy", mode="before")
    @classmethod
    def _empty_word(cls, value: Any) -> Any:  # noqa: ANN401 - whatever the file holds
        return None if value == "" else value

    @field_validator("libcudaloglevel", mode="before")
    @classmethod
    def _log_level(cls, value: Any) -> Any:  # noqa: ANN401 - whatever the file holds
        if value is None or value == "":
            return None
        text = str(value)
        if isinstance(value, bool) or text not in LOG_LEVELS:
            raise ValueError(none_of(value, LOG_LEVELS))
        return text


@dataclass(slots=True)
class Found:
    """What the file says of one node.

    Attributes:
        entries: Its entries with their places, in the order in which they apply.
        warnings: What was ignored, for the log.
    """

    entries: list[tuple[str, NodeEntry]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read(path: Path, node: str) -> Found:
    """Read what the per-node file says of a node. Without a file that is nothing.

    Raises:
        ConfigError: The file can't be read, or an entry of this node is invalid.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return Found(warnings=[] if path == DEFAULT_PATH else [f"{path}: there is no such file"])
    except OSError:
        pass  # reading it says why
    return parse(read_text(path), str(path), node)


def parse(text: str, where: str, node: str) -> Found:
    """Like `read`, for the text of a file.

    Args:
        text: The file's content.
        where: The file's name, for messages.
        node: This node.

    Raises:
        ConfigError: The text is not a per-node file, or an entry of this node is invalid.
    """
    found = Found()
    others: list[str] = []
    for position, raw in enumerate(_entries(load_json(text, where), where, found)):
        place = f"{_LIST}[{position}]"
        if not _is_about(raw, node):
            others += _faults_elsewhere(raw, where, place)
            continue
        place = f"{place} ({node})"
        entry = _entry(raw, where, place, found)
        if entry.name != node:
            problem = f"{shown(entry.name)} is not written as this node's name"
            raise ConfigError(f"{where}: {place}: name", problem, f"write {node}")
        found.entries.append((place, entry))
    if len(found.entries) > 1:
        places = ", ".join(place for place, _ in found.entries)
        found.warnings.append(f"{where}: {places} are about one node: a later one wins; filters add up")
    found.warnings += [f"{text}; not this node's, passed over here" for text in others[:_WARNINGS_SHOWN]]
    if len(others) > _WARNINGS_SHOWN:
        found.warnings.append(f"{where}: {len(others) - _WARNINGS_SHOWN} more such entries of other nodes")
    return found


def _entries(content: object, where: str, found: Found) -> list[Any]:
    """The list ``nodeconfig``; empty if the file has none."""
    if not isinstance(content, dict):
        raise ConfigError(where, f"holds a {kind_of(content)}, expected a mapping", f"for example {_EXAMPLE}")
    for key in content:
        if key.lower() != _LIST:
            _unknown(Unknown(below("", key), did_you_mean(key, [_LIST])), where, found)
    entries = _folded(content, where, "").get(_LIST)
    if entries is None:
        found.warnings.append(f"{where}: holds no list {_LIST}: no node has settings of its own")
        return []
    if not isinstance(entries, list):
        problem = f"holds a {kind_of(entries)}, expected a list of entries"
        raise ConfigError(f"{where}: {_LIST}", problem, f"for example {_EXAMPLE}")
    return entries


def _is_about(raw: object, node: str) -> bool:
    """Whether an entry means this node, even if it is malformed."""

    def same(value: object) -> bool:
        return bool(node) and isinstance(value, str) and value.strip().lower() == node.lower()

    if not isinstance(raw, dict):
        return same(raw)
    named = [value for key, value in raw.items() if str(key).lower() == "name"]
    if any(same(value) or (isinstance(value, list) and any(map(same, value))) for value in named):
        return True
    return not named and any(same(value) for value in raw.values())


def _faults_elsewhere(raw: object, where: str, place: str) -> Iterator[str]:
    """Why an entry of another node would stop that node's agent."""
    name = raw.get("name") if isinstance(raw, dict) else None
    if isinstance(name, str) and name:
        place = f"{place} ({below('', name)})"
    try:
        _entry(raw, where, place, Found())
    except ConfigError as error:
        yield str(error)


def _entry(raw: object, where: str, place: str, found: Found) -> NodeEntry:
    """Read one entry. Its keys are checked equally strictly at every depth."""
    if not isinstance(raw, dict):
        raise ConfigError(f"{where}: {place}", f"holds a {kind_of(raw)}, expected a mapping", f"for example {_EXAMPLE}")
    keys = _folded(raw, where, place)
    if isinstance(keys.get("filterdevices"), dict):
        keys["filterdevices"] = _folded(keys["filterdevices"], where, f"{place}: filterdevices")
    entry, unknown = read_model(NodeEntry, keys, where, place)
    for each in unknown:
        _unknown(each, where, found)
    return entry


def _unknown(key: Unknown, where: str, found: Found) -> None:
    """Handle an unknown key. One that resembles a known key is an error; any other may belong to another program.

    Raises:
        ConfigError: The key resembles a known one.
    """
    if key.hint:
        raise ConfigError(f"{where}: {key.path}", "there is no such key", key.hint)
    found.warnings.append(f"{where}: {key.path}: there is no such key, passed over")


def _folded(raw: dict[str, Any], where: str, place: str) -> dict[str, Any]:
    """The mapping with keys in lower case, since Go ignores the case of keys.

    Raises:
        ConfigError: A key occurs twice.
    """
    keys: dict[str, Any] = {}
    repeated = raw.repeated if isinstance(raw, JsonObject) else ()
    for key, value in raw.items():
        if key.lower() in keys or key in repeated:
            inside = f"{where}: {place}" if place else where
            raise ConfigError(inside, f"key {shown(key)} stands twice", "leave one of them out")
        keys[key.lower()] = value
    return keys
