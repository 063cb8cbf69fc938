"""NVIDIA's node side: discovery, registration, container edits, health and metrics."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from hami_interpose.limits import CorePolicy, Mode

from hami_core import Advertisement, Device, DeviceError, NativeSlot, RequestError, Sample, hookimpl
from hami_core.vendorkit.node import encode_devices_json, encode_pair_scores, slices_by_device
from hami_nvidia import Nvidia, NvidiaConfig, driver_places, monitor, strategies, unsupported_nodes
from hami_nvidia import allocate as container_edits
from hami_nvidia import driver as driver_files
from hami_nvidia.extra_devices import ExtraDevices
from hami_nvidia.feature_node import FeatureLabels
from hami_nvidia.feedback import Tenant
from hami_nvidia.health import HealthWatch, XidPolicy
from hami_nvidia.host_pids import HostPids
from hami_nvidia.library import LibraryFolder
from hami_nvidia.links import pair_scores
from hami_nvidia.mechanism import Held, mechanism
from hami_nvidia.memory_limits import MemoryLimits, Share
from hami_nvidia.metrics import METRICS
from hami_nvidia.mig_node import MigNode
from hami_nvidia.mig_static import PartHealth
from hami_nvidia.modes import mode_of, not_offered, whole_only
from hami_nvidia.mps_control import PROGRAM, MissingProgramError, MpsControl, MpsFolders
from hami_nvidia.mps_node import MODE as MPS
from hami_nvidia.mps_node import MOST_CLIENTS, MpsNode
from hami_nvidia.nvml import MIB, Card, Nvml, NvmlError
from hami_nvidia.region_updater import RegionUpdater
from hami_nvidia.rules import PAIR_SCORES, REGISTER, WORD
from hami_nvidia.settings import NodeOptions, NodeSettings, OptionsOfNode
from hami_nvidia.topology_reader import Topology
from hami_nvidia.turn_pages import TurnPages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hami_interpose.limits import Limits

    from hami_core import (
        ContainerEdits,
        ContainerRef,
        DeviceNode,
        Family,
        HealthChange,
        MigProfile,
        NodeContext,
        Slice,
    )
    from hami_nvidia.driver_places import Places

log = structlog.get_logger(__name__)


class NvidiaNode(Nvidia):
    """The object behind the entry point ``nvidia`` of group ``hami.node``.

    Args:
        settings: The node's settings; None: from the environment.
        clock: Monotonic seconds.
        now: Unix seconds.
    """

    metric_specs = METRICS
    _node: NodeContext
    """The node that the agent serves. It is not set in a process without a node, which calls no further hook."""
    _turn_pages: TurnPages
    _mig: MigNode
    _library: LibraryFolder

    def __init__(
        self,
        settings: NodeSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self.settings = settings or NodeSettings.from_environment()
        self._places: Places | None = None
        self._reported: tuple[Places, str] | None = None
        self._extras = ExtraDevices(self.settings)
        self.nvml = Nvml(self._nvml_library)
        self.options = self._selected = NodeOptions()
        self._cards: dict[str, Card] = {}
        self._driver: driver_files.DriverFiles | None = None
        self._damaged: set[str] = set()
        self._memory_limits = MemoryLimits(self.nvml, self.settings.cgroup_root, clock)
        self._held: dict[str, tuple[Held, ...]] = {}
        self._shares = monitor.DeviceTimeShares(clock)
        self._clock, self._now = clock, now
        self._unmatched: frozenset[str] = frozenset()
        self._silent: frozenset[str] = frozenset()
        self._answered: frozenset[str] = frozenset()
        self._topology = Topology(self.nvml)
        policy = XidPolicy.parse(self.settings.disable_health_checks, self.settings.enable_health_checks)
        self._tenants: dict[str, Tenant | None] = {}
        self._host_pids = HostPids(self.settings.proc_root, clock)
        self._region_updater = RegionUpdater(clock, now, self._host_pids)
        self._feature_labels = FeatureLabels(self.nvml, self.settings)
        self._health = HealthWatch(self.nvml, policy, self.settings.xid_recovery_s, clock)
        self._part_health = PartHealth(self._health)
        self.mps = MpsNode(MpsFolders(self.settings.mps_dir), self._mps_control)
        self._mps_registered = ""

    def _mps_control(self) -> MpsControl:
        try:
            root = self._where.root
            program = self.settings.mps_control or root.here / root.follow(Path("usr/bin", PROGRAM))
        except DeviceError as error:
            raise MissingProgramError(str(error)) from error
        return MpsControl(program, MpsFolders(self.settings.mps_dir))

    def _nvml_library(self) -> str:
        """The path of NVML. It is searched each time NVML is opened, since the driver may be installed late."""
        self._driver = None
        try:
            self._places = places = driver_places.find(self.settings)
            found = self.settings.nvml_library or driver_files.nvml_below(places.root)
        except DeviceError as error:
            raise NvmlError("dlopen", -1, str(error)) from error
        if (places, found) != self._reported:
            self._reported = places, found
            root = places.root
            log.info("the driver's root", root=str(root.host), seen=str(root.here), dev=str(places.dev.host))
            if not found and root.here != Path("/"):
                log.warning("no libnvidia-ml.so.1 below the driver's root; trying it by name", root=str(root.here))
        return found

    @property
    def _where(self) -> Places:
        """Where the driver was when NVML was opened last."""
        if self._places is None:
            self._places = driver_places.find(self.settings)
        return self._places

    # --- start -----------------------------------------------------------------------------------------------------

    @hookimpl
    def families(self, config: NvidiaConfig | None, node: NodeContext | None) -> Sequence[Family]:
        """One family. This call also reads the options of the node."""
        found = super().families(config, node)
        if node is not None:
            self._node = node
            self._turn_pages = TurnPages(
                node.state_dir / "turns", self.settings.proc_root / "sys/kernel/random/boot_id"
            )
            self._library = LibraryFolder(self.settings.library_dir or node.state_dir / "lib", self._clock)
            self._mig = MigNode(
                self.nvml,
                self._config.mig_profile_allowlist,
                node.state_dir / "mig",
                self.settings,
                dev_root=lambda: self._where.dev.host,
                options=lambda: self.options,
            )
            for sentence in strategies.without_effect(os.environ):
                log.info(sentence)
        self._options = OptionsOfNode(self.settings, self._config.model_dump(by_alias=True), node)
        options = self._options.at_start()
        if node is not None:
            self._use(options)
        return found

    def _use(self, options: NodeOptions) -> None:
        """Work with these options from now on. They change with the node's labels.

        Raises:
            ConfigError: They do not fit the device list strategy.
        """
        strategies.check(self.settings.device_list_strategy, self._node.serial, options.mig_strategy)
        self._selected = options
        if options.mode == MPS and options.split_count > MOST_CLIENTS:
            log.warning("a card has fewer slots than asked: MPS takes so many processes a card", slots=MOST_CLIENTS)
            options = options.model_copy(update={"split_count": MOST_CLIENTS})
        self.options = options

    def _follow_labels(self) -> None:
        options = self._options.now()
        if options != self._selected:
            log.info("the node's labels select other options", **options.model_dump())
            self._use(options)

    # --- discovery -------------------------------------------------------------------------------------------------

    @hookimpl
    def discover(self) -> list[Device]:
        """The cards of this node, with scaling applied. A known card that no longer answers is unhealthy."""
        self._follow_labels()
        try:
            found = self._answering_cards()
        except NvmlError:
            unsupported = self._unsupported()
            if not unsupported:
                raise
            return unsupported
        self._mps_registered = self.mps.problem if self.options.mode == MPS else ""
        devices: dict[str, Device] = {}
        for card in found:
            if card.uuid in self.options.hidden_uuids or card.index in self.options.hidden_indices:
                self._cards.pop(card.uuid, None)  # it was offered before the node's labels changed
                continue
            device = self._device(card)
            if device is not None:
                devices[card.uuid] = device
                self._cards[card.uuid] = card
        self._report_filters_without_card(found)
        self._answered = frozenset(card.uuid for card in found)
        for uuid, card in self._cards.items():
            if uuid not in devices:
                lost = self._device(card, answers=False)
                if lost is not None:
                    devices[uuid] = lost
        return sorted(devices.values(), key=lambda d: (d.index, d.id)) if devices else self._unsupported()

    def _answering_cards(self) -> list[Card]:
        try:
            found, errors = self.nvml.cards()
        except NvmlError:
            self.nvml.close()
            raise
        if errors and not found:
            # The driver may have been reloaded, so NVML is opened again next time.
            self.nvml.close()
        told = frozenset(map(str, errors))
        for error in sorted(told - self._silent):
            log.warning("a card does not answer", error=error)
        self._silent = told
        return found

    def _unsupported(self) -> list[Device]:
        """One device that is not offered and says why, on a node whose cards this agent can't share; else none."""
        platform = "" if self._cards else unsupported_nodes.platform(self.settings, self._where)
        if not platform:
            return []
        reason = unsupported_nodes.REASONS[platform]
        return [Device(platform, 0, 1, 0, 0, f"NVIDIA-{platform}", WORD, healthy=False, not_offered=reason)]

    def _report_filters_without_card(self, found: Sequence[Card]) -> None:
        """Log filters that match no card of this node. They may be mistakes that offer a card that should be hidden."""
        uuids = self.options.hidden_uuids - {card.uuid for card in found} - self._mig.static.uuids
        indices = self.options.hidden_indices - {card.index for card in found}
        unmatched = frozenset((*uuids, *map(str, indices)))
        if unmatched - self._unmatched:
            log.warning("filterdevices names cards that this node does not have", cards=sorted(unmatched))
        self._unmatched = unmatched

    def _device(self, card: Card, *, answers: bool = True) -> Device | None:
        integrated = unsupported_nodes.card_not_offered(card.name)
        total = card.memory_bytes // MIB if card.memory_bytes is not None else self.options.preconfigured_memory_mib
        if total <= 0 and not integrated:
            log.warning(
                "a card that shares the host's memory is not offered; set preConfiguredDeviceMemory", card=card.uuid
            )
            return None
        mode = self._mode(card)
        mig = mode == "mig"
        scaling = 1.0 if mig else self.options.memory_scaling
        reserved = -(-card.reserved_bytes // MIB)
        withheld = integrated or self._extras.not_offered(self._where) or not_offered(card.modes, mode)
        withheld = withheld or (self._mps_registered if mode == MPS else "")
        if reserved >= total and not integrated:
            withheld, reserved = f"the driver keeps all {total} MiB of the card's memory for itself", 0
        elif self.settings.subtract_reserved_memory:
            total, reserved = total - reserved, 0
        whole = "" if mig else whole_only(card.modes, mode)
        memory = int(total * scaling)
        offer: tuple[MigProfile, ...] = ()
        if mig and answers and not withheld:
            offer, withheld = self._mig.offer(card)
        slots = 1 if whole else self._mig.slots(card) if mig else self.options.split_count
        return Device(
            id=card.uuid,
            index=card.index,
            slots=slots,
            memory_mib=memory,
            cores=100 if mig else int(100 * self.options.core_scaling),
            type=card.name if card.name.startswith("NVIDIA") else f"NVIDIA-{card.name}",
            family=WORD,
            numa=self._numa(card),
            mode=mode,
            healthy=answers and not withheld,
            reserved_mib=memory - int((total - reserved) * scaling),
            not_offered=withheld,
            whole_only=whole,
            mig_profiles=offer,
        )

    def _mode(self, card: Card) -> str:
        return mode_of(card.modes, self.options.mode, self.options.mig_strategy)

    def _numa(self, card: Card) -> int:
        """The card's NUMA node from sysfs, or from NVML if sysfs has none."""
        try:
            node = int((self.settings.sys_root / "bus/pci/devices" / card.sysfs_name / "numa_node").read_text())
        except (OSError, ValueError):
            node = self._topology.memory_node(card.uuid)
        return max(node, 0)

    @hookimpl
    def advertise(self, devices: Sequence[Device]) -> Advertisement:
        """The register annotation, pair scores if enabled, slots named ``<uuid>-<k>``, and MIG instances.

        A device without slots only gives out MIG instances (``migStrategy: mixed``), so it is not registered.
        """
        native = self._native(devices)
        registered = [device for device in devices if device.slots]
        annotations = {REGISTER: encode_devices_json(registered)}
        if self.settings.topology_score:
            annotations[PAIR_SCORES] = encode_pair_scores(self._scores([d.id for d in registered]))
        numa = self.options.numa_topology
        slots = {f"{d.id}-{k}": (d.healthy, d.numa if numa else -1) for d in registered for k in range(d.slots)}
        return Advertisement(
            annotations=annotations,
            labels=self._labels(devices, native),
            slots={self._family.resources.count: slots},
            env=dict(container_edits.HIDDEN),
            native=native,
            preference=self.options.preferred_allocation,
        )

    def _native(self, devices: Sequence[Device]) -> dict[str, dict[str, NativeSlot]]:
        """The slots of MIG instances by resource. Without the driver's files there are none."""
        known = {device.id: device for device in devices}
        numa = self.options.numa_topology
        found: dict[str, dict[str, NativeSlot]] = {}
        try:
            for resource, card, part in self._mig.native(devices, self._cards):
                device = known[card.uuid]
                edits = self._extras.add(self._instance_edits(self._mig.nodes(card, part.instance)), self._where)
                healthy = self._part_health.is_healthy(device, part)
                slot = NativeSlot(card.uuid, edits, healthy, device.numa if numa else -1)
                found.setdefault(resource, {})[part.instance.uuid] = slot
        except DeviceError as error:
            log.warning("MIG instances can't be offered", error=str(error))
            return {}
        return found

    def _labels(
        self, devices: Sequence[Device], native: Mapping[str, Mapping[str, NativeSlot]]
    ) -> Mapping[str, str | None]:
        known = [(self._cards[d.id], d) for d in devices if d.id in self._cards]
        served = [(card, d.slots, d.mode if d.slots else "native") for card, d in known]
        instances = [
            (resource, self._cards[slot.device].name) for resource, slots in native.items() for slot in slots.values()
        ]
        return self._feature_labels.advertised(served, instances, self.options.mig_strategy, self._node.labels())

    def _scores(self, uuids: Sequence[str]) -> dict[str, dict[str, int]]:
        cards = [self._cards[uuid] for uuid in uuids if uuid in self._cards]
        links = {card.uuid: self._topology.links(card.uuid) for card in cards}
        scores, uneven = pair_scores(cards, self._topology.level, links)
        for one, other in uneven:
            log.warning("two cards have unequal numbers of links to each other", one=one, other=other)
        return scores

    # --- one container ---------------------------------------------------------------------------------------------

    @hookimpl
    def allocate(self, slices: tuple[Slice, ...], container: ContainerRef) -> ContainerEdits:
        """Device nodes, driver files, interposer, limits and region of one container."""
        edits = self._extras.add(self._allocate(slices, container), self._where)
        words = self.settings.device_list_strategy
        if not strategies.leaves_driver_to_runtime(words):
            return edits
        ids = [instance.uuid for instance in edits.mig_instances] or list(dict.fromkeys(s.device_id for s in slices))
        if self.settings.device_id_strategy == "index":
            ids = [str(self._cards[each].index) if each in self._cards else each for each in ids]
        return strategies.for_runtime(edits, ids, words)

    def _allocate(self, slices: tuple[Slice, ...], container: ContainerRef) -> ContainerEdits:
        if any(s.device_id not in self._cards for s in slices):
            self.discover()
        in_mig_mode = {self._mode(self._cards[s.device_id]) == "mig" for s in slices if s.device_id in self._cards}
        if in_mig_mode == {True, False}:
            fix = "name one mode in annotation nvidia.com/vgpu-mode"
            problem = "a program can't use a MIG instance and a card together"
            raise RequestError(f"container {container.container}", self._family.resources.count, problem, fix)
        if in_mig_mode == {True}:
            return self._allocate_instances(slices, container)
        held = container_edits.in_order(tuple(slices_by_device(slices).values()), self._cards)
        limits = self._limits(held, container)
        limited = container_edits.limited_cards(limits) if limits and self._takes_turns else ()
        made = container_edits.edits(
            held,
            limits,
            cards=self._cards,
            driver=self._driver_files(),
            control=driver_files.control_nodes(self._where.dev),
            interposer=self._library.install(),
            options=self.options,
            dev_root=self._where.dev.host,
            turn_pages={uuid: self._turn_pages.ensure(uuid) for uuid in limited},
        )
        return self.mps.add(made, limits) if self.options.mode == MPS else made

    @property
    def _takes_turns(self) -> bool:
        """Whether containers with a core limit take turns on a card. Turns would serialise what MPS lets overlap."""
        return self.settings.turn_pages and self.options.mode != MPS

    def _allocate_instances(self, slices: tuple[Slice, ...], container: ContainerRef) -> ContainerEdits:
        """The container's MIG instances. The hardware limits it, so there is no interposer."""
        missing = [piece.device_id for piece in slices if piece.device_id not in self._cards]
        if missing:
            raise DeviceError(f"card {missing[0]} is not on this node or does not answer")
        held = [(self._cards[piece.device_id], piece) for piece in slices]
        made = [self._mig.allocate(card, piece, container) for card, piece in held]
        edits = self._instance_edits([node for _, of_instance in made for node in of_instance])
        return replace(edits, mig_instances=tuple(instance for instance, _ in made))

    def _instance_edits(self, nodes: Sequence[DeviceNode]) -> ContainerEdits:
        control = driver_files.control_nodes(self._where.dev)
        return container_edits.instance_edits(nodes, self._driver_files(), control)

    def _limits(self, held: Sequence[Slice], container: ContainerRef) -> Limits | None:
        resource = self._family.resources.priority
        return container_edits.limits_of(held, container, self.options, self._node.enforcement, resource)

    def _driver_files(self) -> driver_files.DriverFiles:
        found = self._driver  # another thread that opens NVML again forgets them
        if found is None:
            found = self._driver = self._find_driver_files()
            log.info("driver files", source=found.source, mounts=len(found.mounts))
        return found

    def _find_driver_files(self) -> driver_files.DriverFiles:
        own = self.settings
        if strategies.leaves_driver_to_runtime(own.device_list_strategy):
            return driver_files.DriverFiles(source="NVIDIA's runtime")
        if own.driver_libraries:
            return driver_files.from_libraries(own.driver_libraries, own.container_library_dir)
        return driver_files.from_cdi(self._node.cdi_dirs) or driver_files.discover(
            self._where.root, self.nvml.driver_version(), own.container_library_dir
        )

    @hookimpl
    def release(self, container: ContainerRef) -> None:
        """Destroy the MIG instances of a container that is gone."""
        self._mig.release(container)

    # --- running containers ----------------------------------------------------------------------------------------

    @hookimpl
    def tend(
        self,
        records: Mapping[str, ContainerRef],
        slices: Mapping[str, tuple[Slice, ...]],
        region_dirs: Mapping[str, str],
    ) -> None:
        """Write heartbeats, host pids and HAMi's feedback into the regions, and repair turn pages."""
        self._mig.tend(records, slices, self._cards if self.options.mode == "mig" else {})
        # A record's slices never change.
        self._tenants = {
            name: self._tenants[name] if name in self._tenants else self._tenant(slices[name], ref)
            for name, ref in records.items()
        }
        tenants = {name: tenant for name, tenant in self._tenants.items() if tenant}
        self._region_updater.update(tenants, region_dirs)
        self._held = {
            name: self._held[name] if name in self._held else self._held_by(slices[name], ref)
            for name, ref in records.items()
        }
        if self.settings.driver_limits == "auto":
            self._memory_limits.update(self._shares_of_pods(records))
        if self._takes_turns:
            self._turn_pages.ensure_all(frozenset().union(*(tenant.limited for tenant in tenants.values())))
        self._library.remove_unused(self._node.mounted)

    def _held_by(self, slices: Sequence[Slice], container: ContainerRef) -> tuple[Held, ...]:
        """What a container has of each card, and whether its limits are enforced."""
        if any(piece.mig_profile for piece in slices):
            return tuple(Held(piece.device_id, instance=True) for piece in slices)
        # In the order that `allocate` gives the cards, so that all metrics number them alike.
        order = {uuid: card.index for uuid, card in self._cards.items()}
        by_card = tuple(sorted(slices_by_device(slices).values(), key=lambda s: order.get(s.device_id, len(order))))
        try:
            limits = self._limits(by_card, container)
        except RequestError:
            return ()  # allocate refused this container
        if limits is None:
            return tuple(Held(piece.device_id, whole=True) for piece in by_card)
        enforced = limits.mode is Mode.ENFORCE
        # With memory above the card's, a part of a slice lies in the host: the interposer decides which.
        scaled = self.options.memory_scaling > 1
        return tuple(
            Held(one.uuid, enforced=enforced, bytes=one.memory_bytes if enforced and not scaled else 0)
            for one in limits.devices
        )

    def _shares_of_pods(self, records: Mapping[str, ContainerRef]) -> Iterator[tuple[str, Share]]:
        for name, ref in records.items():
            held = self._held[name]
            if not any(one.instance for one in held):
                yield ref.pod_uid, Share(ref.kind, {one.card: one.bytes for one in held})

    def _tenant(self, slices: Sequence[Slice], container: ContainerRef) -> Tenant | None:
        """The container as a tenant, or None if it has no region, as with MIG instances."""
        if any(piece.mig_profile for piece in slices):
            return None
        try:
            limits = self._limits(tuple(slices_by_device(slices).values()), container)
        except RequestError:
            return None  # allocate refused this container
        if limits is None:
            return None
        return Tenant(
            cards=frozenset(device.uuid for device in limits.devices),
            priority=limits.priority if limits.mode is Mode.ENFORCE else 0,
            limited=frozenset(container_edits.limited_cards(limits)),
            limit_may_pause=limits.core_policy is CorePolicy.DEFAULT,
        )

    # --- health and metrics ----------------------------------------------------------------------------------------

    @hookimpl
    def health(self, devices: Sequence[Device]) -> list[HealthChange]:
        """Report critical errors, cards that do not answer, and cards that `discover` would now describe otherwise."""
        known = [d.id for d in devices if d.id in self._cards]
        found = self._health.look(known)
        again = self._part_health.read(part for _, _, part in self._mig.native(devices, self._cards))
        mps_changed = self._mps_changed()
        again |= {c.device_id for c in found if c.healthy and (mps_changed or self._has_changed(c.device_id))}
        return [replace(change, rediscover=change.device_id in again) for change in found]

    def _mps_changed(self) -> bool:
        """Whether the MPS control daemon came or went since the cards were registered."""
        if self.options.mode != MPS:
            return False
        self.mps.look()
        return self.mps.problem != self._mps_registered

    def mps_serves(self, uuid: str) -> bool:
        """Whether pods share this card through an MPS control daemon that answered when it was last asked."""
        card = self._cards.get(uuid)
        return card is not None and self._mode(card) == MPS and self.mps.serves()

    def _has_changed(self, uuid: str) -> bool:
        """Whether a card's modes or MIG instances changed, or it did not answer when it was last discovered."""
        card = self._cards.get(uuid)
        if card is None:
            return False
        return uuid not in self._answered or self.nvml.modes(uuid) != card.modes or self._mig.static.changed(uuid)

    @hookimpl
    def metrics(self, records: Mapping[str, ContainerRef], region_dirs: Mapping[str, str]) -> list[Sample]:
        """Samples of cards and containers."""
        cards = sorted(self._cards.values(), key=lambda c: c.index)
        legacy = self._node.legacy_metrics
        uuids, pids = {card.uuid for card in cards}, self._host_pids.named
        self._shares.keep(records.keys() - self._region_updater.resting)
        measured = monitor.driver_memory(self.nvml, uuids, pids)
        used = monitor.utilization(self.nvml, uuids, pids, self._shares, self._now(), rests=self._limit_rests)
        containers = monitor.container_samples(
            records, region_dirs, self._damaged, measured, used, cards=uuids, legacy=legacy
        )
        oversubscribed = monitor.oversubscribed_cards(containers)
        return [
            *monitor.host_samples(self.nvml, cards, self._node.name, oversubscribed, legacy=legacy),
            *monitor.health_samples(self._health, cards, self._node.name),
            *containers,
            *self._mig.samples(records),
            *self._mechanism_samples(records),
            Sample("hami_memory_limit_failures_total", {"node": self._node.name}, float(self._memory_limits.failures)),
            *self._region_updater.samples(self._node.name, records),
        ]

    def _mechanism_samples(self, records: Mapping[str, ContainerRef]) -> Iterator[Sample]:
        """What enforces each container's slice of each card. A container is listed from the next `tend` on."""
        for name, held in self._held.items():
            if name not in records:
                continue
            ref = records[name]
            for index, one in enumerate(held):
                found = mechanism(
                    instance=one.instance,
                    whole=one.whole,
                    enforced=one.enforced,
                    driver=self._memory_limits.holds(ref.pod_uid, one.card),
                    mps=self.mps_serves(one.card),
                )
                labels = {"namespace": ref.namespace, "pod": ref.pod, "container": ref.container}
                own = {"vdevice_index": str(index), "device_uuid": one.card, "mechanism": found.value}
                yield Sample("hami_container_enforcement_info", labels | own, 1.0)

    def _limit_rests(self, record_id: str, uuid: str) -> bool:
        tenant = self._tenants.get(record_id)
        return record_id in self._region_updater.resting or (tenant is not None and uuid not in tenant.limited)
