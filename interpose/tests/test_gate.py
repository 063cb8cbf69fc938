"""The place where launches wait, alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

GENERATED = Path(__file__).resolve().parent.parent / "generated"
pytestmark = pytest.mark.each_machine


def test_what_completes_just_after_a_look_is_not_waited_for(programs):
    done = subprocess.run(
        [programs("gate", "-D_GNU_SOURCE", f"-I{GENERATED}")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "0\n"
