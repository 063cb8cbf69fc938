"""Errors on demand: any call, any code, on one card, so many times; cards that fall off the bus."""

from __future__ import annotations

import hami_gpusim as sim
import pytest

ALLOCATE = """
errors = []
for ordinal in (0, 1):
    context(ordinal)
    errors.append([int(cuda.cuMemAlloc(4096)[0]) for _ in range(4)])
answer(errors=errors)
"""


def test_a_fault_hits_one_symbol_on_one_card_a_number_of_times(machine):
    m = machine("t4x2")
    with m.state() as state:
        state.inject(sim.Fault("cuMemAlloc_v2", error=700, device=1, skip=1, count=2))
        assert m.python(ALLOCATE) == {"errors": [[0] * 4, [0, 700, 700, 0]]}
        assert state.hits("cuMemAlloc_v2") == 2
        state.clear()
        state.inject(sim.Fault("cuMemAlloc", error=999))
        assert m.python(ALLOCATE) == {"errors": [[999] * 4] * 2}
        state.clear()
        assert m.python(ALLOCATE) == {"errors": [[0] * 4] * 2}


def test_faults_reach_calls_that_are_not_simulated_and_nvml(machine):
    m = machine("t4x2")
    script = """
    import pynvml as n
    n.nvmlInit()
    h = [n.nvmlDeviceGetHandleByIndex(i) for i in range(2)]
    answer(memory=[error_of(n.nvmlDeviceGetMemoryInfo, x) for x in h], fan=error_of(n.nvmlDeviceGetFanSpeed, h[0]))
    """
    with m.state() as state:
        assert m.python(script) == {"memory": [0, 0], "fan": 3}
        state.inject(sim.Fault("nvmlDeviceGetMemoryInfo", error=999, device=0))
        state.inject(sim.Fault("nvmlDeviceGetFanSpeed", error=17))
        assert m.python(script) == {"memory": [999, 0], "fan": 17}


def test_a_lost_card_is_lost_for_both_libraries_until_restored(machine):
    m = machine("t4x2")
    script = """
    import pynvml as n
    n.nvmlInit()
    old = n.nvmlDeviceGetHandleByIndex(1)
    context(1)
    events = n.nvmlEventSetCreate()
    n.nvmlDeviceRegisterEvents(old, n.nvmlEventTypeXidCriticalError, events)
    def look():
        answer(cuda=int(cuda.cuMemAlloc(4096)[0]), handle=error_of(n.nvmlDeviceGetHandleByIndex, 1),
               memory=error_of(n.nvmlDeviceGetMemoryInfo, old), other=error_of(n.nvmlDeviceGetHandleByIndex, 0),
               count=n.nvmlDeviceGetCount(), xid=n.nvmlEventSetWait_v2(events, 5000).eventData if look.lost else 0)
    for look.lost in (0, 1, 0):
        look()
        sys.stdin.readline()
    """
    process = m.popen(script)
    well = {"cuda": 0, "handle": 0, "memory": 0, "other": 0, "count": 2, "xid": 0}
    with m.state() as state:
        assert process.answer() == well
        state.lose(1)
        assert [device.lost for device in state.devices] == [False, True]
        assert process.go_on() == well | {"cuda": 999, "handle": 15, "memory": 15, "xid": 79}
        state.restore(1)
        assert process.go_on() == well
    process.end()


def test_impossible_faults_are_refused(machine):
    with machine("t4").state() as state:
        with pytest.raises(IndexError, match="device 1: this state has 1 devices"):
            state.inject(sim.Fault("cuInit", error=1, device=1))
        for _ in range(64):
            state.inject(sim.Fault("cuInit", error=1))
        with pytest.raises(sim.StateError, match="64 faults are active"):
            state.inject(sim.Fault("cuInit", error=1))
