"""What control costs, as far as it is the same each time: how often processes sleep, wake others and look at files.

Counted by `programs/virtual.c` for each millisecond of device time; the figures of the program itself are in them.
"""

from __future__ import annotations

import pytest

from .cells import Calls, Tenant

# One wait of a launch for its balance, which looks at what is complete by itself; nobody else wakes up.
ALONE = Calls(waits=1.5, wakes=0.2, files=4)
# Each process that waits its turn in the container, and its helper, which looks once what is under way should be over.
EIGHT = Calls(waits=8, wakes=3, files=11)
# Two processes whose launches come slower than the device is done with them: whoever sets a mark finds it complete.
DRY = Calls(waits=8, wakes=0.1, files=6)
# The helper looks every 0.3 ms, and more often at the end of a turn: a device that rests costs more than a look.
BESIDE = Calls(waits=5.5, wakes=1.5, files=10)
# Two processes: what each is granted at once lasts for longer, since nobody else waits for it.
PAIR = Calls(waits=6.5, wakes=3.4, files=4)
# A launch every 0.4 ms has a mark of its own: beside others nothing else tells when it ran.
LIGHT = Calls(waits=10.5, wakes=6, files=4)


@pytest.mark.parametrize(
    ("tenants", "most"),
    [
        ([Tenant(40, "100us")], ALONE),
        ([Tenant(40, "5us")], ALONE),
        ([Tenant(40, "1ms")], ALONE),
        ([Tenant(95, "100us")], ALONE),
        ([Tenant(40, "100us", 2)], PAIR),
        ([Tenant(40, "100us", 8)], EIGHT),
        ([Tenant(40, "1ms", 8)], EIGHT),
        ([Tenant(90, "kernels=a_50us host=500000", 2)], DRY),
        ([Tenant(40, "100us | kernels=a_100us host=400000", 2)], LIGHT),
        ([Tenant(30, "100us"), Tenant(70, "100us")], BESIDE),
    ],
    ids=lambda value: "+".join(f"{t.processes}x{t.shape}@{t.limit}" for t in value) if isinstance(value, list) else "",
)
def test_control_seldom_makes_system_calls(bench, tenants, most):
    for result in bench.run(7, *tenants):
        print(result.tenant.shape, result.calls)
        for name, found, allowed in zip(Calls._fields, result.calls, most, strict=True):
            assert found <= allowed, f"{found:.2f} {name} for each ms of device time, at most {allowed}; {result}"


def test_nothing_of_it_without_a_limit(bench):
    """The same as without the library."""
    [bare] = bench.run(7, Tenant(100, "100us", controlled=False))
    [ours] = bench.run(7, Tenant(100, "100us"))
    print(bare.calls, ours.calls)
    assert bare.calls.waits > 0.5  # the program itself sleeps: something is counted
    assert ours.calls.waits <= bare.calls.waits + 0.01
    assert ours.calls.wakes <= bare.calls.wakes + 0.01
    assert ours.calls.files <= bare.calls.files + 0.01
