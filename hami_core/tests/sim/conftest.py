"""Fixtures: a client, a device plugin that binds late, and an extender whose answers the test sets."""

# ruff: noqa: N802 - names of gRPC methods

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
import uuid
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from aiohttp import web

from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.agent.proto import deviceplugin_pb2_grpc as rpc
from hami_core.agent.proto import podresources_pb2 as res
from hami_core.agent.proto import podresources_pb2_grpc as res_rpc
from hami_core.sim.client import Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from hami_core.sim.cluster import NodePaths

KIND = "example.test/late"


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A folder with a path short enough for Unix sockets."""
    with tempfile.TemporaryDirectory(prefix="sim-") as name:
        yield Path(name)


class Kube:
    """Shortcuts for tests, on the raw API."""

    def __init__(self, url: str) -> None:
        self.client = Client(url, "test")

    async def close(self) -> None:
        await self.client.close()

    async def create(self, name: str, containers: list[dict], **spec: Any) -> dict:
        meta = {"name": name, **spec.pop("metadata", {})}
        body = {"metadata": meta, "spec": {"terminationGracePeriodSeconds": 1, "containers": containers, **spec}}
        return await self.client.call("POST", "/api/v1/namespaces/default/pods", body)

    async def pod(self, name: str) -> dict:
        return await self.client.call("GET", f"/api/v1/namespaces/default/pods/{name}")

    async def until(self, name: str, test: Callable[[dict], Any], seconds: float = 90) -> dict:
        """Wait until the test is true for the pod, and return the pod. The time limit only ends a failing test."""
        pod: dict = {}
        try:
            async with asyncio.timeout(seconds):
                while True:
                    pod = await self.pod(name)
                    if test(pod):
                        return pod
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pytest.fail(f"pod {name} did not reach the state; last: {json.dumps(pod.get('status'), indent=1)}")

    async def phase(self, name: str, phase: str) -> dict:
        return await self.until(name, lambda p: p["status"]["phase"] == phase)

    async def events(self, reason: str) -> list[str]:
        found = await self.client.call("GET", "/api/v1/events")
        return [e["message"] for e in found["items"] if e["reason"] == reason]

    async def log(self, name: str, container: str) -> str:
        async with self.client._session.get(
            f"{self.client._url}/api/v1/namespaces/default/pods/{name}/log?container={container}"
        ) as answer:
            return await answer.text()

    async def until_admitted(self, cluster: Any, node: str) -> None:
        """Wait until PodResources shows that a restarted kubelet has its pods again."""
        async with (
            asyncio.timeout(90),
            grpc.aio.insecure_channel(f"unix://{cluster.node(node).pod_resources}") as channel,
        ):
            stub = res_rpc.PodResourcesListerStub(channel)
            while not (await stub.List(res.ListPodResourcesRequest(), wait_for_ready=True)).pod_resources:
                await asyncio.sleep(0.05)

    async def until_log(self, name: str, container: str, word: str) -> str:
        """Wait until the container's log has the word, and return the log."""
        text = ""
        try:
            async with asyncio.timeout(90):
                while word not in text:
                    await asyncio.sleep(0.05)
                    text = await self.log(name, container)
        except TimeoutError:
            pytest.fail(f"log of {name}/{container} never had {word!r}: {text}")
        return text


@asynccontextmanager
async def kube_at(url: str) -> AsyncIterator[Kube]:
    kube = Kube(url)
    try:
        yield kube
    finally:
        await kube.close()


@pytest.fixture
def kube() -> Callable[[str], Any]:
    return kube_at


class LatePlugin(rpc.DevicePluginServicer):
    """Allocate answers a fresh CDI name. PreStartContainer writes a CDI spec for each entry of the checkpoint."""

    def __init__(self, node: NodePaths, count: int, resource: str) -> None:
        self.node, self.count, self.resource = node, count, resource
        self.calls: list[tuple[str, frozenset[str]]] = []
        self.preferred: list[tuple[set[str], int]] = []
        self.refuse_start = ""
        self.refuse_allocate = ""
        self.write = True
        self.extra: dict[str, Any] = {}
        self._server: grpc.aio.Server | None = None
        self._stop = asyncio.Event()

    async def GetDevicePluginOptions(self, request, context):
        return api.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)

    async def ListAndWatch(self, request, context):
        devices = [api.Device(ID=f"slot-{i}", health="Healthy") for i in range(self.count)]
        yield api.ListAndWatchResponse(devices=devices)
        await self._stop.wait()

    async def GetPreferredAllocation(self, request, context):
        answers = []
        for ask in request.container_requests:
            must = list(ask.must_include_deviceIDs)
            self.preferred.append((set(must), ask.allocation_size))
            rest = sorted(set(ask.available_deviceIDs) - set(must))
            ids = (must + rest)[: ask.allocation_size]
            answers.append(api.ContainerPreferredAllocationResponse(deviceIDs=ids))
        return api.PreferredAllocationResponse(container_responses=answers)

    async def Allocate(self, request, context):
        (ask,) = request.container_requests
        self.calls.append(("Allocate", frozenset(ask.devices_ids)))
        if self.refuse_allocate:
            await context.abort(grpc.StatusCode.INTERNAL, self.refuse_allocate)
        names = [api.CDIDevice(name=f"{KIND}={uuid.uuid4().hex}")]
        answer = api.ContainerAllocateResponse(
            cdi_devices=names, envs={"FROM": "allocate", "ONLY_ALLOCATE": "1", "POD": "allocate"}
        )
        return api.AllocateResponse(container_responses=[answer])

    async def PreStartContainer(self, request, context):
        self.calls.append(("PreStartContainer", frozenset(request.devices_ids)))
        if self.refuse_start:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, self.refuse_start)
        if self.write:
            self.write_specs()
        return api.PreStartContainerResponse()

    def entries(self) -> list[dict]:
        return (
            json.loads((self.node.plugin_dir / "kubelet_internal_checkpoint").read_bytes())["Data"]["PodDeviceEntries"]
            or []
        )

    def write_specs(self) -> None:
        for entry in self.entries():
            answer = api.ContainerAllocateResponse.FromString(base64.b64decode(entry["AllocResp"]))
            name = answer.cdi_devices[0].name.partition("=")[2]
            env = [f"IDENTITY={entry['PodUID']}/{entry['ContainerName']}", "FROM=cdi", "POD=cdi"]
            edits = {"env": env, **self.extra}
            spec = {"cdiVersion": "0.5.0", "kind": KIND, "devices": [{"name": name, "containerEdits": edits}]}
            fresh = self.node.cdi_dir / f"{name}.tmp"
            fresh.write_text(json.dumps(spec))
            fresh.rename(self.node.cdi_dir / f"late-{name}.json")

    async def start(self) -> None:
        self._stop.clear()
        self._server = grpc.aio.server()
        rpc.add_DevicePluginServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{self.node.plugin_dir / 'late.sock'}")
        await self._server.start()
        async with grpc.aio.insecure_channel(f"unix://{self.node.plugin_dir / 'kubelet.sock'}") as channel:
            request = api.RegisterRequest(version="v1beta1", endpoint="late.sock", resource_name=self.resource)
            await rpc.RegistrationStub(channel).Register(request, wait_for_ready=True)

    async def stop(self) -> None:
        self._stop.set()
        if self._server is not None:
            await self._server.stop(0)
            self._server = None


@asynccontextmanager
async def late_plugin_at(node: NodePaths, count: int, resource: str = KIND) -> AsyncIterator[LatePlugin]:
    plugin = LatePlugin(node, count, resource)
    await plugin.start()
    try:
        yield plugin
    finally:
        await plugin.stop()


@pytest.fixture
def late_plugin() -> Callable[..., Any]:
    return late_plugin_at


class Extender:
    """An extender with the answers that the test sets. It records its calls."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict]] = []
        self.refuse: dict[str, str] = {}
        self.scores: dict[str, int] = {}
        self.on_bind: Callable[[dict], Awaitable[str]] | None = None
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        verb, body = request.path.strip("/"), await request.json()
        self.asked.append((verb, body))
        if verb == "filter":
            names = body["NodeNames"]
            failed = {n: self.refuse[n] for n in names if n in self.refuse}
            return web.json_response(
                {"NodeNames": [n for n in names if n not in failed], "FailedNodes": failed, "Error": ""}
            )
        if verb == "prioritize":
            return web.json_response([{"Host": n, "Score": self.scores.get(n, 0)} for n in body["NodeNames"]])
        assert self.on_bind is not None
        return web.json_response({"Error": await self.on_bind(body)})

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.asked]

    def config(self, **more: Any) -> dict:
        entry = {
            "urlPrefix": self.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "bindVerb": "bind",
            "weight": 5, "nodeCacheCapable": True, "httpTimeout": "5s",
            "managedResources": [{"name": "example.test/gpu", "ignoredByScheduler": True}], **more,
        }  # fmt: skip
        return {"extenders": [entry], "podInitialBackoffSeconds": 0.2, "podMaxBackoffSeconds": 1}


@pytest.fixture
async def extender() -> AsyncIterator[Extender]:
    found = Extender()
    app = web.Application()
    app.router.add_post("/{verb}", found.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield found
    await runner.cleanup()
