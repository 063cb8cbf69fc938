"""What a call costs, in instructions: times depend on the machine's other work, these do not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent.parent / "bench"
sys.path.insert(0, str(BENCH))

import instructions  # noqa: E402 - beside the benchmark, which is no package


@pytest.mark.skipif(bool(instructions.available()), reason=instructions.available() or "valgrind is there")
def test_hot_calls_take_no_more_instructions_than_stored():
    done = subprocess.run([sys.executable, BENCH / "instructions.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    calls = len(json.loads(instructions.STORED.read_text()))
    assert (calls, len(done.stdout.splitlines())) == (5, 7)
