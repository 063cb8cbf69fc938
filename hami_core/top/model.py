"""A moment of the cluster as ``hami top`` shows it: bookings of the scheduler, values of the agents, names of pods."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from hami_core.documents import did_you_mean, one_line
from hami_core.errors import ConfigError
from hami_core.top.samples import UNKNOWN
from hami_core.vendorkit import ceil_div

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from hami_core.reach import PodNames
    from hami_core.scheduler.usage import DeviceUse, NodeUse, SliceUse, Usage
    from hami_core.top.samples import Measured, Sample

AgentState = Literal["answers", "silent", "none", "not asked"]
KEYS: Final = ("node", "model", "namespace", "pod")
"""Keys of ``--filter``."""


@dataclass(frozen=True, slots=True)
class NodeAgents:
    """The state and the values of a node's agents.

    Attributes:
        state: Whether they answered last time. ``none``: no agent runs there.
        sample: Their last values; None: there are none yet.
        at: When these came, by the gatherer's clock.
        problem: Why they did not answer.
    """

    state: AgentState = "not asked"
    sample: Sample | None = None
    at: float = 0.0
    problem: str = ""

    def word(self, now: float) -> str:
        """The column AGENT: ``ok``, or how old the values are."""
        if self.state == "answers":
            return "ok"
        if self.sample is not None:
            return f"{age(now - self.at)} ago"
        return {"silent": "silent", "none": "none"}.get(self.state, "-")


def age(seconds: float) -> str:
    """A time span in words: ``12 s``, ``3 min``, ``2 h``."""
    whole = max(round(seconds), 0)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min" if whole < 7200 else f"{whole // 3600} h"


NOT_ASKED: Final = NodeAgents()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one moment.

    Attributes:
        usage: The scheduler's answer, or nodes made from the agents' values if the scheduler never answered.
        now: The time, by the gatherer's clock.
        usage_at: When `usage` came.
        agents: By node.
        names: Names of pods; None: they were not needed.
        looked_up: UIDs of the pods that were looked for when `names` were listed.
        problems: What could not be asked, one line each.
        has_bookings: Whether `usage` is the scheduler's.
    """

    usage: Usage
    now: float = 0.0
    usage_at: float = 0.0
    agents: Mapping[str, NodeAgents] = field(default_factory=dict)
    names: PodNames | None = None
    looked_up: Collection[str] = ()
    problems: tuple[str, ...] = ()
    has_bookings: bool = True

    def agent(self, node: str) -> NodeAgents:
        """A node's agents."""
        return self.agents.get(node, NOT_ASKED)

    def of_card(self, node: str, device: str) -> Measured:
        """The measured values of a card."""
        sample = self.agent(node).sample
        return UNKNOWN if sample is None else sample.cards.get(device, UNKNOWN)

    def of_slice(self, node: str, device: str, piece: SliceUse) -> Measured:
        """The measured values of a slice."""
        sample = self.agent(node).sample
        return UNKNOWN if sample is None else sample.slices.get((piece.pod, piece.container, device), UNKNOWN)

    def pod(self, uid: str) -> str:
        """``namespace/name`` of a pod, or words for one that was not found; empty: it was not looked for yet."""
        if self.names is None or (uid not in self.names.by_uid and uid not in self.looked_up):
            return ""
        return one_line(self.names.of(uid))

    def known_pod(self, uid: str) -> tuple[str, str]:
        """Namespace and name of a pod; empty: they are not known."""
        namespace, _, name = (self.names.by_uid.get(uid, "") if self.names is not None else "").partition("/")
        return one_line(namespace), one_line(name)


@dataclass(frozen=True, slots=True)
class Card:
    """A card that filters leave, with the slices that they leave."""

    node: NodeUse
    device: DeviceUse
    slices: Sequence[SliceUse]

    @property
    def state(self) -> str:
        """Whether the card takes new pods, in one word."""
        if not self.device.registered:
            return "gone"
        return "cordoned" if self.device.cordoned else "ok" if self.device.healthy else "unhealthy"

    def percent(self, cores: int) -> int:
        """Cores in percent of the card."""
        if not self.device.cores_are_units or not self.device.total.cores:
            return cores
        return ceil_div(cores * 100, self.device.total.cores)


@dataclass(frozen=True, slots=True)
class Filter:
    """One ``--filter``.

    Attributes:
        key: One of `KEYS`; empty: any of node, model and pod.
        pattern: With a key, a pattern for the whole value, such as ``gpu-*``. Without, a part of it.
    """

    key: str
    pattern: str

    @classmethod
    def read(cls, text: str) -> Filter:
        """Read ``KEY=PATTERN`` or a word.

        Raises:
            ConfigError: The key is none of `KEYS`, or there is no pattern.
        """
        key, equals, pattern = text.partition("=")
        key, pattern = (key.strip(), pattern.strip()) if equals else ("", text.strip())
        where = f"--filter {one_line(text)}"
        if equals and key not in KEYS:
            fix = did_you_mean(key, KEYS) or f"filter by {', '.join(KEYS)}"
            raise ConfigError(where, f"there is no key {one_line(key)!r}", fix)
        if not pattern:
            raise ConfigError(where, "it has no value", "write KEY=PATTERN, such as node=gpu-*, or a word")
        return cls(key, pattern)

    def __str__(self) -> str:
        return one_line(f"{self.key}={self.pattern}" if self.key else self.pattern)

    @property
    def needs_names(self) -> bool:
        """Whether names of pods decide."""
        return self.key in {"", "namespace", "pod"}

    @property
    def exact_node(self) -> str:
        """The only node that matches; empty: it may be several.

        Names of nodes have small letters only (Kubernetes: DNS subdomain names), and the scheduler is asked literally.
        """
        return self.pattern.lower() if self.key == "node" and not set(self.pattern) & set("*?[") else ""

    def matches(self, node: str, model: str, pod: tuple[str, str] = ("", "")) -> bool:
        """Whether a card, or with ``pod`` (namespace and name) a slice, is meant."""
        namespace, name = pod
        if not self.key:
            word = self.pattern.casefold()
            return any(word in value.casefold() for value in (node, model, f"{namespace}/{name}" if name else ""))
        value = {"node": node, "model": model, "namespace": namespace, "pod": name}[self.key]
        return bool(value) and fnmatch.fnmatchcase(value.casefold(), self.pattern.casefold())


def chosen(snapshot: Snapshot, filters: Sequence[Filter]) -> Iterator[Card]:
    """The cards that all filters leave, in the order of nodes and indexes.

    A card is left if it matches, or if one of its slices does. Of its slices those are left that match.
    """
    for node in sorted(snapshot.usage.nodes, key=lambda node: natural(node.name)):
        for device in sorted(node.devices, key=lambda device: (device.index < 0, device.index, device.id)):
            slices = tuple(
                piece
                for piece in device.slices
                if all(each.matches(node.name, device.type, snapshot.known_pod(piece.pod)) for each in filters)
            )
            if slices or all(each.matches(node.name, device.type) for each in filters):
                yield Card(node, device, slices)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key by which ``gpu-2`` comes before ``gpu-10``."""
    parts: list[tuple[int, int, str]] = []
    for character in text[:300]:
        digit = character.isascii() and character.isdigit()
        if digit and parts and parts[-1][0] == 0:
            parts[-1] = (0, parts[-1][1] * 10 + int(character), "")
        elif digit:
            parts.append((0, int(character), ""))
        elif parts and parts[-1][0] == 1:
            parts[-1] = (1, 0, parts[-1][2] + character)
        else:
            parts.append((1, 0, character))
    return tuple(parts)


def total(values: Iterable[float | int | None]) -> int | None:
    """The sum; None if a value is not known, or if there is none."""
    found = list(values)
    known = [value for value in found if value is not None]
    return round(sum(known)) if known and len(known) == len(found) else None
