"""Extender, webhook and device plugin for scenarios: they give the answers that are set and record the calls."""

# ruff: noqa: N802 - names of gRPC methods

from __future__ import annotations

import asyncio
import base64
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc.aio
import trustme
from aiohttp import web

from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.agent.proto import deviceplugin_pb2_grpc as rpc

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

Json = dict[str, Any]


class Answers:
    """HTTP or HTTPS server. It records every POST and gives the answer that was set for its path.

    Args:
        listener: Socket to serve on.
        tls: Whether to serve TLS, with a certificate for 127.0.0.1.
    """

    def __init__(self, listener: socket.socket, *, tls: bool = False) -> None:
        self._listener = listener
        self._runner: web.AppRunner
        self._answers: dict[str, Callable[[Json], Awaitable[Any]]] = {}
        self.calls: list[tuple[str, str, Json]] = []
        """Path, content type and body of each call, in order."""
        self.bundle = ""
        """The certificate authority in the form of `caBundle`."""
        self._context: ssl.SSLContext | None = None
        if tls:
            authority = trustme.CA()
            self.bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert("127.0.0.1").configure_cert(self._context)
        port = listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"

    async def start(self) -> None:
        """Serves."""
        app = web.Application(client_max_size=32 << 20)
        app.router.add_post("/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.SockSite(self._runner, self._listener, ssl_context=self._context).start()

    async def stop(self) -> None:
        """Stops serving."""
        await self._runner.cleanup()

    def answer(self, path: str, with_: Callable[[Json], Awaitable[Any]] | Any) -> None:
        """Set the answer for a path: a JSON value, or a coroutine function that is called with the body."""
        if callable(with_):
            self._answers[path] = with_
        else:

            async def fixed(_: Json) -> Any:
                return with_

            self._answers[path] = fixed

    async def _handle(self, request: web.Request) -> web.Response:
        path, body = request.path.strip("/"), await request.json()
        self.calls.append((path, request.content_type, body))
        if path not in self._answers:
            return web.Response(status=404, text=f"nothing is set for {path}")
        answer = await self._answers[path](body)
        return answer if isinstance(answer, web.Response) else web.json_response(answer)


@asynccontextmanager
async def serving(listener: socket.socket, *, tls: bool = False) -> AsyncIterator[Answers]:
    """Run a server for the time of the context."""
    answers = Answers(listener, tls=tls)
    await answers.start()
    try:
        yield answers
    finally:
        await answers.stop()


class Plugin(rpc.DevicePluginServicer):
    """A device plugin whose answers the scenario sets.

    Args:
        folder: Folder of kubelet.sock.
        resource: Name of its resource.
        count: Number of devices, ``d0`` and so on.
        options: Fields of `DevicePluginOptions`.
    """

    def __init__(self, folder: Path, resource: str, count: int, **options: bool) -> None:
        self.folder, self.resource = folder, resource
        self.socket = resource.replace("/", "-") + ".sock"
        self.options = api.DevicePluginOptions(**options)
        self.devices = {f"d{i}": "Healthy" for i in range(count)}
        self.calls: list[Json] = []
        self.envs: dict[str, str] = {}
        self.cdi: list[str] = []
        self.refuse: dict[str, tuple[grpc.StatusCode, str]] = {}
        """RPC → status and text of its refusal."""
        self._changed = asyncio.Condition()
        self._server: grpc.aio.Server | None = None

    def names(self) -> list[str]:
        """Names of the calls, in order."""
        return [call["call"] for call in self.calls]

    async def _refuse(self, name: str, context: Any) -> None:
        if name in self.refuse:
            code, text = self.refuse[name]
            await context.abort(code, text)

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:
        self.calls.append({"call": "GetDevicePluginOptions"})
        return self.options

    async def ListAndWatch(self, request: Any, context: Any) -> Any:
        self.calls.append({"call": "ListAndWatch"})
        while True:
            yield api.ListAndWatchResponse(devices=[api.Device(ID=i, health=h) for i, h in self.devices.items()])
            async with self._changed:
                await self._changed.wait()

    async def set_devices(self, **devices: str) -> None:
        """Change ids and health, and send them to the kubelet."""
        self.devices = devices
        async with self._changed:
            self._changed.notify_all()

    async def GetPreferredAllocation(self, request: Any, context: Any) -> Any:
        answers = []
        for ask in request.container_requests:
            must, available = sorted(ask.must_include_deviceIDs), sorted(ask.available_deviceIDs)
            seen = {"available": available, "must": must, "size": ask.allocation_size}
            self.calls.append({"call": "GetPreferredAllocation", "containers": len(request.container_requests), **seen})
            chosen = [*must, *(i for i in available if i not in must)][: ask.allocation_size]
            answers.append(api.ContainerPreferredAllocationResponse(deviceIDs=chosen))
        await self._refuse("GetPreferredAllocation", context)
        return api.PreferredAllocationResponse(container_responses=answers)

    async def Allocate(self, request: Any, context: Any) -> Any:
        ids = [sorted(ask.devices_ids) for ask in request.container_requests]
        self.calls.append({"call": "Allocate", "ids": ids})
        await self._refuse("Allocate", context)
        answers = [
            api.ContainerAllocateResponse(envs=self.envs, cdi_devices=[api.CDIDevice(name=n) for n in self.cdi])
            for _ in ids
        ]
        return api.AllocateResponse(container_responses=answers)

    async def PreStartContainer(self, request: Any, context: Any) -> Any:
        self.calls.append({"call": "PreStartContainer", "ids": sorted(request.devices_ids)})
        await self._refuse("PreStartContainer", context)
        return api.PreStartContainerResponse()

    async def serve(self) -> None:
        """Serve the socket without registering it."""
        self._server = grpc.aio.server()
        rpc.add_DevicePluginServicer_to_server(self, self._server)
        (self.folder / self.socket).unlink(missing_ok=True)
        self._server.add_insecure_port(f"unix://{self.folder / self.socket}")
        await self._server.start()

    async def register(self, **fields: Any) -> str:
        """Register with the kubelet. Returns its error, or an empty text."""
        request = api.RegisterRequest(
            **{
                "version": "v1beta1",
                "endpoint": self.socket,
                "resource_name": self.resource,
                "options": self.options,
                **fields,
            }
        )
        async with grpc.aio.insecure_channel(f"unix://{self.folder / 'kubelet.sock'}") as channel:
            try:
                await rpc.RegistrationStub(channel).Register(request, wait_for_ready=True, timeout=30)
            except grpc.aio.AioRpcError as error:
                return f"{error.code().name}: {error.details()}"
        return ""

    async def start(self) -> None:
        """Serves and registers."""
        await self.serve()
        error = await self.register()
        assert not error, error

    async def stop(self) -> None:
        """Stop the server and all its calls."""
        if self._server is not None:
            await self._server.stop(0)
            self._server = None


@asynccontextmanager
async def plugin(folder: Path, resource: str, count: int, **options: bool) -> AsyncIterator[Plugin]:
    """Run a registered plugin for the time of the context."""
    found = Plugin(folder, resource, count, **options)
    await found.start()
    try:
        yield found
    finally:
        await found.stop()
