"""MIG on real Kubernetes: the agent makes instances as pods ask for them, on simulated A100 cards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.bed.bed import Node
from tests.e2e.pods import container, pod
from tests.e2e.system import System

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.bed.tools import Tools

MIB = 1 << 20
PLANNED = "hami.io/vgpu-mig-allocations"


@pytest.fixture(scope="module")
def partitioned(module_work: Path, tools: Tools) -> Iterator[System]:
    """One node whose two A100 are partitioned as pods ask."""
    entries = {"nodeconfig": [{"name": "node1", "operatingmode": "mig"}]}
    settings = {"nodeConfiguration": {"config": json.dumps(entries)}}
    with System(module_work / "bed", tools, (Node("node1", "a100x2"),), devicePlugin=settings) as system:
        yield system


@pytest.fixture
def clean(partitioned: System) -> Iterator[System]:
    """The system. After the test the namespace default is emptied."""
    yield partitioned
    partitioned.clean()


def plan(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The instances that the scheduler planned for a pod."""
    return list(json.loads(found["metadata"]["annotations"][PLANNED]))


def seen(system: System, name: str) -> list[tuple[str, int]]:
    """UUID and MiB of each device that a pod's program sees."""
    line = next(line for line in system.log(name).splitlines() if line.startswith("{"))
    return [(device["uuid"], device["total_bytes"] // MIB) for device in json.loads(line)["devices"]]


def intents(system: System) -> int:
    """Number of instances that the agent has written down."""
    return len(list((system.bed.root("node1") / "var/lib/hami/mig").glob("[!.]*")))


def test_pods_get_the_smallest_instances_that_are_large_enough(clean: System) -> None:
    clean.submit(*(pod(f"p{memory}", container(memory=memory)) for memory in (3000, 9000, 15000, 30000)))
    pods = clean.running("p3000", "p9000", "p15000", "p30000")
    profiles = {found["metadata"]["name"]: [one["profile"] for one in plan(found)] for found in pods}
    assert profiles == {"p3000": ["1g.10gb"], "p9000": ["1g.10gb"], "p15000": ["2g.20gb"], "p30000": ["3g.40gb"]}
    devices = [seen(clean, found["metadata"]["name"]) for found in pods]
    assert all(len(each) == 1 for each in devices)
    assert len({uuid for ((uuid, _),) in devices}) == 4, "each has an instance of its own"
    assert [memory for ((_, memory),) in devices] == [9728, 9728, 19968, 40192]
    assert intents(clean) == 4


def test_the_place_of_a_pod_that_ended_is_used_again(clean: System) -> None:
    """Fourteen of the smallest instances fill both cards; the next pod waits until one of them ends."""
    names = [f"small{number}" for number in range(14)]
    clean.submit(*(pod(name, container(memory=5000)) for name in names))
    clean.running(*names, timeout=120)
    assert intents(clean) == 14
    clean.submit(pod("next", container(memory=5000)))
    said = clean.bed.wait(
        "a reason in kubectl describe",
        lambda: text if "FailedScheduling" in (text := clean.bed.kubectl("describe", "pod", "next")) else None,
    )
    assert "CardMigTopologyInfeasible" in said or "CardTimeSlicingExhausted" in said, said
    clean.delete(names[3])
    clean.running("next", timeout=120)
    clean.bed.wait("fourteen instances again", lambda: intents(clean) == 14)


def test_an_instance_outlives_the_agent_and_not_its_pod(clean: System) -> None:
    clean.submit(pod("stays", container(memory=5000)), pod("ends", container(memory=15000)))
    clean.running("stays", "ends")
    (agent,) = clean.ours("hami-device-plugin")
    path = f"/api/v1/namespaces/{agent['metadata']['namespace']}/pods/{agent['metadata']['name']}"
    clean.bed.call("DELETE", path)
    clean.delete("ends")
    clean.ready()
    clean.bed.wait("the instance of the pod that ended is gone", lambda: intents(clean) == 1, 60)
    assert seen(clean, "stays")[0][1] == 9728
    clean.delete("stays")
    clean.bed.wait("no instance is left", lambda: intents(clean) == 0, 60)
