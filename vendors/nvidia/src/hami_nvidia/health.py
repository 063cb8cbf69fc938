"""The health of cards: critical errors (XIDs) from the driver's events, and whether a card answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import HealthChange
from hami_nvidia.nvml import NvmlError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hami_nvidia.nvml import Nvml

log = structlog.get_logger(__name__)

IGNORED: Final = frozenset({13, 31, 43, 45, 68, 109})
"""XIDs that applications cause. They do not mean that the card is faulty."""


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


@dataclass(slots=True)
class HealthWatch:
    """Reads the health of cards.

    Args:
        nvml: The driver.
        policy: The XIDs that count.
        recovery_s: Seconds after its last critical error until an answering card counts as recovered; 0: never.
        clock: Monotonic seconds.
    """

    nvml: Nvml
    policy: XidPolicy
    recovery_s: float
    clock: Callable[[], float]
    _last_xid: dict[str, tuple[int, float]] = field(default_factory=dict)

    def look(self, uuids: Sequence[str]) -> list[HealthChange]:
        """The current health of each card."""
        problems = {} if self.policy.nothing else self._events(uuids)
        return [self._one(uuid, problems.get(uuid, "")) for uuid in uuids]

    def _events(self, uuids: Sequence[str]) -> dict[str, str]:
        try:
            failed = {uuid: str(error) for uuid, error in self.nvml.watch(uuids).items()}
            events = self.nvml.xids()
        except NvmlError as error:
            return dict.fromkeys(uuids, str(error))
        for uuid, xid in events:
            if not self.policy.is_critical(xid):
                log.info("ignoring an XID that applications cause", card=uuid, xid=xid)
                continue
            if not uuid:
                # If the card stops answering, that will show below. The other cards must stay healthy.
                log.warning("a critical error of an unknown card", xid=xid)
            else:
                self._last_xid[uuid] = (xid, self.clock())
        return failed

    def _one(self, uuid: str, problem: str) -> HealthChange:
        if not problem:
            try:
                self.nvml.usage(uuid)
            except NvmlError as error:
                problem = str(error)
        xid, at = self._last_xid.get(uuid, (0, 0.0))
        if xid and not problem:
            if self.recovery_s and self.clock() - at >= self.recovery_s:
                del self._last_xid[uuid]
            else:
                problem = f"critical error XID {xid}"
        return HealthChange(uuid, healthy=not problem, reason=problem)
