"""This node's devices: discovers them, offers them to the kubelet and on the node object, and watches their health."""

from __future__ import annotations

import asyncio
import contextlib
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

import structlog

from hami_core.agent.health import HealthTracker
from hami_core.agent.kubelet import Endpoint
from hami_core.agent.native import NativeSlots
from hami_core.errors import ConfigError, HamiError
from hami_core.kube.informer import Backoff
from hami_core.kube.objects import ObjectReference
from hami_core.model import HealthChange
from hami_core.wire import keys
from hami_core.wire.node import decode_cordon

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hami_core.agent.cdi import SpecFolder
    from hami_core.agent.kubelet import Binder, KubeletLink
    from hami_core.agent.reconcile import Reconciler
    from hami_core.agent.registration import NodeWriter
    from hami_core.agent.vendor import Vendor
    from hami_core.kube.events import EventRecorder
    from hami_core.model import Advertisement, Device, Preference

log = structlog.get_logger(__name__)

REDISCOVER_INTERVAL_S: Final = 60.0
"""Devices are discovered again at this interval, even without a change."""
SUSPECT_INTERVAL_S: Final = 1.0
"""While a device is suspect or recovering, health is read at this interval."""
TEND_INTERVAL_S: Final = 5.0
"""Interval of the hook ``tend`` (the period of HAMi v2.10's monitor)."""
START_WAIT_S: Final = 0.5
"""How long the start of a container waits at most for the hook ``tend``."""


class NodeDevices:
    """The devices of all vendors that this agent serves.

    Args:
        vendors: The vendors.
        node: Writes the node object.
        recorder: Writes events about the node.
        core: Receives the devices, and serves the kubelet's calls.
        link: Registers endpoints with the kubelet.
        endpoints: One endpoint for each offered resource; this class fills it.
        specs: The CDI folder.
        plugin_dir: The kubelet's device-plugin folder.
        health_s: Interval at which health is read.

    Attributes:
        discovered: Devices by vendor name, as last discovered.
        trackers: The devices' health by vendor name.
    """

    def __init__(
        self,
        *,
        vendors: Sequence[Vendor],
        node: NodeWriter,
        recorder: EventRecorder,
        core: Reconciler,
        link: KubeletLink,
        endpoints: dict[str, Endpoint],
        specs: SpecFolder,
        plugin_dir: Path,
        health_s: float,
    ) -> None:
        self.discovered: dict[str, tuple[Device, ...]] = {}
        self.trackers = {vendor.name: HealthTracker() for vendor in vendors}
        self._node = node
        self._recorder = recorder
        self._core = core
        self._starts = {vendor.name: _Starts() for vendor in vendors}
        self._link = link
        self._endpoints = endpoints
        self._plugin_dir = plugin_dir
        self._health_s = health_s
        self._not_offered: dict[str, str] = {}
        self._native = {vendor.name: NativeSlots(vendor.name, specs, lambda: core.serial) for vendor in vendors}
        self._native_resources: dict[str, set[str]] = {vendor.name: set() for vendor in vendors}
        self._cordoned_in_vain: frozenset[str] = frozenset()

    # --- discovering, offering ---------------------------------------------------------------------------------------

    async def discover_first(self, vendor: Vendor) -> None:
        """Discover and offer a vendor's devices; retried until it succeeds.

        Raises:
            ConfigError: An administrator has to correct something.
        """
        backoff = Backoff(1.0, 30.0)
        while True:
            try:
                await self._discover(vendor)
            except ConfigError:
                raise
            except HamiError as error:
                wait = backoff.next()
                log.warning("devices can't be discovered", vendor=vendor.name, error=str(error), retry_s=round(wait, 1))
                await asyncio.sleep(wait)
            else:
                return

    async def _discover(self, vendor: Vendor) -> None:
        self.discovered[vendor.name] = await vendor.discover()
        self._report_not_offered(self.discovered[vendor.name])
        self.report_cordon()
        await self._advertise(vendor)

    def _report_not_offered(self, devices: Iterable[Device]) -> None:
        """Log each change of why a device is not offered, and write it as an event on the node."""
        for device in devices:
            before, reason = self._not_offered.get(device.id, ""), device.not_offered
            if reason == before:
                continue
            self._not_offered[device.id] = reason
            if reason:
                log.warning("a device is not offered", device=device.id, reason=reason)
                self._record("Warning", "DeviceNotOffered", f"{device.id}: {reason}")
            else:
                log.info("a device is offered again", device=device.id)
                self._record("Normal", "DeviceOffered", f"{device.id} is offered again")

    def _record(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Write an event about the node."""
        # The kubelet's own events use the node's name as UID, and `kubectl describe node` finds such events too.
        node = ObjectReference(kind="Node", name=self._node.name, uid=self._node.name, api_version="v1")
        self._recorder.record(node, kind, reason, message)

    def report_cordon(self) -> None:
        """Report ids of the node's cordon that no device of the node has. Such a cordon may be a misspelt one."""
        node = self._node.node
        if node is None or len(self.discovered) < len(self.trackers):
            return
        annotations = node.metadata.annotations
        known = {device.id for devices in self.discovered.values() for device in devices}
        unknown = decode_cordon(annotations.get(keys.DEVICE_CORDON, "")) - known
        others = [text for key, text in annotations.items() if key != keys.DEVICE_CORDON]  # registers of other agents
        wrong = frozenset(
            name for name in unknown if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "\n".join(others))
        )
        for name in sorted(wrong - self._cordoned_in_vain):
            log.warning("the node's cordon names a device that is not registered here", device=name)
            message = f"{keys.DEVICE_CORDON}: no device {name} is registered on this node"
            self._record("Warning", "CordonUnknownDevice", message)
        self._cordoned_in_vain = wrong

    async def _advertise(self, vendor: Vendor) -> None:
        devices = self.trackers[vendor.name].apply(self.discovered[vendor.name])
        advertised = await vendor.advertise(devices)
        vendor.default_env = dict(advertised.env)
        self._core.devices.update({device.id: device for device in devices})
        for resource, slots in advertised.slots.items():
            self._offer(resource, slots, _TendedStart(self._core, self._starts[vendor.name]), advertised.preference)
        await self._advertise_native(vendor, advertised)
        self._node.want(advertised.annotations, {})
        self._node.want_labels(vendor.name, advertised.labels)
        self._core.wake()

    async def _advertise_native(self, vendor: Vendor, advertised: Advertisement) -> None:
        """Offer what the kubelet hands out by itself. A resource whose slots are all gone is offered without slots."""
        native = self._native[vendor.name]
        try:
            await asyncio.to_thread(native.offer, advertised.native)
        except OSError as error:
            log.warning("can't write the CDI specs of native slots; they stay as they are", error=str(error))
            return
        for resource in {*advertised.native, *self._native_resources[vendor.name]}:
            own = advertised.native.get(resource, {})
            slots = {slot: (one.healthy, one.numa) for slot, one in own.items()}
            cards = {slot: one.device for slot, one in own.items()}
            self._offer(resource, slots, native, advertised.preference, cards)
            self._native_resources[vendor.name].add(resource)

    def _offer(
        self,
        resource: str,
        slots: Mapping[str, tuple[bool, int]],
        binder: Binder,
        preference: Preference,
        cards: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        endpoint = self._endpoints.get(resource)
        if endpoint is None:
            endpoint = self._endpoints[resource] = Endpoint(self._plugin_dir, resource, binder)
            self._link.endpoints = (*self._link.endpoints, endpoint)
        endpoint.offer.preference, endpoint.offer.cards = preference, cards
        if endpoint.offer.set(slots):
            log.info("slots offered", resource=resource, slots=len(slots), healthy=endpoint.offer.healthy)

    # --- health ------------------------------------------------------------------------------------------------------

    async def watch(self, vendor: Vendor) -> None:
        """Read health at intervals, and discover again when it changed.

        Devices are also discovered at `REDISCOVER_INTERVAL_S`, to find new cards and reloaded drivers.
        """
        tracker, due = self.trackers[vendor.name], REDISCOVER_INTERVAL_S
        while True:
            pause = SUSPECT_INTERVAL_S if tracker.unsettled else self._health_s
            await asyncio.sleep(pause)
            due -= pause
            readings = await self._health(vendor)
            changed = self._apply_readings(tracker, readings)
            if changed or due <= 0 or any(reading.rediscover for reading in readings):
                due = REDISCOVER_INTERVAL_S
                await self._rediscover(vendor)

    async def _rediscover(self, vendor: Vendor) -> None:
        """Discover again. If that fails, all known devices count as unhealthy."""
        try:
            await self._discover(vendor)
        except HamiError as error:
            log.warning("devices can't be discovered; retrying", vendor=vendor.name, error=str(error))
            lost = [HealthChange(d.id, healthy=False, reason=str(error)) for d in self.discovered[vendor.name]]
            self._apply_readings(self.trackers[vendor.name], lost)
            # Also if these readings changed nothing: the reading before them may be why devices are discovered again.
            await self._advertise_safely(vendor)

    async def _advertise_safely(self, vendor: Vendor) -> None:
        try:
            await self._advertise(vendor)
        except HamiError as error:
            log.warning("can't advertise devices", vendor=vendor.name, error=str(error))

    async def _health(self, vendor: Vendor) -> Sequence[HealthChange]:
        try:
            return await vendor.health(self.discovered[vendor.name])
        except HamiError as error:
            log.warning("can't read devices' health", vendor=vendor.name, error=str(error))
            return ()

    def _apply_readings(self, tracker: HealthTracker, readings: Sequence[HealthChange]) -> bool:
        """Apply readings. Returns whether some device became offered or stopped being offered."""
        changed = tracker.update(readings)
        for device, before, after in changed:
            log.warning("device health", device=device, was=before.state, now=after.state, reason=after.reason)
            if before.offered and not after.offered:
                self._record("Warning", "DeviceUnhealthy", f"{device}: {after.reason}")
            elif after.offered and not before.offered:
                self._record("Normal", "DeviceHealthy", f"{device} is healthy again")
        return any(before.offered != after.offered for _, before, after in changed)

    # --- running containers ------------------------------------------------------------------------------------------

    async def tend(self, vendor: Vendor) -> None:
        """Call a vendor's hook ``tend`` for its running containers, until cancelled.

        It is called at intervals, and before a container starts.
        """
        starts = self._starts[vendor.name]
        while True:
            with starts.served():
                live = self._core.live(vendor.name)
                refs = {r.id: r.ref for r in live}
                slices = {r.id: r.slices for r in live}
                regions = {r.id: str(self._core.region_dir(r)) for r in live}
                try:
                    await vendor.tend(refs, slices, regions)
                except HamiError as error:
                    log.warning("can't tend running containers", vendor=vendor.name, error=str(error))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(starts.waiting.wait(), TEND_INTERVAL_S)


class _Starts:
    """Containers of one vendor that are about to start, and wait for its hook ``tend``.

    Attributes:
        waiting: Set while one waits.
    """

    def __init__(self) -> None:
        self.waiting = asyncio.Event()
        self._next = asyncio.Event()

    async def wait(self) -> None:
        """Return when a call that began after this one has ended, or after `START_WAIT_S`."""
        self.waiting.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._next.wait(), START_WAIT_S)

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        """A call for those that wait now."""
        self.waiting.clear()
        served, self._next = self._next, asyncio.Event()
        try:
            yield
        finally:
            served.set()


class _TendedStart:
    """The reconciler's answers. A container starts only after its vendor has looked after it."""

    def __init__(self, core: Reconciler, starts: _Starts) -> None:
        self.allocate = core.allocate
        self._core = core
        self._starts = starts

    async def prestart(self, resource: str, slot_ids: Sequence[str]) -> None:
        await self._core.prestart(resource, slot_ids)
        await self._starts.wait()
