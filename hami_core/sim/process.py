"""What every part's process does alike: logging, the ready line, running until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable

import orjson

Start = Callable[[], Awaitable[tuple[str, Callable[[], Awaitable[None]]]]]
"""Starts a part; returns its URL (may be empty) and what stops it."""


def run(start: Start, name: str) -> None:
    """Runs one part until SIGTERM or SIGINT; prints one JSON line on stdout once it serves."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=f"%(asctime)s {name} %(levelname)s %(message)s")
    asyncio.run(_main(start))


async def _main(start: Start) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    url, end = await start()
    sys.stdout.buffer.write(orjson.dumps({"ready": True, "url": url}) + b"\n")
    sys.stdout.flush()
    await stop.wait()
    await end()
