"""The device manager: plugins, slots, and calls of Allocate and PreStartContainer.

The order of steps is that of `pkg/kubelet/cm/devicemanager` of Kubernetes 1.36:

- Devices of finished init containers are reused.
- The plugin is asked for its preference only if new devices are needed.
- The checkpoint is written after each container's Allocate.
- After a restart of the kubelet, PreStartContainer is skipped until the plugin has registered again.
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from hami_core.agent.kubelet import dial
from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.agent.proto import deviceplugin_pb2_grpc as rpc
from hami_core.sim.kubelet import checkpoint
from hami_core.sim.quantity import amounts

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from hami_core.sim.resources import Object

_LOG = logging.getLogger(__name__)
_FORGET_SECONDS = 300.0
_EXTENDED = re.compile(
    r"(?!requests\.)(?!([a-z0-9.-]*\.)?kubernetes\.io/)[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
)
"""Names of extended resources: they have a domain, and not one of Kubernetes."""


class DeviceError(Exception):
    """Devices could not be given, or the plugin refused. The text is the real kubelet's."""


def go_error(error: grpc.aio.AioRpcError) -> str:
    """A gRPC error as Go prints it."""
    name = "".join(part.capitalize() for part in error.code().name.split("_"))
    return f"rpc error: code = {name} desc = {error.details()}"


@dataclass
class Plugin:
    """One registered plugin."""

    resource: str
    channel: grpc.aio.Channel
    stub: rpc.DevicePluginAsyncStub
    options: api.DevicePluginOptions
    stopped: bool = False
    task: asyncio.Task[None] | None = None


@dataclass
class Resource:
    """One resource: its devices, and its plugin once one has registered."""

    devices: dict[str, api.Device] = field(default_factory=dict)
    plugin: Plugin | None = None
    stopped_at: float | None = None

    @property
    def healthy(self) -> set[str]:
        """Ids of healthy devices; none while no plugin is connected."""
        if self.plugin is None or self.plugin.stopped:
            return set()
        return {i for i, d in self.devices.items() if d.health == "Healthy"}


class DeviceManager(rpc.RegistrationServicer):
    """Devices of one node.

    Args:
        folder: Folder of the plugin sockets.
        active: UIDs of pods that are neither finished nor gone.
        changed: Called when capacity changes.
        rng: Source of the random order of ids. Real kubelets promise no order.
    """

    def __init__(
        self, folder: Path, active: Callable[[], set[str]], changed: Callable[[], None], rng: random.Random
    ) -> None:
        self._folder = folder
        self._active = active
        self._changed = changed
        self._rng = rng
        self._resources: dict[str, Resource] = {}
        self._entries: dict[tuple[str, str, str], checkpoint.Entry] = {}
        self._reusable: dict[str, dict[str, set[str]]] = {}
        self._server: grpc.aio.Server | None = None

    # ---- life

    async def start(self) -> None:
        """Removes old sockets, reads the checkpoint and serves kubelet.sock."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.iterdir():
            if path.is_socket():
                path.unlink()
        saved = self._folder / checkpoint.NAME
        if saved.exists():
            try:
                entries, registered = checkpoint.decode(saved.read_bytes())
            except (ValueError, KeyError, TypeError) as error:
                _LOG.warning("checkpoint ignored: %s", error)
            else:
                self._entries = {(e.pod_uid, e.container, e.resource): e for e in entries}
                self._resources = {name: Resource() for name in registered}
        self._server = grpc.aio.server()
        rpc.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{self._folder / 'kubelet.sock'}")
        await self._server.start()

    async def stop(self) -> None:
        """Stops serving; the checkpoint stays."""
        if self._server is not None:
            await self._server.stop(0)
        for resource in self._resources.values():
            if resource.plugin is not None:
                await self._close(resource.plugin)

    @staticmethod
    async def _close(plugin: Plugin) -> None:
        plugin.stopped = True
        if plugin.task is not None:
            plugin.task.cancel()
            await asyncio.gather(plugin.task, return_exceptions=True)
        await plugin.channel.close()

    async def Register(  # noqa: N802 - gRPC's name
        self, request: api.RegisterRequest, context: grpc.aio.ServicerContext[api.RegisterRequest, api.Empty]
    ) -> api.Empty:
        """Registers a plugin. Its socket must already answer."""
        if request.version != "v1beta1":
            text = f'requested API version "{request.version}" is not supported by kubelet.'
            await context.abort(grpc.StatusCode.UNKNOWN, f'{text} Supported version is ["v1beta1"]')
        if not _EXTENDED.fullmatch(request.resource_name):
            text = f'the ResourceName "{request.resource_name}" is invalid'
            await context.abort(grpc.StatusCode.UNKNOWN, text)
        channel = dial(self._folder / request.endpoint)
        stub = rpc.DevicePluginStub(channel)
        try:
            options = await stub.GetDevicePluginOptions(api.Empty(), timeout=10, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            await channel.close()
            await context.abort(grpc.StatusCode.UNKNOWN, f"failed to get device plugin options: {go_error(error)}")
        plugin = Plugin(request.resource_name, channel, stub, options)
        resource = self._resources.setdefault(request.resource_name, Resource())
        old, resource.plugin, resource.stopped_at = resource.plugin, plugin, None
        if old is not None:
            await self._close(old)
        plugin.task = asyncio.create_task(self._watch(plugin, resource))
        _LOG.info("registered %s at %s", request.resource_name, request.endpoint)
        return api.Empty()

    async def _watch(self, plugin: Plugin, resource: Resource) -> None:
        try:
            async for answer in plugin.stub.ListAndWatch(api.Empty()):
                if resource.plugin is plugin:
                    resource.devices = {d.ID: d for d in answer.devices}
                    self._save()
                    self._changed()
        except grpc.aio.AioRpcError as error:
            _LOG.info("ListAndWatch of %s ended: %s", plugin.resource, error.code().name)
        plugin.stopped = True
        if resource.plugin is plugin:
            resource.stopped_at = asyncio.get_running_loop().time()
        self._changed()

    # ---- queries

    def capacity(self) -> dict[str, tuple[int, int]]:
        """Numbers of devices and of healthy devices by resource; both 0 once the plugin has been gone for long."""
        now = asyncio.get_running_loop().time()
        found = {}
        for name, resource in self._resources.items():
            gone = resource.stopped_at is not None and now - resource.stopped_at > _FORGET_SECONDS
            found[name] = (0, 0) if gone else (len(resource.devices), len(resource.healthy))
        return found

    def absent(self) -> bool:
        """Whether a resource of the checkpoint has no healthy device yet, because its plugin is not back."""
        return any(not r.healthy for r in self._resources.values() if r.stopped_at is None)

    def entries(self, uid: str, container: str) -> list[checkpoint.Entry]:
        """The devices that one container holds."""
        return [e for (u, c, _), e in self._entries.items() if (u, c) == (uid, container)]

    def healthy(self) -> dict[str, dict[str, tuple[str, ...]]]:
        """Healthy devices by resource and NUMA node."""
        return {n: checkpoint.by_numa(sorted(r.healthy), r.devices) for n, r in self._resources.items()}

    def _save(self) -> None:
        registered = {name: self._mixed(r.healthy) for name, r in self._resources.items()}
        checkpoint.save(self._folder, checkpoint.encode(list(self._entries.values()), registered))

    def _mixed(self, ids: Iterable[str]) -> list[str]:
        ordered = sorted(ids)
        self._rng.shuffle(ordered)
        return ordered

    # ---- admission

    async def allocate(self, pod: Object, container: Object, *, running: bool) -> None:
        """Gives one container its devices. The caller goes through a pod's containers in order, init containers first.

        Raises:
            DeviceError: Too few devices are free, or the plugin refused.
        """
        uid, name = pod["metadata"]["uid"], container["name"]
        self._reusable = {uid: self._reusable.get(uid, {})}
        reusable = self._reusable[uid]
        await self._allocate_container(uid, container, reusable, running=running)
        init = any(c["name"] == name for c in pod["spec"].get("initContainers") or [])
        keeps = init and container.get("restartPolicy") != "Always"
        for entry in self.entries(uid, name):
            known = reusable.setdefault(entry.resource, set())
            reusable[entry.resource] = known | entry.ids if keeps else known - entry.ids

    def _wanted(self, container: Object) -> dict[str, int]:
        limits = (container.get("resources") or {}).get("limits") or {}
        wanted = {k: int(amount) for k, amount in amounts(limits).items() if k in self._resources}
        return {k: count for k, count in wanted.items() if count > 0}

    async def _allocate_container(
        self, uid: str, container: Object, reusable: dict[str, set[str]], *, running: bool
    ) -> None:
        name, given = container["name"], False
        for resource_name, count in self._wanted(container).items():
            if not given:
                active = self._active() | {uid}
                self._entries = {k: e for k, e in self._entries.items() if k[0] in active}
            resource = self._resources[resource_name]
            ids = await self._pick(uid, name, resource_name, count, reusable.get(resource_name, set()), running=running)
            if not ids:
                continue
            response = await self._ask(resource, resource_name, ids)
            devices = checkpoint.by_numa(ids, resource.devices)
            entry = checkpoint.Entry(uid, name, resource_name, devices, response)
            self._entries[uid, name, resource_name] = entry
            given = True
        if given:
            self._save()

    async def _ask(self, resource: Resource, name: str, ids: list[str]) -> api.ContainerAllocateResponse:
        plugin = resource.plugin
        if plugin is None or plugin.stopped:
            raise DeviceError(f"endpoint of {name} has been stopped")
        request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=ids)])
        try:
            answer = await plugin.stub.Allocate(request)
        except grpc.aio.AioRpcError as error:
            raise DeviceError(go_error(error)) from error
        if not answer.container_responses:
            raise DeviceError("no containers return in allocation response")
        return answer.container_responses[0]

    async def _pick(
        self, uid: str, container: str, name: str, count: int, reusable: set[str], *, running: bool
    ) -> list[str]:
        """Ids to allocate now; none if the container already has its devices.

        Raises:
            DeviceError: Too few healthy devices are free.
        """
        resource, entry = self._resources[name], self._entries.get((uid, container, name))
        held = entry.ids if entry else frozenset()
        if held and len(held) != count:
            text = (
                f"pod {uid!r} container {container!r} changed request for resource {name!r} from {len(held)} to {count}"
            )
            raise DeviceError(text)
        if running:
            return []
        if not resource.healthy:
            raise DeviceError(f"no healthy devices present; cannot allocate unhealthy devices {name}")
        if not held <= resource.healthy:
            raise DeviceError(
                f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {name}"
            )
        if held:
            return []
        chosen = self._mixed(reusable)[:count]
        if len(chosen) == count:
            return chosen
        used = {i for e in self._entries.values() if e.resource == name for i in e.ids}
        free = resource.healthy - used - set(chosen)
        if len(free) < count - len(chosen):
            text = f"requested number of devices unavailable for {name}."
            raise DeviceError(f"{text} Requested: {count - len(chosen)}, Available: {len(free)}")
        preferred = await self._preferred(resource, free | set(chosen), chosen, count)
        order = [*preferred, *self._mixed(free)]
        for one in order:
            if one in free and one not in chosen and len(chosen) < count:
                chosen.append(one)
        return self._mixed(chosen)

    async def _preferred(self, resource: Resource, available: set[str], must: list[str], count: int) -> list[str]:
        plugin = resource.plugin
        if plugin is None or not plugin.options.get_preferred_allocation_available:
            return []
        ask = api.ContainerPreferredAllocationRequest(
            available_deviceIDs=self._mixed(available), must_include_deviceIDs=self._mixed(must), allocation_size=count
        )
        try:
            answer = await plugin.stub.GetPreferredAllocation(api.PreferredAllocationRequest(container_requests=[ask]))
        except grpc.aio.AioRpcError as error:
            raise DeviceError(f"device plugin GetPreferredAllocation rpc failed with err: {go_error(error)}") from error
        return list(answer.container_responses[0].deviceIDs) if answer.container_responses else []

    # ---- container start

    async def before_start(self, uid: str, container: Object) -> list[api.ContainerAllocateResponse]:
        """Calls PreStartContainer if the plugin requires it. Returns the plugins' stored answers to Allocate.

        Raises:
            DeviceError: A plugin refused or is not connected.
        """
        for name in self._wanted(container):
            plugin, entry = self._resources[name].plugin, self._entries.get((uid, container["name"], name))
            if plugin is None or not plugin.options.pre_start_required:
                continue
            if entry is None:
                where = f"pod {uid}, container {container['name']}, resource {name}"
                raise DeviceError(f"no devices found allocated in local cache for {where}")
            if plugin.stopped:
                raise DeviceError(
                    f"device plugin PreStartContainer rpc failed with err: endpoint of {name} has been stopped"
                )
            try:
                await plugin.stub.PreStartContainer(
                    api.PreStartContainerRequest(devices_ids=self._mixed(entry.ids)), timeout=30
                )
            except grpc.aio.AioRpcError as error:
                raise DeviceError(f"device plugin PreStartContainer rpc failed with err: {go_error(error)}") from error
        return [e.response for e in self.entries(uid, container["name"])]
