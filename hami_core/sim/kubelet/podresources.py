"""The PodResources service, v1: which running containers hold which devices. Init containers are never shown."""

# ruff: noqa: N802, ARG002 - the .proto file sets names and arguments of a gRPC service's methods

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import grpc.aio

from hami_core.agent.proto import podresources_pb2 as api
from hami_core.agent.proto import podresources_pb2_grpc as rpc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from hami_core.sim.kubelet.devices import DeviceManager
    from hami_core.sim.resources import Object


def _devices(resource: str, groups: dict[str, tuple[str, ...]]) -> Iterable[api.ContainerDevices]:
    for numa, ids in groups.items():
        nodes = [api.NUMANode(ID=int(numa))] if numa != "-1" else []
        topology = api.TopologyInfo(nodes=nodes) if nodes else None
        yield api.ContainerDevices(resource_name=resource, device_ids=ids, topology=topology)


class PodResources(rpc.PodResourcesListerServicer):
    """Answers from the device manager.

    Args:
        devices: The device manager.
        active: Objects of pods that are neither finished nor gone.
    """

    def __init__(self, devices: DeviceManager, active: Callable[[], list[Object]]) -> None:
        self._devices = devices
        self._active = active
        self._server: grpc.aio.Server | None = None

    async def start(self, socket: Path) -> None:
        """Serves on a socket."""
        socket.parent.mkdir(parents=True, exist_ok=True)
        socket.unlink(missing_ok=True)  # noqa: ASYNC240 - one file, once
        self._server = grpc.aio.server()
        rpc.add_PodResourcesListerServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{socket}")
        await self._server.start()

    async def stop(self) -> None:
        """Stops serving."""
        if self._server is not None:
            await self._server.stop(0)

    def _pod(self, pod: Object) -> api.PodResources:
        meta, spec = pod["metadata"], pod["spec"]
        sidecars = [c for c in spec.get("initContainers") or [] if c.get("restartPolicy") == "Always"]
        shown = [
            api.ContainerResources(
                name=c["name"],
                devices=[
                    d for e in self._devices.entries(meta["uid"], c["name"]) for d in _devices(e.resource, e.devices)
                ],
            )
            for c in [*sidecars, *spec["containers"]]
        ]
        return api.PodResources(name=meta["name"], namespace=meta["namespace"], containers=shown)

    async def List(
        self,
        request: api.ListPodResourcesRequest,
        context: grpc.aio.ServicerContext[api.ListPodResourcesRequest, api.ListPodResourcesResponse],
    ) -> api.ListPodResourcesResponse:
        """All active pods."""
        return api.ListPodResourcesResponse(pod_resources=[self._pod(p) for p in self._active()])

    async def Get(
        self,
        request: api.GetPodResourcesRequest,
        context: grpc.aio.ServicerContext[api.GetPodResourcesRequest, api.GetPodResourcesResponse],
    ) -> api.GetPodResourcesResponse:
        """One active pod."""
        for pod in self._active():
            if (pod["metadata"]["name"], pod["metadata"]["namespace"]) == (request.pod_name, request.pod_namespace):
                return api.GetPodResourcesResponse(pod_resources=self._pod(pod))
        text = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        return await context.abort(grpc.StatusCode.UNKNOWN, text)

    async def GetAllocatableResources(
        self,
        request: api.AllocatableResourcesRequest,
        context: grpc.aio.ServicerContext[api.AllocatableResourcesRequest, api.AllocatableResourcesResponse],
    ) -> api.AllocatableResourcesResponse:
        """All healthy devices."""
        found = [d for name, groups in self._devices.healthy().items() for d in _devices(name, groups)]
        return api.AllocatableResourcesResponse(devices=found)
