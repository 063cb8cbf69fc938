"""The kubelet's half of the device-plugin protocol: registration, lists, admission, checkpoint and container start.

Like the real kubelet, it removes every socket when it starts. It picks slots itself, calls Allocate for each container,
and stores the answer in its checkpoint by rename. It calls PreStartContainer with slot ids only, and starts a container
from the CDI spec of its stored name.
"""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grpc import aio

from hami_core.agent.identity import CHECKPOINT
from hami_core.agent.kubelet import dial
from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.agent.proto import deviceplugin_pb2_grpc as services

if TYPE_CHECKING:
    from pathlib import Path


@dataclass
class Given:
    pod_uid: str
    container: str
    resource: str
    slots: list[str]
    response: api.ContainerAllocateResponse


@dataclass
class StubKubelet(services.RegistrationServicer):
    folder: Path
    cdi_dir: Path
    given: list[Given] = field(default_factory=list)
    hold_checkpoint: bool = False

    def __post_init__(self) -> None:
        self.slots: dict[str, dict[str, api.Device]] = {}
        self.sockets: dict[str, Path] = {}
        self.options: dict[str, api.DevicePluginOptions] = {}
        self.registrations = 0
        self.lists = 0
        self._server: aio.Server | None = None
        self._streams: list[asyncio.Task] = []
        self.changed = asyncio.Event()

    async def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for entry in self.folder.iterdir():
            if entry.name != CHECKPOINT:
                entry.unlink()
        self.slots.clear()
        self.sockets.clear()
        self._server = aio.server()
        services.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self.folder}/kubelet.sock")
        await self._server.start()

    async def stop(self) -> None:
        if self._server:  # first of all, because a late registration would open another stream
            await self._server.stop(0)
            self._server = None
        for stream in self._streams:
            stream.cancel()
        await asyncio.gather(*self._streams, return_exceptions=True)
        self._streams.clear()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def Register(self, request: api.RegisterRequest, context: object) -> api.Empty:  # noqa: N802
        assert request.version == "v1beta1"
        self.registrations += 1
        self.sockets[request.resource_name] = self.folder / request.endpoint
        self.options[request.resource_name] = request.options
        self._streams.append(asyncio.ensure_future(self._watch(request.resource_name)))
        return api.Empty()

    async def _watch(self, resource: str) -> None:
        async with dial(self.sockets[resource]) as channel:
            stub = services.DevicePluginStub(channel)
            try:
                async for answer in stub.ListAndWatch(api.Empty()):
                    self.slots[resource] = {d.ID: d for d in answer.devices}
                    self.lists += 1
                    if not self.hold_checkpoint:
                        self.checkpoint()
                    self.changed.set()
            except aio.AioRpcError:
                pass

    async def until(self, what, seconds: float = 60.0) -> None:
        async with asyncio.timeout(seconds):
            while not what():
                self.changed.clear()
                try:
                    await asyncio.wait_for(self.changed.wait(), 0.02)
                except TimeoutError:
                    continue

    async def _call(self, resource: str, method: str, request, timeout: float = 30.0):
        async with dial(self.sockets[resource]) as channel:
            return await getattr(services.DevicePluginStub(channel), method)(request, timeout=timeout)

    async def admit(self, pod_uid: str, container: str, resource: str, count: int, *, reuse=(), pick=None) -> Given:
        """Give slots to a container, first those in ``reuse``, which come from the pod's finished init containers."""
        busy = {s for g in self.given if g.resource == resource for s in g.slots} - set(reuse)
        free = [s for s, d in self.slots[resource].items() if d.health == "Healthy" and s not in busy]
        slots = list(reuse)[:count]
        if len(slots) < count:
            request = api.PreferredAllocationRequest(
                container_requests=[
                    api.ContainerPreferredAllocationRequest(
                        available_deviceIDs=free, must_include_deviceIDs=slots, allocation_size=count
                    )
                ]
            )
            answer = await self._call(resource, "GetPreferredAllocation", request)
            preferred = list(answer.container_responses[0].deviceIDs)
            assert len(preferred) == count, (preferred, free)
            assert set(slots) <= set(preferred) <= set(free) | set(slots)
            slots = (
                preferred if pick is None else slots + pick([s for s in free if s not in slots])[: count - len(slots)]
            )
        request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=slots)])
        answer = await self._call(resource, "Allocate", request)
        given = Given(pod_uid, container, resource, slots, answer.container_responses[0])
        self.given.append(given)
        if not self.hold_checkpoint:
            self.checkpoint()
        return given

    def forget(self, pod_uid: str) -> None:
        self.given = [g for g in self.given if g.pod_uid != pod_uid]
        self.checkpoint()

    def checkpoint(self) -> None:
        entries = [
            {
                "PodUID": g.pod_uid,
                "ContainerName": g.container,
                "ResourceName": g.resource,
                "DeviceIDs": {"-1": g.slots},
                "AllocResp": base64.b64encode(g.response.SerializeToString()).decode(),
            }
            for g in self.given
        ]
        registered = {r: sorted(s) for r, s in self.slots.items()}
        data = {"Data": {"PodDeviceEntries": entries or None, "RegisteredDevices": registered}, "Checksum": 1234567}
        self.write_checkpoint(json.dumps(data).encode())

    def write_checkpoint(self, data: bytes) -> None:
        temporary = self.folder / ".checkpoint"
        temporary.write_bytes(data)
        temporary.replace(self.folder / CHECKPOINT)

    async def prestart(self, given: Given) -> None:
        request = api.PreStartContainerRequest(devices_ids=given.slots[::-1])
        await self._call(given.resource, "PreStartContainer", request)

    def create(self, given: Given) -> dict:
        """The edits that the runtime applies for the stored CDI name. Raises KeyError if there is no spec."""
        name = given.response.cdi_devices[0].name
        for file in self.cdi_dir.glob("*.json"):
            try:
                spec = json.loads(file.read_text())
            except FileNotFoundError:
                continue  # the spec of another container, removed meanwhile
            for device in spec["devices"]:
                if f"{spec['kind']}={device['name']}" == name:
                    return device["containerEdits"]
        raise KeyError(f"unresolvable CDI devices {name}")
