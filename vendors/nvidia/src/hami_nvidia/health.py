"""The health of cards: critical errors (XIDs), whether a card answers, and whether its memory can be repaired."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import HealthChange
from hami_nvidia.nvml import ERROR_GPU_IS_LOST, CardEvent, NvmlError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hami_nvidia.nvml import MemoryRepair, Nvml

log = structlog.get_logger(__name__)

IGNORED: Final = frozenset({13, 31, 43, 45, 68, 109})
"""XIDs that applications cause. They do not mean that the card is faulty."""
OFF_THE_BUS: Final = 79
"""The XID of a card that the driver can't reach any more."""
MOST_EVENTS: Final = 1000
"""Events of one card that one reading takes. NVML gives about 100,000 of them a second."""
LOG_EVERY_S: Final = 60.0
"""One XID of one card is logged at most once in this time, with the number of new ones."""
REMAP_FAILED: Final = "a faulty row of its memory can't be replaced by another (row remapping failed); replace the card"
"""Source: NVIDIA GPU Memory Error Management, "Row-remapping": a failure is a reason for a replacement."""


@dataclass(frozen=True, slots=True)
class XidPolicy:
    """The XIDs that make a card unhealthy, set by the same environment variables as in NVIDIA's device plugin.

    Attributes:
        disabled: XIDs to ignore.
        enabled: XIDs that always count.
        all_disabled: Ignore every XID that is not enabled.
        all_enabled: Count every XID.
    """

    disabled: frozenset[int] = IGNORED
    enabled: frozenset[int] = frozenset()
    all_disabled: bool = False
    all_enabled: bool = False

    @classmethod
    def parse(cls, disabled: str, enabled: str) -> XidPolicy:
        """Read ``DP_DISABLE_HEALTHCHECKS`` and ``DP_ENABLE_HEALTHCHECKS``. Unknown words are ignored."""
        off, on = _words(disabled), _words(enabled)
        return cls(IGNORED | _numbers(off), _numbers(on), bool({"all", "xids"} & off), bool({"all", "xids"} & on))

    @property
    def nothing(self) -> bool:
        """Whether no XID counts, so that no event is needed."""
        return self.all_disabled and not self.all_enabled and not self.enabled

    def is_critical(self, xid: int) -> bool:
        """Whether an XID makes its card unhealthy."""
        if self.all_enabled or xid in self.enabled:
            return True
        return not self.all_disabled and xid not in self.disabled


def _words(text: str) -> set[str]:
    return {word.strip() for word in text.lower().split(",")} - {""}


def _numbers(words: set[str]) -> frozenset[int]:
    return frozenset(int(word) for word in words if word.isascii() and word.isdigit())


class HealthWatch:
    """Reads the health of cards, each by itself.

    Args:
        nvml: The driver.
        policy: The XIDs that count.
        recovery_s: Seconds after its last critical error until an answering card counts as recovered; 0: never.
        clock: Monotonic seconds.

    Attributes:
        counts: XIDs by card and number since the agent's start, also those that do not count.
        answers: What is wrong with each card by its own answers to the last reading; empty: nothing.
        repairs: How each card replaces faulty memory, as last read.
    """

    def __init__(self, nvml: Nvml, policy: XidPolicy, recovery_s: float, clock: Callable[[], float]) -> None:
        self.counts: Counter[tuple[str, int]] = Counter()
        self.answers: dict[str, str] = {}
        self.repairs: dict[str, MemoryRepair] = {}
        self._nvml = nvml
        self._policy = policy
        self._recovery_s = recovery_s
        self._clock = clock
        self._critical: dict[str, dict[tuple[int | None, int | None], tuple[int, float]]] = {}
        self._logged: dict[tuple[str, int], tuple[float, int]] = {}

    def look(self, uuids: Sequence[str]) -> list[HealthChange]:
        """The current health of each card."""
        return [self._one(uuid) for uuid in uuids]

    def _one(self, uuid: str) -> HealthChange:
        problem = self.answers[uuid] = self._asked(uuid)
        if not problem:
            self._forget_old(uuid)
            problem = self.error_of(uuid)
        return HealthChange(uuid, healthy=not problem, reason=problem)

    def _asked(self, uuid: str) -> str:
        """The problem that a card's own answers show; empty if there is none."""
        try:
            if not self._policy.nothing:
                for event in self._nvml.events(uuid, MOST_EVENTS):
                    self._count(uuid, event)
            self._nvml.usage(uuid)
            repair = self.repairs[uuid] = self._nvml.memory_repair(uuid)
        except NvmlError as error:
            if error.code == ERROR_GPU_IS_LOST:  # the XID of it may be lost as well
                self._remember(uuid, CardEvent(OFF_THE_BUS))
            return str(error)
        return REMAP_FAILED if repair.failed else ""

    def _count(self, uuid: str, event: CardEvent) -> None:
        key = uuid, event.xid
        self.counts[key] += 1
        self._remember(uuid, event)
        now = self._clock()
        at, logged = self._logged.get(key, (-LOG_EVERY_S, 0))
        if now - at >= LOG_EVERY_S:
            critical = self._policy.is_critical(event.xid)
            write = log.warning if critical else log.info
            write("XID of a card", card=uuid, xid=event.xid, critical=critical, new=self.counts[key] - logged)
            self._logged[key] = now, self.counts[key]

    def _remember(self, uuid: str, event: CardEvent) -> None:
        if self._policy.is_critical(event.xid):
            place = event.gpu_instance, event.compute_instance
            self._critical.setdefault(uuid, {})[place] = event.xid, self._clock()

    def _forget_old(self, uuid: str) -> None:
        errors = self._critical.get(uuid)
        if errors and self._recovery_s:
            since = self._clock() - self._recovery_s
            self._critical[uuid] = {place: (xid, at) for place, (xid, at) in errors.items() if at > since}

    def error_of(self, uuid: str, gpu_instance: int | None = None, compute_instance: int | None = None) -> str:
        """The last critical error of a card or of one of its MIG instances; empty if there is none.

        An error of an instance is an error of its card, and of no other instance. An error of the card is an error of
        all its instances.

        Args:
            uuid: The card.
            gpu_instance: Only errors that concern this GPU instance; None: all errors of the card.
            compute_instance: Only errors that concern this compute instance; None: all errors of the GPU instance.
        """
        wanted = gpu_instance, compute_instance
        found = [
            (at, xid, place[0])
            for place, (xid, at) in self._critical.get(uuid, {}).items()
            if all(None in {own, want} or own == want for own, want in zip(place, wanted, strict=True))
        ]
        if not found:
            return ""
        _, xid, instance = max(found, key=lambda error: error[0])
        return f"critical error XID {xid}" + ("" if instance is None else f" in GPU instance {instance}")
