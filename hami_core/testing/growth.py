"""Find hooks that keep memory: count the bytes that stay allocated after thousands of different calls."""

from __future__ import annotations

import contextlib
import gc
import time
import tracemalloc
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hami_core.errors import HamiError
from hami_core.model import Allocation, ContainerSpec, DeviceUsage, NodeFacts, PodFacts, Request, Slice

if TYPE_CHECKING:
    from collections.abc import Callable

WARM_UP_CALLS: Final = 250
MOST_CALLS: Final = 4000
"""Calls after which every bounded cache is taken to be full. `functools.lru_cache` holds 128 entries by default."""

BYTES_A_CALL: Final = 6
"""Growth in bytes per call from which a hook is taken to keep memory. One more entry in a list takes 8 bytes."""

CPU_LIMIT_S: Final = 3.0
"""Processor time after which the search gives up. The budget suite finds hooks that are this slow."""


def kept_memory(call: partial[Any], package: str) -> str:
    """Call a hook many times, each time with a new pod, container, node or amount.

    Args:
        call: The hook with typical arguments.
        package: Folder of the vendor's package. The answer names a line of it.

    Returns:
        What the hook keeps and where; empty if twice as many calls keep no more.
    """
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        return _kept_memory(call, package)
    finally:
        if not tracing:
            tracemalloc.stop()


def _kept_memory(call: partial[Any], package: str) -> str:
    end = time.process_time() + CPU_LIMIT_S
    done = _repeat(call, 0, WARM_UP_CALLS)
    before = _allocated()
    growth = 0.0
    while done < MOST_CALLS:
        first, done = done, _repeat(call, done, done)
        after = _allocated()
        growth = (after - before) / (done - first)
        if growth < BYTES_A_CALL or time.process_time() > end:
            return ""
        before = after
    start = tracemalloc.take_snapshot()
    _repeat(call, done, WARM_UP_CALLS)
    lines = tracemalloc.take_snapshot().compare_to(start, "lineno")
    mine = [line for line in lines if line.size_diff > 0 and line.traceback[0].filename.startswith(package)]
    where = f", allocated at {mine[0].traceback[0].filename}:{mine[0].traceback[0].lineno}" if mine else ""
    return f"keeps {growth:.0f} bytes of each call for ever{where}"


def _repeat(call: partial[Any], start: int, count: int) -> int:
    for number in range(start, start + count):
        fresh = partial(call.func, *[_varied(argument, number) for argument in call.args])
        _ignore_errors(fresh)
    return start + count


def _varied(argument: Any, number: int) -> Any:  # noqa: ANN401 - any argument of a hook
    """A copy of the argument that describes another pod, container, node or use of the device."""
    if isinstance(argument, PodFacts):
        return replace(argument, name=f"pod-{number}", uid=f"uid-{number}", annotations=dict(argument.annotations))
    if isinstance(argument, ContainerSpec):
        return replace(argument, name=f"container-{number}", limits=dict(argument.limits))
    if isinstance(argument, NodeFacts):
        return replace(argument, name=f"node-{number}", annotations=dict(argument.annotations))
    if isinstance(argument, DeviceUsage):
        return replace(argument, used_memory_mib=number % (argument.device.memory_mib + 1))
    if isinstance(argument, tuple):
        return tuple(_varied(item, number) for item in argument)
    if isinstance(argument, Request | Slice | Allocation):
        return replace(argument)
    return argument


def _ignore_errors(call: Callable[[], Any]) -> None:
    with contextlib.suppress(HamiError):  # other tests check the hook's answer
        call()


def _allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
