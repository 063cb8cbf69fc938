"""The common main function of all parts: set up logging, print the ready line, run until a signal comes."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable

import orjson

End = Callable[[bool], Awaitable[None]]
"""Stops a part. The argument is True if the process that started it is gone: then nothing may be left behind."""
Start = Callable[[], Awaitable[tuple[str, End]]]
"""Starts a part. Returns its URL, which may be empty, and the function that stops it."""

PARENT_PIPE = "HAMI_SIM_PARENT_PIPE"
"""Environment variable, set if standard input is a pipe that closes with the process that started this part."""


def run(start: Start, name: str) -> None:
    """Runs one part until SIGTERM or SIGINT. Prints one JSON line on stdout once the part serves."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=f"%(asctime)s {name} %(levelname)s %(message)s")
    asyncio.run(_main(start))


async def _main(start: Start) -> None:
    stop, orphaned = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    def parent_gone() -> None:
        if not os.read(0, 1):
            loop.remove_reader(0)
            orphaned.set()
            stop.set()

    if os.environ.pop(PARENT_PIPE, ""):
        loop.add_reader(0, parent_gone)
    url, end = await start()
    sys.stdout.buffer.write(orjson.dumps({"ready": True, "url": url}) + b"\n")
    sys.stdout.flush()
    await stop.wait()
    await end(orphaned.is_set())
