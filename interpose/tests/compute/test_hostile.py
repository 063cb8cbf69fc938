"""What a tenant does to the turn page costs those who share it bounded time: no crash, no hang, no limit exceeded."""

from __future__ import annotations

import os
import signal
import struct
import sys
import time

import pytest
from hami_interpose import turn

from .cells import Tenant
from .judge import faults, longest_wait_ms
from .test_policy import Worker

FROM_MS = 5000
WAITS_MS = {  # how long a launch may wait for a turn because of it, beyond what it may wait anyway
    **dict.fromkeys(("cut", "empty", "blink", "noise", "grow", "close", "claim", "evict"), 0),
    **dict.fromkeys(("hold", "slots"), 100 + 2 * 500),  # it says that its launches take long
    "lock": 100,
    "give": 3000,
}


@pytest.mark.parametrize("deed", WAITS_MS)
def test_a_hostile_tenant_costs_the_others_little(bench, deed):
    results = bench.run(7, Tenant(30, "10ms"), Tenant(60, "1ms"), deed=(deed, FROM_MS))
    print("; ".join(f"{result}, {result.share(5):.1f} % under attack" for result in results))
    for result, other in (results, results[::-1]):
        assert result.statuses == [0], f"{result}: {result.statuses}"
        assert not faults(result, at_most=True), str(result)
        assert result.share(5) >= result.tenant.limit / 2 - 2, f"{result}: {result.share(5):.1f} % from then on"
        bound = longest_wait_ms(result, [other]) + WAITS_MS[deed]
        assert result.longest_wait <= bound, f"{result}: {bound:.0f} ms allowed"


@pytest.fixture
def worker(make_container, programs):
    """A process with a limit and a turn page, by the real clock."""
    worker = Worker(make_container, programs, 50, "kernels=a_1ms", "seconds=100")
    worker.page = worker.container.root / "turns" / worker.uuid
    worker.page.parent.mkdir()
    worker.page.write_bytes(turn.initial())
    return worker


def compute_of(worker):
    return worker.container.region().devices[0].compute


def goes_on(worker, process, what, ns=2e8):
    before = worker.busy()
    worker.wait_until(lambda: worker.busy() > before + ns or process.poll() is not None, f"{what}: nothing runs")
    assert process.poll() is None, f"{what}: ended with {process.returncode}"


def test_page_cut_off_under_a_waiting_process_works_again(worker):
    """The futex is the kernel's own here, and the agent puts the page right in place."""
    process = worker.start()
    worker.wait_until(lambda: compute_of(worker).turns > 0, "no turn is taken")
    with worker.page.open("r+b") as page:
        for _ in range(20):
            hold = struct.pack("<QQ", 1 << 16 | turn.SLOTS, time.monotonic_ns())
            os.pwrite(page.fileno(), hold, 16)  # now it waits for a turn that does not come
            time.sleep(0.01)
            page.truncate(0)
            goes_on(worker, process, "cut off", 2e7)
            page.truncate(turn.SIZE)
            os.pwrite(page.fileno(), turn.initial(), 0)
    turns = compute_of(worker).turns
    worker.wait_until(lambda: compute_of(worker).turns > turns, "no turns on the page that was put right")
    goes_on(worker, process, "put right")


def test_a_page_that_comes_later_is_found(worker):
    worker.page.unlink()
    process = worker.start()
    goes_on(worker, process, "no page")
    assert compute_of(worker).turns == 0
    worker.page.write_bytes(turn.initial())
    worker.wait_until(lambda: compute_of(worker).turns > 0, "no turns on the page that came")


@pytest.mark.parametrize("signal_", [signal.SIGSTOP, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_process_that_is_gone_with_the_turn_and_the_lock(worker, signal_):
    """Stopped, it keeps the lock; killed, the kernel takes it back."""
    other = worker.container.start(
        sys.executable,
        "-c",
        "import fcntl, sys, time; page = open(sys.argv[1], 'r+b'); fcntl.lockf(page, fcntl.LOCK_EX);"
        "print('has', flush=True); time.sleep(1000)",
        worker.page,
    )
    assert other.stdout.readline() == "has\n"
    hold = struct.pack("<QQ", 1 << 16 | turn.SLOTS, time.monotonic_ns())
    with worker.page.open("r+b") as page:
        os.pwrite(page.fileno(), hold, 16)
    other.send_signal(signal_)
    process = worker.start()
    goes_on(worker, process, signal_.name)
    if signal_ == signal.SIGKILL:
        worker.wait_until(lambda: compute_of(worker).turns > 0, "the lock of a dead process is not free")
    else:
        assert compute_of(worker).turns == 0


@pytest.mark.parametrize("what", ["close", "limit"])
def test_the_programs_descriptors_and_limits_are_its_own(worker, programs, tmp_path, what):
    """It may close ours and open its own files there; it may forbid itself to write, where writing is a signal."""
    content = bytes(range(256)) * 32
    (tmp_path / "own").write_bytes(content)
    found = worker.container.json(programs("descriptors"), tmp_path / "own", what, 1500)
    total = 0
    for byte in content:
        total = (total * 31 + byte) % 2**32
    assert found["bytes"] == len(content)
    assert found["sum"] == total, "the program's own file was written to"
    if what == "close":
        assert found["descriptors"] == 197, "a descriptor of the program's was closed or replaced"
