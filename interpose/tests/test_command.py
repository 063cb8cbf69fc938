"""The command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import hami_gpusim
import hami_interpose
import pytest
from hami_interpose import _region_layout as at
from hami_interpose import region
from hami_interpose.limits import DeviceLimit, Limits

ROOT = Path(hami_interpose.__file__).parent.parent


def call(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hami_interpose", *map(str, arguments)]
    environment = os.environ | variables
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_path_is_the_library():
    found = call("path")
    assert found.returncode == 0
    assert Path(found.stdout.strip()).read_bytes()[:4] == b"\x7fELF"
    assert call("build-id").stdout.strip() == hami_interpose.build_id()
    assert len(hami_interpose.build_id()) == 16


# ---- dump ----


def test_dump_shows_a_region(started):
    container, shell = started(4000)
    before = time.time()
    assert shell.status("alloc", 5000 << 20) == 2
    done = call("dump", container.region_path)
    assert (done.returncode, done.stderr) == (0, "")
    text = done.stdout
    assert "420 MiB of 4,000 MiB" in text
    assert f"library build {hami_interpose.build_id()}" in text
    assert f"process {shell.process.pid}: 420 MiB ({Path(shell.process.args[0]).name[:15]})" in text
    refused = re.search(
        r"last refusal: 5,242,880,000 bytes on device 0, (\d+) s ago \(.* UTC\): .* exceed the limit", text
    )
    assert refused, text
    assert int(refused[1]) <= time.time() - before + 2
    found = json.loads(call("dump", "--json", container.region_path).stdout)
    assert found["devices"][0]["limit_bytes"] == 4000 << 20
    assert (found["reason_device"], found["reason_bytes"]) == (0, 5000 << 20)


COMPUTE = {
    "charged": 61 * 10**9,
    "waited": 2_500_000_000,
    "longest_wait": 120_000_000,
    "grants": 1234,
    "timeouts": 5,
    "turns": 678,
    "turn_timeouts": 9,
    "estimated": 300_000,
}


def test_dump_shows_every_figure_of_compute(tmp_path):
    limits = Limits((DeviceLimit("GPU-1", 1 << 30, 1 << 30, 30), DeviceLimit("GPU-2", 0, 0)))
    content, beat = bytearray(region.initial(limits)), int(time.time()) - 7
    compute = at.Compute.from_buffer(content, at.COMPUTE_OFFSET)
    compute.agent_beat = beat
    for name, value in COMPUTE.items():
        setattr(compute.devices[0], name, value)
    (tmp_path / "vgpu.cache").write_bytes(content)
    lines = call("dump", tmp_path / "vgpu.cache").stdout.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("device 0 GPU-1: 0 MiB of 1,024 MiB"))
    assert [line.strip() for line in lines[first + 1 : first + 4]] == [
        "compute: limit 30 %, 61.0 s charged, 300.0 µs of it by estimate",
        "1,234 grants, 678 turns; launches waited 2.5 s in all, 120.0 ms at most",
        "given up: 5 waits for a completion, 9 for a turn",
    ]
    assert lines[first + 4].startswith("device 1 GPU-2: 0 MiB of no limit")
    assert lines[first + 5].strip().startswith("compute: no limit")
    assert re.search(r"^an agent last looked ([7-9]|\d\d) s ago", "\n".join(lines), re.MULTILINE)
    assert lines[-1] == "no process"
    found = json.loads(call("dump", "--json", tmp_path / "vgpu.cache").stdout)
    assert found["devices"][0]["compute"] == COMPUTE
    assert found["agent_heartbeat"] == beat


def test_dump_splits_memory_by_kind_and_place(started):
    container, shell = started(4000, physical_mib=1000)
    assert shell.status("image", 50 << 20) == 0
    assert shell.status("alloc", 1000 << 20) == 0
    device = container.region().devices[0]
    host, reserve = device.oversubscription, device.context_bytes >> 20
    assert host.used_bytes > 0
    text = call("dump", container.region_path).stdout
    assert f"of that {reserve} MiB in contexts, 50 MiB in code, 1,000 MiB in buffers\n" in text
    assert (
        f"of that in host memory: {host.used_bytes >> 20:,} MiB of 3,000 MiB (peak {host.peak_bytes >> 20:,})" in text
    )


def test_dump_finds_the_region_of_the_container_it_runs_in(make_container, tmp_path):
    container = make_container(4000)
    uuid = container.limits.devices[0].uuid
    for arguments in ([], ["-"]):
        assert uuid in call("dump", *arguments, HAMI_VGPU_ROOT=str(container.root)).stdout
        assert uuid in call("dump", *arguments, "--root", container.root).stdout
    missing = call("dump", "--root", tmp_path / "nothing")
    assert missing.returncode == 1
    assert missing.stderr.endswith(f"No such file or directory: '{tmp_path}/nothing/region/vgpu.cache'\n")


@pytest.mark.parametrize("pipe", [False, True])
@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_dump_names_file_place_and_problem_in_one_line(tmp_path, arguments, pipe):
    path = tmp_path / "vgpu.cache"
    os.mkfifo(path) if pipe else path.write_bytes(b"short")
    found = call("dump", *arguments, path)
    what = r"0: not a regular file" if pipe else r"5: .*this file has 5 bytes.*"
    assert (found.returncode, found.stdout) == (1, "")
    assert re.fullmatch(f"hami_interpose: {path}: at offset {what}\n", found.stderr), found.stderr


def test_command_line_explains_itself():
    assert "on the node: any container's" in call("dump", "--help").stdout
    assert all(word in call("--help").stdout for word in ("path", "build-id", "dump", "top", "check"))
    assert call("dump", "--bogus").returncode == call("bogus").returncode == call().returncode == 2


# ---- old names of simulated GPUs ----


def test_sim_forwards_to_hami_gpusim():
    found = call("sim", "--profile", "a100", "--", "/bin/sh", "-c", "exit 7")
    assert found.returncode == 7
    assert "DeprecationWarning: python -m hami_interpose sim is deprecated: use python -m hami_gpusim" in found.stderr


def test_old_python_names_forward_to_hami_gpusim():
    with pytest.warns(DeprecationWarning, match=r"hami_interpose\.sim is deprecated: use hami_gpusim"):
        from hami_interpose.sim import State, create
    assert (State, create) == (hami_gpusim.State, hami_gpusim.create)
    with pytest.warns(DeprecationWarning, match=r"use hami_gpusim\.library_dir"):
        assert hami_interpose.sim_library_dir() == hami_gpusim.library_dir()


def test_without_hami_gpusim_old_names_say_what_to_install():
    hidden = "import sys; sys.modules['hami_gpusim'] = None; "
    command = "from hami_interpose.__main__ import main; sys.exit(main(['sim', '--profile', 'a100', '--', 'true']))"
    for script in (command, "import hami_interpose.sim", "import hami_interpose; hami_interpose.sim_library_dir()"):
        done = subprocess.run([sys.executable, "-c", hidden + script], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "simulated GPUs need hami-gpusim: run `pip install hami-gpusim`" in done.stderr
