"""The scheduler's samples over HTTP, against HAMi's group ``metrics``."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hami_core.plugins import load
from hami_core.tests.kube.apiserver import pod
from hami_core.tests.scheduler.conftest import api, server, signing_key, start  # noqa: F401 - fixtures

from .cases import Case, cases

pytestmark = pytest.mark.vectors

MEMORY = "nvidia.com/gpumem"


@pytest.mark.parametrize("case", cases("metrics"))
async def test_samples_match_hami(server, start, case: Case) -> None:  # noqa: F811
    if "mib_to_bytes" in case:
        for mib, _ in case["mib_to_bytes"]:
            await server.put("nodes", node(f"n{mib}", devmem=mib))
        text = await (await start(loaded=load({}, only=["nvidia"]))).metrics()
        found = values(text, "hami_gpu_memory_limit_bytes")
        assert found == {f"n{mib}": size for mib, size in case["mib_to_bytes"]}
    elif "amd_core_percent" in case:
        for row in case["amd_core_percent"]:
            await _share_of_an_amd_card(server, start, row)
    elif "skip_memory_ratio_when_totalmem" in case:
        for mib in case["skip_memory_ratio_when_totalmem"]:
            await server.put("nodes", node(f"n{mib}", devmem=mib))
        text = await (await start(loaded=load({}, only=["nvidia"]))).metrics()
        assert not values(text, "hami_node_gpu_memory_allocated_ratio")
    else:
        await _quota_line(server, start, case)


async def _share_of_an_amd_card(server, start, row: dict[str, Any]) -> None:  # noqa: F811
    assert row["type"] == "AMDGPU"
    register = node("n1", devmem=1024, devcore=row["total"], type=row["type"])
    annotations = {"hami.io/node-amd-register": register["metadata"]["annotations"]["hami.io/node-nvidia-register"]}
    register["metadata"]["annotations"] = annotations
    await server.put("nodes", register)
    await server.put("pods", booked("a", "default", "AMDGPU", 512, row["used"], {"amd.com/gpu": "1"}))
    text = await (await start(loaded=load({}, only=["amd"]))).metrics()
    assert values(text, "hami_gpu_core_limit_ratio") == {"n1": row["limit"]}
    assert values(text, "hami_gpu_core_allocated_ratio") == {"n1": row["allocated"]}


async def _quota_line(server, start, case: Case) -> None:  # noqa: F811
    (family,) = text_string_to_metric_families(case["line"] + "\n")
    (sample,) = family.samples
    assert sample.labels["quota_name"] == MEMORY
    namespace, limit, used = sample.labels["namespace"], sample.labels["limit"], int(sample.value)
    await server.put("nodes", node("n1", devmem=16384))
    await server.put("pods", booked("a", namespace, "NVIDIA", used, 0, {"nvidia.com/gpu": "1", MEMORY: str(used)}))
    if "when" not in case:
        hard = {"hard": {f"limits.{MEMORY}": limit}}
        await server.put("resourcequotas", {"metadata": {"name": "q", "namespace": namespace}, "spec": hard})
    else:
        assert case["when"] == "usage without a ResourceQuota; no quota_limit sample"
    client = await start(loaded=load({}, only=["nvidia"]))
    async with asyncio.timeout(5):
        while not (text := await client.metrics()).count("hami_resource_quota_used{"):
            await asyncio.sleep(0.01)
    ours = [s for f in text_string_to_metric_families(text) for s in f.samples if s.labels.get("quota_name") == MEMORY]
    by_name = {s.name: (s.value, {k: v for k, v in s.labels.items() if k != "zone"}) for s in ours}
    assert by_name.pop("hami_resource_quota_used") == (sample.value, sample.labels)
    assert bool(by_name) == ("when" not in case)


def values(text: str, name: str) -> dict[str, float]:
    """Samples of a metric by node."""
    found = [s for f in text_string_to_metric_families(text) for s in f.samples if s.name == name]
    return {sample.labels["node"]: sample.value for sample in found}


def node(name: str, **device: Any) -> dict[str, Any]:
    """A node with one card."""
    card = {"id": f"GPU-{name}", "index": 0, "count": 10, "devcore": 100, "type": "NVIDIA-A100", "health": True}
    annotations = {"hami.io/node-nvidia-register": json.dumps([card | device])}
    return {"metadata": {"name": name, "annotations": annotations}, "status": {"capacity": {"cpu": "4"}}}


def booked(name: str, namespace: str, word: str, memory: int, cores: int, limits: dict[str, str]) -> dict[str, Any]:
    """A running pod with a slice of the card of node n1."""
    allocated = f"GPU-n1,{word},{memory},{cores}:;"
    keys = {"NVIDIA": "hami.io/vgpu-devices-allocated", "AMDGPU": "hami.io/amd-devices-allocated"}
    annotations = {keys[word]: allocated, "hami.io/vgpu-node": "n1"}
    containers = [{"name": "c", "image": "i", "resources": {"limits": limits}}]
    spec = {"nodeName": "n1", "containers": containers}
    status = {"phase": "Running"}
    return pod(name, namespace=namespace, metadata={"annotations": annotations}, spec=spec, status=status)
