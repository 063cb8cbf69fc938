"""Pods of several vendors on real Kubernetes: simulated NVIDIA cards, and NPUs and MLUs by their node objects.

HAMi's Ascend plugin and Cambricon's plugin are not there. The test writes their registers and capacity onto the nodes,
and a thread finishes their Binds as they do.
"""

from __future__ import annotations

import contextlib
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.bed.errors import ApiRefused
from tests.e2e.pods import container, pod
from tests.e2e.system import PODS, System

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.bed.bed import Bed
    from tests.e2e.bed.tools import Tools

CHIP = "Ascend910B4"
CHIP_MIB = 32768
NPUS = [
    {"id": f"VDIE-{i}", "index": i, "count": 4, "devmem": CHIP_MIB, "devcore": 20, "type": CHIP, "health": True}
    for i in range(2)
]
MLUS = {"cambricon.com/vmlu": "200", "cambricon.com/mlu.smlu.vcore": "200", "cambricon.com/mlu.smlu.vmemory": "192"}
LISTS = (f"hami.io/{CHIP}-devices-allocated", "hami.io/cambricon-mlu-devices-allocated")
LOCKS = ("hami.io/mutex.lock", "cambricon.com/dsmlu.lock")


@pytest.fixture(scope="module")
def mixed(module_work: Path, tools: Tools) -> Iterator[System]:
    """Two nodes with two A100 each. node1 also has two NPUs, node2 two MLUs."""
    switched_on = {"ascend": {"enabled": True}, "cambricon": {"enabled": True}}
    with System(module_work / "bed", tools, devices=switched_on, admissionPolicy={"allowedUsers": ["admin"]}) as system:
        annotations = {f"hami.io/node-register-{CHIP}": json.dumps(NPUS), "hami-vnpu-core": "false"}
        patch(system.bed, "/api/v1/nodes/node1", {"metadata": {"annotations": annotations}})
        offer(system.bed, "node1", {f"huawei.com/{CHIP}": "8"})
        offer(system.bed, "node2", MLUS)
        stop = threading.Event()
        plugins = threading.Thread(target=finish_binds, args=(system.bed, stop))
        plugins.start()
        yield system
        stop.set()
        plugins.join()


@pytest.fixture
def clean(mixed: System) -> Iterator[System]:
    """The system. After the test the namespace default is emptied."""
    yield mixed
    mixed.clean()


def patch(bed: Bed, path: str, body: dict[str, Any]) -> None:
    """A merge patch."""
    bed.call("PATCH", path, body, "application/merge-patch+json")


def offer(bed: Bed, node: str, amounts: dict[str, str]) -> None:
    """Write extended resources into a node's status."""
    patch(bed, f"/api/v1/nodes/{node}/status", {"status": {"capacity": amounts, "allocatable": amounts}})


def finish_binds(bed: Bed, stop: threading.Event) -> None:
    """Remove the locks and end the Bind of each pod with NPUs or MLUs, once it is bound."""
    finished: set[str] = set()
    while not stop.wait(0.1):
        with contextlib.suppress(ApiRefused):
            for found in bed.call("GET", PODS)["items"]:
                meta, node = found["metadata"], found["spec"].get("nodeName")
                if not node or meta["uid"] in finished or not any(key in meta.get("annotations", {}) for key in LISTS):
                    continue
                patch(bed, f"/api/v1/nodes/{node}", {"metadata": {"annotations": dict.fromkeys(LOCKS)}})
                patch(bed, f"{PODS}/{meta['name']}", {"metadata": {"annotations": {"hami.io/bind-phase": "success"}}})
                finished.add(meta["uid"])


def npu(name: str, memory: int) -> dict[str, Any]:
    limits = {f"huawei.com/{CHIP}": 1, f"huawei.com/{CHIP}-memory": memory}
    return container(name, count=0, command=["sleep", "100000"]) | {"resources": {"limits": limits}}


def mlu(name: str, memory: int) -> dict[str, Any]:
    limits = {
        "cambricon.com/vmlu": 1,
        "cambricon.com/mlu.smlu.vmemory": memory // 256,
        "cambricon.com/mlu.smlu.vcore": 25,
    }
    return container(name, count=0, command=["sleep", "100000"]) | {"resources": {"limits": limits}}


def booked(found: dict[str, Any], key: str) -> list[int]:
    """MiB of each slice of a vendor."""
    text = found["metadata"]["annotations"].get(key, "")
    return [int(piece.split(",")[2]) for entry in text.split(";") for piece in entry.split(":") if piece]


def test_pod_of_two_vendors_runs_with_a_slice_of_each(clean: System) -> None:
    clean.submit(pod("gpu-npu", container("gpu", 3000), npu("npu", 6000)))
    clean.submit(pod("gpu-mlu", container("gpu", 5000), mlu("mlu", 4096)))
    with_npu, with_mlu = clean.running("gpu-npu", "gpu-mlu")
    assert (with_npu["spec"]["nodeName"], with_mlu["spec"]["nodeName"]) == ("node1", "node2")
    assert clean.problems("gpu-npu", "gpu-mlu") == []
    assert booked(with_npu, LISTS[0]) == [8192], "rounded up to a size of the chip"
    assert booked(with_mlu, LISTS[1]) == [4096]


def test_full_vendor_holds_back_only_its_own_pods(clean: System) -> None:
    clean.submit(*(pod(f"whole-{i}", npu("npu", CHIP_MIB)) for i in range(2)))
    clean.running("whole-0", "whole-1")
    clean.submit(pod("waits", container("gpu", 1000), npu("npu", 8192)))
    clean.submit(pod("gpu", container("gpu", 2000), node="node1"), pod("mlu", mlu("mlu", 8192)))
    clean.running("gpu", "mlu")
    assert clean.problems("gpu") == []
    assert not clean.pod("waits")["spec"].get("nodeName")
    clean.delete("whole-0")
    clean.running("waits", timeout=120)
    assert clean.problems("waits") == []


def test_vendors_of_no_common_node_leave_the_pod_pending(clean: System) -> None:
    clean.submit(pod("apart", npu("npu", 8192), mlu("mlu", 4096)))
    said = clean.bed.wait(
        "a reason in kubectl describe",
        lambda: text if "FailedScheduling" in (text := clean.bed.kubectl("describe", "pod", "apart")) else None,
    )
    assert "0/" in said, said
    assert not clean.pod("apart")["spec"].get("nodeName")
