"""Every wrapped function, called in ways that make no sense or while the driver fails: the bare driver's own answer.

The functions and their arguments come from the tables that the wrappers are made from.
"""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import hami_gpusim as sim
import pytest

pytestmark = pytest.mark.each_machine

SPEC = Path(__file__).resolve().parent.parent / "spec"
ERRORS = [1, 2, 3, 100, 201, 400, 700, 719, 801, 999]
BATCH = 60  # faults that the simulated driver holds at once


def wrapped() -> dict[str, str]:
    """Wrapped functions and the kinds of their arguments: p for a pointer, i for an integer."""
    found = {}
    for library in ("cuda", "nvml"):
        families = tomllib.loads((SPEC / f"{library}.toml").read_text())["family"]
        ours = {name for family in families if {"policy", "after"} & family.keys() for name in family["symbols"]}
        for line in (SPEC / f"{library}_prototypes.tsv").read_text().splitlines():
            columns = line.split("\t")
            if columns[0] in ours:
                arguments = [] if columns[6] == "-" else columns[6].split("; ")
                kinds = [argument.split(":")[0] for argument in arguments]
                known = {"ptr", "i32", "u32", "u64", "i64", "bytes64"}
                assert set(kinds) <= known, f"{columns[0]}: teach negative.c {kinds}"
                found[columns[0]] = "".join({"ptr": "p", "bytes64": "b"}.get(kind, "i") for kind in kinds) or "-"
    return found


FUNCTIONS = wrapped()
OF_DEVICES = [name for name in FUNCTIONS if name.startswith("nvmlDevice")]


def calls_of(names, *variants: str) -> str:
    return "".join(f"{name} {variant} {FUNCTIONS[name]}\n" for variant in variants for name in names)


SENSELESS = ("null", "zero", "one")
CALLS, HANDLES = calls_of(FUNCTIONS, *SENSELESS), calls_of(OF_DEVICES, "handle", "valid")
NVML_ERRORS = [1, 2, 3, 4, 10, 15, 17, 18, 999]  # no INSUFFICIENT_SIZE: that is an answer
NVML_SUCCESS, GPU_IS_LOST = 0, 15


def answers(program, env, state, calls, state_folder, faults=(), *, lost=False):
    """What a process answers; faults begin, and cards that are to be lost are lost, once it is ready."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([program, state], env=env, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    with sim.State(state_folder) as books:
        for fault in faults:
            books.inject(fault)
        if lost:
            books.lose(0)
    try:
        out, err = process.communicate(calls, timeout=120)
    finally:
        with sim.State(state_folder) as books:
            books.clear()
            if lost:
                books.restore(0)
    assert (process.returncode, err) == (0, ""), f"after {out.splitlines()[-1:]}: {process.returncode} {err[:3000]}"
    return out.splitlines()


def compare(container, program, state, calls, faults=(), *, lost=False):
    """Returns the statuses, which both have answered."""
    bare, ours = (
        answers(program, env, state, calls, container.state, faults, lost=lost)
        for env in (container.environment_without_us(), container.environment())
    )
    assert len(bare) == len(ours) == calls.count("\n")
    assert [pair for pair in zip(bare, ours, strict=True) if pair[0] != pair[1]] == []
    return [int(line.split()[2]) for line in ours]


def test_the_table_is_not_empty():
    assert len(FUNCTIONS) > 70
    assert {"cuMemAlloc_v2", "cuModuleLoadData", "nvmlDeviceGetMemoryInfo"} <= FUNCTIONS.keys()
    assert {"cuLaunch", "cuLaunchKernelEx_ptsz", "cuLaunchCooperativeKernel", "cuGraphLaunch"} <= FUNCTIONS.keys()


@pytest.mark.parametrize("state", ["none", "started", "context", "thread"])
@pytest.mark.parametrize(("limit", "share", "cores"), [(0, 0, 0), (4000, 4000, 0), (4000, 2000, 30)])
def test_senseless_arguments_get_the_drivers_answer(make_container, programs, state, limit, share, cores):
    """Whatever is limited: the device's memory, a part of it in the host, its time."""
    container = make_container(limit, limit, physical_mib=share, cores=cores)
    compare(container, programs("negative"), state, CALLS if state == "none" else CALLS + HANDLES)


@pytest.mark.parametrize("cores", [0, 30])
@pytest.mark.parametrize("error", ERRORS)
def test_every_error_of_the_driver_is_passed_on(make_container, programs, error, cores):
    container, program = make_container(0, 0, cores=cores), programs("negative")
    names = list(FUNCTIONS)
    for start in range(0, len(names), BATCH):
        batch = names[start : start + BATCH]
        faults = [sim.Fault(name, error) for name in batch]
        compare(container, program, "context", calls_of(batch, *SENSELESS), faults)
        assert container.region().devices[0].used_bytes == 0


@pytest.mark.parametrize("error", NVML_ERRORS)
def test_every_error_about_a_card_is_passed_on(make_container, programs, error):
    """The card is there and the arguments make sense: nothing but the driver refuses."""
    container, program = make_container(4000, 4000), programs("negative")
    for start in range(0, len(OF_DEVICES), BATCH):
        batch = OF_DEVICES[start : start + BATCH]
        faults = [sim.Fault(name, error) for name in batch]
        assert set(compare(container, program, "context", calls_of(batch, "valid"), faults)) == {error}


def test_card_that_is_known_and_gone_is_gone(make_container, programs):
    container, program = make_container(4000, 4000), programs("negative")
    assert NVML_SUCCESS not in compare(container, program, "ended", HANDLES)
    assert GPU_IS_LOST in compare(container, program, "started", HANDLES, lost=True)
