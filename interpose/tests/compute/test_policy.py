"""HAMi's policies, priorities and switches, live changes, and what readers of the region see."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import hami_gpusim as sim
import pytest
from hami_interpose import region, turn
from hami_interpose.limits import CorePolicy, DeviceLimit, Limits, Mode

from .cells import CLOCK_STARTS, Tenant
from .judge import faults

UTILIZATION_SWITCH, RECENT_KERNEL, LAST_KERNEL_TIME = 2008900, 2008904, 2008912


@pytest.mark.parametrize(
    ("policy", "limited"),
    [(CorePolicy.FORCE, True), (CorePolicy.DEFAULT, True), (CorePolicy.DISABLE, False)],
)
def test_policy(bench, policy, limited):
    [result] = bench.run(7, Tenant(30, "1ms", policy=policy))
    assert bool(faults(result)) != limited, str(result)
    if not limited:
        assert result.share() > 98
        assert result.region.devices[0].compute.grants == 0


def begin_with(monkeypatch, *words):
    """Regions begin with these words of an agent: offset, format and value of each."""
    real = region.initial

    def changed(limits):
        content = bytearray(real(limits))
        for offset, fmt, value in words:
            struct.pack_into(fmt, content, offset, value)
        return bytes(content)

    monkeypatch.setattr(region, "initial", changed)


@pytest.mark.parametrize(
    ("policy", "silent_s", "limited"),
    [(CorePolicy.FORCE, 0, True), (CorePolicy.DEFAULT, 0, False), (CorePolicy.DEFAULT, 1000, True)],
)
def test_monitors_switch_counts_unless_forced_or_silent(bench, monkeypatch, policy, silent_s, limited):
    """An agent that is gone cannot say any more that others have come."""
    words = [(region.AGENT_BEAT_OFFSET, "<Q", int(time.time()) - silent_s)] if silent_s else []
    begin_with(monkeypatch, (UTILIZATION_SWITCH, "<i", 0), *words)
    [result] = bench.run(7, Tenant(30, "1ms", policy=policy))
    assert bool(faults(result)) != limited, str(result)


def suspend(monkeypatch, beat):
    """From the start on containers are suspended, by an agent whose last sign of life, in s since 1970, is `beat`."""
    begin_with(monkeypatch, (RECENT_KERNEL, "<i", -1), (region.AGENT_BEAT_OFFSET, "<Q", beat))


def test_silent_monitor_keeps_launches_for_ten_minutes(bench, monkeypatch):
    suspend(monkeypatch, 0)
    bench.seconds = 604
    [result] = bench.run(7, Tenant(0, "1ms"))
    assert result.share(0, 599) == 0
    assert result.share(601) > 98, str(result)


def test_living_agent_keeps_launches_for_as_long_as_it_likes(bench, monkeypatch):
    suspend(monkeypatch, int(time.time()))
    bench.seconds = 604
    world = bench.folder / "cell1/world"
    with ThreadPoolExecutor(1) as runs:
        running = runs.submit(bench.run, 7, Tenant(0, "1ms"))
        while not running.done() and _clock(world) < bench.seconds:
            time.sleep(0.02)
        with (bench.folder / "cell1/container0/region/vgpu.cache").open(
            "r+b"
        ) as file:  # what it does now is not judged
            file.seek(RECENT_KERNEL)
            file.write(struct.pack("<i", 0))
        [result] = running.result()
    assert result.statuses == [0]
    assert result.share(0) == 0, str(result)


def _clock(world):
    """Virtual seconds since a cell began."""
    content = world.read_bytes() if world.exists() else b""
    return (struct.unpack_from("<Q", content)[0] - CLOCK_STARTS) / 1e9 if content else 0


@pytest.mark.parametrize("cores", [0, 100])
def test_without_a_limit_there_is_no_controller(bench, cores):
    [result] = bench.run(7, Tenant(cores, "1ms"))
    assert result.share() > 98
    assert result.region.devices[0].compute.grants == 0
    assert result.region.devices[0].compute.turns == 0


def test_figures_tell_what_happened(bench):
    [result] = bench.run(7, Tenant(30, "10ms"))
    compute = result.region.devices[0].compute
    assert abs(compute.charged / 14e9 - 0.30) < 0.01
    assert compute.waited > 5e9
    assert compute.longest_wait >= result.longest_wait * 1e6 * 0.99
    assert compute.grants > 100
    assert compute.timeouts == compute.turn_timeouts == 0


class Worker:
    """work.c in a container, by the real clock."""

    def __init__(self, make_container, programs, cores, *words):
        self.container = make_container(0)
        [device] = self.container.limits.devices
        self.uuid = device.uuid
        self.limit(cores)
        self.words = words
        self.program = programs("work")

    def limit(self, cores, mode=Mode.ENFORCE):
        old = self.container.limits
        self.container.write_limits(
            Limits((DeviceLimit(self.uuid, 0, 0, cores),), old.generation + 1, mode, core_policy=CorePolicy.FORCE)
        )

    def word(self, offset, fmt, value=None):
        with self.container.region_path.open("r+b") as file:
            file.seek(offset)
            if value is None:
                return struct.unpack(fmt, file.read(struct.calcsize(fmt)))[0]
            file.write(struct.pack(fmt, value))
            return value

    def start(self):
        return self.container.start(self.program, *self.words)

    def busy(self):
        with sim.State(self.container.state) as state:
            return sum(found.total_ns for found in state.device_time(0))

    def wait_until(self, condition, what):
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(0.02)


@pytest.mark.parametrize("cores", [0, 50], ids=["no limit", "limit"])
def test_suspended_container_launches_nothing_until_resumed(make_container, programs, cores):
    worker = Worker(make_container, programs, cores, "kernels=a_1ms", "seconds=100")
    worker.word(RECENT_KERNEL, "<i", -1)
    process = worker.start()
    worker.wait_until(lambda: worker.container.region().processes, "the process takes no slot")
    status_at = 1856 + 1928
    worker.wait_until(lambda: worker.word(status_at, "<i") == 2, "the process does not say that it is suspended")
    assert worker.busy() == 0
    assert worker.word(RECENT_KERNEL, "<i") == -1
    worker.word(RECENT_KERNEL, "<i", 0)
    worker.wait_until(lambda: worker.busy() > 0, "not resumed")
    worker.wait_until(lambda: worker.word(RECENT_KERNEL, "<i") == 2, "activity is not noted")
    assert worker.word(status_at, "<i") == 1
    assert abs(worker.word(LAST_KERNEL_TIME, "<Q") - time.time()) < 60
    process.kill()


def test_an_agent_that_is_gone_suspends_nobody(make_container, programs):
    worker = Worker(make_container, programs, 0, "kernels=a_1ms", "seconds=100")
    worker.word(RECENT_KERNEL, "<i", -1)
    worker.word(region.COMPUTE_OFFSET + 32, "<Q", int(time.time()) - 1000)
    worker.start()
    worker.wait_until(lambda: worker.busy() > 0, "still suspended")
    assert worker.word(RECENT_KERNEL, "<i") == -1


def test_a_limit_set_later_holds_and_one_lifted_rests(make_container, programs):
    worker = Worker(make_container, programs, 0, "kernels=a_1ms", "seconds=100")

    def compute():
        return worker.container.region().devices[0].compute

    worker.start()
    worker.wait_until(lambda: worker.busy() > 0, "nothing runs")
    worker.limit(20)
    worker.wait_until(lambda: compute().waited > 0, "the new limit makes nobody wait")
    worker.wait_until(lambda: _share(worker, 2) < 25, "the share stays above 20 %")  # what was queued before runs out
    worker.limit(0)
    worker.wait_until(lambda: _steady(compute), "the limit is lifted and launches still ask")


def test_a_file_that_breaks_changes_no_share(make_container, programs):
    worker = Worker(make_container, programs, 20, "kernels=a_1ms", "seconds=100")
    worker.start()
    worker.wait_until(lambda: worker.busy() > 5e7, "nothing runs")
    (worker.container.root / "limits/limits").write_bytes(b"broken")
    time.sleep(0.6)
    waited = worker.container.region().devices[0].compute.waited
    assert _share(worker, 2) < 25
    assert worker.container.region().devices[0].compute.waited > waited


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.OFF])
@pytest.mark.parametrize("content", [b"broken", None], ids=["broken", "away"])
def test_file_that_breaks_starts_no_limit_where_none_was(make_container, programs, mode, content):
    worker = Worker(make_container, programs, 20, "kernels=a_1ms", "seconds=100")
    worker.limit(20, mode)
    worker.start()
    worker.wait_until(lambda: worker.busy() > 5e7, "nothing runs")
    path = worker.container.root / "limits/limits"
    path.unlink() if content is None else path.write_bytes(content)
    time.sleep(0.6)
    before = worker.busy()
    worker.wait_until(lambda: worker.busy() > before + 5e7, "nothing runs any more")
    compute = worker.container.region().devices[0].compute
    assert (compute.waited, compute.grants) == (0, 0)


KEPT_TIMES = [0, 8, 16, 56, 128, 152, 200, 208, 224, 232, 248]  # in hami_compute_device: zero, frontier and others
A_MONTH = 30 * 86400 * 10**9
WITHOUT_BOOT_ID = "mount --bind /dev/null /proc/sys/kernel/random/boot_id && exec "


@pytest.mark.parametrize("known", ["boot id", "no boot id"])
def test_region_kept_over_a_reboot_stops_and_frees_no_launches(make_container, programs, known):
    """Its times are of another clock: with those to come nothing would be launched, or nothing charged."""
    worker = Worker(make_container, programs, 20, "kernels=a_1ms", "seconds=100")
    command = [worker.program, *worker.words]
    if known == "no boot id":
        apart = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "sh", "-c"]
        if subprocess.run([*apart, WITHOUT_BOOT_ID + "true"], capture_output=True, check=False).returncode:
            pytest.skip("no mount namespace can be made here")
        command = [*apart, WITHOUT_BOOT_ID + " ".join(map(str, command))]
    process = worker.container.start(*command)
    worker.wait_until(lambda: worker.busy() > 5e7, "nothing runs")
    process.kill()
    process.wait()
    device = region.COMPUTE_OFFSET + 4096
    for offset in KEPT_TIMES:
        later = worker.word(device + offset, "<Q") + A_MONTH
        worker.word(device + offset, "<Q", later)
    if known == "boot id":
        worker.word(region.COMPUTE_OFFSET + 40, "<Q", worker.word(region.COMPUTE_OFFSET + 40, "<Q") ^ 1)
    charged, busy = worker.container.region().devices[0].compute.charged, worker.busy()
    worker.container.start(*command)
    worker.wait_until(lambda: worker.busy() > busy + 5e7, "nothing runs any more")
    assert _share(worker, 3) < 25
    assert worker.container.region().devices[0].compute.charged > charged


def test_a_debt_is_paid_at_the_new_limit(make_container, programs):
    """Two seconds of work at 10 % take eighteen to be paid for; once the limit is 95 %, not three more."""
    worker = Worker(make_container, programs, 10, "kernels=a_2000ms", "seconds=100", "sync=1")
    process = worker.start()
    worker.wait_until(lambda: worker.busy() > 1e9, "nothing runs")
    worker.limit(95)
    limited = time.monotonic()
    worker.wait_until(lambda: worker.container.region().launches >= 2, "nothing more runs")
    assert time.monotonic() - limited < 9
    process.kill()


def test_launches_are_counted(make_container, programs):
    worker = Worker(make_container, programs, 0, "kernels=a_1ms", "seconds=1", "sync=10")
    counted = [json.loads(worker.container.run(worker.program, *worker.words))["launches"] for _ in range(2)]
    missing = sum(counted) - worker.container.region().launches
    assert min(counted) > 20
    assert 0 <= missing < 2 * 10, f"{counted}, {worker.container.region().launches}"
    shown = subprocess.run(
        [sys.executable, "-m", "hami_interpose", "dump", str(worker.container.region_path)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert f"{worker.container.region().launches:,} kernels and graphs launched" in shown


def _share(worker, seconds):
    """Percent of the device over so many real seconds."""
    before, began = worker.busy(), time.monotonic()
    time.sleep(seconds)
    return (worker.busy() - before) / (time.monotonic() - began) / 1e7


def _steady(compute):
    before = compute().grants
    time.sleep(0.3)
    return compute().grants == before


def test_by_the_real_clock_the_limit_is_never_exceeded(make_container, programs):
    """Waits, futexes and the helper as they really are; a busy machine can only lower the share."""
    worker = Worker(make_container, programs, 30, "kernels=a_2ms", "seconds=100")
    (worker.container.root / "turns").mkdir()
    (worker.container.root / "turns" / worker.uuid).write_bytes(turn.initial())
    worker.start()
    worker.wait_until(lambda: worker.busy() > 3e8, "nothing runs")
    share = _share(worker, 5)
    assert 1 < share < 30 + 2 + 1, f"{share:.1f} % at 30 %"
    assert worker.container.region().devices[0].compute.turns > 0


def test_a_foreign_turn_page_is_not_used(make_container, programs):
    worker = Worker(make_container, programs, 50, "kernels=a_1ms", "seconds=100")
    (worker.container.root / "turns").mkdir()
    (worker.container.root / "turns" / worker.uuid).write_bytes(os.urandom(turn.SIZE))
    worker.start()
    worker.wait_until(lambda: worker.busy() > 1e8, "nothing runs")
    assert worker.container.region().devices[0].compute.turns == 0
