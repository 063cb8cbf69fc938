"""``python -m hami_gpusim``."""

from __future__ import annotations

import subprocess
import sys


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "hami_gpusim", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=False)


COUNT = "import pynvml as n; n.nvmlInit(); print(n.nvmlDeviceGetCount())"


def test_runs_a_command_and_passes_its_status_on(tmp_path):
    done = command("--profile", "h100x2", "--", sys.executable, "-c", f"{COUNT}; raise SystemExit(5)")
    assert (done.returncode, done.stdout, done.stderr) == (5, "2\n", "")
    assert command("--profile", "t4", "--", "sh", "-c", "kill -9 $$").returncode == 137
    done = command("--profile", "a100x4", "--state", tmp_path / "s", "--", sys.executable, "-c", COUNT)
    assert (done.returncode, done.stdout) == (0, "4\n")
    done = command("--state", tmp_path / "s", "--", sys.executable, "-c", COUNT)
    assert (done.returncode, done.stdout) == (0, "4\n")


def test_mistakes_are_explained():
    known = "use <model> or <model>x<count> with a model of a100, a100-40g, b200, h100, h200, l40s, t4"
    assert f"unknown profile 'h1000': {known}" in command("--profile", "h1000", "--", "true").stderr
    none = command("--profile", "t4")
    assert (none.returncode, "write a command after --" in none.stderr) == (2, True)
    assert "No such file or directory: 'no-such-program'" in command("--profile", "t4", "--", "no-such-program").stderr
    assert "no state here; name a profile" in command("--state", "/nonexistent", "--", "true").stderr
