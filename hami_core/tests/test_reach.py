"""Scheduler and agents are reached through the API server's proxy to pods, by the caller's own rights."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from hami_core.kube.official import connect, own_namespace
from hami_core.reach import NODES_ASKED_ONE_BY_ONE, Reach, ReachError
from hami_core.sim import Cluster
from hami_core.sim.client import Client
from hami_core.tests.kube.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SPACE = "/api/v1/namespaces"


def ours(name: str, program: str, port: int, *, labels: dict[str, str] | None = None, named: str = "metrics") -> Any:
    container = {
        "name": "main",
        "image": "hami:1",
        "args": [program],
        "ports": [{"name": named, "containerPort": port}],
    }
    return {
        "metadata": {"name": name, "labels": {"hami.io/webhook": "ignore", **(labels or {})}},
        "spec": {"containers": [container], "schedulerName": "none"},
    }


class Stage:
    """An embedded API server with pods of an installation, and one listener that answers for all of them."""

    def __init__(self, client: Client, api: Any, port: int) -> None:
        self.client = client
        self.api = api
        self.port = port

    async def add(self, pod: dict[str, Any], *, ready: bool = True, space: str = "default") -> None:
        name = pod["metadata"]["name"]
        await self.client.call("POST", f"{SPACE}/{space}/pods", pod)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
        path = f"{SPACE}/{space}/pods/{name}/status"
        await self.client.call("PATCH", path, {"status": status}, patch="merge")

    async def refuse(self, verb: str, resource: str) -> None:
        fault = {"verb": verb, "resource": resource, "action": "status", "code": 403, "count": None}
        await self.client.call("POST", "/sim/faults", fault)


async def echo(request: web.Request) -> web.Response:
    if request.path == "/refused":
        return web.Response(status=401, text="send the token")
    if request.path == "/old":
        return web.Response(status=404, text="no such path: /old")
    told = {
        "method": request.method,
        "path": request.path,
        "query": request.query.getall("name[]", []),
        "token": request.headers.get("X-HAMI-Token", ""),
        "authorization": request.headers.get("Authorization", ""),
        "body": await request.text(),
    }
    return web.json_response(told)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", echo)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    with tempfile.TemporaryDirectory(prefix="hami-") as folder:
        async with Cluster(Path(folder), nodes=[]) as cluster:
            client, api = Client(cluster.url, "test"), await connect(cluster.kubeconfig)
            try:
                yield Stage(client, api, runner.addresses[0][1])
            finally:
                await client.close()
                await api.close()
    await runner.cleanup()


async def test_leader_is_asked_through_the_api_server(stage):
    for name, role, ready in (("a", "follower", True), ("b", "leader", True), ("c", "leader", False)):
        await stage.add(ours(name, "scheduler", stage.port, labels={"hami.io/scheduler-role": role}), ready=ready)
    endpoint = await Reach(stage.api, installed_in="default", token="t0ken").scheduler()
    assert "default/b" in endpoint.what
    told = json.loads(await endpoint.call("/usage", {"name[]": ["one", "two"]}))
    assert told == {
        "method": "GET", "path": "/usage", "query": ["one", "two"], "token": "t0ken", "authorization": "", "body": "",
    }  # fmt: skip
    told = json.loads(await endpoint.call("/explain", body=b"{}"))
    assert (told["method"], told["body"]) == ("POST", "{}")


async def test_scheduler_that_is_missing_or_not_ready_is_named(stage):
    with pytest.raises(ReachError, match=r"no pod of it was found in namespace kube-public \(.*--hami-namespace"):
        await Reach(stage.api, installed_in="kube-public").scheduler()
    await stage.add(ours("only", "scheduler", stage.port), ready=False)
    with pytest.raises(ReachError, match="none of its pods is ready: default/only"):
        await Reach(stage.api).scheduler()


async def test_errors_say_what_to_do(stage):
    await stage.add(ours("one", "scheduler", stage.port))
    endpoint = await Reach(stage.api).scheduler()
    for path, fix in (("/refused", "--token-file"), ("/old", "upgrade it")):
        with pytest.raises(ReachError, match=fix):
            await endpoint.call(path)
    await stage.refuse("get", "pods/proxy")
    with pytest.raises(ReachError, match="pods/proxy in namespace default: the chart's role hami-scheduler-view"):
        await endpoint.call("/usage")
    await stage.refuse("list", "pods")
    with pytest.raises(ReachError, match="you may list by --hami-namespace"):
        await Reach(stage.api).scheduler()


async def test_agents_are_found_with_their_nodes(stage):
    for node in ("n1", "n2"):
        pod = ours(
            f"agent-{node}", "agent", stage.port if node == "n1" else 1, named="metrics" if node == "n1" else "x"
        )
        pod["spec"]["nodeName"] = node
        await stage.add(pod, ready=False)
    with pytest.raises(ReachError, match="no pod of it was found"):
        await Reach(stage.api).agents()
    await stage.add(ours("scheduler", "scheduler", stage.port), ready=False)
    await stage.add(ours("stranger", "agent", stage.port) | {}, space="kube-public")
    one, two = await Reach(stage.api).agents()
    assert (one.node, two.node) == ("n1", "n2")
    assert json.loads(await one.call("/metrics"))["path"] == "/metrics"
    with pytest.raises(ReachError, match="has no port named metrics or monitor"):
        await two.call("/metrics")


async def test_pods_that_look_like_ours_get_no_token_and_no_question(stage):
    await stage.add(ours("real", "scheduler", stage.port))
    with pytest.raises(ReachError, match=r"the token is for its pods only \(name the namespace"):
        await Reach(stage.api, token="t").scheduler()
    await stage.add(ours("aaa", "scheduler", 1, labels={"hami.io/scheduler-role": "leader"}), space="kube-public")
    with pytest.raises(ReachError, match="namespaces default, kube-public have pods of one"):
        await Reach(stage.api).scheduler()
    assert "default/real" in (await Reach(stage.api, installed_in="default", token="t").scheduler()).what


async def test_url_takes_the_place_of_the_api_server(stage):
    endpoint = await Reach(stage.api, token="t", scheduler_url=f"http://127.0.0.1:{stage.port}/").scheduler()
    assert json.loads(await endpoint.call("/usage"))["authorization"] == "Bearer t"
    for path, fix in (("/refused", "--token-file"), ("/old", "upgrade it")):
        with pytest.raises(ReachError, match=fix):
            await endpoint.call(path)
    with pytest.raises(ReachError, match="agents: their namespace is not known"):
        await Reach(stage.api, scheduler_url=f"http://127.0.0.1:{stage.port}/").agents()
    for url in ("http://127.0.0.1:1", "nonsense", "http://["):
        with pytest.raises(ReachError, match="check --scheduler-url"):
            await (await Reach(stage.api, scheduler_url=url).scheduler()).call("/usage")


async def test_names_end_where_the_rights_end(stage):
    await stage.add(ours("mine", "scheduler", stage.port))
    await stage.add(ours("theirs", "scheduler", stage.port), space="kube-public")
    reach = Reach(stage.api, own_namespace="default")
    names = await reach.names()
    assert sorted(names.by_uid.values()) == ["default/mine", "kube-public/theirs"]
    assert (names.limited, names.of("unknown")) == ("", "a pod whose name is not known")
    await stage.refuse("list", "pods")
    names = await reach.names()
    assert (names.by_uid, names.of("unknown")) == ({}, "a pod you may not list")
    assert "injected fault" in names.limited


@pytest.mark.parametrize("nodes", [["n1"], [f"n{number}" for number in range(50)]])
async def test_pods_of_nodes_and_pods_that_wait_are_named(stage, nodes):
    pods = {"here": "n1", "held": "", "there": "other"}
    for name, node in pods.items():
        pod = ours(name, "scheduler", stage.port)
        pod["spec"] |= {"nodeName": node} if node else {}
        await stage.add(pod, ready=False)
    names = (await Reach(stage.api).names(nodes)).by_uid.values()
    assert {"default/here", "default/held"} <= set(names)
    assert ("default/there" in names) == (len(nodes) > NODES_ASKED_ONE_BY_ONE)
    assert (await Reach(stage.api).names([])).by_uid == {}


async def test_a_pod_that_cant_be_decoded_has_a_name(tmp_path):
    async with ApiServer() as server:
        await server.put("pods", {"metadata": {"name": "bad", "namespace": "default"}, "spec": {"nodeName": 7}})
        api = await connect(server.kubeconfig(tmp_path))
        try:
            assert list((await Reach(api).names()).by_uid.values()) == ["default/bad"]
        finally:
            await api.close()


def test_own_namespace_is_kubectls(tmp_path, monkeypatch):
    file = tmp_path / "config"
    contexts = [{"name": "a", "context": {"namespace": "team"}}, {"name": "b", "context": {}}, {"name": "c"}]
    file.write_text(json.dumps({"clusters": [], "contexts": contexts, "current-context": "a"}))
    assert own_namespace(file) == "team"
    assert {own_namespace(file, context) for context in ("b", "c", "missing")} == {"default"}
