"""Ascend's node side: discovery, registration, what containers get, vNPUs, health and metrics."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import structlog

from hami_ascend import shmem
from hami_ascend.admission import HARD, POD_MODE, SOFT
from hami_ascend.config import AscendConfig
from hami_ascend.dcmi import MIB, OCCUPIED, Dcmi, DcmiError
from hami_ascend.node_settings import NO_ENTRY, NodeSettings, node_entry
from hami_ascend.plugin import NODE_MODE, VISIBLE_DEVICES, VNPU_SPECS, Ascend
from hami_ascend.vnpu import Vnpus
from hami_core import (
    Advertisement,
    ContainerEdits,
    Device,
    DeviceError,
    HealthChange,
    MetricSpec,
    Mount,
    Sample,
    hookimpl,
)
from hami_core.vendorkit import smallest_template, template_named_for
from hami_core.vendorkit.node import Owner, encode_devices_json, wait_for_room

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hami_ascend.config import Chip
    from hami_ascend.dcmi import Card
    from hami_core import ContainerRef, Family, NodeContext, Slice

log = structlog.get_logger(__name__)

LIBRARIES: Final = (
    "libdcmi.so",
    "/usr/local/dcmi/libdcmi.so",
    "/usr/local/Ascend/driver/lib64/driver/libdcmi.so",
)
"""Where the driver's library is looked for."""
RUNTIME_OPTIONS: Final = "ASCEND_RUNTIME_OPTIONS"

# --- soft split: HAMi's paths ---------------------------------------------------------------------------------------

DRIVER_FILES: Final = (
    "/usr/local/bin/npu-smi",
    "/etc/ascend_install.info",
    "/usr/local/Ascend/driver/lib64/driver",
    "/usr/local/Ascend/driver/version.info",
)
CORE_DIR: Final = "/usr/local/hami-vnpu-core"
"""Host folder of HAMi's ``libvnpu.so`` and its ``ld.so.preload``."""
SHARED_DIR: Final = "/usr/local/hami-shared-region"
"""Host folder of the registry that all containers of a chip write."""
LOCAL_DIR: Final = "/hami-vnpu-shmem"
"""Folder in the container for its own counters."""

_CARD: Final = ("device_index", "device_uuid", "device_type")
_CONTAINER: Final = ("namespace", "pod", "container")
_SLICE: Final = (*_CONTAINER, "vdevice_index", "device_uuid")
MEMORY, UTILIZATION = "hami_host_gpu_memory_used_bytes", "hami_host_gpu_utilization_ratio"
USED, LIMIT = "hami_vgpu_memory_used_bytes", "hami_vgpu_memory_limit_bytes"
SHARE = "hami_container_device_utilization_ratio"
UNREADABLE = "hami_vgpu_region_unreadable"
_gauge: Final = partial(MetricSpec.gauge, zoned=True)
METRICS: Final = (
    _gauge(MEMORY, "Memory in use on the NPU, by DCMI.", "node", *_CARD),
    _gauge(UTILIZATION, "Percent of time the NPU's AI cores worked (0 to 100).", "node", *_CARD),
    _gauge(USED, "Memory that a container with a soft split holds, by its own counters.", *_SLICE),
    _gauge(LIMIT, "Memory that a container with a soft split may hold.", *_SLICE),
    _gauge(SHARE, "Percent of time the AI cores of the container's NPU worked, for any container.", *_SLICE),
    _gauge(UNREADABLE, "1 for a container whose counters are damaged.", *_CONTAINER),
)


class AscendNode:
    """The object behind the entry point ``ascend`` of group ``hami.node``.

    Args:
        settings: The node's settings; None: from the environment.
        clock: Monotonic seconds.
    """

    api_version: ClassVar[tuple[int, int]] = (1, 0)
    metric_specs = METRICS
    _node: NodeContext
    _vnpus: Vnpus

    def __init__(self, settings: NodeSettings | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings or NodeSettings.from_environment()
        own = self._settings.dcmi_library
        self._dcmi = Dcmi(lambda: (own,) if own else LIBRARIES)
        self._clock = clock
        self._chips: tuple[Chip, ...] = ()
        self._entry = NO_ENTRY
        self._soft = False
        self._cards: dict[str, Card] = {}
        """Every chip that was ever found, by die id."""
        self._slices: Mapping[str, tuple[Slice, ...]] = {}
        self._due = float("-inf")
        self._unknown: frozenset[str] = frozenset()

    # --- start -----------------------------------------------------------------------------------------------------

    @hookimpl
    def config_model(self) -> type[AscendConfig]:
        """Section ``vnpus``, as on the scheduler side."""
        return AscendConfig

    @hookimpl
    def families(self, config: AscendConfig | None, node: NodeContext | None) -> Sequence[Family]:
        """The families of the scheduler side. This call also reads the options of the node."""
        config = config or AscendConfig()
        self._chips = config.configs
        if node is not None:
            self._node = node
            self._entry = node_entry(node)
            self._vnpus = Vnpus(self._dcmi, self._folder("vnpus"), self._find)
        for told in (self._settings.soft_split, self._entry.soft_split, config.soft_split):
            if told is not None:
                self._soft = told
                break
        return Ascend().families(config)

    def _folder(self, name: str) -> Path:
        return self._node.state_dir / "ascend" / name

    # --- discovery -------------------------------------------------------------------------------------------------

    @hookimpl
    def discover(self) -> list[Device]:
        """The NPUs of this node. An NPU that no longer answers is unhealthy and does not hide the others.

        Raises:
            DeviceError: The driver does not answer at all, or no chip is configured.
        """
        try:
            found, errors = self._dcmi.cards()
        except DcmiError:
            self._dcmi.close()
            raise
        if errors and not found:
            # The driver may have been replaced, so its library is loaded again next time.
            self._dcmi.close()
        for error in errors:
            log.warning("an NPU does not answer", error=str(error))
        configured = [card for card in found if self._chip_of(card) is not None]
        self._report_unknown(found, some=bool(configured or self._cards))
        self._cards.update({card.die_id: card for card in configured})
        there = {card.die_id for card in configured}
        cards = sorted(self._offered(), key=lambda card: (card.logic_id, card.die_id))
        return [self._device(card, answers=card.die_id in there) for card in cards]

    def _offered(self) -> Iterator[Card]:
        """Known chips, without those that the per-node file hides."""
        hidden = self._entry.hidden
        known = tuple(self._cards.values())  # another thread may find a chip meanwhile
        return (c for c in known if c.die_id not in hidden.uuid and c.card_id not in hidden.index)

    def _chip_of(self, card: Card) -> Chip | None:
        return next((chip for chip in self._chips if chip.chip_name == card.chip_name), None)

    def _report_unknown(self, found: Sequence[Card], *, some: bool) -> None:
        """Name chips that no section configures. Without any other chip, the agent has nothing to serve.

        Raises:
            DeviceError: There are only such chips.
        """
        unknown = frozenset(card.chip_name for card in found if self._chip_of(card) is None)
        known = ", ".join(chip.chip_name for chip in self._chips)
        text = f"chip {', '.join(sorted(unknown))} is not configured in vnpus.configs; chipName is one of {known}"
        if unknown and not some:
            raise DeviceError(text)
        if unknown - self._unknown:
            log.error("NPUs are not served", problem=text)
        self._unknown = unknown

    def _device(self, card: Card, *, answers: bool) -> Device:
        chip = self._configured(card)
        word = chip.common_word
        return Device(
            id=card.die_id,
            index=card.logic_id,
            slots=self._slots(chip),
            memory_mib=chip.memory_allocatable,
            cores=100 if self._soft else chip.ai_core,
            type=word,
            family=word,
            mode=SOFT if self._soft else "",
            healthy=answers and not self._problem(card),
            custom={"NetworkID": network_id(word, card.logic_id)} if word.startswith("Ascend910") else {},
        )

    def _configured(self, card: Card) -> Chip:
        chip = self._chip_of(card)
        if chip is None:
            raise DeviceError(f"chip {card.chip_name} is not configured in vnpus.configs")
        return chip

    def _slots(self, chip: Chip) -> int:
        return self._settings.slots or self._entry.slots or slots_of(chip)

    def _problem(self, card: Card) -> str:
        """Why an NPU is unhealthy; empty if it is healthy."""
        try:
            code = self._dcmi.health(card)
        except DcmiError as error:
            return str(error)
        return f"DCMI health code {code}" if code else ""

    @hookimpl
    def advertise(self, devices: Sequence[Device]) -> Advertisement:
        """The register annotation of each chip model, the node's mode, and slots named ``<die id>-<k>``."""
        annotations = {NODE_MODE: "true" if self._soft else "false"}
        slots: dict[str, dict[str, tuple[bool, int]]] = {}
        for chip in self._chips:
            ours = [replace(device, mode="") for device in devices if device.family == chip.common_word]
            if ours:
                annotations[f"hami.io/node-register-{chip.common_word}"] = encode_devices_json(ours, custom=True)
                slots[chip.resource_name] = {f"{d.id}-{k}": (d.healthy, -1) for d in ours for k in range(d.slots)}
        return Advertisement(annotations=annotations, slots=slots)

    # --- one container ---------------------------------------------------------------------------------------------

    @hookimpl
    def allocate(self, slices: tuple[Slice, ...], container: ContainerRef) -> ContainerEdits:
        """Variables for Ascend's container runtime, which adds devices and driver. A soft split also gets mounts."""
        cards = [self._card(piece) for piece in slices]
        visible = {VISIBLE_DEVICES: ",".join(str(card.phy_id) for card in cards)}
        if _is_soft(slices, container):
            return self._soft_edits(slices, cards, container, visible)
        template = self._template(slices, cards)
        if not template:
            return ContainerEdits(env=visible)
        if self._settings.vnpu_creator == "agent":
            make = partial(self._vnpus.ensure, cards[0], template, Owner(container.pod_uid, container.container))
            vdev_id = wait_for_room(make, _is_occupied, self._clock, time.sleep)
            return ContainerEdits(env={VISIBLE_DEVICES: str(vdev_id), RUNTIME_OPTIONS: "VIRTUAL"})
        return ContainerEdits(env={**visible, VNPU_SPECS: template})

    def _card(self, piece: Slice) -> Card:
        card = self._find(piece.device_id)
        if card is None:
            raise DeviceError(f"NPU {piece.device_id} is not on this node or does not answer")
        return card

    def _find(self, die_id: str) -> Card | None:
        """The chip with this die id. After a restart, hooks may come before `discover`."""
        if die_id not in self._cards:
            self.discover()
        return self._cards.get(die_id)

    def _template(self, slices: Sequence[Slice], cards: Sequence[Card]) -> str:
        """The vNPU template of a container with a hard split; empty: it has whole NPUs.

        Raises:
            DeviceError: A slice is neither a template nor a whole NPU, or the container has another NPU beside a vNPU.
        """
        templates = [self._template_of(piece, card) for piece, card in zip(slices, cards, strict=True)]
        if len(templates) > 1 and any(templates):
            raise DeviceError(
                "a container with a vNPU can't have another NPU: Ascend's runtime makes one vNPU for a container"
            )
        return templates[0] if templates else ""

    def _template_of(self, piece: Slice, card: Card) -> str:
        chip = self._configured(card)
        if piece.memory_mib >= chip.memory_allocatable:
            return ""
        name = template_named_for(chip.sizes, piece.memory_mib)
        if not name:
            sizes = ", ".join(str(size.memory_mib) for size in chip.sizes)
            raise DeviceError(
                f"{piece.memory_mib} MiB of {chip.common_word} is no vNPU size; the sizes are {sizes} MiB, and "
                f"{chip.memory_allocatable} MiB for a whole NPU"
            )
        return name

    def _soft_edits(
        self, slices: Sequence[Slice], cards: Sequence[Card], container: ContainerRef, visible: Mapping[str, str]
    ) -> ContainerEdits:
        """HAMi's mounts and variables for ``libvnpu.so``.

        Raises:
            DeviceError: The node does not share NPUs in software, or a host file is missing.
        """
        if not self._soft:
            raise DeviceError(f"the pod asks for {POD_MODE}: {SOFT}, and this node does not share NPUs in software")
        needed = (f"{CORE_DIR}/libvnpu.so", f"{CORE_DIR}/ld.so.preload", *DRIVER_FILES)
        missing = [path for path in needed if not self._here(path).exists()]
        if missing:
            raise DeviceError(
                f"soft split needs {', '.join(missing)} on the node; libvnpu.so and ld.so.preload come with HAMi's "
                "Ascend device plugin, the others with the driver"
            )
        local = self._local(container)
        try:
            _open_folder(self._here(SHARED_DIR))
            _open_folder(local)
        except OSError as error:
            raise DeviceError(f"soft split needs a folder that can't be made: {error}") from error
        first = slices[0]
        if not first.memory_mib:
            raise DeviceError("a soft split of 0 MiB would have no memory limit")
        env = {
            **visible,
            "NPU_MEM_QUOTA": str(first.memory_mib),
            "NPU_GLOBAL_SHM_PATH": f"/hami-shared-region/{cards[0].phy_id}_global_registry",
        }
        env["NPU_LOCAL_SHM_PATH"] = f"{LOCAL_DIR}/{shmem.NAME}"
        if first.cores:
            env["NPU_PRIORITY"] = str(first.cores)
        mounts = (
            *(Mount(path, path) for path in DRIVER_FILES),
            Mount(CORE_DIR, "/hami-vnpu-core"),
            Mount(f"{CORE_DIR}/ld.so.preload", "/etc/ld.so.preload"),
            Mount(SHARED_DIR, "/hami-shared-region", read_only=False),
            Mount(str(local), LOCAL_DIR, read_only=False),
        )
        return ContainerEdits(env=env, mounts=mounts)

    def _here(self, host_path: str) -> Path:
        """Where the agent sees a host path."""
        return self._settings.host_root / host_path.removeprefix("/")

    @hookimpl
    def release(self, container: ContainerRef) -> None:
        """Destroy the container's vNPU if the agent made it, and remove its counters."""
        self._vnpus.release(Owner(container.pod_uid, container.container))
        shutil.rmtree(self._local(container), ignore_errors=True)

    def _local(self, container: ContainerRef) -> Path:
        return self._folder("shmem") / f"{container.pod_uid}_{container.container}"

    @hookimpl
    def tend(self, records: Mapping[str, ContainerRef], slices: Mapping[str, tuple[Slice, ...]]) -> None:
        """Look after vNPUs every ``HAMI_ASCEND_LOOK_INTERVAL_S``."""
        self._slices = dict(slices)
        if self._clock() < self._due:
            return
        self._due = self._clock() + self._settings.look_interval_s
        self._vnpus.reconcile({Owner(ref.pod_uid, ref.container) for ref in records.values()})
        if self._settings.vnpu_creator == "runtime" and self._settings.clean_idle_vnpus:
            hard = [slices[name] for name, ref in records.items() if not _is_soft(slices[name], ref)]
            self._vnpus.clean(list(self._offered()), self._needed(hard))

    def _needed(self, slices: Sequence[Sequence[Slice]]) -> Counter[tuple[str, str]]:
        """Chip and template → number of live containers that have such a vNPU."""
        needed: Counter[tuple[str, str]] = Counter()
        for pieces in slices:
            for piece in pieces:
                card = self._cards.get(piece.device_id)
                name = template_named_for(self._configured(card).sizes, piece.memory_mib) if card else ""
                if name:
                    needed[piece.device_id, name] += 1
        return needed

    # --- health and metrics ----------------------------------------------------------------------------------------

    @hookimpl
    def health(self, devices: Sequence[Device]) -> list[HealthChange]:
        """Report health codes, and chips that do not answer or were replaced."""
        changes = [self._health(device) for device in devices]
        if changes and not any(change.healthy for change in changes) and not self._driver_answers():
            self._dcmi.close()  # the driver may have been replaced
        return changes

    def _driver_answers(self) -> bool:
        try:
            return bool(self._dcmi.cards()[0])
        except DcmiError:
            return False

    def _health(self, device: Device) -> HealthChange:
        card = self._cards.get(device.id)
        if card is None:
            return HealthChange(device.id, healthy=False, reason="the NPU is not known")
        try:
            there = self._dcmi.die_id(card.card_id, card.device_id)
        except DcmiError as error:
            return HealthChange(device.id, healthy=False, reason=str(error))
        if there != device.id:
            return HealthChange(device.id, healthy=False, reason=f"NPU {there} is in its place", rediscover=True)
        problem = self._problem(card)
        return HealthChange(device.id, healthy=not problem, reason=problem)

    @hookimpl
    def metrics(self, records: Mapping[str, ContainerRef], region_dirs: Mapping[str, str]) -> list[Sample]:
        """Samples of NPUs, and of containers with a soft split."""
        del region_dirs
        samples: list[Sample] = []
        busy: dict[str, int] = {}
        for card in sorted(self._offered(), key=lambda c: c.logic_id):
            try:
                samples += self._card_samples(card, busy)
            except DcmiError as error:
                log.warning("an NPU's metrics are missing", error=str(error))
        for record_id, ref in records.items():
            slices = self._slices.get(record_id, ())
            if slices and _is_soft(slices, ref):
                samples += self._container_samples(ref, slices, busy)
        return samples

    def _card_samples(self, card: Card, busy: dict[str, int]) -> list[Sample]:
        product = self._dcmi.product_type(card) or card.chip_name
        labels = {
            "node": self._node.name,
            "device_index": str(card.logic_id),
            "device_uuid": card.die_id,
            "device_type": f"Ascend-{product}",
        }
        busy[card.die_id] = self._dcmi.utilization(card)
        return [
            Sample(MEMORY, labels, self._dcmi.memory_used_mib(card) * MIB),
            Sample(UTILIZATION, labels, busy[card.die_id]),
        ]

    def _container_samples(
        self, ref: ContainerRef, slices: Sequence[Slice], busy: Mapping[str, int]
    ) -> Iterator[Sample]:
        owner = {"namespace": ref.namespace, "pod": ref.pod, "container": ref.container}
        most = max((self._capacity(piece) for piece in slices), default=0) * MIB
        used: tuple[int, ...] | None = None
        try:
            used = shmem.memory_used(self._local(ref) / shmem.NAME, most)
        except shmem.DamagedError as error:
            log.warning("a container's counters are damaged", pod=ref.pod, container=ref.container, error=str(error))
            yield Sample(UNREADABLE, owner, 1)
        for position, piece in enumerate(slices[: shmem.DEVICES]):
            labels: dict[str, Any] = {**owner, "vdevice_index": str(position), "device_uuid": piece.device_id}
            yield Sample(LIMIT, labels, piece.memory_mib * MIB)
            if used is not None:
                yield Sample(USED, labels, used[position])
            if piece.device_id in busy:
                yield Sample(SHARE, labels, busy[piece.device_id])

    def _capacity(self, piece: Slice) -> int:
        card = self._cards.get(piece.device_id)
        return self._configured(card).capacity if card else 0


def _is_soft(slices: Sequence[Slice], container: ContainerRef) -> bool:
    """Whether a container has a soft split. The mode in its slices is signed, the pod's annotation is the user's."""
    mode = slices[0].mode
    return (mode if mode in {SOFT, HARD} else container.annotations.get(POD_MODE)) == SOFT


def _is_occupied(error: DeviceError) -> bool:
    return isinstance(error, DcmiError) and error.code == OCCUPIED


def slots_of(chip: Chip) -> int:
    """How many containers may share an NPU: as many as it has vNPUs of the smallest size; 1 without sizes."""
    smallest = smallest_template(chip.sizes, 0)
    return max(chip.memory_allocatable // smallest.memory_mib, 1) if smallest else 1


def network_id(word: str, logic_id: int) -> int:
    """The group of NPUs with fast links that an NPU belongs to: two halves of a node, or one group of the 910C."""
    return int(logic_id > 3 and word != "Ascend910C")


def _open_folder(folder: Path) -> None:
    """Make a folder that any user in a container may write, unless it exists."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)  # libvnpu.so runs as any user
