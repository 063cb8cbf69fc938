"""Memory: a program gets memory up to its limit and no more, and all of it is free afterwards."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from .bed import MIB, OURS, OUT_OF_MEMORY, EndedError, missing

if TYPE_CHECKING:
    from .bed import Bed, Process
    from .report import Part

LIMIT_MIB: Final = 4000
# Name of the row, command of the shell, size of each block in MiB.
KINDS: Final = (
    ("cuMemAlloc of 64 MiB", "alloc", 64.0),
    ("cuMemAlloc of 3 MiB", "alloc", 3.0),
    ("cuMemAlloc of 256 KiB", "alloc", 0.25),
    ("cuMemAllocAsync", "async", 64.0),
    ("cuMemCreate", "create", 64.0),
    ("cuMemAllocManaged", "managed", 64.0),
    ("arrays", "array", 64.0),
    ("memory nodes of graphs", "graph", 64.0),
    ("a pool made by the program", "pool", 64.0),
)
LIBRARIES: Final = (
    ("torch", "torch", {}),
    ("torch, expandable segments", "torch", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
    ("cupy", "cupy", {}),
    ("cupy, cudaMallocAsync", "cupy-async", {}),
    ("jax", "jax", {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}),
    ("numba-cuda", "numba-cuda", {}),
    ("cuda-bindings", "cuda-bindings", {}),
)


def run(bed: Bed, part: Part) -> None:
    """Fill slices in every way and compare with NVML outside the container."""
    idle = bed.device_used()
    _reserve(bed, part)
    for name, command, mib in KINDS:
        _fill(bed, part, name, command, mib)
    for name, library, variables in LIBRARIES:
        _fill_by(bed, part, name, library, variables)
    _module(bed, part)
    _two_processes(bed, part)
    _shared(bed, part)
    _given_back(bed, part, idle)


def _mib(count: float) -> float:
    return round(count / MIB, 1)


def _reserve(bed: Bed, part: Part) -> None:
    """Compare the memory of a context with the amount that is charged for it."""
    container = bed.container(memory_mib=LIMIT_MIB)
    shell = container.shell()
    before = bed.watch(shell)
    shell.numbers("use", 0)
    true, guessed = bed.peak(before), container.used()
    shell.end()
    says = f"a context takes {_mib(true)} MiB, we count {_mib(guessed)} MiB for it"
    part.add("context", None, says, true_mib=_mib(true), counted_mib=_mib(guessed))


def _take(shell: Process, command: str, mib: float) -> int:
    """Allocate one block. Returns the driver's status."""
    size = int(mib * MIB)
    if command == "create":
        return shell.numbers("create", size, 0)[0]
    if command == "array":
        return shell.numbers("array", 2048, size // 2048 // 16, 0)[0]
    if command == "pool":
        return shell.numbers("from_pool", size, 0)[0]
    if command == "graph":
        status, made = shell.numbers("graph", size, 1, "keep")
        return status or shell.numbers("launch", made)[0]
    return shell.numbers(command, size)[0]


def _fill(bed: Bed, part: Part, name: str, command: str, mib: float) -> None:
    container = bed.container(memory_mib=LIMIT_MIB)
    shell = container.shell()
    before = bed.watch(shell)
    shell.numbers("use", 0)
    if command == "pool":
        shell.numbers("pool", 0)
    taken, status = 0, 0
    try:
        while status == 0 and taken * mib <= 2 * LIMIT_MIB:
            status = _take(shell, command, mib)
            taken += status == 0
    except EndedError as error:
        part.add(name, False, f"the program ended: {error}")
        return
    _judge(bed, part, name, taken * mib * MIB, status == OUT_OF_MEMORY, f"status {status}", before)
    shell.end()


def _judge(bed: Bed, part: Part, name: str, taken: float, refused: bool, how: str, before: int) -> None:
    """Add a row: use never exceeded the limit, and the refusal came no earlier than at 60 % of it."""
    peak = bed.peak(before)
    excess = _mib(peak - LIMIT_MIB * MIB)
    holds = refused and excess <= 0 and taken >= 0.6 * LIMIT_MIB * MIB
    says = f"took {_mib(taken):.0f} of {LIMIT_MIB} MiB and got {how}; the card says {_mib(peak):.0f} MiB at most"
    part.add(name, holds, says, taken_mib=_mib(taken), peak_mib=_mib(peak), excess_mib=excess)


def _fill_by(bed: Bed, part: Part, name: str, library: str, variables: dict[str, str]) -> None:
    container = bed.container(memory_mib=LIMIT_MIB)
    client = container.client(library, "fill", **variables)
    before = bed.watch(client)
    try:
        found = client.json()
    except EndedError as error:
        part.add(name, False, f"the program ended: {error}")
        return
    if why := missing(found):
        part.leave_out(name, why)
        return
    own = found["error"].partition(":")[0] or "no error"
    _judge(bed, part, name, found["taken"], found["out_of_memory"], own, before)
    client.end()


def _module(bed: Bed, part: Part) -> None:
    """Compare the memory of a module with 64 MiB of variables with the amount that is charged for it."""
    container = bed.container(memory_mib=LIMIT_MIB)
    shell = container.shell()
    before = bed.watch(shell)
    shell.numbers("use", 0)
    outside, inside = bed.peak(before), container.used()
    status = shell.numbers("module", OURS / "programs/ballast.ptx")[0]
    outside, inside = bed.peak(before) - outside, container.used() - inside
    says = f"a module with 64 MiB of variables takes {_mib(outside)} MiB, we count {_mib(inside)} MiB (status {status})"
    part.add("module", None, says, true_mib=_mib(outside), counted_mib=_mib(inside))
    shell.end()


def _two_processes(bed: Bed, part: Part) -> None:
    """Two processes of one container share its limit."""
    container = bed.container(memory_mib=LIMIT_MIB)
    shells = [container.shell(), container.shell()]
    before = bed.watch(*shells)
    statuses, taken = [0, 0], 0
    for shell in shells:
        shell.numbers("use", 0)
    while not all(statuses) and taken * 64 <= 2 * LIMIT_MIB:
        for i, shell in enumerate(shells):
            statuses[i] = statuses[i] or _take(shell, "alloc", 64)
            taken += statuses[i] == 0
    how = f"statuses {statuses[0]} and {statuses[1]}"
    _judge(bed, part, "two processes together", taken * 64 * MIB, set(statuses) == {OUT_OF_MEMORY}, how, before)
    for shell in shells:
        shell.end()


def _shared(bed: Bed, part: Part) -> None:
    """Memory that two processes share by CUDA IPC is counted once."""
    container = bed.container(memory_mib=LIMIT_MIB)
    owner, other = container.shell(), container.shell()
    for shell in (owner, other):
        shell.numbers("use", 0)
    empty = container.used()
    owner.numbers("alloc", 1024 * MIB)
    status, handle = owner.ask("ipc_get", 0).split()
    opened = other.numbers("ipc_open", handle)[0] if status == "0" else int(status)
    if opened != 0:
        part.leave_out("memory shared by IPC", f"the driver answers {opened}")
    else:
        counted = container.used() - empty
        says = f"1024 MiB shared by two processes are counted as {_mib(counted)} MiB"
        part.add("memory shared by IPC", counted == 1024 * MIB, says, counted_mib=_mib(counted))
    owner.end()
    other.end()


def _given_back(bed: Bed, part: Part, idle: int) -> None:
    """After exit and after SIGKILL, the memory is free again on the card and in the container."""
    container = bed.container(memory_mib=LIMIT_MIB)
    for name, kill in (("after exit", False), ("after SIGKILL", True)):
        before = bed.device_used()
        shell = container.shell()
        shell.numbers("use", 0)
        for _ in range(16):
            shell.numbers("alloc", 64 * MIB)
        during = bed.device_used()
        shell.end(kill=kill)
        left = _settled(bed, before)
        fresh = container.shell()
        fresh.numbers("use", 0)
        free = fresh.numbers("info")[1]
        counted = LIMIT_MIB * MIB - free
        fresh.end()
        holds = left <= 0 and counted < 1024 * MIB and during > before
        more = _mib(max(left, 0))
        says = f"the card has {more} MiB more in use than before; a new process is told {_mib(free)} MiB free"
        part.add(name, holds, says, left_mib=more, free_mib=_mib(free))
    left = bed.device_used() - idle
    says = f"the card has {_mib(left)} MiB more in use than at the start"
    part.add("after all of it", left <= 2 * MIB, says, left_mib=_mib(left))


def _settled(bed: Bed, before: int) -> int:
    """Bytes in use on the card beyond `before`. Waits up to 5 s until there are none."""
    for _ in range(50):
        left = bed.device_used() - before
        if left <= 0:
            break
        time.sleep(0.1)
    return left
