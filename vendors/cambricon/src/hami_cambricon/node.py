"""Cambricon's node side: discovery, registration, device nodes and sMLU instances of containers, health, metrics.

Only the agent imports it. CNDev is called by `hami_cambricon.cndev`, and sMLU instances live in `hami_cambricon.smlu`.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from pydantic import AfterValidator
from pydantic_settings import SettingsConfigDict

from hami_cambricon.cndev import ERROR_INSUFFICIENT_SPACE, MIB, Cndev, CndevError
from hami_cambricon.config import CambriconConfig
from hami_cambricon.metrics import METRICS
from hami_cambricon.plugin import REGISTER_KEY, WORD, Cambricon
from hami_cambricon.smlu import Smlu, instance_name
from hami_core import (
    Advertisement,
    ConfigError,
    ContainerEdits,
    Device,
    DeviceError,
    DeviceNode,
    HealthChange,
    Mount,
    Sample,
    hookimpl,
)
from hami_core.vendorkit.node import EnvironmentSettings, encode_devices_json, slices_by_device, wait_for_room

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hami_cambricon.cndev import Card, Modes
    from hami_core import ContainerRef, Family, NodeContext, Slice

log = logging.getLogger(__name__)

SLOTS: Final = 64
"""How many containers may share a card: the driver makes at most 64 sMLU instances (its MAX_SMLU_INSTANCE_COUNT)."""
_PREFIX: Final = "HAMI_CAMBRICON_"
_CONTROL: Final = ("cambricon_ctl", "cambricon_gdr")
"""Device nodes of every container with a card, if the node has them (Cambricon's plugin, ``pkg/mlu/server.go``)."""
_OF_WHOLE: Final = ("cambr-msgq:{}", "cambr-rpc:{}", "cmsg_ctrl{}", "commu{}", "cambricon_ipcm{}")
"""Device nodes of a whole card beside its own one, if the node has them (``pkg/mlu/server.go``)."""
_OF_PART: Final = ("cambricon_ipcm{}",)


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError(f"{str(path)!r} is not an absolute path: begin it with /")
    return path


_AbsolutePath = Annotated[Path, AfterValidator(_absolute)]


class NodeSettings(EnvironmentSettings):
    """The administrator's settings. Every field is the environment variable ``HAMI_CAMBRICON_<NAME>``."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, env_ignore_empty=True)

    library: str = "libcndev.so"
    """libcndev.so to load, by path or by name."""
    dev_root: _AbsolutePath = Path("/dev")
    """Where the agent sees the node's ``/dev``."""
    proc_root: _AbsolutePath = Path("/proc")
    """Where the agent sees the node's ``/proc``."""
    cnmon: _AbsolutePath | None = None
    """The node's cnmon, which containers get at the same path; None: they do not get it."""


class CambriconNode:
    """The object behind the entry point ``cambricon`` of group ``hami.node``.

    Args:
        clock: Monotonic seconds.
    """

    api_version: ClassVar[tuple[int, int]] = (1, 0)
    metric_specs = METRICS
    _node: NodeContext
    """The node that the agent serves. It is not set in a process without a node, which calls no further hook."""
    _smlu: Smlu

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._vendor = Cambricon()
        self._count = CambriconConfig().resource_count_name
        self.settings = NodeSettings.from_environment()
        self.cndev = Cndev(self.settings.library)
        self._cards: dict[str, Card] = {}
        self._given: set[str] = set()
        self._held: dict[str, tuple[str, ...]] = {}

    # --- start -------------------------------------------------------------------------------------------------------

    @hookimpl
    def config_model(self) -> type[CambriconConfig]:
        """Section ``cambricon``, as on the scheduler side."""
        return CambriconConfig

    @hookimpl
    def families(self, config: CambriconConfig | None, node: NodeContext | None) -> Sequence[Family]:
        """The family of the scheduler side. This call also learns the node."""
        found = self._vendor.families(config)
        self._count = found[0].resources.count
        if node is not None:
            boot_id = self.settings.proc_root / "sys/kernel/random/boot_id"
            try:
                boot = boot_id.read_text().strip()
            except OSError as error:
                raise ConfigError(str(boot_id), f"can't be read: {error}", f"set {_PREFIX}PROC_ROOT") from error
            self._node = node
            self._smlu = Smlu(self.cndev, node.state_dir / "cambricon", boot)
        return found

    # --- discovery ---------------------------------------------------------------------------------------------------

    @hookimpl
    def discover(self) -> list[Device]:
        """The cards of this node. A known card that no longer answers is unhealthy and hides no other card."""
        try:
            found, errors = self.cndev.cards()
        except CndevError:
            self.cndev.close()
            raise
        if errors and not found:
            self.cndev.close()  # the driver may have been reloaded
        for error in errors:
            log.warning("a card does not answer: %s", error)
        answering = {card.uuid for card in found}
        # Other threads iterate over the old mapping.
        self._cards = {**self._cards, **{card.uuid: card for card in found}}
        devices = [_device(card, answers=card.uuid in answering) for card in self._cards.values()]
        return sorted(devices, key=lambda device: (device.index, device.id))

    @hookimpl
    def advertise(self, devices: Sequence[Device]) -> Advertisement:
        """The register annotation, and slots named ``<uuid>-<k>`` of the count resource."""
        slots = {f"{d.id}-{k}": (d.healthy, d.numa) for d in devices for k in range(d.slots)}
        return Advertisement(annotations={REGISTER_KEY: encode_devices_json(devices)}, slots={self._count: slots})

    @hookimpl
    def health(self, devices: Sequence[Device]) -> list[HealthChange]:
        """CNDev's health of each card. A card that changed its modes or its index is discovered again."""
        return [self._health(device.id) for device in devices]

    def _health(self, uuid: str) -> HealthChange:
        card = self._cards.get(uuid)
        if card is None:
            return HealthChange(uuid, healthy=False, reason="CNDev does not know the card")
        try:
            if self.cndev.uuid(card.index) != uuid:
                return HealthChange(uuid, False, f"CNDev has another card at index {card.index}", rediscover=True)
            problem = self.cndev.problem(card.index)
        except CndevError as error:
            return HealthChange(uuid, healthy=False, reason=str(error))
        return HealthChange(uuid, not problem, problem, rediscover=self.cndev.modes(card.index) != card.modes)

    def _present(self) -> list[Card]:
        """The known cards that are at their index now, and whose sMLU mode is on."""
        return [card for card in self._cards.values() if card.modes.smlu and self._is_present(card)]

    def _is_present(self, card: Card) -> bool:
        try:
            return self.cndev.uuid(card.index) == card.uuid
        except CndevError:
            return False

    # --- one container -----------------------------------------------------------------------------------------------

    @hookimpl
    def allocate(self, slices: tuple[Slice, ...], container: ContainerRef) -> ContainerEdits:
        """The device nodes of the container's cards. On a card in sMLU mode, it also gets an instance.

        Without an instance, the driver refuses memory and compute on a card in sMLU mode. So whole cards have one too.
        """
        held = slices_by_device(slices)
        if any(uuid not in self._cards or not self._is_present(self._cards[uuid]) for uuid in held):
            self.discover()
        missing = [uuid for uuid in held if uuid not in self._cards or not self._is_present(self._cards[uuid])]
        if missing:
            raise DeviceError(f"card {missing[0]} is not on this node or does not answer")
        nodes = [name for name in _CONTROL if (self.settings.dev_root / name).exists()]
        for card in sorted((self._cards[uuid] for uuid in held), key=lambda card: card.index):
            nodes += self._nodes(card, held[card.uuid], container)
        cnmon = self.settings.cnmon
        return ContainerEdits(
            mounts=(Mount(str(cnmon), str(cnmon)),) if cnmon else (),
            device_nodes=tuple(self._device_node(name) for name in nodes),
        )

    def _nodes(self, card: Card, piece: Slice, container: ContainerRef) -> list[str]:
        """Names of a card's device nodes below /dev. Makes the container's instance, if the card is in sMLU mode."""
        modes = self.cndev.modes(card.index)
        if reason := not_offered(modes):
            raise DeviceError(f"card {card.uuid}: {reason}")
        memory_mib, quota = piece.memory_mib or card.memory_mib, piece.cores or 100
        own = f"cambricon_dev{card.index}"
        if not modes.smlu:
            if memory_mib < card.memory_mib or quota < 100:
                raise DeviceError(f"card {card.uuid} can only be given whole: {whole_only(modes, card.index)}")
            return [own, *self._existing(_OF_WHOLE, card.index)]
        name = instance_name(container, card.uuid)
        self._given.add(name)
        make = partial(self._smlu.ensure, card, name, quota, memory_mib * MIB)
        instance = wait_for_room(make, _is_full, self._clock, time.sleep)
        return [own, *self._existing(_OF_PART, card.index), instance.node.removeprefix("/dev/")]

    def _existing(self, forms: Iterable[str], index: int) -> list[str]:
        return [name for form in forms if (self.settings.dev_root / (name := form.format(index))).exists()]

    def _device_node(self, name: str) -> DeviceNode:
        host = self.settings.dev_root / name
        if not host.exists():
            raise DeviceError(f"device node {host} does not exist; is /dev of the node mounted in the agent?")
        path = f"/dev/{name}"
        return DeviceNode(path) if str(host) == path else DeviceNode(path, str(host))

    @hookimpl
    def release(self, container: ContainerRef) -> None:
        """Destroy the container's instances. Those of a card that does not answer now are left to `tend`."""
        if not self._cards:  # the agent has just started
            self.discover()
        for card in self._present():
            name = instance_name(container, card.uuid)
            try:
                there = any(instance.name == name for instance in self.cndev.instances(card.index))
            except CndevError as error:
                log.warning("can't list sMLU instances of %s: %s", card.uuid, error)
                continue
            if there:
                self._smlu.remove(card, name)
        self._given -= {instance_name(container, uuid) for uuid in self._cards}

    @hookimpl
    def tend(self, records: Mapping[str, ContainerRef], slices: Mapping[str, tuple[Slice, ...]]) -> None:
        """Destroy instances and profiles that a crash left behind.

        An instance stays if a live container needs it, or if this process gave it out: the records may be older.
        """
        self._held = {name: self._in_order(slices[name]) for name in records}
        needed = {instance_name(ref, uuid) for name, ref in records.items() for uuid in self._held[name]}
        for card in self._present():
            try:
                self._smlu.sweep(card, lambda name: name in needed or name in self._given)
            except CndevError as error:
                log.warning("can't tidy sMLU instances of %s: %s", card.uuid, error)

    def _in_order(self, slices: tuple[Slice, ...]) -> tuple[str, ...]:
        """The cards of a container in the order of their indices. A card that is unknown comes last."""
        known = {uuid: card.index for uuid, card in self._cards.items()}
        return tuple(sorted(slices_by_device(slices), key=lambda uuid: (known.get(uuid, len(known)), uuid)))

    # --- metrics -----------------------------------------------------------------------------------------------------

    @hookimpl
    def metrics(self, records: Mapping[str, ContainerRef]) -> list[Sample]:
        """Samples of cards, and of containers with an sMLU instance. A card that does not answer has none."""
        found: list[Sample] = []
        for card in sorted(self._cards.values(), key=lambda card: card.index):
            if self._is_present(card):
                try:
                    found += [*self._card_samples(card), *self._container_samples(card, records)]
                except CndevError as error:
                    log.warning("can't measure %s: %s", card.uuid, error)
        return found

    def _card_samples(self, card: Card) -> list[Sample]:
        labels = {
            "node": self._node.name,
            "device_index": str(card.index),
            "device_uuid": card.uuid,
            "device_type": card.model,
        }
        return [
            Sample("hami_host_gpu_memory_used_bytes", labels, float(self.cndev.used_mib(card.index) * MIB)),
            Sample("hami_host_gpu_utilization_ratio", labels, float(self.cndev.used_percent(card.index))),
        ]

    def _container_samples(self, card: Card, records: Mapping[str, ContainerRef]) -> list[Sample]:
        if not card.modes.smlu:
            return []
        instances = {instance.name: instance for instance in self.cndev.instances(card.index)}
        found: list[Sample] = []
        for record, ref in records.items():
            cards = self._held.get(record, ())
            instance = instances.get(instance_name(ref, card.uuid))
            if instance is None or card.uuid not in cards:
                continue
            labels = {
                "namespace": ref.namespace,
                "pod": ref.pod,
                "container": ref.container,
                "vdevice_index": str(cards.index(card.uuid)),
                "device_uuid": card.uuid,
            }
            found += [
                Sample("hami_vgpu_memory_used_bytes", labels, float(instance.used_bytes)),
                Sample("hami_vgpu_memory_limit_bytes", labels, float(instance.memory_bytes)),
                Sample("hami_container_device_utilization_ratio", labels, float(instance.used_percent)),
            ]
        return found


def _is_full(error: DeviceError) -> bool:
    return isinstance(error, CndevError) and error.code == ERROR_INSUFFICIENT_SPACE


def _device(card: Card, *, answers: bool) -> Device:
    withheld, whole = not_offered(card.modes), whole_only(card.modes, card.index)
    return Device(
        id=card.uuid,
        index=card.index,
        slots=1 if whole else SLOTS,
        memory_mib=card.memory_mib,
        cores=100,
        type=card.model,
        family=WORD,
        numa=card.numa,
        healthy=answers and not withheld,
        not_offered=withheld,
        whole_only=whole,
    )


def not_offered(modes: Modes) -> str:
    """Why a card is not offered, and what an administrator can do about it; empty if its modes allow pods."""
    if modes.problem:
        return f"the card's modes can't be read: {modes.problem}"
    if modes.mim:
        return "card is in MIM mode, which this agent does not serve (administrator: turn it off with cnmon)"
    if modes.prohibited:
        return "card is in compute mode PROHIBITED (administrator: set the default mode with cnmon)"
    return ""


def whole_only(modes: Modes, index: int) -> str:
    """Why a card is only given as a whole; empty if it may be shared."""
    if modes.smlu is None:
        return "the card or its driver has no sMLU mode"
    return "" if modes.smlu else f"sMLU mode is off (administrator: cnmon set -c {index} -smlu on)"
