"""A vendor's node side as the agent calls it: in worker threads, with time limits, one fault never more than one."""

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import structlog

from hami_core.agent.cdi import kind_of
from hami_core.errors import DeviceError, HamiError, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hami_core.model import (
        Advertisement,
        ContainerEdits,
        ContainerRef,
        Device,
        Family,
        HealthChange,
        MetricSpec,
        Sample,
        Slice,
    )

log = structlog.get_logger(__name__)

T = TypeVar("T")

ALLOCATE_S: Final = 10.0
DISCOVER_S: Final = 30.0
HEALTH_S: Final = 10.0
METRICS_S: Final = 10.0
_WORKERS: Final = 4


class NodeVendor(Protocol):
    """The node-side hooks of one vendor (`hami_core.hookspecs`), as plain methods that may raise."""

    @property
    def name(self) -> str:
        """Entry-point name."""
        ...

    @property
    def families(self) -> Sequence[Family]:
        """What it serves."""
        ...

    @property
    def metric_specs(self) -> Mapping[str, MetricSpec]:
        """What it measures, by metric name."""
        ...

    def discover(self) -> Sequence[Device]:
        """The devices of this node."""
        ...

    def advertise(self, devices: Sequence[Device]) -> Advertisement:
        """What to write on the node and offer to the kubelet."""
        ...

    def allocate(self, slices: tuple[Slice, ...], container: ContainerRef) -> ContainerEdits:
        """What one container needs."""
        ...

    def health(self, devices: Sequence[Device]) -> Sequence[HealthChange]:
        """How devices are now."""
        ...

    def release(self, container: ContainerRef) -> None:
        """Take back what `allocate` set up outside the edits."""
        ...

    def tend(
        self,
        records: Mapping[str, ContainerRef],
        slices: Mapping[str, tuple[Slice, ...]],
        region_dirs: Mapping[str, str],
    ) -> None:
        """Look after running containers."""
        ...

    def metrics(self, records: Mapping[str, ContainerRef], region_dirs: Mapping[str, str]) -> Sequence[Sample]:
        """Measure devices and containers."""
        ...


class Vendor:
    """One vendor's hooks as coroutines. Every failure is a `HamiError` with the hook's name in it."""

    def __init__(self, side: NodeVendor) -> None:
        self.name = side.name
        self.metric_specs = side.metric_specs
        self.families = {family.word: family for family in side.families}
        self.kind = kind_of(side.name)
        self.resources = frozenset(f.resources.count for f in side.families if f.resources.count)
        self.default_env: Mapping[str, str] = {}
        """What Allocate answers beside the name; a default that pod and CDI spec override."""
        self._side = side
        # Two pools: a driver call that hangs while devices are watched must not hold up a container's start.
        self._starts = ThreadPoolExecutor(_WORKERS, thread_name_prefix=f"{side.name}-start")
        self._watches = ThreadPoolExecutor(_WORKERS, thread_name_prefix=f"{side.name}-watch")

    def families_of(self, resource: str) -> frozenset[str]:
        """Common words whose count resource this is."""
        return frozenset(word for word, f in self.families.items() if f.resources.count == resource)

    async def discover(self) -> tuple[Device, ...]:
        """The devices of this node."""
        return tuple(await self._call(self._watches, "discover", DISCOVER_S, self._side.discover))

    async def advertise(self, devices: Sequence[Device]) -> Advertisement:
        """What to write on the node and offer to the kubelet."""
        found = await self._call(self._watches, "advertise", HEALTH_S, lambda: self._side.advertise(devices))
        self.default_env = dict(found.env)
        return found

    async def allocate(self, slices: tuple[Slice, ...], container: ContainerRef) -> ContainerEdits:
        """What one container needs."""
        return await self._call(self._starts, "allocate", ALLOCATE_S, lambda: self._side.allocate(slices, container))

    async def health(self, devices: Sequence[Device]) -> tuple[HealthChange, ...]:
        """How devices are now."""
        return tuple(await self._call(self._watches, "health", HEALTH_S, lambda: self._side.health(devices)))

    async def release(self, container: ContainerRef) -> None:
        """Take back what `allocate` set up outside the edits."""
        await self._call(self._starts, "release", ALLOCATE_S, lambda: self._side.release(container))

    async def tend(
        self,
        records: Mapping[str, ContainerRef],
        slices: Mapping[str, tuple[Slice, ...]],
        region_dirs: Mapping[str, str],
    ) -> None:
        """Look after running containers."""
        await self._call(self._watches, "tend", HEALTH_S, lambda: self._side.tend(records, slices, region_dirs))

    async def metrics(self, records: Mapping[str, ContainerRef], region_dirs: Mapping[str, str]) -> tuple[Sample, ...]:
        """Measure devices and containers."""
        call = self._call(self._watches, "metrics", METRICS_S, lambda: self._side.metrics(records, region_dirs))
        return tuple(await call)

    async def _call(self, pool: ThreadPoolExecutor, hook: str, limit_s: float, call: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(limit_s):
                return await loop.run_in_executor(pool, contextvars.copy_context().run, call)
        except TimeoutError as error:
            raise DeviceError(f"{self.name}: {hook} did not answer within {limit_s:g} s") from error
        except (RequestError, DeviceError):
            raise
        except HamiError as error:
            raise DeviceError(f"{self.name}: {hook}: {error}") from error
        except Exception as error:
            log.exception("a vendor's hook failed", vendor=self.name, hook=hook)
            raise DeviceError(f"{self.name}: {hook} failed: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Let the worker threads end; one that hangs is not waited for."""
        for pool in (self._starts, self._watches):
            pool.shutdown(wait=False, cancel_futures=True)
