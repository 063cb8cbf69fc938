# ruff: noqa: N802, ARG002, ANN401 - the methods of a gRPC service are named and called as its .proto says
"""The kubelet's device-plugin interface: one gRPC server on a unix socket for each resource.

The kubelet connects to us after we registered at its own socket. It admits pods one after the other, so Allocate must
answer quickly, from memory. What a container really gets is decided later, by CDI name (`hami_core.agent.identity`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import grpc
import structlog
from grpc import aio

from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.agent.proto import deviceplugin_pb2_grpc as services
from hami_core.errors import ConfigError, DeviceError
from hami_core.model import Preference

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

log = structlog.get_logger(__name__)

API_VERSION: Final = "v1beta1"
KUBELET_SOCKET: Final = "kubelet.sock"
SOCKET_PATH_MAX: Final = 107
"""Longest path of a unix socket on Linux, in bytes."""
REGISTER_TIMEOUT_S: Final = 5.0
STOP_GRACE_S: Final = 2.0
UNWATCHED_LIMIT_S: Final = 10.0
"""If the kubelet does not watch a registered resource for this long, the resource is registered again."""

_CHANNEL: Final = (("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1))

Slots = dict[str, tuple[bool, int]]
"""Health and NUMA node of each slot by its id. A negative NUMA node means none."""


def dial(socket: Path) -> aio.Channel:
    """A channel to a unix socket whose server may end at any moment. It neither retries calls nor shares connections.

    By default gRPC retries a call that a closing server has not processed, transparently and without a pause. On a
    connection that is just closing, that loop uses a whole core and 200 MB more memory each second. Every later channel
    to the same socket would share that connection.
    """
    return aio.insecure_channel(f"unix:{socket}", options=_CHANNEL)


class Refused(Exception):  # noqa: N818 - a verdict, not an error of ours
    """A container may not start now. The kubelet shows the text to the pod's owner and asks again."""


class Binder(Protocol):
    """Decides the answers to Allocate and PreStartContainer."""

    async def allocate(self, resource: str, slot_ids: Sequence[str]) -> api.ContainerAllocateResponse:
        """Answer for one container, from memory except in `serial` mode.

        Raises:
            Refused: A slot is not offered. With bookings it never fails, since the pod gets its reason later.
        """
        ...

    async def prestart(self, resource: str, slot_ids: Sequence[str]) -> None:
        """Return once every container that holds exactly these slots may start; otherwise raise `Refused`."""
        ...


@dataclass(slots=True)
class Offer:
    """The offered slots of one resource. Every change or `nudge` goes to all watching streams at once.

    Attributes:
        slots: The slots.
        preference: Which free slots the kubelet should hand out first.
        cards: The card of a slot, if its id does not say so.
    """

    slots: Slots = field(default_factory=dict)
    preference: Preference = Preference.DISTRIBUTED
    cards: Mapping[str, str] = field(default_factory=dict)
    revision: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def set(self, slots: Mapping[str, tuple[bool, int]]) -> bool:
        """Offer these slots. Returns whether anything changed."""
        if dict(slots) == self.slots:
            return False
        self.slots = dict(slots)
        self.nudge()
        return True

    def nudge(self) -> None:
        """Send the list again, which makes the kubelet write its checkpoint again."""
        self.revision += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def after(self, revision: int) -> int:
        """Wait until the revision differs from this one, and return the new one."""
        while self.revision == revision:
            await self._changed.wait()
        return self.revision

    @property
    def healthy(self) -> int:
        """The number of healthy slots, which the kubelet should show as allocatable."""
        return sum(ok for ok, _ in self.slots.values())


def card_of(slot_id: str) -> str:
    """The device id in a slot id ``<device>-<k>``."""
    head, _, tail = slot_id.rpartition("-")
    return head if head and tail.isdigit() else slot_id


def choose_slots(
    available: Sequence[str],
    must: Sequence[str],
    size: int,
    preference: Preference = Preference.DISTRIBUTED,
    cards: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """Choose slots: first the required ones, then by `hami_core.model.Preference`.

    Of a resource with bookings, the booking decides which card a container gets, and not its slots. Spreading these
    over the cards keeps the kubelet's count of free slots by NUMA node close to the bookings.

    Args:
        available: Free slots.
        must: Slots that must be chosen.
        size: How many are wanted.
        preference: Which come first.
        cards: The card of a slot, if its id does not say so.
    """
    chosen = list(dict.fromkeys(must))[:size]
    by_card: dict[str, list[str]] = {}
    for slot in sorted(set(available) - set(chosen), key=_slot_order):
        by_card.setdefault(cards.get(slot) or card_of(slot), []).append(slot)
    if preference is Preference.PACKED:
        emptiest = sorted(by_card.values(), key=len)
        return (chosen + [slot for slots in emptiest for slot in slots])[:size]
    order = sorted(by_card, key=lambda card: (-len(by_card[card]), card))
    while len(chosen) < size and order:
        chosen += [by_card[card].pop(0) for card in order][: size - len(chosen)]
        order = [card for card in order if by_card[card]]
    return chosen


def _slot_order(slot: str) -> tuple[str, int]:
    tail = slot.rpartition("-")[2]
    return card_of(slot), int(tail) if tail.isdigit() and len(tail) < 10 else 0


class SlotService(services.DevicePluginServicer):
    """The five calls of the device-plugin API for one resource."""

    def __init__(self, resource: str, offer: Offer, binder: Binder) -> None:
        self._resource = resource
        self._offer = offer
        self._binder = binder
        self.watching = 0
        """Number of open ListAndWatch streams. If it is 0, the kubelet does not know our slots."""
        self.listed_at: float | None = None
        """When the kubelet was first sent the list (monotonic seconds)."""

    async def GetDevicePluginOptions(self, request: api.Empty, context: Any) -> api.DevicePluginOptions:
        """Request the optional calls that have an answer."""
        return options(self._offer.preference)

    async def ListAndWatch(self, request: api.Empty, context: Any) -> AsyncIterator[api.ListAndWatchResponse]:
        """Send the whole list at once, and again after each change."""
        self.watching += 1
        try:
            revision = self._offer.revision
            while True:
                yield api.ListAndWatchResponse(devices=_devices(self._offer.slots))
                if self.listed_at is None:
                    self.listed_at = time.monotonic()
                revision = await self._offer.after(revision)
        finally:
            self.watching -= 1

    async def GetPreferredAllocation(
        self, request: api.PreferredAllocationRequest, context: Any
    ) -> api.PreferredAllocationResponse:
        """Answer for each container of the request. With an empty answer the kubelet decides."""
        offer = self._offer
        if offer.preference is Preference.NONE:
            return api.PreferredAllocationResponse()
        answers = [
            api.ContainerPreferredAllocationResponse(
                deviceIDs=choose_slots(
                    r.available_deviceIDs, r.must_include_deviceIDs, r.allocation_size, offer.preference, offer.cards
                )
            )
            for r in request.container_requests
        ]
        return api.PreferredAllocationResponse(container_responses=answers)

    async def Allocate(self, request: api.AllocateRequest, context: Any) -> api.AllocateResponse:
        """Answer each container of the request; see `Binder.allocate`."""
        answers = []
        try:
            answers = [await self._binder.allocate(self._resource, r.devices_ids) for r in request.container_requests]
        except Refused as refusal:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refusal))
        return api.AllocateResponse(container_responses=answers)

    async def PreStartContainer(
        self, request: api.PreStartContainerRequest, context: Any
    ) -> api.PreStartContainerResponse:
        """Wait until the container's files are written, or refuse with a reason for the pod's owner."""
        try:
            await self._binder.prestart(self._resource, request.devices_ids)
        except Refused as refusal:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refusal))
        return api.PreStartContainerResponse()


def options(preference: Preference) -> api.DevicePluginOptions:
    """The optional calls that we ask the kubelet to make."""
    prefers = preference is not Preference.NONE
    return api.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=prefers)


def _devices(slots: Slots) -> list[api.Device]:
    found: list[api.Device] = []
    for slot, (healthy, numa) in slots.items():
        device = api.Device(ID=slot, health="Healthy" if healthy else "Unhealthy")
        if numa >= 0:
            device.topology.nodes.add(ID=numa)
        found.append(device)
    return found


class Endpoint:
    """The server of one resource: its socket, and its registration with the kubelet.

    Args:
        folder: The kubelet's device-plugin folder.
        resource: Extended resource name.
        binder: Decides the answers.
    """

    def __init__(self, folder: Path, resource: str, binder: Binder) -> None:
        self.resource = resource
        self.offer = Offer()
        self.registered = False
        self.socket = folder / (resource.rpartition("/")[0].split(".")[0] + "-" + resource.rpartition("/")[2] + ".sock")
        self._kubelet = folder / KUBELET_SOCKET
        self._binder = binder
        self._server: aio.Server | None = None
        self._service: SlotService | None = None
        length = len(os.fsencode(self.socket))
        if length > SOCKET_PATH_MAX:
            raise ConfigError("plugin_dir", f"socket path {self.socket} has {length} bytes", "at most 107")

    @property
    def watching(self) -> int:
        """Open ListAndWatch streams."""
        return self._service.watching if self._service else 0

    @property
    def listed_at(self) -> float | None:
        """When the kubelet was first sent our list after registration (monotonic seconds); None: not yet."""
        return self._service.listed_at if self._service and self.registered and self.watching else None

    @property
    def serves(self) -> bool:
        """Whether our socket exists. The kubelet removes all sockets when it starts."""
        return self._server is not None and self.socket.is_socket()

    async def serve(self) -> None:
        """Serve on a new socket. An older server of ours is stopped first, since it would remove the new socket."""
        await self.stop()
        with contextlib.suppress(FileNotFoundError):
            self.socket.unlink()
        server = aio.server(options=[("grpc.so_reuseport", 0)])
        self._service = SlotService(self.resource, self.offer, self._binder)
        services.add_DevicePluginServicer_to_server(self._service, server)
        try:
            server.add_insecure_port(f"unix:{self.socket}")
        except RuntimeError as error:
            raise DeviceError(f"can't listen on {self.socket}: {error}") from error
        await server.start()
        self._server = server

    async def register(self) -> None:
        """Register our socket with the kubelet.

        Raises:
            DeviceError: The kubelet does not answer or refuses.
        """
        request = api.RegisterRequest(
            version=API_VERSION,
            endpoint=self.socket.name,
            resource_name=self.resource,
            options=options(self.offer.preference),
        )
        try:
            async with dial(self._kubelet) as channel:
                await services.RegistrationStub(channel).Register(request, timeout=REGISTER_TIMEOUT_S)
        except aio.AioRpcError as error:
            self.registered = False
            raise DeviceError(
                f"kubelet at {self._kubelet} did not register {self.resource}: {error.code().name}: {error.details()}"
            ) from error
        self.registered = True
        log.info("registered with the kubelet", resource=self.resource, slots=len(self.offer.slots))

    async def stop(self) -> None:
        """Stop serving. Calls in flight get 2 s, or 0.2 s if the kubelet watches: its stream never ends by itself."""
        server, self._server, self.registered = self._server, None, False
        if server is not None:
            await server.stop(STOP_GRACE_S if self.watching == 0 else 0.2)


class KubeletLink:
    """Keeps every endpoint served and registered across kubelet restarts.

    A kubelet that starts removes all sockets in the folder and forgets its plugins. So when the identity of
    `kubelet.sock` (inode and change time) changes, all endpoints get new sockets and register again.
    """

    def __init__(
        self, folder: Path, endpoints: Iterable[Endpoint], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.endpoints = tuple(endpoints)
        self._clock = clock
        self._unwatched_since: float | None = None
        self._problem = ""
        self._path = folder / KUBELET_SOCKET
        self._seen: tuple[int, int] | None = None
        self._stopped = False
        self._lock = asyncio.Lock()

    @property
    def is_connected(self) -> bool:
        """Whether every resource is registered and watched by the kubelet."""
        return bool(self.endpoints) and all(e.registered and e.watching for e in self.endpoints)

    async def check(self, *, force: bool = False) -> bool:
        """Serve and register the endpoints that need it. Failures are logged; call again to retry.

        Args:
            force: Serve and register all endpoints again.

        Returns:
            Whether all endpoints are served and registered.
        """
        async with self._lock:
            now = None if self._stopped else self._identity()
            if now is None:
                self._seen = None
                return False
            again = force or now != self._seen or self._unwatched()
            wanted = [e for e in self.endpoints if again or not e.serves or not e.registered]
            try:
                for endpoint in wanted:
                    await endpoint.serve()
                    await endpoint.register()
            except DeviceError as error:
                if str(error) != self._problem:
                    log.warning("can't register with the kubelet; retrying", error=str(error))
                self._problem = str(error)
                return False
            self._seen, self._problem = now, ""
            return True

    def _unwatched(self) -> bool:
        """Whether the kubelet has stopped watching a registered resource, which means that it forgot us."""
        if all(e.watching or not e.registered for e in self.endpoints):
            self._unwatched_since = None
            return False
        now = self._clock()
        if self._unwatched_since is None:
            self._unwatched_since = now
        if now - self._unwatched_since < UNWATCHED_LIMIT_S:
            return False
        self._unwatched_since = None
        return True

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_ctime_ns

    async def stop(self) -> None:
        """Stop all servers for good. A later check registers nothing."""
        self._stopped = True
        async with self._lock:
            await asyncio.gather(*(e.stop() for e in self.endpoints))
