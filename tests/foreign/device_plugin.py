"""A device plugin as the kubelet sees it, and a cluster whose nodes such plugins serve."""

# ruff: noqa: N802 - the methods of a gRPC service are named as its .proto says
from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio

from hami_core.agent.kubelet import dial
from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.agent.proto import deviceplugin_pb2_grpc as rpc
from hami_core.kube.official import connect
from hami_core.testing.stage import Stage
from hami_core.tests.scheduler.hami_plugin import PluginError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from hami_core.kube.official import OfficialKubeApi

    Allocate = Callable[[int], Awaitable[Mapping[str, str]]]


@dataclass(frozen=True)
class Offer:
    """One resource of a plugin.

    Attributes:
        resource: Its name.
        ids: The device ids that the kubelet hands out.
        allocate: Turns the number of ids of a container into its environment; raises `PluginError`.
    """

    resource: str
    ids: Sequence[str]
    allocate: Allocate


class _Service(rpc.DevicePluginServicer):
    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> api.DevicePluginOptions:
        del request, context
        return api.DevicePluginOptions()

    async def ListAndWatch(self, request: Any, context: Any) -> AsyncIterator[api.ListAndWatchResponse]:
        del request, context
        yield api.ListAndWatchResponse(devices=[api.Device(ID=i, health="Healthy") for i in self._offer.ids])
        await asyncio.Event().wait()

    async def Allocate(self, request: api.AllocateRequest, context: Any) -> api.AllocateResponse:
        (container,) = request.container_requests
        try:
            env = await self._offer.allocate(len(container.devices_ids))
        except PluginError as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        return api.AllocateResponse(container_responses=[api.ContainerAllocateResponse(envs=dict(env))])


@asynccontextmanager
async def registered(folder: Path, offers: Sequence[Offer]) -> AsyncIterator[None]:
    """Serve each resource on a socket of its own and register it with the kubelet of a node."""
    servers = []
    try:
        for position, offer in enumerate(offers):
            server = grpc.aio.server()
            rpc.add_DevicePluginServicer_to_server(_Service(offer), server)
            server.add_insecure_port(f"unix://{folder / f'p{position}.sock'}")
            await server.start()
            servers.append(server)
            async with dial(folder / "kubelet.sock") as channel:
                request = api.RegisterRequest(
                    version="v1beta1", endpoint=f"p{position}.sock", resource_name=offer.resource
                )
                await rpc.RegistrationStub(channel).Register(request, wait_for_ready=True)
        yield
    finally:
        await asyncio.gather(*(server.stop(0) for server in servers))


SETTLE_S: Final = 0.5
"""The scheduler learns from its watches, a little later, what a plugin did."""


class ForeignStage(Stage):
    """A stage without agents of ours: other people's plugins serve its nodes."""

    @property
    def agent_vendors(self) -> tuple[str, ...]:
        """None."""
        return ()

    async def _finish_binds(self) -> None:
        """The plugins do that."""

    async def submit(self, pod: Mapping[str, Any], namespace: str = "default") -> None:
        """Create a pod, after the scheduler has had time to learn what plugins did before."""
        await asyncio.sleep(SETTLE_S)
        await super().submit(pod, namespace)

    @asynccontextmanager
    async def api(self) -> AsyncIterator[OfficialKubeApi]:
        """A client of the API server, for a plugin."""
        made = await connect(self.cluster.kubeconfig)
        try:
            yield made
        finally:
            await made.close()

    async def pod(self, name: str) -> dict[str, Any]:
        """A pod's object."""
        found: dict[str, Any] = (await self.pods())[name]
        return found

    async def node(self, name: str) -> dict[str, Any]:
        """A node's object."""
        found: dict[str, Any] = await self.call("GET", f"/api/v1/nodes/{name}")
        return found

    async def annotate_node(self, name: str, **annotations: str | None) -> None:
        """Set annotations of a node, or remove those whose value is None."""
        body = {"metadata": {"annotations": annotations}}
        await self.call("PATCH", f"/api/v1/nodes/{name}", body, "application/merge-patch+json")

    async def empty(self) -> None:
        """Delete all pods and wait until they are gone."""
        for name in await self.pods():
            await self.call("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})
        while await self.pods():
            await asyncio.sleep(0.05)


def sleeper(name: str, *limits: Mapping[str, object], **more: Any) -> dict[str, Any]:
    """A pod that stays, with one container for each of these limits."""
    containers = [
        {"name": f"c{i}", "image": "any", "command": ["sleep", "600"], "resources": {"limits": dict(amounts)}}
        for i, amounts in enumerate(limits)
    ]
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **more}}


async def told(stage: ForeignStage, name: str, why: str) -> None:
    """Wait until an event of a pod that is not bound holds a text."""
    seen: list[str] = []

    async def found() -> bool:
        seen[:] = await stage.events(name)
        return any(why in text for text in seen)

    with contextlib.suppress(TimeoutError):
        await until(found)
    assert await found(), f"{name} is told {seen}, not {why!r}"
    assert "nodeName" not in (await stage.pod(name))["spec"]


async def until(condition: Callable[[], Awaitable[object]], limit_s: float = 30.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(limit_s):
        while not await condition():
            await asyncio.sleep(0.05)
