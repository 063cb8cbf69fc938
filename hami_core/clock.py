"""The wall clock, read here and nowhere else.

It says what time it is, in events, leases, certificates and records, and judges the age of marks others left: node
locks and turns on serial nodes. What must be waited for is measured with a monotonic clock. Tests of what a wrong clock
does move it with an environment variable; nothing else should.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from typing import Final

OFFSET: Final = "HAMI_TEST_CLOCK_OFFSET"
"""Seconds this process's clock is ahead (negative: behind). For tests alone."""
_offset = float(os.environ.get(OFFSET) or 0)


def unix() -> float:
    """Seconds since 1970."""
    return time.time() + _offset


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC) + timedelta(seconds=_offset)
