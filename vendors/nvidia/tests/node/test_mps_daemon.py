"""``python -m hami_nvidia.mps`` keeps the MPS control daemon running. A stand-in plays NVIDIA's program."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import hami_gpusim as sim
import pytest

pytestmark = pytest.mark.timeout(60)
COMMAND = (sys.executable, "-m", "hami_nvidia.mps")


class Supervised:
    """The supervisor as a process."""

    def __init__(self, mps, **settings):
        fast = {"CHECK_INTERVAL_S": 0.2, "ANSWER_LIMIT_S": 1, "FIRST_PAUSE_S": 0.1, "QUIT_LIMIT_S": 1}
        told = {f"HAMI_MPS_{name}": str(value) for name, value in {**fast, **settings}.items()}
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HAMI_MPS_")},
            "HAMI_MPS_DIR": str(mps.folder),
            "HAMI_MPS_CONTROL": str(mps.control),
            **told,
        }
        self.file = mps.folder.parent / "supervisor.log"
        with self.file.open("wb") as file:
            self.process = subprocess.Popen(COMMAND, env=self.env, stderr=file)

    def events(self, text):
        """Log lines whose event contains a text."""
        lines = [json.loads(line) for line in self.file.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if text in line["event"]]

    def until(self, what):
        due = time.monotonic() + 40
        while not what():
            assert time.monotonic() < due, self.file.read_text()
            time.sleep(0.02)

    def answers(self, times=1):
        self.until(lambda: len(self.events("daemon answers")) >= times)

    def check(self):
        return subprocess.run([*COMMAND, "check"], env=self.env, capture_output=True, text=True, check=False)

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(30)


@pytest.fixture
def supervise(mps):
    """Run the supervisor; it is ended with the test."""

    @contextmanager
    def run(**settings):
        made = Supervised(mps, **settings)
        try:
            yield made
        finally:
            if made.process.poll() is None:
                made.stop()

    return run


def test_daemon_runs_from_start_to_quit(supervise, mps):
    shutil.rmtree(mps.folder)
    with supervise() as supervisor:
        supervisor.answers()
        assert supervisor.check().returncode == 0
        modes = {path.name: oct(path.stat().st_mode & 0o7777) for path in mps.folder.iterdir()}
        assert modes == {"pipe": "0o755", "log": "0o755", "shm": "0o1777"}
        assert supervisor.stop() == 0
        assert "Exit" in (mps.folder / "log/control.log").read_text(), "it was asked to quit"
    assert mps.ask().returncode == 1
    assert supervisor.check().returncode == 1
    assert "no MPS control daemon answers" in supervisor.check().stderr


def test_defaults_of_the_environment_reach_the_daemon(mps, supervise, monkeypatch):
    monkeypatch.setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "40")
    with supervise() as supervisor:
        supervisor.answers()
        assert supervisor.events("daemon answers")[0]["default_active_thread_percentage"] == 40.0
        assert mps.ask().stdout == "40.0\n"


def test_several_users_are_served_if_asked(mps, supervise):
    with supervise(MULTIUSER="true") as supervisor:
        supervisor.answers()
        assert "-f --multiuser-server" in (mps.folder / "log/control.log").read_text()


def test_a_killed_daemon_is_started_again(supervise, mps):
    with supervise() as supervisor:
        supervisor.answers()
        first = mps.pid()
        os.kill(first, signal.SIGKILL)
        supervisor.answers(2)
        assert mps.pid() != first
        (ended,) = supervisor.events("starting it again")
        assert ended["status"] == -signal.SIGKILL


def test_a_daemon_that_fails_is_tried_with_growing_pauses(supervise, mps):
    mps.fault("fails")
    with supervise() as supervisor:
        supervisor.until(lambda: len(supervisor.events("starting it again")) >= 3)
        assert [line["retry_s"] for line in supervisor.events("starting it again")][:3] == [0.1, 0.2, 0.4]
        mps.fault("")
        supervisor.answers()
        assert "Failed to start" in supervisor.file.read_text(), "the daemon's own words are in the log"


def test_a_daemon_that_never_listens_is_started_again(supervise, mps):
    mps.fault("deaf")
    with supervise(START_LIMIT_S=0.5) as supervisor:
        supervisor.until(lambda: supervisor.events("does not come up"))
        assert "no MPS control daemon answers" in supervisor.events("does not come up")[0]["problem"]
        mps.fault("")
        supervisor.answers()


@pytest.mark.parametrize("fault", ["hang", "rubbish", "refuse"])
def test_a_daemon_with_clients_is_left_running_when_it_fails(supervise, mps, fault):
    with supervise() as supervisor:
        supervisor.answers()
        before = mps.pid()
        mps.fault(fault)
        supervisor.until(lambda: supervisor.events("no longer answers"))
        assert supervisor.check().returncode == 1
        mps.fault("")
        supervisor.until(lambda: supervisor.events("answers again"))
        assert mps.pid() == before
        assert len(supervisor.events("no longer answers")) == 1


@pytest.mark.parametrize(("fault", "status"), [("busy", 0), ("stuck", -signal.SIGKILL), ("hang", -signal.SIGKILL)])
def test_quit_has_a_time_limit(supervise, mps, fault, status):
    with supervise() as supervisor:
        supervisor.answers()
        mps.fault(fault)
        assert supervisor.stop() == 0
        assert supervisor.events("daemon has ended")[-1]["status"] == status


def test_sigterm_ends_a_supervisor_that_pauses(supervise, mps):
    mps.fault("fails")
    with supervise(FIRST_PAUSE_S=50) as supervisor:
        supervisor.until(lambda: supervisor.events("starting it again"))
        assert supervisor.stop() == 0


def test_a_second_supervisor_does_not_harm_the_first(supervise, mps):
    with supervise() as supervisor:
        supervisor.answers()
        before = mps.pid()
        second = Supervised(mps)
        second.until(lambda: second.events("starting it again"))
        second.process.kill()
        second.process.wait()
        assert mps.pid() == before
        assert supervisor.check().returncode == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"CONTROL": "/nowhere/control"}, "set HAMI_MPS_DRIVER_ROOT or HAMI_MPS_CONTROL"),
        ({"DIR": "/proc/mps"}, "can't make the folders below /proc/mps"),
        ({"DIR": "/tmp/" + "long/" * 25}, "is too long for a socket"),
        ({"QUIT_LIMIT_S": 0}, "HAMI_MPS_QUIT_LIMIT_S"),
        ({"EXCLUSIVE": "true", "NVML_LIBRARY": "/nowhere/libnvidia-ml.so.1"}, "/nowhere/libnvidia-ml.so.1"),
    ],
)
def test_what_an_administrator_got_wrong_is_named(mps, settings, words):
    made = Supervised(mps, **settings)
    assert made.process.wait(30) == 1
    assert words in made.file.read_text()


def test_exclusive_sets_the_compute_mode_of_shared_cards_only(supervise, state, nvml):
    state.set_modes(1, compute="prohibited")
    with supervise(EXCLUSIVE="true", NVML_LIBRARY=sim.library_dir() / "libnvidia-ml.so.1") as supervisor:
        supervisor.answers()
        assert [line["card"] for line in supervisor.events("EXCLUSIVE_PROCESS")] == [nvml.cards()[0][0].uuid]
    assert [card.modes.compute for card in nvml.cards()[0]] == [3, 2]


def test_compute_modes_are_left_alone_without_the_setting(supervise, state, nvml):
    with supervise(NVML_LIBRARY=sim.library_dir() / "libnvidia-ml.so.1") as supervisor:
        supervisor.answers()
    assert [card.modes.compute for card in nvml.cards()[0]] == [0, 0]


INSIDE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char path[4096];
    snprintf(path, sizeof path, "%s/ran", getenv("CUDA_MPS_PIPE_DIRECTORY"));
    if (argc > 1) { /* -f: leave a mark in the folder that the root shows */
        (void)argv;
        FILE *file = fopen(path, "w");
        if (file == NULL || fclose(file) != 0) {
            return 3;
        }
        return pause();
    }
    char line[64] = "";
    if (access(path, F_OK) != 0 || fgets(line, sizeof line, stdin) == NULL) {
        return 1;
    }
    puts("100.0");
    return 0;
}
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change its root folder")
def test_daemon_has_the_drivers_root_as_its_own(mps, supervise, tmp_path):
    root = tmp_path / "driver"
    (root / "usr/bin").mkdir(parents=True)
    (root / "etc").mkdir()
    source = tmp_path / "inside.c"
    source.write_text(INSIDE)
    program = root / "etc/control"
    built = subprocess.run(["cc", "-static", "-o", program, source], capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(f"no static program can be built: {built.stderr[-200:]}")
    (root / "usr/bin/nvidia-cuda-mps-control").symlink_to("/etc/control")
    inside = root / mps.folder.relative_to("/")
    (inside / "pipe").mkdir(parents=True)
    control = "/usr/bin/nvidia-cuda-mps-control"
    with supervise(DRIVER_ROOT=root, CONTROL=control) as supervisor:
        supervisor.answers()
        assert (inside / "pipe/ran").exists()
        assert not (mps.folder / "pipe/ran").exists()
