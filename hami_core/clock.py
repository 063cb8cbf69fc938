"""The wall clock. No other module reads it.

It gives the time for events, leases, certificates and records, and for the age of node locks and of turns on serial
nodes, which other processes wrote. Waiting times are measured with a monotonic clock. Tests of a wrong clock shift this
clock with an environment variable.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from typing import Final

OFFSET: Final = "HAMI_TEST_CLOCK_OFFSET"
"""Seconds by which this process's clock is ahead (negative: behind). For tests only."""
_offset = float(os.environ.get(OFFSET) or 0)


def unix() -> float:
    """Return the time as Unix seconds."""
    return time.time() + _offset


def now() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC) + timedelta(seconds=_offset)
