"""The command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import hami_interpose

ROOT = Path(hami_interpose.__file__).parent.parent


def call(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hami_interpose", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_path_is_the_library():
    found = call("path")
    assert found.returncode == 0
    assert Path(found.stdout.strip()).read_bytes()[:4] == b"\x7fELF"
    assert call("build-id").stdout.strip() == hami_interpose.build_id()
    assert len(hami_interpose.build_id()) == 16


def test_dump_shows_a_region(make_container, shells):
    container = make_container(4000)
    shell = shells(container)
    assert shell.status("alloc", 5000 << 20) == 2
    text = call("dump", container.region_path).stdout
    assert "420 MiB of 4,000 MiB" in text
    assert f"process {shell.process.pid}:" in text
    assert "exceed the limit" in text
    found = json.loads(call("dump", "--json", container.region_path).stdout)
    assert found["devices"][0]["limit_bytes"] == 4000 << 20


def test_dump_names_what_is_wrong(tmp_path):
    (tmp_path / "vgpu.cache").write_bytes(b"short")
    found = call("dump", tmp_path / "vgpu.cache")
    assert found.returncode == 1
    assert "vgpu.cache: at offset 5" in found.stderr
    assert "Traceback" not in found.stderr


def test_sim_runs_a_command_on_simulated_gpus(programs):
    found = call("sim", "--profile", "a100x2", "--", programs("fill"), 2048)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["total"] == 80 << 30
    assert call("sim", "--profile", "a100", "--", "/bin/sh", "-c", "exit 7").returncode == 7
    assert "profile" in call("sim", "--profile", "nothing", "--", "/bin/true").stderr
    assert call("sim", "--profile", "a100").returncode == 2
