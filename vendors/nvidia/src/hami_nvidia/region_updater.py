"""Looking after running containers: the agent's sign of life in their regions, HAMi's feedback, pids on the host."""

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
"""libvgpu.so takes an agent that is silent for a minute for gone."""


class RegionUpdater:
    """Looks at containers whenever asked, every five seconds in HAMi's monitor.

    Args:
        clock: Monotonic seconds.
        now: Unix seconds.
        host_pids: Names processes, as often as the sign of life is given.
    """

    def __init__(self, clock: Callable[[], float], now: Callable[[], float], host_pids: HostPids) -> None:
        self.skipped = 0
        """Looks at a region that was none, since the start."""
        self.suspended: dict[str, bool] = {}
        """Of the containers whom priorities concern: whether it waits, by record id."""
        self._clock = clock
        self._now = now
        self._host_pids = host_pids
        self._due = float("-inf")
        self._reported: set[str] = set()

    def update(self, tenants: Mapping[str, Tenant], region_dirs: Mapping[str, str]) -> None:
        """Read the regions of those tenants_to_read, and write what is to be. Nothing is opened where nobody is.

        Args:
            tenants: Live containers that have a region, by record id.
            region_dirs: Their regions' host folders.
        """
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
            # Whom nothing concerns any more must not be left waiting.
            other = found if found.recent_kernel >= 0 else words_of.Words(found.utilization_switch, RESUMED)
            self._write(name, region_dirs[name], found, wanted.get(name, other))
        self.suspended = {name: found.recent_kernel < 0 for name, found in wanted.items()}

    def _read(self, name: str, folder: str, beats: int) -> words_of.Words | None:
        """Read a region; `beats`: to how many the sign of life is given now, 0: to none."""
        if not Path(folder).is_dir():
            return None  # it is still being made
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
                words_of.read(fd)  # it may have become another file since
                for offset, data in writes:
                    os.pwrite(fd, data, offset)
        except (OSError, RegionError) as error:
            self._skip(name, error)

    def _skip(self, name: str, error: Exception) -> None:
        self.skipped += 1
        if name not in self._reported:
            log.warning("a container's region can't be used, it is passed over", record=name, error=str(error))
        self._reported.add(name)

    def samples(self, node: str, records: Mapping[str, ContainerRef]) -> Iterable[Sample]:
        """Who waits, and what could not be looked at."""
        yield Sample("hami_vgpu_region_skips_total", {"node": node}, float(self.skipped))
        for name, waits in self.suspended.items():
            if name in records:
                ref = records[name]
                labels = {"namespace": ref.namespace, "pod": ref.pod, "container": ref.container}
                yield Sample("hami_vgpu_suspended", labels, float(waits))
