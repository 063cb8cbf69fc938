"""Reads the description of a cluster: rows of equal nodes, and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from hami_core.documents import did_you_mean, none_of, read_model, shown
from hami_core.errors import ConfigError
from hami_core.model import INT32_MAX, Device, NodeFacts
from hami_core.placement.quota_spec import LIMITS, findings, limited
from hami_core.simulate.world import DescribedWorld

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.plugins import Loaded

MAX_NODES: Final = 200_000
"""Most nodes of a cluster."""
MAX_CARDS: Final = 64
"""Most cards of a node."""
NUMBER: Final = "{}"
"""Stands for a node's number within its row, from 1."""

M = TypeVar("M", bound=BaseModel)

Small = Annotated[int, Field(ge=1, le=10_000)]


class NodeRow(BaseModel):
    """Equal nodes."""

    model_config = ConfigDict(strict=True)

    count: Annotated[int, Field(ge=1, le=MAX_NODES)] = 1
    name: Annotated[str, Field(min_length=1, max_length=200)]
    family: str
    type: str = ""
    cards: Annotated[int, Field(ge=1, le=MAX_CARDS)]
    memoryMiB: Annotated[int, Field(ge=1, le=INT32_MAX)]  # noqa: N815 - a key of the file
    cores: Small = 100
    slots: Small = 10
    numaNodes: Annotated[int, Field(ge=1, le=MAX_CARDS)] = 1  # noqa: N815 - a key of the file
    mode: str = ""
    labels: dict[str, str] = Field(default_factory=dict)


class QuotaRow(BaseModel):
    """A ResourceQuota."""

    model_config = ConfigDict(strict=True)

    namespace: Annotated[str, Field(min_length=1)]
    hard: dict[str, str | int]


class ClusterFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(strict=True)

    nodes: Annotated[list[NodeRow], Field(min_length=1)]
    quotas: list[QuotaRow] = Field(default_factory=list)


def strict(model: type[M], raw: object, where: str, path: str = "") -> M:
    """Validate a document, and refuse keys that the model does not have.

    Raises:
        ConfigError: The content does not fit; names file, place, key and fix.
    """
    made, unknown = read_model(model, raw, where, path)
    if unknown:
        fix = unknown[0].hint or "remove it"
        raise ConfigError(f"{where}: {unknown[0].path}", "is not a known key", fix)
    return made


def described_world(content: Mapping[str, Any], loaded: Loaded, where: str) -> DescribedWorld:
    """Make the cluster that a file describes.

    Args:
        content: The file's content.
        loaded: The vendors.
        where: The file, for messages.

    Raises:
        ConfigError: A row is wrong; names file, row, key and fix.
    """
    file = strict(ClusterFile, content, where)
    total = sum(row.count for row in file.nodes)
    if total > MAX_NODES:
        raise ConfigError(f"{where}: nodes", f"{total} nodes, at most {MAX_NODES} can be simulated", "lower a count")
    names: dict[str, int] = {}
    nodes = []
    for number, row in enumerate(file.nodes):
        place = f"{where}: nodes[{number}]"
        devices = {row.family: _devices(row, number, loaded, place)}
        for name in _names(row, place):
            if name in names:
                problem = f"{shown(name)} is the name of a node in nodes[{names[name]}] too"
                raise ConfigError(f"{place}.name", problem, "give each row another name")
            names[name] = number
            nodes.append((NodeFacts(name, labels=row.labels), devices))
    quotas = [
        (row.namespace, _hard(row, loaded, f"{where}: quotas[{number}].hard")) for number, row in enumerate(file.quotas)
    ]
    return DescribedWorld(loaded, nodes, quotas)


def _hard(row: QuotaRow, loaded: Loaded, place: str) -> dict[str, str]:
    """The limits of a quota. A key or amount that the scheduler does not enforce as written is refused."""
    families = loaded.families.values()
    hard = {key: str(value) for key, value in row.hard.items()}
    for found in findings(row.namespace, hard, families, lambda _resource: False):
        raise ConfigError(f"{place}[{found.entry}]", found.problem, found.fix)
    known = {LIMITS + resource for resource in limited(families)}
    for key in hard:
        if key not in known:
            problem = f"{shown(key)} limits no devices, and is not simulated"
            raise ConfigError(place, problem, did_you_mean(key, known) or "remove it")
    return hard


def _names(row: NodeRow, place: str) -> list[str]:
    if not row.name.isprintable():
        raise ConfigError(f"{place}.name", f"{shown(row.name)} has control characters", "write printable text")
    if row.count > 1 and NUMBER not in row.name:
        problem = f"{shown(row.name)} names {row.count} nodes alike"
        raise ConfigError(f"{place}.name", problem, f"write {NUMBER} where the node's number stands")
    return [row.name.replace(NUMBER, str(number)) for number in range(1, row.count + 1)]


def _devices(row: NodeRow, number: int, loaded: Loaded, place: str) -> tuple[Device, ...]:
    """The devices of each node of a row. All nodes share them: ids need to be unique on one node only."""
    if row.family not in loaded.families:
        raise ConfigError(f"{place}.family", none_of(row.family, sorted(loaded.families)))
    if row.numaNodes > row.cards:
        raise ConfigError(f"{place}.numaNodes", f"{row.numaNodes} for {row.cards} cards", "write at most one a card")
    return tuple(
        Device(
            id=f"{row.family}-{number}-{index}",
            index=index,
            slots=row.slots,
            memory_mib=row.memoryMiB,
            cores=row.cores,
            type=row.type or row.family,
            family=row.family,
            numa=index * row.numaNodes // row.cards,
            mode=row.mode,
        )
        for index in range(row.cards)
    )
