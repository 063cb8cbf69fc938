"""An installation for `hami top` without a cluster: a scheduler and agents that answer what a test says."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hami_core.reach import PodNames, ReachError
from hami_core.scheduler.usage import SCHEMA, Amounts, DeviceUse, NodeUse, SliceUse, Usage
from hami_core.top.samples import CARD_CORES, CARD_MEMORY, CONTAINER, SLICE_CORES, SLICE_LIMIT, SLICE_MEMORY

MIB = 2**20


def card(node: str, index: int, *slices: SliceUse, **more: Any) -> DeviceUse:
    booked = Amounts(sum(s.slots for s in slices), sum(s.memory_mib for s in slices), sum(s.cores for s in slices))
    values: dict[str, Any] = {
        "id": f"{node}-{index}", "index": index, "type": "NVIDIA A100", "family": "NVIDIA", "mode": "hami-core",
        "healthy": True, "cordoned": False, "registered": True, "cores_are_units": False,
        "total": Amounts(10, 40960, 100), "booked": booked, "held": Amounts(), "slices": slices,
    }  # fmt: skip
    return DeviceUse(**{**values, **more})


def usage(*nodes: NodeUse) -> Usage:
    return Usage(SCHEMA, "2026-01-31T12:00:00Z", nodes)


def metric(name: str, value: float, **labels: object) -> str:
    quoted = {
        key: str(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for key, text in labels.items()
    }
    return name + "{" + ",".join(f'{key}="{text}"' for key, text in quoted.items()) + f"}} {value}\n"


def of_card(node: str, index: int, mib: float, percent: float, model: str = "NVIDIA A100") -> str:
    labels = {"device_uuid": f"{node}-{index}", "device_index": index, "device_type": model}
    return metric(CARD_MEMORY, mib * MIB, **labels) + metric(CARD_CORES, percent, **labels)


def of_slice(uid: str, device: str, mib: float, limit: float, percent: float, pod: str = "") -> str:
    container = {"namespace": "team", "pod": pod or f"pod-{uid}", "container": "main"}
    labels = {**container, "vdevice_index": 0, "device_uuid": device}
    return (
        metric(CONTAINER, 1, **container, pod_uid=uid)
        + metric(SLICE_MEMORY, mib * MIB, **labels)
        + metric(SLICE_LIMIT, limit * MIB, **labels)
        + metric(SLICE_CORES, percent, **labels)
    )


@dataclass
class Answer:
    """A listener: it answers a text, fails, takes a time, or waits."""

    what: str
    text: str = ""
    node: str = ""
    fails: str = ""
    takes_s: float = 0
    until: asyncio.Event | None = None
    calls: list[tuple[str, Any]] = field(default_factory=list)

    async def call(self, path: str, query: Any = None, body: bytes | None = None) -> bytes:
        self.calls.append((path, query))
        if self.takes_s:
            await asyncio.sleep(self.takes_s)
        if self.until is not None:
            await self.until.wait()
        if self.fails:
            raise ReachError(self.what, self.fails, "see the pod's log")
        return self.text.encode()


@dataclass
class Scheduler(Answer):
    """A scheduler's listener. Like a real one, it tells of the nodes that are asked for."""

    async def call(self, path: str, query: Any = None, body: bytes | None = None) -> bytes:
        whole = await super().call(path, query, body)
        try:
            said = msgspec.json.decode(whole, type=Usage)
        except msgspec.MsgspecError:
            return whole
        wanted = (query or {}).get("node")
        nodes = tuple(node for node in said.nodes if not wanted or node.name in wanted)
        return msgspec.json.encode(Usage(said.schema, said.time, nodes))


class Installation:
    """What `hami_core.reach.Reach` is for `hami top`."""

    def __init__(self, said: Usage, agents: dict[str, str] | None = None, names: PodNames | None = None) -> None:
        self.of_scheduler = Scheduler("scheduler pod hami/s", msgspec.json.encode(said).decode())
        self.of_agents = {node: Answer(f"agent pod hami/a-{node}", text, node) for node, text in (agents or {}).items()}
        self.pod_names = names or PodNames({})
        self.refused = ""
        self.listed = 0
        self.named = 0

    async def scheduler(self) -> Answer:
        return self.of_scheduler

    async def agents(self) -> list[Answer]:
        self.listed += 1
        if self.refused:
            raise ReachError("scheduler and agents", self.refused, "you need the role hami-scheduler-view")
        return list(self.of_agents.values())

    async def names(self, nodes: Any = None) -> PodNames:
        self.named += 1
        return self.pod_names


def small() -> Installation:
    """Two nodes: n2 with two cards and a slice of two pods, n10 with one idle card."""
    slices = SliceUse("u1", "main", memory_mib=3000, cores=30), SliceUse("u2", "main", memory_mib=8000)
    said = usage(
        NodeUse("n10", 0, (card("n10", 0, type="Acme X1"),)),
        NodeUse("n2", 1, (card("n2", 1), card("n2", 0, *slices))),
    )
    agents = {
        "n2": of_card("n2", 0, 5000, 61.4)
        + of_card("n2", 1, 10, 0)
        + of_slice("u1", "n2-0", 2500, 3000, 20.4)
        + of_slice("u2", "n2-0", 2400, 0, 41),
        "n10": of_card("n10", 0, 0, 0),
    }
    return Installation(said, agents, PodNames({"u1": "team/train", "u2": "other/serve"}))
