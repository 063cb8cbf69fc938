"""Tests can shift the wall clock of a whole process. Waiting times are not affected."""

import subprocess
import sys

import pytest

SHOW = """
import time
from hami_core import clock
print(clock.unix() - time.time(), clock.now().timestamp() - time.time())
"""


@pytest.mark.parametrize(("offset", "expected"), [("3600", 3600), ("-3600", -3600), ("", 0), (None, 0)])
def test_offset(monkeypatch, offset, expected):
    if offset is None:
        monkeypatch.delenv("HAMI_TEST_CLOCK_OFFSET", raising=False)
    else:
        monkeypatch.setenv("HAMI_TEST_CLOCK_OFFSET", offset)
    done = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True)
    assert [float(word) for word in done.stdout.split()] == pytest.approx([expected] * 2, abs=1)


def test_no_other_module_reads_the_wall_clock():
    """A second reader, in the core or in a vendor, would not shift with the others."""
    from pathlib import Path

    import hami_core

    root = Path(hami_core.__file__).parent
    parts = ("agent", "scheduler", "kube", "http", "inventory", "placement", "plugins", "wire", "vendorkit", "observe")
    found = [
        str(path)
        for part in parts
        for path in (root / part).rglob("*.py")
        if any(word in path.read_text() for word in ("time.time", "datetime.now", "utcnow"))
    ]
    assert found == []
