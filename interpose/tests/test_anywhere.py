"""Programs of any user, and in a container where nothing but the region can be written."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import hami_gpusim as sim
import hami_interpose
import pytest
from hami_interpose import region

MIB = 1 << 20
OUT_OF_MEMORY = 2
NOBODY = 65534
LIMIT = 4000
WITHOUT_WRITING = """
mount -o remount,bind,ro / || exit 11
for place in "$BELOW" /tmp /dev/shm /var/tmp; do
    if mountpoint -q "$place"; then mount -o remount,bind,ro "$place" || exit 12; fi
done
for place in / "$BELOW" /tmp /dev/shm /var/tmp; do
    if ( : > "$place/probe" ) 2>/dev/null; then exit 13; fi
done
exec "$@"
"""


def for_anybody(folder: str) -> bool:
    """Whether every user finds what lies there."""
    found = Path(folder).resolve()
    return found.is_dir() and all(place.stat().st_mode & stat.S_IXOTH for place in [found, *found.parents])


@pytest.fixture
def tmp_path():
    """Where anybody may look, as pytest's own folders are not, nor what TMPDIR may say."""
    places = [place for place in (tempfile.gettempdir(), "/tmp", "/var/tmp") if for_anybody(place)]
    if not places:
        pytest.skip("no temporary folder is open to all users")
    with tempfile.TemporaryDirectory(dir=places[0]) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def fill(make_container, programs, tmp_path, gpus):
    """A container whose program and libraries anybody may use, with the region as the agent makes it."""
    container = make_container(LIMIT)
    program = shutil.copy(programs("fill"), tmp_path / "fill")
    libraries = shutil.copytree(hami_interpose.library().parent, tmp_path / "lib")
    environment = container.environment()
    environment["LD_LIBRARY_PATH"] = str(shutil.copytree(sim.library_dir(), tmp_path / "driver"))
    environment["LD_PRELOAD"] = environment["LD_PRELOAD"].replace(str(hami_interpose.library().parent), str(libraries))
    for path in [gpus, *gpus.rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0o666)
    container.region_path.chmod(0o666)

    def run(*command, **how):
        everything = [*map(str, command), str(program), "64"]
        done = subprocess.run(everything, env=environment, capture_output=True, text=True, check=False, **how)
        assert (done.returncode, done.stderr) == (0, ""), done
        found = json.loads(done.stdout)
        assert (found["total"], found["status"], found["again_status"]) == (LIMIT * MIB, OUT_OF_MEMORY, OUT_OF_MEMORY)
        assert found["count"] == found["again"] > 0
        return found["count"]

    run.container, run.environment = container, environment
    return run


@pytest.fixture
def as_nobody(fill):
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    return lambda: fill(user=NOBODY, group=NOBODY, extra_groups=[])


def test_other_user_gets_the_same_limit(fill, as_nobody):
    assert as_nobody() == fill()
    [device] = fill.container.region().devices
    assert device.used_bytes == 0
    assert device.peak_bytes > (LIMIT - 64) * MIB
    assert device.denied == 4


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_region_that_one_user_makes_is_for_all(fill, as_nobody, tmp_path, umask):
    """Without a limits folder the first program makes it, whatever its umask."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    cache = shared / "cache"
    fill.environment["HAMI_VGPU_ROOT"] = ""
    fill.environment["CUDA_DEVICE_MEMORY_LIMIT_0"] = f"{LIMIT}m"
    fill.environment["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = str(cache)
    first = fill(umask=umask)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o666
    assert as_nobody() == first
    assert region.read(cache).devices[0].denied == 4


def test_limit_holds_where_only_the_region_is_writable(fill, gpus):
    """Neither the root nor /tmp. The simulated driver keeps its cards in files, which stand for the device."""
    apart = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace can be made here")
    writable = [fill.container.region_path.parent, gpus]
    fill.environment["BELOW"] = str(next(path for path in gpus.parents if path.is_mount()))
    script = "".join(f"mount --bind {path} {path} || exit 10\n" for path in writable) + WITHOUT_WRITING
    assert fill(*apart, "sh", "-c", script, "sh") > 0
    assert fill.container.region().devices[0].peak_bytes > (LIMIT - 64) * MIB
