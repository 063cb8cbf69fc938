"""A call to a socket ends when the socket's server ends, at whatever moment that is."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from pathlib import Path

import pytest
from grpc import aio

from hami_core.agent.kubelet import Offer, SlotService, dial
from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.agent.proto import deviceplugin_pb2_grpc as services


async def watch(socket: Path) -> None:
    """Watch the list of slots as a kubelet does, until the server ends."""
    async with dial(socket) as channel:
        try:
            async for _ in services.DevicePluginStub(channel).ListAndWatch(api.Empty()):
                pass
        except aio.AioRpcError:
            pass


async def restarts(count: int) -> None:
    """Run servers on one socket, one after the other. Each ends while a client begins to watch."""
    folder = Path(tempfile.mkdtemp(prefix="hami-"))
    socket = folder / "some.sock"
    offer = Offer()
    offer.set({f"card-{i}": (True, -1) for i in range(20)})
    try:
        for number in range(count):
            server = aio.server(options=[("grpc.so_reuseport", 0)])
            services.add_DevicePluginServicer_to_server(SlotService("acme.io/card", offer, None), server)
            server.add_insecure_port(f"unix:{socket}")
            await server.start()
            watching = asyncio.ensure_future(watch(socket))
            await asyncio.sleep(random.random() * 0.004)
            await server.stop(0)
            done, _ = await asyncio.wait([watching], timeout=20)
            assert done, f"a call goes on without a server, after {number} others"
    finally:
        shutil.rmtree(folder)


def test_a_call_ends_with_its_server():
    asyncio.run(restarts(1000))


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_call_ends_with_its_server_long():
    """With gRPC's default options about one call in a thousand never ends."""
    asyncio.run(restarts(30_000))
