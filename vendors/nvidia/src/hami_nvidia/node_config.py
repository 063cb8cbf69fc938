"""HAMi's per-node file, ``config.json``: one list, ``nodeconfig``, with entries for nodes by name or by label.

All agents of a cluster mount the same file. So faults in an entry of another node are only warnings, and never stop
this node's agent. A fault in this node's own entry stops the start. Otherwise a filter or mode would not apply, and the
agent could offer cards that an administrator wants to keep. An entry whose selector can't be read may be this node's.

The node's labels may change, so `read` keeps the entries by label, and `NodeFile.applying` says which apply now. The
key ``nodelabelselector`` and the name ``*`` are those that https://github.com/Project-HAMi/HAMi/issues/3068 asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

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
from hami_nvidia.node_selector import Selector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Mode = Literal["hami-core", "mig", "mps"]
MigStrategy = Literal["none", "single", "mixed"]
LOG_LEVELS: Final = ("0", "1", "2", "3", "4")
DEFAULT_PATH: Final = Path("/config/config.json")
"""HAMi's path of the file. A file need not exist there."""
_LIST: Final = "nodeconfig"
_SELECTOR: Final = "nodelabelselector"
EVERY_NODE: Final = "*"
"""The name of an entry for every node. It applies before entries by label and by name."""
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
    nodelabelselector: Selector | None = None
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


class SelectingEntry(NodeEntry):
    """An entry for the nodes that its selector matches, or for every node."""

    name: str = ""


Entry = TypeVar("Entry", bound=NodeEntry)


@dataclass(frozen=True, slots=True)
class Selecting:
    """An entry that some nodes' labels select.

    Attributes:
        place: Its place in the file.
        selector: Which nodes it is about.
        entry: The entry; None if it is invalid.
        error: What is wrong with it.
    """

    place: str
    selector: Selector
    entry: SelectingEntry | None = None
    error: ConfigError | None = None


@dataclass(slots=True)
class NodeFile:
    """What the file says of one node.

    Attributes:
        where: The file's name, for messages.
        entries: The node's own entries with their places, in the order of the file.
        by_label: Entries by label, in the order of the file. Those for every node come first.
        warnings: What was ignored, for the log.
    """

    where: str = ""
    entries: list[tuple[str, NodeEntry]] = field(default_factory=list)
    by_label: list[Selecting] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def applying(self, labels: Mapping[str, str]) -> tuple[list[tuple[str, NodeEntry]], list[str]]:
        """The entries that apply to the node with these labels, in the order in which they apply, and warnings.

        Raises:
            ConfigError: An entry that the labels select is invalid.
        """
        found: list[tuple[str, NodeEntry]] = []
        warnings: list[str] = []
        selected: list[str] = []
        for each in self.by_label:
            if not each.selector.matches(labels):
                warnings += [f"{each.error}; not this node's, passed over here"] if each.error else []
                continue
            if each.error:
                raise each.error
            if each.entry:
                found.append((each.place, each.entry))
                selected += [each.place] if each.entry.name != EVERY_NODE else []
        if len(selected) > 1:
            warnings.append(
                f"{self.where}: the labels of this node select {', '.join(selected)}: a later one wins; filters add up"
            )
        return [*found, *self.entries], warnings


def read(path: Path, node: str) -> NodeFile:
    """Read what the per-node file says of a node. Without a file that is nothing.

    Raises:
        ConfigError: The file can't be read, an entry of this node is invalid, or a selector can't be read.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return NodeFile(warnings=[] if path == DEFAULT_PATH else [f"{path}: there is no such file"])
    except OSError:
        pass  # reading it says why
    return parse(read_text(path), str(path), node)


def parse(text: str, where: str, node: str) -> NodeFile:
    """Like `read`, for the text of a file.

    Args:
        text: The file's content.
        where: The file's name, for messages.
        node: This node.

    Raises:
        ConfigError: The text is not a per-node file, an entry of this node is invalid, or a selector can't be read.
    """
    found = NodeFile(where)
    others: list[str] = []
    for position, raw in enumerate(_entries(load_json(text, where), where, found)):
        place = f"{_LIST}[{position}]"
        if isinstance(raw, dict) and not _is_about(raw, node) and _selects(raw):
            found.by_label.append(_selecting(raw, where, place, found))
            continue
        if not _is_about(raw, node):
            others += _faults_elsewhere(raw, where, place)
            continue
        place = f"{place} ({node})"
        entry = _entry(raw, where, place, found)
        if entry.name != node:
            problem = f"{shown(entry.name)} is not written as this node's name"
            raise ConfigError(f"{where}: {place}: name", problem, f"write {node}")
        if entry.nodelabelselector:
            raise _both(where, place)
        found.entries.append((place, entry))
    found.by_label.sort(key=lambda each: each.entry is None or each.entry.name != EVERY_NODE)
    if len(found.entries) > 1:
        places = ", ".join(place for place, _ in found.entries)
        found.warnings.append(f"{where}: {places} are about one node: a later one wins; filters add up")
    found.warnings += [f"{text}; not this node's, passed over here" for text in others[:_WARNINGS_SHOWN]]
    if len(others) > _WARNINGS_SHOWN:
        found.warnings.append(f"{where}: {len(others) - _WARNINGS_SHOWN} more such entries of other nodes")
    return found


def _selects(raw: dict[str, Any]) -> bool:
    """Whether an entry means nodes by their labels, or every node, even if it is malformed."""
    keys = {str(key).lower(): value for key, value in raw.items()}
    if keys.get(_SELECTOR) is not None or keys.get("name") == EVERY_NODE:
        return True
    # Without a name, such an entry may be meant for any node.
    return not keys.get("name") and any(word in key for key in keys for word in ("select", "label", "match"))


def _selecting(raw: dict[str, Any], where: str, place: str, found: NodeFile) -> Selecting:
    """Read an entry by label. Without its selector nobody knows whose entry it is, so that must be readable.

    Raises:
        ConfigError: The selector can't be read.
    """
    keys = _folded(raw, where, place)
    name, selector = keys.get("name"), keys.pop(_SELECTOR, None)
    if selector is None and name != EVERY_NODE:
        problem = f"has neither a name nor a {_SELECTOR}, so it may be about this node"
        fix = 'write name, or nodelabelselector: {"matchLabels": {…}}'
        raise ConfigError(f"{where}: {place}", problem, fix)
    chosen = Selector() if selector is None else _selector(selector, where, f"{place}: {_SELECTOR}")
    try:
        if name and selector is not None:
            raise _both(where, place)
        return Selecting(place, chosen, _read_entry(SelectingEntry, keys, where, place, found))
    except ConfigError as error:
        return Selecting(place, chosen, error=error)


def _selector(raw: object, where: str, place: str) -> Selector:
    """Read a selector, with keys in any case, as Go reads it."""
    content = _folded(raw, where, place) if isinstance(raw, dict) else raw
    if isinstance(content, dict) and isinstance(content.get("matchexpressions"), list):
        content["matchexpressions"] = [
            _folded(each, where, f"{place}.matchexpressions[{number}]") if isinstance(each, dict) else each
            for number, each in enumerate(content["matchexpressions"])
        ]
    selector, unknown = read_model(Selector, content, where, place)
    for key in unknown:
        raise ConfigError(
            f"{where}: {key.path}", "there is no such key", key.hint or "write matchLabels or matchExpressions"
        )
    return selector


def _both(where: str, place: str) -> ConfigError:
    return ConfigError(f"{where}: {place}", f"has a name and a {_SELECTOR}", "make two entries of it")


def _entries(content: object, where: str, found: NodeFile) -> list[Any]:
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
        _entry(raw, where, place, NodeFile())
    except ConfigError as error:
        yield str(error)


def _entry(raw: object, where: str, place: str, found: NodeFile) -> NodeEntry:
    """Read one entry. Its keys are checked equally strictly at every depth."""
    if not isinstance(raw, dict):
        raise ConfigError(f"{where}: {place}", f"holds a {kind_of(raw)}, expected a mapping", f"for example {_EXAMPLE}")
    keys = _folded(raw, where, place)
    if keys.get(_SELECTOR) is not None:
        keys[_SELECTOR] = _selector(keys[_SELECTOR], where, f"{place}: {_SELECTOR}").model_dump()
    return _read_entry(NodeEntry, keys, where, place, found)


def _read_entry(model: type[Entry], keys: dict[str, Any], where: str, place: str, found: NodeFile) -> Entry:
    if isinstance(keys.get("filterdevices"), dict):
        keys["filterdevices"] = _folded(keys["filterdevices"], where, f"{place}: filterdevices")
    entry, unknown = read_model(model, keys, where, place)
    for each in unknown:
        _unknown(each, where, found)
    return entry


def _unknown(key: Unknown, where: str, found: NodeFile) -> None:
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
