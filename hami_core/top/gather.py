"""Asks the scheduler and the agents, and remembers their last answers.

Agents are asked side by side, each with a short deadline and all together with one, so that a few silent agents delay
the view by seconds and not by minutes.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import msgspec

from hami_core.documents import one_line
from hami_core.errors import HamiError
from hami_core.reach import ReachError
from hami_core.scheduler.usage import SCHEMA, Amounts, DeviceUse, NodeUse, SliceUse, Usage
from hami_core.top import samples
from hami_core.top.model import NodeAgents, Snapshot
from hami_core.top.samples import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from hami_core.reach import Endpoint, PodEndpoint, PodNames, Reach

AT_ONCE: Final = 32
"""Agents asked at the same time."""
AGENT_WITHIN_S: Final = 3.0
"""How long one agent may take."""
ROUND_WITHIN_S: Final = 30.0
"""How long all agents together may take."""
LOOK_AGAIN_S: Final = 30.0
"""How long found pods of ours and names of pods are used before they are listed again."""
LOOK_SOON_S: Final = 5.0
"""The same while an agent does not answer, or if a pod has come since."""
NAMED: Final = 3
"""Silent agents that a line names."""


class Gatherer:
    """Makes snapshots.

    Args:
        reach: The installation.
        clock: Monotonic seconds.
        agent_within_s: As `AGENT_WITHIN_S`.
        round_within_s: As `ROUND_WITHIN_S`.
    """

    def __init__(
        self,
        reach: Reach,
        *,
        clock: Callable[[], float] = time.monotonic,
        agent_within_s: float = AGENT_WITHIN_S,
        round_within_s: float = ROUND_WITHIN_S,
    ) -> None:
        self._reach = reach
        self._nodes: tuple[str, ...] = ()
        self._clock = clock
        self._agent_within_s = agent_within_s
        self._round_within_s = round_within_s
        self._usage: Usage | None = None
        self._usage_at = 0.0
        self._problems: dict[str, str] = {}
        self._agents: dict[str, NodeAgents] = {}
        self._names: PodNames | None = None
        self._names_at = float("-inf")
        self._looked_up: set[str] = set()
        self._scheduler: Endpoint | None = None
        self._endpoints: list[PodEndpoint] | None = None
        self._endpoints_at = float("-inf")
        self._missed = False

    @property
    def has_bookings(self) -> bool:
        """Whether the scheduler has ever answered."""
        return self._usage is not None

    def covers(self, nodes: Collection[str]) -> bool:
        """Whether the bookings at hand are of these nodes, alone or among others; empty: of all nodes."""
        return not self._nodes or (bool(nodes) and set(nodes) <= set(self._nodes))

    async def bookings(self, nodes: Sequence[str] = ()) -> None:
        """Ask the scheduler. If it does not answer, its last answer stays, unless that lacks some of the nodes.

        Args:
            nodes: Names of the only nodes to ask for; empty: all.
        """
        if not self.covers(nodes):
            self._usage, self._nodes = None, tuple(nodes)
        self._problems.pop("scheduler", None)
        try:
            if self._scheduler is None:
                self._scheduler = await self._reach.scheduler()
            self._usage = _usage(await self._scheduler.call("/usage", {"node": tuple(nodes)} if nodes else None))
            self._usage_at, self._nodes = self._clock(), tuple(nodes)
        except ReachError as error:
            self._scheduler = None  # another replica may lead now
            self._problems["scheduler"] = str(error)

    async def measure(self, nodes: Collection[str] | None = None) -> None:
        """Ask the agents of these nodes; None: all agents. If one does not answer, its last values stay."""
        self._problems.pop("agents", None)
        try:
            endpoints = await self._found()
        except ReachError as error:
            self._problems["agents"] = str(error)
            return
        by_node: dict[str, list[PodEndpoint]] = {}
        for endpoint in endpoints:
            if nodes is None or endpoint.node in nodes:
                by_node.setdefault(endpoint.node, []).append(endpoint)
        for node in set(nodes or ()) - by_node.keys():
            self._agents[node] = NodeAgents("none")
        if self._usage is not None:  # agents that are gone from the cluster
            keep = {node.name for node in self._usage.nodes}
            self._agents = {name: agents for name, agents in self._agents.items() if name in keep}
        await self._ask(by_node)

    async def name_pods(self) -> None:
        """List the names of the pods that have slices, if some are new or the last list is old.

        A pod that the list left out, since it has ended or the caller has no right to it, is not new.
        """
        uids = {piece.pod for node in self._current().nodes for device in node.devices for piece in device.slices}
        age = self._clock() - self._names_at
        if age < LOOK_SOON_S or (age < LOOK_AGAIN_S and uids <= self._looked_up):
            return
        busy = [n.name for n in self._current().nodes if any(device.slices for device in n.devices)]
        self._names, self._names_at, self._looked_up = await self._reach.names(busy), self._clock(), uids

    def snapshot(self) -> Snapshot:
        """The answers at hand."""
        problems = [text for text in self._problems.values() if text]
        silent = sorted(node for node, agents in self._agents.items() if agents.state == "silent")
        if silent:
            told = "; ".join(self._agents[node].problem for node in silent[:NAMED])
            more = f"; and {len(silent) - NAMED} more" if len(silent) > NAMED else ""
            problems.append(f"no values from the agents of {len(silent)} nodes: {told}{more}")
        if self._names is not None and self._names.limited:
            problems.append(f"names of some pods are hidden: {self._names.limited} (you need the right to list pods)")
        return Snapshot(
            self._current(),
            now=self._clock(),
            usage_at=self._usage_at,
            agents=dict(self._agents),
            names=self._names,
            looked_up=self._looked_up,
            problems=tuple(map(_clean, problems)),
            has_bookings=self.has_bookings,
        )

    # --- parts

    async def _found(self) -> list[PodEndpoint]:
        """The agents. They are listed again sooner if one did not answer, since its pod may have been replaced."""
        old = self._clock() - self._endpoints_at
        if self._endpoints is None or old > (LOOK_SOON_S if self._missed else LOOK_AGAIN_S):
            self._endpoints, self._endpoints_at, self._missed = await self._reach.agents(), self._clock(), False
        return self._endpoints

    async def _ask(self, by_node: Mapping[str, Sequence[PodEndpoint]]) -> None:
        waiting = iter(by_node.items())
        asked: set[str] = set()

        async def worker() -> None:
            for node, endpoints in waiting:  # one iterator for all workers
                await self._ask_node(node, endpoints)
                asked.add(node)

        try:
            async with asyncio.timeout(self._round_within_s):
                await asyncio.gather(*(worker() for _ in range(min(AT_ONCE, len(by_node)))))
        except TimeoutError:
            for node in by_node.keys() - asked:
                self._silent(node, f"node {node} was not asked within {self._round_within_s:.0f} s")

    async def _ask_node(self, node: str, endpoints: Iterable[PodEndpoint]) -> None:
        found = Sample()
        for endpoint in endpoints:
            try:
                async with asyncio.timeout(self._agent_within_s):
                    body = await endpoint.call("/metrics", {"name[]": samples.NAMES})
                found.add(samples.read(body.decode("utf-8", "replace")))
            except TimeoutError:
                self._missed = True
                self._silent(node, f"{endpoint.what}: no answer within {self._agent_within_s:.0f} s")
                return
            except (HamiError, ValueError) as error:
                self._missed = True
                own = isinstance(error, HamiError)
                self._silent(node, str(error) if own else f"{endpoint.what}: {error} (upgrade it)")
                return
        self._agents[node] = NodeAgents("answers", found, self._clock())

    def _silent(self, node: str, problem: str) -> None:
        old = self._agents.get(node, NodeAgents())
        self._agents[node] = NodeAgents("silent", old.sample, old.at, problem)

    def _current(self) -> Usage:
        if self._usage is not None:
            return self._usage
        return Usage(SCHEMA, "", tuple(_measured(node, a.sample) for node, a in self._agents.items() if a.sample))


def _usage(body: bytes) -> Usage:
    """Read the scheduler's answer.

    Raises:
        ReachError: It is none, or of a version that this program does not know.
    """
    try:
        schema = msgspec.json.decode(body, type=_Head).schema
        if schema != SCHEMA:
            problem = f"/usage has schema {schema}, and this program reads {SCHEMA}"
            raise ReachError("scheduler", problem, "use the versions of program and scheduler that belong together")
        return msgspec.json.decode(body, type=Usage)
    except msgspec.MsgspecError as error:
        raise ReachError(
            "scheduler", f"/usage can't be read: {error}", "see the pod's log, or run hami doctor"
        ) from error


class _Head(msgspec.Struct):
    schema: int


def _measured(node: str, sample: Sample) -> NodeUse:
    """A node as its agents alone know it: its cards, and the slices of running containers."""
    slices: dict[str, list[SliceUse]] = {}
    for uid, container, device in sample.slices:
        slices.setdefault(device, []).append(SliceUse(uid, container))
    devices = []
    for device in {**sample.kinds, **slices}:
        index, model = sample.kinds.get(device, (-1, ""))
        nothing = Amounts()
        pieces = tuple(slices.get(device, ()))
        devices.append(
            DeviceUse(device, index, model, "", "", True, False, True, False, nothing, nothing, nothing, pieces)
        )
    return NodeUse(node, 0, tuple(devices))


def _clean(text: str) -> str:
    return one_line(text, 1000)
