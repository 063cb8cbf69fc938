"""Static MIG on real Kubernetes: pods of the default scheduler get instances that an administrator made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import hami_gpusim as sim
import pytest

from tests import mig_administrator
from tests.e2e.bed.bed import Node
from tests.e2e.bed.gpus import STATE
from tests.e2e.pods import container, pod
from tests.e2e.system import System
from tests.e2e.test_mig import seen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.bed.tools import Tools

AGENT = "hami-device-plugin"
SMALL = "nvidia.com/mig-1g.10gb"
CARD = 1
"""The card in MIG mode; the other one is shared."""


@pytest.fixture(scope="module")
def partitioned(module_work: Path, tools: Tools) -> Iterator[System]:
    """A node whose second A100 an administrator partitions."""
    settings = {"migStrategy": "mixed"}
    with System(module_work / "bed", tools, (Node("node1", "a100x2"),), devicePlugin=settings) as system:
        with sim.State(state(system)) as cards:
            cards.set_modes(CARD, mig=True)
        yield system


@pytest.fixture
def clean(partitioned: System) -> Iterator[System]:
    """The system. After the test the namespace default is emptied."""
    yield partitioned
    partitioned.clean()


def state(system: System) -> Path:
    """The node's simulated cards."""
    return system.bed.root("node1") / STATE.strip("/")


def offered(system: System) -> int:
    """How many small instances the kubelet offers."""
    node = system.bed.call("GET", "/api/v1/nodes/node1")
    return int(node["status"]["allocatable"].get(SMALL, 0))


def asking(name: str) -> dict[str, Any]:
    """A pod that asks for one small instance, and for nothing of ours."""
    return pod(name, container(resources={"limits": {SMALL: 1}}))


def test_instances_are_given_to_pods_of_any_scheduler_as_they_come_and_go(clean: System) -> None:
    uuids = {mig_administrator.make(state(clean), CARD, "1g.10gb", start) for start in (0, 1)}
    clean.bed.wait("two instances", lambda: offered(clean) == 2)
    clean.submit(asking("a"), asking("b"), asking("c"), pod("slice", container(memory=3000)))
    for found in clean.running("slice"):
        assert found["spec"]["schedulerName"] == "hami-scheduler"
    assert [memory for _, memory in seen(clean, "slice")] == [3000]
    clean.bed.wait("two pods run", lambda: len(running(clean)) == 2)
    names = running(clean)
    devices = [seen(clean, name) for name in names]
    assert [memory for ((_, memory),) in devices] == [9728, 9728]
    # CUDA names a MIG device by its own UUID, and the program writes it as a card's.
    assert {uuid.partition("-")[2] for ((uuid, _),) in devices} == {uuid.partition("-")[2] for uuid in uuids}
    for name in names:
        found = clean.pod(name)
        assert found["spec"]["schedulerName"] == "default-scheduler"
        assert not any("hami" in key for key in found["metadata"].get("annotations", {}))

    (agent,) = clean.ours(AGENT)
    old = agent["metadata"]["name"]
    clean.bed.call("DELETE", f"/api/v1/namespaces/{agent['metadata']['namespace']}/pods/{old}")
    # The kubelet rejects a pod that it admits while the agent is away, and no scheduler of ours keeps "c" back.
    clean.bed.wait("the old agent is gone", lambda: old not in {p["metadata"]["name"] for p in clean.ours(AGENT)})
    clean.ready()
    assert sorted(running(clean)) == sorted(names), "they outlive the agent"
    mig_administrator.make(state(clean), CARD, "1g.10gb", 6)
    (last,) = {"a", "b", "c"} - set(names)
    clean.running(last, timeout=120)
    clean.delete("a", "b", "c")
    for start in (0, 1, 6):
        clean.bed.wait("an instance is destroyed", lambda at=start: is_destroyed(clean, at))
    clean.bed.wait("no instance", lambda: offered(clean) == 0)
    assert json.loads(clean.bed.kubectl("get", "node", "node1", "-o", "json"))["status"]["allocatable"][SMALL] == "0"


def is_destroyed(system: System, start: int) -> bool:
    """Destroy an instance. False: a process of a pod that was deleted still uses it."""
    try:
        mig_administrator.destroy(state(system), CARD, start)
    except AssertionError as error:
        if "In use" not in str(error):
            raise
        return False
    return True


def running(system: System) -> list[str]:
    """Which of the pods that want an instance run."""
    found = {name: system.pod(name)["status"].get("phase") for name in ("a", "b", "c")}
    return [name for name, phase in found.items() if phase == "Running"]
