"""The driver's own memory limits of cgroups (NVML of driver 615 and later), kept as the slices say.

They are a second lock below the interposer: they also hold for a program that does not load it. They come after the
container has started, because its cgroup must exist, and the interposer limits it from the start. Only hard limits are
set. A soft limit would reserve memory in the parents' cgroups, which the kernel keeps when the container's ends.

The driver's limit counts no managed memory (``cudaMallocManaged``), so the interposer's limit stays in force.
Source: NVIDIA's guide "MPS v3 memory partitioning", and nvml.h of CUDA 13.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from hami_nvidia.container_cgroups import containers, pod_folder, region_of
from hami_nvidia.nvml import (
    ERROR_FUNCTION_NOT_FOUND,
    ERROR_NOT_FOUND,
    ERROR_NOT_SUPPORTED,
    ERROR_UNKNOWN,
    NvmlError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hami_nvidia.nvml import Nvml

log = structlog.get_logger(__name__)

CHECK_INTERVAL_S: Final = 60.0
"""A limit that is set is compared with the driver's at this interval."""
_FIRST_DELAY_S: Final = 10.0
_LAST_DELAY_S: Final = 320.0
_UNABLE: Final = frozenset({-1, ERROR_NOT_SUPPORTED, ERROR_FUNCTION_NOT_FOUND})
"""NVML's answers of a driver, or a binding, without these limits."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A container, and what it may have of each card.

    Attributes:
        pod_uid: UID of its pod.
        region: End of its region's host path: the last two names.
        bytes_of: Bytes by card UUID.
    """

    pod_uid: str
    region: str
    bytes_of: Mapping[str, int]


@dataclass(slots=True)
class _State:
    """What is known of one container.

    Attributes:
        pod: Its pod's cgroup; None: not found yet.
        seen: The pod's children when the container's was last searched.
        cgroup: Its own cgroup; None: not found yet.
        confirmed: Cards on which the driver says that it holds the limit.
        due: When to look again.
        delay_s: Pause before the next attempt after a failure.
    """

    pod: Path | None = None
    seen: tuple[Path, ...] = ()
    cgroup: Path | None = None
    confirmed: set[str] = field(default_factory=set)
    due: float = float("-inf")
    delay_s: float = _FIRST_DELAY_S


class MemoryLimits:
    """See the module's text.

    Args:
        nvml: The driver.
        proc: The host's /proc.
        cgroups: Where the host's cgroup v2 is mounted.
        clock: Monotonic seconds.
    """

    def __init__(self, nvml: Nvml, proc: Path, cgroups: Path, clock: Callable[[], float]) -> None:
        self.failures = 0
        """Number of failed attempts to set a limit, since the start."""
        self._nvml = nvml
        self._proc = proc
        self._cgroups = cgroups
        self._clock = clock
        self._states: dict[str, _State] = {}
        self._told: set[str] = set()
        self._unable: dict[str, float] = {}

    def holds(self, record_id: str, card: str) -> bool:
        """Whether the driver limits a container's memory on a card."""
        state = self._states.get(record_id)
        return state is not None and card in state.confirmed

    def update(self, wanted: Mapping[str, Wanted]) -> None:
        """Compare the driver's limits with these, and set those that differ. Never raises.

        Args:
            wanted: Running containers by record id.
        """
        self._states = {name: self._states.get(name) or _State() for name in wanted}
        self._told &= wanted.keys()
        now = self._clock()
        if not wanted or not (self._cgroups / "cgroup.controllers").exists():
            return
        for name, one in wanted.items():
            sizes = {card: size for card, size in one.bytes_of.items() if now >= self._unable.get(card, now)}
            if sizes:
                self._look_after(name, one, sizes, now)

    def _look_after(self, name: str, wanted: Wanted, sizes: Mapping[str, int], now: float) -> None:
        state = self._states[name]
        self._find(state, wanted)
        if state.cgroup is None or now < state.due:
            return
        state.due, state.delay_s = now + CHECK_INTERVAL_S, _FIRST_DELAY_S
        problem = None
        for card, size in sizes.items():
            try:
                self._ensure(state, card, size)
            except NvmlError as error:
                state.confirmed.discard(card)
                if error.code in _UNABLE:
                    self._has_none(card, error, now)
                else:
                    problem = error
        if problem is not None:
            self._failed(name, state, problem, now)
        else:
            self._told.discard(name)

    def _has_none(self, card: str, error: NvmlError, now: float) -> None:
        """The driver has no limits on this card. It is asked again, since the driver may be replaced."""
        if card not in self._unable:
            log.info("the driver limits no memory on a card, so the interposer does", card=card, reason=str(error))
        self._unable[card] = now + _LAST_DELAY_S

    def _failed(self, name: str, state: _State, error: NvmlError, now: float) -> None:
        state.due, state.delay_s = now + state.delay_s, min(2 * state.delay_s, _LAST_DELAY_S)
        if error.code == ERROR_NOT_FOUND and state.cgroup is not None and not state.cgroup.exists():
            state.cgroup, state.seen = None, ()  # the container has ended or restarts
            return
        self.failures += 1
        if name not in self._told:
            log.warning("the driver does not limit a container's memory", record=name, error=str(error))
        self._told.add(name)

    def _find(self, state: _State, wanted: Wanted) -> None:
        """Find the container's cgroup. It is only searched when its pod's containers have changed."""
        if state.pod is None or not state.pod.is_dir():
            state.pod = pod_folder(self._cgroups, wanted.pod_uid)
        children = tuple(containers(state.pod)) if state.pod is not None else ()
        if children == state.seen and (state.cgroup is not None or not children):
            return
        found = next((child for child in children if region_of(child, self._proc) == wanted.region), None)
        if found != state.cgroup:
            state.confirmed.clear()
            state.due, state.delay_s = float("-inf"), _FIRST_DELAY_S
        state.cgroup, state.seen = found, children

    def _ensure(self, state: _State, card: str, size: int) -> None:
        """Set a card's limit unless the driver has it, and confirm it.

        Raises:
            NvmlError: The driver refuses.
        """
        path = str(state.cgroup).encode()
        if self._hard_limit(card, path) != size:
            state.confirmed.discard(card)
            handle = self._nvml.handle(card)
            with self._nvml.calling("nvmlDeviceSetMemoryLimits_v1", card) as nvml:
                nvml.nvmlDeviceSetMemoryLimits_v1(handle, nvml.c_nvmlSetMemoryLimits_v1_t(path, 0, size))
            if self._hard_limit(card, path) != size:
                raise NvmlError("nvmlDeviceSetMemoryLimits_v1", ERROR_UNKNOWN, "the driver keeps another limit", card)
        state.confirmed.add(card)

    def _hard_limit(self, card: str, path: bytes) -> int | None:
        """The limit in force in bytes; None: the driver has none for this cgroup, or no limits at all.

        Driver 615 answers "not supported" for a cgroup that never had a limit. So only setting one tells which it is.
        """
        handle = self._nvml.handle(card)
        try:
            with self._nvml.calling("nvmlDeviceGetMemoryLimits_v1", card) as nvml:
                found = nvml.c_nvmlGetMemoryLimits_v1_t(path, 0, 0, 0)
                nvml.nvmlDeviceGetMemoryLimits_v1(handle, found)
                return int(found.hardLimit)
        except NvmlError as error:
            if error.code == ERROR_NOT_SUPPORTED:
                return None
            raise
