"""After any change to a running pod's allocation annotation, a restarted scheduler never treats its cards as free."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_core.kube.objects import Node, Pod
from hami_core.kube.port import NODES, PODS, Page
from hami_core.model import Allocation
from hami_core.plugins import load
from hami_core.policies import PolicyDefaults
from hami_core.scheduler.cluster import Cluster
from hami_core.wire.pod import allocation_annotations

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from hami_core.plugins import Loaded

IDS = [f"GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b7{i}" for i in "5a"]


def devices(kind: str, cores: int, memory: int) -> list[dict[str, Any]]:
    return [
        {"id": id_, "index": i, "count": 10, "devmem": memory, "devcore": cores, "type": kind, "health": True}
        for i, id_ in enumerate(IDS)
    ]


@dataclass(frozen=True)
class World:
    """A node of one vendor, and the requests of a pod's two containers."""

    word: str
    limits: tuple[dict[str, str], dict[str, str]]
    annotations: dict[str, str]
    capacity: dict[str, str]


WORLDS = {
    "NVIDIA": World(
        "NVIDIA",
        (
            {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "60000", "nvidia.com/gpucores": "40"},
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "300"},
        ),
        {"hami.io/node-nvidia-register": json.dumps(devices("NVIDIA-A100", 100, 81920))},
        {},
    ),
    "Ascend": World(
        "Ascend910B3",
        (
            {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16384"},
            {"huawei.com/Ascend910B3": "1", "huawei.com/Ascend910B3-memory": "16384"},
        ),
        {"hami.io/node-register-Ascend910B3": json.dumps(devices("Ascend910B3", 20, 65536))},
        {"huawei.com/Ascend910B3": "16"},
    ),
    "Cambricon": World(
        "MLU",
        (
            {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "20", "cambricon.com/mlu.smlu.vcore": "30"},
            {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "20", "cambricon.com/mlu.smlu.vcore": "10"},
        ),
        {"hami.io/node-mlu-register": json.dumps(devices("MLU370-X8", 100, 25600))},
        {},
    ),
}


@cache
def loaded() -> Loaded:
    return load({}, side="scheduler")


class Frozen:
    """An API server with fixed objects and without events."""

    def __init__(self, found: dict[Any, list[Any]]) -> None:
        self._found = found

    async def list(self, resource: Any, **_: Any) -> Page[Any]:
        return Page(tuple(self._found.get(resource, ())), "1")

    async def watch(self, _resource: Any, **_: Any) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield


def body(world: World, annotations: dict[str, str] | None = None) -> Pod:
    containers = [{"name": f"c{i}", "resources": {"limits": limits}} for i, limits in enumerate(world.limits)]
    made = {
        "metadata": {"name": "holder", "namespace": "default", "uid": "u1", "annotations": annotations or {}},
        "spec": {"containers": containers, "nodeName": "n1"},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": c["name"], "state": {"running": {}}} for c in containers],
        },
    }
    return msgspec.convert(made, Pod)


async def started(world: World, pod: Pod | None) -> Cluster:
    """The scheduler's state after it has read the cluster."""
    meta = {"name": "n1", "annotations": world.annotations}
    node = msgspec.convert(
        {"metadata": meta, "status": {"capacity": world.capacity, "allocatable": world.capacity}}, Node
    )
    found = {NODES: [node], PODS: [pod] if pod is not None else []}
    cluster = Cluster(Frozen(found), loaded(), PolicyDefaults())  # type: ignore[arg-type] # no writes
    tasks = [asyncio.create_task(informer.run()) for informer in cluster.informers]
    await cluster.synced()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return cluster


def used(cluster: Cluster) -> list[tuple[str, int, int, int]]:
    usage = cluster.inventory.usage("n1")
    return [(one.device.id, one.used_slots, one.used_memory_mib, one.used_cores) for one in usage]


async def annotated(world: World) -> dict[str, str]:
    """The annotations that the scheduler gives the pod."""
    cluster = await started(world, None)
    allocation = cluster.inventory.book(cluster.request_of(body(world)), "n1")
    assert isinstance(allocation, Allocation), allocation
    return allocation_annotations(allocation, cluster.families, 7, "success")


GARBLE = st.lists(
    st.tuples(
        st.sampled_from(["cut", "delete", "insert", "replace", "repeat"]), st.integers(0, 10**6), st.characters()
    ),
    min_size=1,
    max_size=3,
)
SEPARATORS = ",:;-+ x"


def garbled(text: str, steps: list[tuple[str, int, str]]) -> str:
    for step, number, letter in steps:
        at, put = number % (len(text) + 1), SEPARATORS[number % 7] if number % 2 else letter
        match step:
            case "cut":
                text = text[:at]
            case "delete":
                text = text[:at] + text[at + 1 + number % 3 :]
            case "insert":
                text = text[:at] + put + text[at:]
            case "replace":
                text = text[:at] + put + text[at + 1 :]
            case _:
                text = text[:at] + text[at // 2 : at] + text[at:]
    return text


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_garbled_allocation_still_counts_or_closes_its_node(world: World, data: st.DataObject) -> None:
    before = asyncio.run(annotated(world))
    (key,) = [key for key in before if key.endswith("-devices-allocated")]
    sound = asyncio.run(started(world, body(world, before)))
    assert sum(one[1] for one in used(sound)) >= 2
    assert sound.inventory.bar("n1", [world.word]) == ""
    text = garbled(before[key], data.draw(GARBLE))
    after = asyncio.run(started(world, body(world, before | {key: text})))
    if after.inventory.bar("n1", [world.word]):
        return
    slots = [sum(one[1] for one in used(cluster)) for cluster in (sound, after)]
    assert slots[1] >= slots[0], text
    if re.findall(r"\d+", text) == re.findall(r"\d+", before[key]):
        assert used(after) == used(sound), text


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_lost_allocation_closes_its_node(world: World) -> None:
    cluster = asyncio.run(started(world, body(world)))
    assert "pod u1" in cluster.inventory.bar("n1", [world.word])
    assert list(cluster.inventory.bookings()) == []
