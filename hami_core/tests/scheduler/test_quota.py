"""Quota in the scheduler: every vendor and form, and the reports to administrators about wrong entries."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import orjson
import pytest
from hami_ascend.plugin import Ascend
from hami_cambricon.plugin import Cambricon
from hami_nvidia import Nvidia

from hami_core.kube.objects import Pod
from hami_core.model import Allocation, Device, NodeFacts
from hami_core.policies import PolicyDefaults
from hami_core.scheduler.cluster import Cluster
from hami_core.scheduler.webhook import Webhook
from hami_core.sim.patch import json_patch
from hami_core.tests.scheduler.conftest import load
from hami_core.tests.scheduler.vendor import node, pod
from hami_core.wire.extender import AdmissionRequest

GPU, B3, MLU = "nvidia.com/gpu", "huawei.com/Ascend910B3", "cambricon.com/vmlu"
SOFT = {"huawei.com/vnpu-mode": "hami-core"}
FORMS = {
    "nvidia absolute": ("NVIDIA", {GPU: "1", "nvidia.com/gpumem": "16384"}, {}),
    "nvidia percent": ("NVIDIA", {GPU: "1", "nvidia.com/gpumem-percentage": "25"}, {}),
    "nvidia whole": ("NVIDIA", {GPU: "1"}, {}),
    "ascend absolute": ("Ascend910B3", {B3: "1", f"{B3}-memory": "16384"}, {}),
    "ascend rounded": ("Ascend910B3", {B3: "1", f"{B3}-memory": "9000"}, {}),
    "ascend whole": ("Ascend910B3", {B3: "1"}, {}),
    "ascend soft": ("Ascend910B3", {B3: "1", f"{B3}-memory": "16384"}, SOFT),
    "cambricon absolute": (
        "MLU", {MLU: "1", "cambricon.com/mlu.smlu.vmemory": "64", "cambricon.com/mlu.smlu.vcore": "10"}, {}
    ),
    "cambricon whole": ("MLU", {MLU: "1"}, {}),
}  # fmt: skip


def manifest(name: str, limits: dict[str, str], annotations: dict[str, str]) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", "resources": {"limits": limits}}]
    meta = {"name": name, "namespace": "team", "uid": name, "annotations": annotations}
    return {"metadata": meta, "spec": {"containers": containers}}


def clusters() -> Cluster:
    made = Cluster(None, load(Nvidia, Ascend, Cambricon), PolicyDefaults())  # type: ignore[arg-type] # no API is asked
    for word in ("NVIDIA", "Ascend910B3", "MLU"):
        mode = "hami-core" if word != "MLU" else ""
        cards = [Device(f"{word}-{i}", i, 10, 65536, 100, word, word, mode=mode) for i in range(4)]
        made.inventory.set_node(NodeFacts(f"n-{word}"), {word: cards})
    return made


def admitted(cluster: Cluster, document: dict[str, Any]) -> Pod:
    webhook = Webhook(cluster, scheduler_name="hami-scheduler")
    body = orjson.dumps(document)
    verdict = webhook.review(AdmissionRequest(uid="r", namespace="team", object=body))
    assert verdict.allowed, verdict.message
    return msgspec.convert(json_patch(document, list(verdict.patch)), Pod)


@pytest.mark.parametrize(
    ("form", "dimension"),
    [
        *((form, dimension) for form in FORMS for dimension in ("memory", "count")),
        *((form, "cores") for form in ("cambricon absolute", "cambricon whole")),
    ],
)
def test_pods_made_at_once_stay_within_the_quota(form: str, dimension: str) -> None:
    word, limits, annotations = FORMS[form]
    cluster = clusters()
    request = cluster.request_of(admitted(cluster, manifest("first", limits, annotations)))
    (asked,) = request.containers[0].requests
    names = cluster.families[word].resources
    factor = cluster.families[word].memory_factor
    two = {
        "memory": {f"limits.{names.memory}": str(asked.memory_on(65536) * 2 // factor)},
        "count": {f"limits.{names.count}": "2"},
        "cores": {f"limits.{names.cores}": str(asked.cores * 2)},
    }
    cluster.inventory.set_quota("team", "q", two[dimension])
    requests = [cluster.request_of(admitted(cluster, manifest(f"p{i}", limits, annotations))) for i in range(4)]
    outcomes = []
    for wanted in requests:
        found = cluster.inventory.filter(wanted, cluster.inventory.node_names())
        if found.hold_node is None:
            outcomes.append(dict(found.refused)[f"n-{word}"])
        else:
            assert isinstance(cluster.inventory.book(wanted, found.hold_node), Allocation)
            outcomes.append("bound")
    assert outcomes == ["bound", "bound", "4/4 ResourceQuotaNotFit", "4/4 ResourceQuotaNotFit"]


@pytest.mark.parametrize("form", FORMS)
def test_unreadable_quota_allows_no_memory(form: str) -> None:
    word, limits, annotations = FORMS[form]
    cluster = clusters()
    wanted = cluster.request_of(admitted(cluster, manifest("p", limits, annotations)))
    cluster.inventory.set_quota("team", "q", {f"limits.{cluster.families[word].resources.memory}": "10Gi"})
    assert dict(cluster.inventory.filter(wanted, [f"n-{word}"]).refused) == {f"n-{word}": "4/4 ResourceQuotaNotFit"}
    told = cluster.inventory.explain_text(wanted)
    assert "ResourceQuota team/q: spec.hard[limits." in told
    assert "'10Gi' has a unit" in told


def quota(hard: Any) -> dict[str, Any]:
    return {"metadata": {"name": "q", "namespace": "default", "uid": "q"}, "spec": {"hard": hard}}


def events(server: Any) -> list[tuple[str, str, str]]:
    found = server.objects.get("events", {}).values()
    return [
        (e["involvedObject"]["name"], e["reason"], e["message"])
        for e in found
        if e["involvedObject"]["kind"] == "ResourceQuota"
    ]


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_wrong_entry_makes_one_event_and_a_metric(server, start):
    await server.put("nodes", node("n1"))
    hard = {
        "limits.acme.com/mem": "10Gi",
        "limits.acme.com/gpus": "2",
        "requests.acme.com/mem": "5",
        "limits.acme.com/cores": "50",
    }
    await server.put("resourcequotas", quota(hard))
    client = await start()
    await until(lambda: len(events(server)) == 3)
    told = {reason: message for _, reason, message in events(server)}
    assert told.keys() == {"QuotaUnreadable", "QuotaNotEnforced", "QuotaPartlyEnforced"}
    assert "write 10240" in told["QuotaUnreadable"]
    assert "did you mean limits.acme.com/gpu?" in told["QuotaNotEnforced"]
    metrics = await client.metrics()
    for reason in ("unreadable", "unenforced", "partial"):
        assert f'hami_scheduler_quota_entries_at_fault{{reason="{reason}"}} 1.0' in metrics
    assert 'hami_resource_quota_limit{namespace="default",quota_name="acme.com/mem",zone="vGPU"} 0' in metrics
    refused = await client.admit(pod("a", mem=1000))
    assert not refused["allowed"]
    assert "ResourceQuota default/q: spec.hard[limits.acme.com/mem]" in refused["status"]["message"]
    await server.put("resourcequotas", {**quota(hard), "status": {"used": {"pods": "1"}}})
    await server.put("resourcequotas", quota({"limits.acme.com/mem": "10k"}))
    await until(lambda: not client.scheduler.cluster.quota_findings)
    assert (await client.admit(pod("a", mem=1000)))["allowed"]
    assert len(events(server)) == 3


@pytest.mark.parametrize("spec", [{"hard": ["limits.acme.com/mem"]}, {"hard": "none"}, "none", 5])
async def test_a_quota_that_cannot_be_decoded_denies_its_namespace(server, start, spec):
    await server.put("nodes", node("n1"))
    await server.put("resourcequotas", {**quota({}), "spec": spec})
    client = await start()
    cluster = client.scheduler.cluster
    wanted = cluster.request_of(msgspec.convert(pod("a"), Pod))
    await until(lambda: cluster.quota_findings)
    assert dict(cluster.inventory.filter(wanted, ["n1"]).refused) == {"n1": "2/2 ResourceQuotaNotFit"}
    assert not (await client.admit(pod("a")))["allowed"]
    await until(lambda: events(server))
    assert events(server)[0][:2] == ("q", "QuotaUnreadable")
    await server.put("resourcequotas", quota({"limits.acme.com/mem": "5000"}))
    await until(lambda: not cluster.quota_findings)
    assert cluster.inventory.filter(wanted, ["n1"]).hold_node == "n1"


async def test_a_quota_that_turns_undecodable_and_goes_is_forgotten(server, start):
    await server.put("nodes", node("n1"))
    await server.put("resourcequotas", quota({"limits.acme.com/mem": "5000"}))
    client = await start()
    cluster = client.scheduler.cluster
    wanted = cluster.request_of(msgspec.convert(pod("a"), Pod))
    assert cluster.inventory.filter(wanted, ["n1"]).hold_node == "n1"
    await server.put("resourcequotas", {**quota({}), "spec": 5})
    await until(lambda: cluster.quota_findings)
    assert cluster.inventory.filter(wanted, ["n1"]).hold_node is None
    await server.remove("resourcequotas", "default/q")
    await until(lambda: not cluster.quota_findings)
    assert cluster.inventory.filter(wanted, ["n1"]).hold_node == "n1"


async def test_a_quota_of_json_numbers_counts(server, start):
    await server.put("nodes", node("n1"))
    await server.put("resourcequotas", quota({"limits.acme.com/mem": 1500, "limits.acme.com/gpu": 2.0}))
    client = await start()
    assert not (await client.admit(pod("a", mem=2000)))["allowed"]
    assert not (await client.admit(pod("a", gpu=3, mem=100)))["allowed"]
    assert (await client.admit(pod("a", gpu=1, mem=1500)))["allowed"]
