"""What the limits of a context take on the device, as README.md states it."""

from __future__ import annotations

import pytest

MIB = 1 << 20
SCRIPT = """
limit = cuda.CUlimit
ck(cuda.cuInit(0))
contexts = []

def used():
    free, total = ck(cuda.cuMemGetInfo())
    return total - free

def make():
    contexts.append(ck(cuda.cuCtxCreate(None, 0, 0)))

def status(which, value):
    return int(cuda.cuCtxSetLimit(which, value)[0])
"""
THREADS = 108 * 2048
TAKEN = {  # limit, what it is set to, what it takes beyond the initial value
    "STACK_SIZE": (2048, -(-2048 * THREADS // (2 * MIB)) * 2 * MIB - 1024 * THREADS),
    "PRINTF_FIFO_SIZE": (64 * MIB, 62 * MIB),
    "MALLOC_HEAP_SIZE": (8 * MIB + 1, 2 * MIB),
    "DEV_RUNTIME_SYNC_DEPTH": (3, 5120 * THREADS),
    "DEV_RUNTIME_PENDING_LAUNCH_COUNT": (4096, 8 * MIB),
    "MAX_L2_FETCH_GRANULARITY": (128, 0),
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_raised_limit_takes_memory_at_once_and_gives_it_back(machine, name):
    value, taken = TAKEN[name]
    shown = machine("a100").python(f"""{SCRIPT}
make()
which = limit.CU_LIMIT_{name}
first, before = ck(cuda.cuCtxGetLimit(which)), used()
raised = (status(which, {value}), used() - before, ck(cuda.cuCtxGetLimit(which)))
lowered = (status(which, 0), used() - before)
status(which, {value})
make()
other = (ck(cuda.cuCtxGetLimit(which)) == first, used() - before)
ck(cuda.cuCtxDestroy(contexts[0]))
answer(raised=raised, lowered=lowered, other=other, left=used() - before)
""")
    assert shown == {"raised": [0, taken, value], "lowered": [0, 0], "other": [True, taken], "left": 0}


def test_a_stack_is_rounded_and_has_a_largest_size(machine):
    shown = machine("a100").python(f"""{SCRIPT}
make()
stack = limit.CU_LIMIT_STACK_SIZE
answer(odd=(status(stack, 1025), ck(cuda.cuCtxGetLimit(stack))), beyond=status(stack, (512 << 10) + 1),
       unknown=status(limit.CU_LIMIT_MAX, 1), kept=ck(cuda.cuCtxGetLimit(stack)))
""")
    assert shown == {"odd": [0, 1040], "beyond": 1, "unknown": 215, "kept": 1040}


def test_a_full_device_refuses_and_keeps_the_value(machine):
    shown = machine("a100").python(f"""{SCRIPT}
make()
heap = limit.CU_LIMIT_MALLOC_HEAP_SIZE
free, total = ck(cuda.cuMemGetInfo())
room = free // (2 << 20) * (2 << 20)
fits = (8 << 20) + room
answer(beyond=status(heap, fits + 1), kept=ck(cuda.cuCtxGetLimit(heap)), last=status(heap, fits),
       left=ck(cuda.cuMemGetInfo())[0] - (free - room), all=status(heap, (1 << 64) - 1))
""")
    assert shown == {"beyond": 2, "kept": 8 * MIB, "last": 0, "left": 0, "all": 2}
