"""What a context is charged with, whatever NVML tells, and whoever starts at the same time."""

from __future__ import annotations

import struct
import time

import hami_gpusim as sim
import pytest
from hami_interpose import region

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
OUT_OF_MEMORY = 2
REAL = 420 * MIB  # of the simulated A100
BLIND = 512 * MIB
FLOOR = 128 * MIB
HOSTS_PIDS = {"HAMI_SIM_NVML_PID_BASE": "10000000"}  # NVML knows no pid namespaces
SLOW = {"HAMI_SIM_CONTEXT_MS": "800"}
NO_USE = {"HAMI_SIM_NVML_USE": "none"}
FIRST_DEVICE, PAGES, GUESSED = region.BLOCK_OFFSET + 4096, 16, 56


def knows(container, mib: int, *, guessed: bool) -> None:
    """What processes before found out."""
    container.put(FIRST_DEVICE + PAGES, "<Q", mib * MIB // 4096)
    container.put(FIRST_DEVICE + GUESSED, "<Q", guessed)


def charged(container) -> tuple[int, int]:
    """For a context, and for all there are."""
    device = container.region().devices[0]
    return device.context_bytes, device.used_bytes


@pytest.mark.parametrize("pids", [{}, HOSTS_PIDS, NO_USE, HOSTS_PIDS | NO_USE], ids=str)
def test_context_is_charged_with_what_it_takes(make_container, shells, pids):
    container = make_container(2000)
    container.variables |= pids
    shells(container)
    assert charged(container) == (REAL, REAL)


@pytest.mark.parametrize("pids", [{}, HOSTS_PIDS], ids=["own", "hosts"])
def test_processes_that_start_at_once_pay_their_own(make_container, shells, pids):
    """All of them look at a device on which the others' contexts appear."""
    container = make_container(8 * 420 + 10)
    container.variables |= pids | {"HAMI_SIM_CONTEXT_MS": "300"}
    starting = [shells(container, device=None) for _ in range(8)]
    for shell in starting:
        shell.process.stdin.write("use 0\n")
    assert [shell.process.stdout.readline() for shell in starting] == ["0\n"] * 8
    assert charged(container) == (REAL, 8 * REAL)


def start_beside(container, shells, *meanwhile) -> None:
    """Starts a process, and while the driver makes its context another one does something."""
    shell, command = meanwhile[0], meanwhile[1:]
    starting = shells(container, device=None)
    starting.process.stdin.write("use 0\n")
    time.sleep(0.25)
    assert shell.status(*command) == 0
    assert starting.process.stdout.readline() == "0\n"


@pytest.mark.parametrize("command", [("free", 0), ("alloc", 500 * MIB)], ids=str)
@pytest.mark.parametrize("pids", [HOSTS_PIDS, HOSTS_PIDS | NO_USE], ids=["figures", "growth"])
def test_what_the_container_does_meanwhile_is_no_context(started, shells, pids, command):
    container, beside = started(4000, variables=pids | SLOW)
    assert beside.status("alloc", 416 * MIB) == 0
    knows(container, 900, guessed=True)
    start_beside(container, shells, beside, *command)
    assert charged(container)[0] == REAL


@pytest.mark.parametrize(
    ("pids", "least"), [(HOSTS_PIDS, REAL), (HOSTS_PIDS | NO_USE, FLOOR)], ids=["figures", "growth"]
)
def test_what_others_give_back_makes_no_context_free(make_container, shells, pids, least):
    container, others = make_container(4000), make_container(4000)
    container.variables |= pids | SLOW
    beside = shells(others)
    assert beside.status("alloc", 416 * MIB) == 0
    start_beside(container, shells, beside, "free", 0)
    assert charged(container) == (least, least)


@pytest.mark.parametrize(("before", "guessed", "after"), [(900, True, 420), (900, False, 900), (300, True, 300)])
def test_guess_is_made_again_and_the_least_is_kept(make_container, shells, before, guessed, after):
    container = make_container(2000)
    container.variables |= HOSTS_PIDS
    knows(container, before, guessed=guessed)
    shells(container)
    assert charged(container) == (after * MIB, after * MIB)


def test_process_listed_by_its_pid_ends_the_guessing(make_container, shells):
    container = make_container(2000)
    knows(container, 300, guessed=True)
    shells(container)
    container.variables |= HOSTS_PIDS
    shells(container)
    assert charged(container) == (REAL, 2 * REAL)
    assert struct.unpack_from("<Q", container.region_path.read_bytes(), FIRST_DEVICE + GUESSED) == (0,)


@pytest.mark.parametrize("missing", ["nvmlInit_v2", "nvmlDeviceGetHandleByPciBusId_v2"])
def test_context_is_charged_where_nvml_tells_nothing(make_container, shells, missing):
    container = make_container(1200)
    with sim.State(container.state) as state:
        state.inject(sim.Fault(missing, 999))
        first = shells(container)
        assert charged(container) == (BLIND, BLIND)
        assert shells(container)
        assert charged(container) == (BLIND, 2 * BLIND)
        assert shells(container, device=None).status("use", 0) == OUT_OF_MEMORY
        state.clear()
    first.kill()
    shells(container)
    assert charged(container) == (REAL, BLIND + REAL)
