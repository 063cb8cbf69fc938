"""Managed resources that no loaded vendor serves: refused by name at admission, in Filter and at Bind."""

from __future__ import annotations

import asyncio

import pytest

from hami_core import hookimpl
from hami_core.plugins.discovery import VENDORS, Found, Source
from hami_core.plugins.load import assemble
from hami_core.tests.kube.apiserver import pod as plain_pod
from hami_core.tests.scheduler.vendor import Acme, node, pod

VGPU = "mthreads.com/vgpu"
MANAGED = ("acme.com/gpu", "acme.com/mem", VGPU, "kunlunxin.com/vxpu-memory")
REASON = f"{VGPU} is served by no loaded vendor"
KINDS = ("app", "init", "sidecar")


def asking(kind="app", field="limits", amount="3", name=VGPU, **spec):
    """A pod with a container that asks for a resource."""
    asks = {"name": "asks", "image": "i", "resources": {field: {name: amount}}}
    plain = {"name": "plain", "image": "i"}
    if kind == "app":
        return plain_pod("a", spec={"containers": [plain, asks], **spec})
    if kind == "sidecar":
        asks["restartPolicy"] = "Always"
    return plain_pod("a", spec={"initContainers": [asks], "containers": [plain], **spec})


async def put_nodes(server, *names):
    for name in names:
        await server.put("nodes", node(name))
    return list(names)


@pytest.mark.parametrize("name", [VGPU, "kunlunxin.com/vxpu-memory"])
@pytest.mark.parametrize("field", ["limits", "requests"])
@pytest.mark.parametrize("kind", KINDS)
async def test_an_unserved_resource_is_refused_by_name(server, start, kind, field, name):
    nodes = await put_nodes(server, "n1", "n2")
    client = await start(managed=MANAGED)
    made = asking(kind, field, name=name)
    review = await client.admit(made)
    assert not review["allowed"]
    message = review["status"]["message"]
    assert message.startswith(f"container asks: {name}: no loaded vendor serves it; loaded: acme")
    assert "--vendors" in message
    answer = await client.filter(await server.put("pods", made), nodes)
    assert answer["FailedNodes"] == dict.fromkeys(nodes, f"{name} is served by no loaded vendor")
    assert (answer["NodeNames"], answer["Error"]) == (None, "")
    await client.scheduler.recorder.flush()
    assert any(name in event["message"] for event in server.objects["events"].values())


@pytest.mark.parametrize("scheduler", ["hami-scheduler", "default-scheduler", ""])
async def test_naming_our_scheduler_or_the_default_does_not_help(start, scheduler):
    client = await start(managed=MANAGED)
    assert not (await client.admit(asking(schedulerName=scheduler)))["allowed"]


@pytest.mark.parametrize("takes_default", [True, False])
async def test_pods_of_other_schedulers_are_not_ours_to_refuse(start, takes_default):
    client = await start(managed=MANAGED, overwrite_default=takes_default)
    assert (await client.admit(asking(schedulerName="volcano")))["allowed"]
    review = await client.admit(asking(schedulerName="default-scheduler"))
    assert review["allowed"] is not takes_default


@pytest.mark.parametrize("amount", ["0", "0k", "0.0", 0])
@pytest.mark.parametrize("kind", KINDS)
async def test_an_amount_of_0_asks_for_nothing(server, start, kind, amount):
    nodes = await put_nodes(server, "n1")
    client = await start(managed=MANAGED)
    made = asking(kind, amount=amount)
    assert (await client.admit(made))["allowed"]
    assert (await client.filter(await server.put("pods", made), nodes))["NodeNames"] == nodes


@pytest.mark.parametrize("amount", ["-1", "many", "1e999", "0.5", ""])
async def test_an_amount_that_makes_no_sense_asks(start, amount):
    client = await start(managed=MANAGED)
    assert not (await client.admit(asking(amount=amount)))["allowed"]


async def test_a_pod_that_also_asks_for_what_is_served_is_refused(server, start):
    nodes = await put_nodes(server, "n1")
    client = await start(managed=MANAGED)
    made = pod("a")
    made["spec"]["containers"].append(asking()["spec"]["containers"][1])
    assert not (await client.admit(made))["allowed"]
    answer = await client.filter(await server.put("pods", made), nodes)
    assert answer["FailedNodes"] == {"n1": REASON}


async def test_served_and_unmanaged_resources_are_let_through(server, start):
    nodes = await put_nodes(server, "n1")
    client = await start(managed=MANAGED)
    assert (await client.admit(pod("a")))["allowed"]
    assert (await client.filter(await server.put("pods", pod("a")), nodes))["NodeNames"] == nodes
    others = asking(name="example.com/fpga")
    assert (await client.admit(others))["allowed"]
    assert (await client.filter(await server.put("pods", others), nodes))["NodeNames"] == nodes


async def test_a_dry_run_with_whole_nodes_is_refused_too(start):
    client = await start(managed=MANAGED)
    answer = await client.post("/filter", {"Pod": asking(), "Nodes": {"items": [node("x1"), node("x2")]}})
    assert answer["FailedNodes"] == {"x1": REASON, "x2": REASON}
    assert answer["Nodes"] is None


async def test_bind_refuses_an_unserved_resource_without_filter(server, start):
    await put_nodes(server, "n1")
    client = await start(managed=MANAGED)
    made = await server.put("pods", asking())
    assert VGPU in await client.bind(made, "n1")
    while "default/a" not in client.scheduler.cluster.pods.store:
        await asyncio.sleep(0.01)
    assert VGPU in await client.bind(made, "n1")  # also from the trimmed copy of the pod
    assert not server.objects["pods"]["default/a"]["spec"].get("nodeName")


class Mthreads(Acme):
    """An installed vendor that fails."""

    @hookimpl
    def families(self, config):
        raise RuntimeError("broken")


async def test_message_names_a_vendor_that_failed_to_load(start):
    found = [
        Found(Source(name, VENDORS, "tests", f"hami-{name}", "1"), plugin)
        for name, plugin in (("acme", Acme), ("mthreads", Mthreads))
    ]
    client = await start(loaded=assemble(found), managed=MANAGED)
    review = await client.admit(asking())
    assert not review["allowed"]
    assert "loaded: acme; failed to load: mthreads" in review["status"]["message"]
