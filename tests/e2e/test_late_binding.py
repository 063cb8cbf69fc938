"""Late binding with hundreds of containers: they ask for equal counts and different sizes, and get their own slices.

The kubelet does not tell a device plugin which pod it serves, so requests of equal count look alike. In these tests
pods differ in memory, so that every mix-up is detected.
"""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.pods import LOOK, container, pod, sidecar, spec
from tests.e2e.slices import booked, checkpoint

if TYPE_CHECKING:
    from tests.e2e.system import System


def test_a_job_of_forty_on_one_node(clean: System) -> None:
    template = spec(container(memory=1500, command=LOOK), restartPolicy="Never")
    template["nodeSelector"] = {"kubernetes.io/hostname": "node1"}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "forty"},
        "spec": {
            "completions": 40,
            "parallelism": 40,
            "template": {"metadata": {"labels": {"test": "e2e"}}, "spec": template},
        },
    }
    start = time.monotonic()
    clean.bed.call("POST", "/apis/batch/v1/namespaces/default/jobs", job)
    path = "/apis/batch/v1/namespaces/default/jobs/forty"
    clean.bed.wait(
        "40 pods of the job have ended well",
        lambda: clean.bed.call("GET", path)["status"].get("succeeded", 0) == 40,
        180,
    )
    print(f"40 pods ran to their end on one node in {time.monotonic() - start:.1f} s")
    assert clean.bed.call("GET", path)["status"].get("failed", 0) == 0
    for name, now in clean.pods().items():
        ((uuid, memory),) = booked(now)["main"]
        assert memory == 1500
        assert uuid in clean.log(name)


@pytest.mark.timeout(1200)
def test_two_hundred_pods_each_with_its_own_slice(clean: System) -> None:
    """200 pods of equal count and different memory start at once on two nodes. Some have init containers."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    names = [f"p{index:03}" for index in range(200)]
    wanted = {}
    for index, name in enumerate(names):
        memory = 500 + index
        extra: dict[str, Any] = {}
        if clean.bed.tools.minor < 31:
            pass  # see `before`: older kubelets reject init containers with devices
        elif rng.random() < 0.2:
            extra["init"] = (container("before", memory + 300, command=LOOK),)
        elif rng.random() < 0.1:
            extra["init"] = (sidecar("beside", memory + 250),)
        node = f"node{index % 2 + 1}"
        wanted[name] = pod(name, container(memory=memory), node=node, **extra)
    start = time.monotonic()
    order = list(wanted.values())
    rng.shuffle(order)
    clean.submit(*order)
    clean.running(*names, timeout=600)
    print(f"200 pods running on two nodes after {time.monotonic() - start:.1f} s")
    assert clean.problems(*names) == []


@pytest.mark.parametrize(
    "rounds",
    [
        pytest.param(100, marks=pytest.mark.timeout(1200)),
        pytest.param(1000, marks=[pytest.mark.soak, pytest.mark.timeout(7200)]),
    ],
    ids=["100", "1000"],
)
def test_one_slot_many_pods_in_turn(clean: System, rounds: int) -> None:
    """Pods that use a slot one after the other never see their predecessor's slice, while other pods run."""
    stay = [f"stay{index}-{node}" for node in clean.gpu_nodes for index in range(5)]
    clean.submit(*[pod(name, container(memory=500 + i), node=name.partition("-")[2]) for i, name in enumerate(stay)])
    clean.running(*stay)
    start = time.monotonic()
    with ThreadPoolExecutor() as pool:
        each = rounds // len(clean.gpu_nodes)
        wrong = [text for found in pool.map(lambda node: in_turn(clean, node, each), clean.gpu_nodes) for text in found]
    print(f"{rounds} pods in turn, on two nodes at once, in {time.monotonic() - start:.1f} s")
    assert wrong == []
    assert clean.problems(*stay) == []


def in_turn(system: System, node: str, rounds: int) -> list[str]:
    """Run pods of different sizes on a node, one after the other. Returns all differences from their bookings."""
    wrong: list[str] = []
    for index in range(rounds):
        name = f"turn{index:04}-{node}"
        system.submit(pod(name, container(memory=1000 + index, command=LOOK), node=node))
        now = system.phase(name, "Succeeded", "Failed")
        wrong += system.problems(name)
        assert now["status"]["phase"] == "Succeeded", now["status"]
        system.delete(name)
    return wrong


def test_slot_count_is_the_bookings(clean: System) -> None:
    clean.submit(*[pod(f"multi{count}", container(memory=500 + count, count=count), node="node1") for count in (1, 2)])
    pods = clean.running("multi1", "multi2")
    entries = checkpoint(clean.bed, "node1")
    for count, now in zip((1, 2), pods, strict=True):
        assert len(entries[now["metadata"]["uid"], "main"][0]) == count
    assert clean.problems("multi1", "multi2") == []
