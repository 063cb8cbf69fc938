"""The device plugins of nodes with Hygon's cards: HAMi's DCU plugin, and Hygon's own HCU plugin in its mode ``hami``.

Written after Project-HAMi/dcu-vgpu-device-plugin, ``internal/pkg/dcu/{server,register,corealloc}.go`` and
``internal/pkg/util/{util,nodelock/nodelock}.go``, in the releases whose ids are ``DCU-<number>``; and after
HYGON-AI/k8s-hcu-device-plugin, ``internal/pkg/plugin/{plugin,register}.go`` and ``internal/pkg/util/{util,hcu}.go``.

Both give a container device nodes and the file of its vDCU. Here it is told of them in its environment. The real DCU
plugin may give one compute unit to two containers, if a share is no multiple of four units. Here it does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES, PODS
from hami_core.tests.scheduler.hami_plugin import HamiPlugin, PluginError
from hami_core.wire import keys
from tests.foreign.device_plugin import Offer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi

CARD_MIB, COMPUTE_UNITS = 65520, 120
SLOTS: Final = 4
"""How many containers may share a card."""
ALL_CORES: Final = 100
VDEVS: Final = 200
"""Most vDCUs of a node."""
PIPES: Final = 20
"""Most vDCUs of a card."""
MASK_BITS: Final = 64
"""Compute units in each of a vDCU's two masks."""
INDEX = "hygon.com/container-index"


@dataclass(frozen=True)
class Vdev:
    """A vDCU.

    Attributes:
        folder: Name of its folder on the node. The plugin reads its state back from these names.
        text: Content of its file.
        card: Number of its card.
        masks: Compute units that it may use, 64 in each number.
    """

    folder: str
    text: str
    card: int
    masks: tuple[int, int]

    @property
    def facts(self) -> dict[str, str]:
        """The lines of the file. Of two lines with one name, the last one is kept."""
        return dict(line.split(": ", 1) for line in self.text.splitlines())


class Vdevs:
    """The vDCUs of a node."""

    def __init__(self) -> None:
        self.made: list[Vdev] = []

    def create(self, uid: str, container: str, card: int, memory_mib: int, cores: int) -> Vdev:
        """Make a vDCU for a container.

        Raises:
            PluginError: The node or the card has no further vDCU.
        """
        names = [vdev.folder.split("_") for vdev in self.made]
        vdev_id = _first_free(VDEVS, {int(name[4]) for name in names}, "vidx out of bound (>200)")
        pipes = {int(name[3]) for name in names if int(name[2]) == card}
        pipe = _first_free(PIPES, pipes, f"pipidx out of bound:{card}")
        units = cores * COMPUTE_UNITS // 100
        masks = self._masks(card, units)
        words = [f"{mask:0{MASK_BITS // 4}x}" for mask in masks]
        lines = [
            f"PciBusId: 0000:{card + 1:02x}:00.0",
            *(f"cu_mask: 0x{word}" for word in words),
            f"cu_count: {units}",
            f"mem: {memory_mib} MiB",
            f"device_id: {card}",
            f"vdev_id: {vdev_id}",
            f"pipe_id: {pipe}",
            "enable: 1",
        ]
        folder = "_".join([uid, container, str(card), str(pipe), str(vdev_id), *words])
        self.made.append(Vdev(folder, "".join(f"{line}\n" for line in lines), card, masks))
        return self.made[-1]

    def remove_all_but(self, uids: Iterable[str]) -> None:
        """Remove the vDCUs of pods that are gone. The real plugin does it every 30 s."""
        self.made = [vdev for vdev in self.made if any(uid in vdev.folder for uid in uids)]

    def _masks(self, card: int, units: int) -> tuple[int, int]:
        """The first free compute units of a card. If it has too few, the vDCU gets fewer, as in the real plugin."""
        used = [vdev.masks[0] | vdev.masks[1] << MASK_BITS for vdev in self.made if vdev.card == card]
        free = [bit for bit in range(2 * MASK_BITS) if not any(mask >> bit & 1 for mask in used)]
        whole = sum(1 << bit for bit in free[:units])
        return whole % (1 << MASK_BITS), whole >> MASK_BITS


def _first_free(limit: int, used: set[int], problem: str) -> int:
    found = next((number for number in range(limit) if number not in used), None)
    if found is None:
        raise PluginError(problem)
    return found


class _HygonPlugin(HamiPlugin):
    """What both plugins share: the register, the ids, and the list of containers that is consumed from the left.

    Args:
        api: The API server.
        node: The node's name.
        cards: How many cards it has.
    """

    word: str

    def __init__(self, api: KubeApi, node: str, cards: int = 2) -> None:
        super().__init__(api, node)
        self.ids = [self._id(number) for number in range(cards)]
        self.refused: list[str] = []
        """Texts of failed calls."""

    def _id(self, number: int) -> str:
        raise NotImplementedError

    def _entry(self, number: int) -> str:
        return f"{self.ids[number]},{SLOTS},{CARD_MIB},{ALL_CORES},{self.word}-K100_AI,0,true"

    async def register(self) -> None:
        """Write the node's annotations, as the real plugins do every 30 s."""
        stem = self.word.lower()
        written = {
            f"hami.io/node-{stem}-register": "".join(f"{self._entry(i)}:" for i in range(len(self.ids))),
            f"hami.io/node-handshake-{stem}": f"Reported {datetime.now().astimezone()}",
        }
        await self.api.patch(NODES, self.node, metadata_patch(annotations=written))

    @property
    def offer(self) -> Offer:
        """The resource: as many ids for each card as containers may share it."""
        ids = [f"{card}-fake-{k}" for card in self.ids for k in range(SLOTS)]
        return Offer(f"hygon.com/{self.word.lower()}num", ids, self._guarded)

    async def _guarded(self, ids: int) -> dict[str, str]:
        try:
            return await self._answer(ids)
        except PluginError as error:
            self.refused.append(str(error))
            raise

    async def _answer(self, ids: int) -> dict[str, str]:
        raise NotImplementedError

    def _pop(self, pod: Pod, ids: int) -> tuple[list[str], str]:
        """The devices of the first container that has some. The rest is written without containers that have none."""
        devices, rest = super()._pop(pod, ids)
        return devices, ";" + "".join(f"{piece};" for piece in rest.split(";") if piece)


class DcuPlugin(_HygonPlugin):
    """HAMi's DCU plugin. Its register has seven fields. It looks for the pod in all pods, and ends anybody's lock."""

    word = "DCU"
    to_allocate = "hami.io/dcu-devices-to-allocate"
    words = ("DCU",)

    def __init__(self, api: KubeApi, node: str, cards: int = 2) -> None:
        super().__init__(api, node, cards)
        self.vdevs = Vdevs()

    def _id(self, number: int) -> str:
        return f"DCU-{number}"

    async def _pending_pod(self) -> Pod:
        for pod in (await self.api.list(PODS)).items:
            told = pod.metadata.annotations
            is_allocating = keys.BIND_TIME in told and told.get(keys.BIND_PHASE) == keys.PHASE_ALLOCATING
            if is_allocating and told.get(keys.NODE) == self.node:
                return pod
        await self.api.patch(NODES, self.node, metadata_patch(annotations={keys.NODE_LOCK: None}))
        raise PluginError(f"no binding pod found on node {self.node}")

    async def _release(self, pod: Pod) -> None:
        del pod
        await self.api.patch(NODES, self.node, metadata_patch(annotations={keys.NODE_LOCK: None}))

    def check(self, pod: Pod, devices: list[str]) -> None:
        """Read the cards' numbers out of their ids."""
        for device in devices:
            if device.split(",")[0] not in self.ids:
                raise PluginError(f"invalid request device uuid {device.split(',')[0]}")

    async def _answer(self, ids: int) -> dict[str, str]:
        pod = await self._pending_pod()
        devices = [device.split(",") for device in await self.allocate(ids)]
        cards = [int(device[0].removeprefix("DCU-")) for device in devices]
        env = {"DRI": ",".join(f"card{card}" for card in cards)}
        if len(devices) > 1 or int(devices[0][2]) >= CARD_MIB:
            return env
        made = self.vdevs.create(
            pod.metadata.uid, pod.spec.containers[0].name, cards[0], int(devices[0][2]), int(devices[0][3])
        )
        return env | {"VDEV": made.folder}


class HcuPlugin(_HygonPlugin):
    """Hygon's plugin with ``RESOURCE_REGISTER_STRATEGY=hami``. It keeps numbers of containers in an annotation."""

    word = "HCU"
    to_allocate = "hami.io/hcu-devices-to-allocate"
    words = ("HCU",)

    def __init__(self, api: KubeApi, node: str, cards: int = 2) -> None:
        super().__init__(api, node, cards)
        self.marks: dict[str, list[str]] = {}
        """UID of a pod → its marks ``<container>_<card>_<vHCU>``; -1 stands for the whole card."""

    def _id(self, number: int) -> str:
        return f"HCU-T6T829001902040{number}"

    def _entry(self, number: int) -> str:
        return f"{super()._entry(number)},{number},hami"

    async def _answer(self, ids: int) -> dict[str, str]:
        pod = await self._pending_pod()
        number, later = self._container_number(pod)
        if number >= len(pod.spec.containers):
            await self._annotate(pod, {keys.BIND_PHASE: keys.PHASE_FAILED})
            await self._release(pod)
            raise PluginError(f"invalid container index {number}")
        devices = [device.split(",") for device in await self.allocate(ids)]
        cards = [self.ids.index(device[0]) for device in devices]
        marks = self.marks.setdefault(pod.metadata.uid, [])
        name = pod.spec.containers[number].name
        amounts = [(int(device[2]), int(device[3])) for device in devices]
        marks += [f"{name}_{card}_-1" for card, got in zip(cards, amounts, strict=True) if got == (CARD_MIB, ALL_CORES)]
        env = {"DRI": ",".join(f"card{card}" for card in cards)}
        if len(devices) == 1 and amounts[0][0] < CARD_MIB:
            units = max(-(-amounts[0][1] * COMPUTE_UNITS // 100), 1)
            marks.append(f"{name}_{cards[0]}_{len(marks)}")
            env["VHCU"] = f"{units} units, {amounts[0][0]} MiB"
        await self._annotate(pod, {INDEX: "".join(f"{later_number}," for later_number in later)})
        return env

    def _container_number(self, pod: Pod) -> tuple[int, list[int]]:
        """Number of the container that is served, and those of the containers after it."""
        told = pod.metadata.annotations
        allocated = told.get("hami.io/hcu-devices-allocated", "")
        if allocated == told.get(self.to_allocate):
            numbers = [number for number, piece in enumerate(allocated.split(";")) if piece]
        else:
            numbers = [int(part) for part in told.get(INDEX, "").split(",") if part]
        return (numbers[0], numbers[1:]) if numbers else (-1, [])

    async def unmarked(self) -> list[str]:
        """Running pods that name memory and have no mark. The real plugin deletes them within 30 s."""
        found = []
        for pod in (await self.api.list(PODS)).items:
            names_memory = any("hygon.com/hcumem" in container.resources.limits for container in pod.spec.containers)
            if names_memory and pod.status.phase == "Running" and not self.marks.get(pod.metadata.uid):
                found.append(pod.metadata.name)
        return found
