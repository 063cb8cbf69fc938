"""The life of virtual NPUs (vNPUs): made for a container, adopted after a restart, destroyed when nobody needs them.

Two programs can make a container's vNPU:

- *The runtime* (the default, as with HAMi's plugin). Allocate names a template, and Ascend's container runtime makes
  the vNPU and destroys it. A runtime that dies leaves its vNPU behind. `clean` destroys such vNPUs.
- *The agent*. `ensure` first writes an *intent*, a file that names container, chip, template and the id of the vNPU.
  Then it makes the vNPU under this id. `release` destroys the vNPU and then removes the intent.

What must hold for vNPUs of the agent: no vNPU without an intent, no two intents for one container or one id. So a crash
between any two steps loses nothing. The driver refuses an id that is taken, so no step can make a second vNPU.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from hami_ascend.dcmi import NOT_SUPPORTED, DcmiError
from hami_core import DeviceError
from hami_core.vendorkit.node import Intents, Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from hami_ascend.dcmi import Card, Dcmi, Vnpu

log = structlog.get_logger(__name__)

FIRST_ID: Final = 100
IDS_PER_CHIP: Final = 16
"""vNPU ids of a chip begin at ``phy_id * 16 + 100``. Source: Huawei's pages on ``npu-smi set -t create-vnpu``."""
IDS_OF_310P: Final = 8
"""Inference chips use only the first 8 of them (the same pages)."""


@dataclass(frozen=True, slots=True)
class Intent:
    """The agent's decision to give a container one vNPU.

    Attributes:
        vdev_id: The vNPU's id.
        die_id: The chip's die id.
        template: The vNPU's template.
        pod_uid: UID of the container's pod.
        container: The container's name.
    """

    vdev_id: int
    die_id: str
    template: str
    pod_uid: str
    container: str

    @property
    def key(self) -> str:
        """The id claims the vNPU: the driver knows each id once on a node."""
        return str(self.vdev_id)

    @property
    def owner(self) -> Owner:
        """The container."""
        return Owner(self.pod_uid, self.container)


def ids_of(card: Card) -> range:
    """The ids that vNPUs of a chip may have."""
    first = card.phy_id * IDS_PER_CHIP + FIRST_ID
    return range(first, first + (IDS_OF_310P if card.chip_name.startswith("310P") else IDS_PER_CHIP))


class Vnpus:
    """See the module's text.

    Args:
        dcmi: The driver.
        folder: Folder of the intents.
        find: Returns the chip with a die id; None if the node has none that answers.
    """

    def __init__(self, dcmi: Dcmi, folder: Path, find: Callable[[str], Card | None]) -> None:
        self._dcmi = dcmi
        self._find = find
        self._intents = Intents(folder, Intent, "vNPU")
        self._lock = threading.Lock()
        self._unowned: frozenset[int] = frozenset()
        self._idle: dict[tuple[str, int], int] = {}
        """Chip and id of each idle vNPU → number of looks in a row that saw it idle."""

    # --- the agent's vNPUs ----------------------------------------------------------------------------------------

    def ensure(self, card: Card, template: str, owner: Owner) -> int:
        """Give a container its vNPU and return the id. Repeated for one container, it returns the same vNPU.

        Raises:
            DeviceError: The driver refuses, or the chip has no free id.
        """
        with self._lock:
            intents = self._intents.load()
            there = {vnpu.vdev_id: vnpu for vnpu in self._dcmi.vnpus(card)}
            mine = next((intent for intent in intents if intent.owner == owner), None)
            if mine is not None and (mine.die_id, mine.template) != (card.die_id, template):
                raise DeviceError(
                    f"container {owner.container}: it has vNPU {mine.vdev_id} of template {mine.template} on chip "
                    f"{mine.die_id} and can't get another one"
                )
            if mine is not None and mine.vdev_id in there and there[mine.vdev_id].template != template:
                # Somebody else took the id after the intent was written.
                self._intents.remove(mine)
                mine = None
            if mine is None:
                mine = self._decide(card, template, owner, there.keys() | {intent.vdev_id for intent in intents})
            if mine.vdev_id not in there:
                self._create(card, mine)
            return mine.vdev_id

    def _decide(self, card: Card, template: str, owner: Owner, taken: Collection[int]) -> Intent:
        for vdev_id in ids_of(card):
            intent = Intent(vdev_id, card.die_id, template, owner.pod_uid, owner.container)
            if vdev_id not in taken and self._intents.add(intent):
                return intent
        raise DeviceError(f"chip {card.die_id} has no free id for another vNPU; {len(taken)} exist")

    def _create(self, card: Card, intent: Intent) -> None:
        made = self._dcmi.create(card, intent.template, intent.vdev_id)
        if made != intent.vdev_id:
            raise DeviceError(f"chip {card.die_id}: the driver made vNPU {made} and not {intent.vdev_id}")
        log.info("vNPU created", vnpu=made, template=intent.template, chip=card.die_id, container=intent.container)

    def release(self, owner: Owner) -> None:
        """Destroy the vNPU of a container that is gone. The container may have none.

        Raises:
            DeviceError: The chip does not answer, or the driver refuses. Call again later.
        """
        with self._lock:
            for intent in self._intents.load():
                if intent.owner == owner:
                    self._destroy(intent)

    def _destroy(self, intent: Intent) -> None:
        card = self._find(intent.die_id)
        if card is None:
            raise DeviceError(f"vNPU {intent.vdev_id} can't be destroyed: chip {intent.die_id} does not answer")
        there = {vnpu.vdev_id: vnpu for vnpu in self._dcmi.vnpus(card)}
        vnpu = there.get(intent.vdev_id)
        if vnpu is not None and vnpu.template == intent.template:
            self._dcmi.destroy(card, intent.vdev_id)
            log.info("vNPU destroyed", vnpu=intent.vdev_id, chip=card.die_id, container=intent.container)
        self._intents.remove(intent)

    def reconcile(self, live: Collection[Owner]) -> None:
        """Make the agent's vNPUs agree with the live containers, after a crash or a reset of a chip.

        A vNPU whose container is unknown is destroyed at the second call that finds it so: its container may have been
        admitted after `live` was read. A vNPU that a live container should have is made again.

        Args:
            live: Containers that hold NPUs.
        """
        with self._lock:
            intents = self._intents.load()
            unowned = frozenset(intent.vdev_id for intent in intents if intent.owner not in live)
            for intent in intents:
                with _reporting(intent.die_id):
                    if intent.vdev_id in unowned & self._unowned:
                        self._destroy(intent)
                    elif intent.vdev_id not in unowned:
                        self._restore(intent)
            self._unowned = unowned

    def _restore(self, intent: Intent) -> None:
        card = self._find(intent.die_id)
        if card is not None and all(vnpu.vdev_id != intent.vdev_id for vnpu in self._dcmi.vnpus(card)):
            self._create(card, intent)

    # --- the runtime's vNPUs --------------------------------------------------------------------------------------

    def clean(self, cards: Sequence[Card], needed: Mapping[tuple[str, str], int]) -> None:
        """Destroy vNPUs that a dead runtime left behind.

        Such a vNPU has no intent, was idle at the last two looks, and is one more than the containers need of its
        template. Those that were idle for longest go first, so a container that is starting keeps its vNPU.

        Args:
            cards: The chips to look at.
            needed: Chip's die id and template → number of live containers with such a vNPU.
        """
        with self._lock:
            owned = {intent.vdev_id for intent in self._intents.load()}
            before, self._idle = self._idle, {}
            for card in cards:
                with _reporting(card.die_id):
                    self._clean(card, [v for v in self._vnpus(card) if v.vdev_id not in owned], needed, before)

    def _vnpus(self, card: Card) -> list[Vnpu]:
        try:
            return self._dcmi.vnpus(card)
        except DcmiError as error:
            if error.code == NOT_SUPPORTED:
                return []
            raise

    def _clean(
        self,
        card: Card,
        vnpus: Sequence[Vnpu],
        needed: Mapping[tuple[str, str], int],
        before: Mapping[tuple[str, int], int],
    ) -> None:
        looks = {v.vdev_id: before.get((card.die_id, v.vdev_id), 0) + 1 for v in vnpus if not v.in_container}
        for template in {v.template for v in vnpus}:
            alike = [v for v in vnpus if v.template == template]
            surplus = len(alike) - needed.get((card.die_id, template), 0)
            idle = sorted((v for v in alike if looks.get(v.vdev_id, 0) > 1), key=lambda v: -looks[v.vdev_id])
            for vnpu in idle[: max(surplus, 0)]:
                self._dcmi.destroy(card, vnpu.vdev_id)
                del looks[vnpu.vdev_id]
                log.info("idle vNPU destroyed", vnpu=vnpu.vdev_id, template=template, chip=card.die_id)
        self._idle.update({(card.die_id, vdev_id): count for vdev_id, count in looks.items()})


@contextlib.contextmanager
def _reporting(chip: str) -> Iterator[None]:
    """Log a failure about one chip, so that it does not hide the others."""
    try:
        yield
    except DeviceError as error:
        log.warning("a chip's vNPUs can't be looked after; trying again", chip=chip, error=str(error))
