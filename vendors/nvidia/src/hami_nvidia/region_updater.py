"""Updates the regions of running containers: the agent's heartbeat, HAMi's feedback, and host pids."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from hami_interpose import feedback as words_of
from hami_interpose.region import RegionError

from hami_core import Sample
from hami_nvidia.feedback import RESUMED, feedback, tenants_to_read
from hami_nvidia.regions import region_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hami_core import ContainerRef
    from hami_nvidia.feedback import Tenant
    from hami_nvidia.host_pids import HostPids

log = structlog.get_logger(__name__)

BEAT_INTERVAL_S: Final = 10.0
"""Interval of the heartbeat. Without one for a minute, libvgpu.so assumes that the agent is gone."""


LEAST_PAUSE_S: Final = 4.0
"""Least time between two looks. The agent also calls before each start of a container, and each look counts a
container's activity down."""


class RegionUpdater:
    """Updates the regions about every five seconds, which is the period of HAMi's monitor.

    Args:
        clock: Monotonic seconds.
        now: Unix seconds.
        host_pids: Writes host pids, together with each heartbeat.
    """

    def __init__(self, clock: Callable[[], float], now: Callable[[], float], host_pids: HostPids) -> None:
        self.skipped = 0
        """Number of updates that were skipped because a region was unusable, since the start."""
        self.suspended: dict[str, bool] = {}
        """Whether a container is suspended, by record id. Only containers of `tenants_to_read` are listed."""
        self.resting: frozenset[str] = frozenset()
        """Record ids of containers whose core limit rests. Their library accounts no device time."""
        self._clock = clock
        self._now = now
        self._host_pids = host_pids
        self._due = self._next_look = float("-inf")
        self._reported: set[str] = set()

    def update(self, tenants: Mapping[str, Tenant], region_dirs: Mapping[str, str]) -> None:
        """Read the regions of `tenants_to_read`, and write the feedback. With a heartbeat due, open all regions.

        A call within `LEAST_PAUSE_S` of the last look does nothing.

        Args:
            tenants: Live containers that have a region, by record id.
            region_dirs: Their regions' host folders.
        """
        if self._clock() < self._next_look:
            return
        self._next_look = self._clock() + LEAST_PAUSE_S
        beat = self._clock() >= self._due
        if beat:
            self._due = self._clock() + BEAT_INTERVAL_S
        to_read = tenants_to_read(tenants)
        self._reported &= tenants.keys()
        self._host_pids.keep(tenants)
        words = {}
        for name in tenants if beat else to_read:
            found = self._read(name, region_dirs[name], len(tenants) if beat else 0)
            if found is not None:
                words[name] = found
        wanted = feedback(tenants, {name: found for name, found in words.items() if name in to_read})
        for name, found in words.items():
            # A container that no longer needs feedback must not stay suspended.
            other = found if found.recent_kernel >= 0 else words_of.Words(found.utilization_switch, RESUMED)
            self._write(name, region_dirs[name], found, wanted.get(name, other))
        self.suspended = {name: found.recent_kernel < 0 for name, found in wanted.items()}
        self.resting = frozenset(name for name, found in wanted.items() if found.utilization_switch == 0)

    def _read(self, name: str, folder: str, beats: int) -> words_of.Words | None:
        """Read a region, and write heartbeat and host pids if they are due.

        Args:
            name: Record id.
            folder: Host folder of the region.
            beats: Number of regions that get a heartbeat now; 0: no heartbeat is due.
        """
        if not Path(folder).is_dir():
            return None  # the region is still being made
        try:
            with region_file(folder, write=beats > 0) as fd:
                found = words_of.read(fd)
                if beats:
                    offset, data = words_of.agent_beat(int(self._now()))
                    os.pwrite(fd, data, offset)
                    self._host_pids.look(name, fd, beats)
        except (OSError, RegionError) as error:
            self._skip(name, error)
            return None
        self._reported.discard(name)
        return found

    def _write(self, name: str, folder: str, old: words_of.Words, new: words_of.Words) -> None:
        writes = []
        if new.recent_kernel != old.recent_kernel:
            writes.append(words_of.recent_kernel(new.recent_kernel))
        if new.utilization_switch != old.utilization_switch:
            writes.append(words_of.utilization_switch(new.utilization_switch))
        if not writes:
            return
        try:
            with region_file(folder, write=True) as fd:
                words_of.read(fd)  # the container may have replaced the file in the meantime
                for offset, data in writes:
                    os.pwrite(fd, data, offset)
        except (OSError, RegionError) as error:
            self._skip(name, error)

    def _skip(self, name: str, error: Exception) -> None:
        self.skipped += 1
        if name not in self._reported:
            log.warning("skipping a container's unusable region", record=name, error=str(error))
        self._reported.add(name)

    def samples(self, node: str, records: Mapping[str, ContainerRef]) -> Iterable[Sample]:
        """Samples of suspended containers and of skipped regions."""
        yield Sample("hami_vgpu_region_skips_total", {"node": node}, float(self.skipped))
        for name, waits in self.suspended.items():
            if name in records:
                ref = records[name]
                labels = {"namespace": ref.namespace, "pod": ref.pod, "container": ref.container}
                yield Sample("hami_vgpu_suspended", labels, float(waits))
