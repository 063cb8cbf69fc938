"""Calls a vendor's node side in worker threads, with a time limit for each hook."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import structlog

from hami_core.agent.cdi import kind_of
from hami_core.errors import ConfigError, DeviceError, HamiError, RequestError
from hami_core.plugins.call import InThreads
from hami_core.plugins.hooks import NodeHooks

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from hami_core.plugins.call import Hook, P, R
    from hami_core.plugins.vendor import LoadedVendor

log = structlog.get_logger(__name__)

_WORKERS: Final = 4


class Vendor(NodeHooks, InThreads):
    """One vendor's hooks as coroutines. Every failure becomes a `HamiError` that names the hook."""

    def __init__(self, side: LoadedVendor) -> None:
        self.name = side.name
        self.metric_specs = side.metric_specs
        self.families = {family.word: family for family in side.families}
        self.kind = kind_of(side.name)
        self.resources = frozenset(f.resources.count for f in side.families if f.resources.count)
        self.default_env: Mapping[str, str] = {}
        """Environment that Allocate answers beside the name, as last advertised. Pod and CDI spec override it."""
        self._side = side
        self._pools = {
            pool: ThreadPoolExecutor(_WORKERS, thread_name_prefix=f"{side.name}-{pool}") for pool in ("start", "watch")
        }

    def families_of(self, resource: str) -> frozenset[str]:
        """Words of the families that are counted by this resource."""
        return frozenset(word for word, f in self.families.items() if f.resources.count == resource)

    def of(self, hook: Hook[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
        """A coroutine function that runs the hook in a thread of its pool, within its time limit."""
        call: Callable[P, R] = getattr(self._side, hook.name)

        async def call_hook(*args: P.args, **kwargs: P.kwargs) -> R:
            return await self._in_thread(hook, functools.partial(call, *args, **kwargs))

        return call_hook

    async def _in_thread(self, hook: Hook[..., R], call: Callable[[], R]) -> R:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(hook.limit_s):
                return await loop.run_in_executor(self._pools[hook.pool], contextvars.copy_context().run, call)
        except TimeoutError as error:
            raise DeviceError(f"{self.name}: {hook.name} did not answer within {hook.limit_s:g} s") from error
        except (RequestError, DeviceError, ConfigError):
            raise
        except HamiError as error:
            raise DeviceError(f"{self.name}: {hook.name}: {error}") from error
        except Exception as error:
            log.exception("a vendor's hook failed", vendor=self.name, hook=hook.name)
            raise DeviceError(f"{self.name}: {hook.name} failed: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Stop the worker threads without waiting for a thread that hangs."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
