"""Calls between files of libvgpu.so go down, by the order of the rooms; gen/calls.py reads them from object files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent.parent


def calls(*arguments: str) -> tuple[int, list[str]]:
    """The exit status and the lines of the command."""
    command = [sys.executable, str(HERE / "gen/calls.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def test_calls_go_down_and_not_in_circles() -> None:
    status, lines = calls()
    assert lines[1:] == []
    assert status == 0


def test_planted_call_to_an_upper_room_is_found(tmp_path: Path) -> None:
    for folder in ("src", "generated"):
        shutil.copytree(HERE / folder, tmp_path / folder)
    source = tmp_path / "src/ledger/ledger.c"
    planted = "void hami_compute_after_fork(void), planted(void);\nvoid planted(void) { hami_compute_after_fork(); }\n"
    source.write_text(source.read_text() + planted)
    status, lines = calls("--root", str(tmp_path))
    assert status == 1
    up = [line for line in lines if line.startswith("up: ")]
    assert len(up) == 1
    assert up[0].startswith("up: ledger/ledger -> compute/")
