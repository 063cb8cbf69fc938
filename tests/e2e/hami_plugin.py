"""HAMi's device plugin, as the kubelet knows it: slots ``<uuid>-<k>``, an environment, no CDI name. For the migration.

Run on a node: ``python -m tests.e2e.hami_plugin``. It ends on SIGTERM.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc.aio
import pynvml

from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.agent.proto import deviceplugin_pb2_grpc as services

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

FOLDER = Path("/var/lib/kubelet/device-plugins")
ENDPOINT = "nvidia-gpu.sock"
RESOURCE = "nvidia.com/gpu"
SPLIT = 10


def cards() -> list[str]:
    """UUIDs of this node's cards."""
    pynvml.nvmlInit()
    count = pynvml.nvmlDeviceGetCount()
    return [str(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(i))) for i in range(count)]


class Plugin(services.DevicePluginServicer):
    """Three calls; the two optional ones are not offered."""

    def __init__(self, uuids: list[str]) -> None:
        self._uuids = uuids

    async def GetDevicePluginOptions(self, request: api.Empty, context: Any) -> api.DevicePluginOptions:  # noqa: N802
        """Neither PreStartContainer nor GetPreferredAllocation."""
        return api.DevicePluginOptions()

    async def ListAndWatch(self, request: api.Empty, context: Any) -> AsyncIterator[api.ListAndWatchResponse]:  # noqa: N802
        """The slots, once."""
        slots = [api.Device(ID=f"{uuid}-{k}", health="Healthy") for uuid in self._uuids for k in range(SPLIT)]
        yield api.ListAndWatchResponse(devices=slots)
        await asyncio.Event().wait()

    async def Allocate(self, request: api.AllocateRequest, context: Any) -> api.AllocateResponse:  # noqa: N802
        """Limits in the environment, as HAMi answers."""
        env = {"NVIDIA_VISIBLE_DEVICES": self._uuids[0], "CUDA_DEVICE_MEMORY_LIMIT_0": "8000m"}
        answers = [api.ContainerAllocateResponse(envs=env) for _ in request.container_requests]
        return api.AllocateResponse(container_responses=answers)


async def main() -> None:
    """Serve, register, wait."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    server = grpc.aio.server()
    services.add_DevicePluginServicer_to_server(Plugin(cards()), server)  # type: ignore[no-untyped-call] # generated
    server.add_insecure_port(f"unix://{FOLDER / ENDPOINT}")
    await server.start()
    async with grpc.aio.insecure_channel(f"unix://{FOLDER / 'kubelet.sock'}") as channel:
        ask = api.RegisterRequest(version="v1beta1", endpoint=ENDPOINT, resource_name=RESOURCE)
        await services.RegistrationStub(channel).Register(ask, wait_for_ready=True, timeout=20)
    await stop.wait()
    await server.stop(1)


if __name__ == "__main__":
    asyncio.run(main())
