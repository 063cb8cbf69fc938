"""cuCtxSetLimit: what stacks, heaps and buffers of kernels take is held to the limit, and is what the driver takes.

The simulated driver keeps its own books of what the limits of a context take; after every step ours say the same.
"""

from __future__ import annotations

import hami_gpusim as sim
import pytest
from hami_interpose.limits import Mode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
STEP = 2 * MIB
INVALID_VALUE, OUT_OF_MEMORY, UNSUPPORTED_LIMIT = 1, 2, 215
STACK, PRINT_BUFFER, HEAP, SYNC_DEPTH, PENDING_LAUNCHES, L2_FETCH = range(6)
THREADS = 108 * 2048  # that an A100 holds at once
UNIT = {STACK: THREADS, PRINT_BUFFER: 1, HEAP: 1, SYNC_DEPTH: 5120 * THREADS, PENDING_LAUNCHES: 4096}
INITIAL = {STACK: 1024, PRINT_BUFFER: MIB, HEAP: 8 * MIB, SYNC_DEPTH: 2, PENDING_LAUNCHES: 2048}
LIMIT = 4000


def large(size: int) -> int:
    return -(-size // STEP) * STEP


def up_to_16(size: int) -> int:
    """As the driver rounds a stack."""
    return -(-size // 16) * 16


def beyond(limit: int, value: int) -> int:
    """What a value takes on the device beyond what a context starts with."""
    if limit not in UNIT:
        return 0
    value = up_to_16(value) if limit == STACK else value
    return max(0, large(UNIT[limit] * value) - large(UNIT[limit] * INITIAL[limit]))


@pytest.fixture
def container(make_container):
    return make_container(LIMIT)


@pytest.fixture
def shell(container, shells):
    return shells(container)


def test_what_a_limit_takes_is_the_contexts_in_v1(container, shell):
    free, before = shell.free_bytes(), container.region_path.read_bytes()[1864:1872]
    assert shell.status("set_limit", HEAP, 108 * MIB) == 0
    assert shell.free_bytes() == free - 100 * MIB
    after = container.region_path.read_bytes()[1864:1872]  # the v1 layout's context memory of the first process
    assert int.from_bytes(after, "little") - int.from_bytes(before, "little") == 100 * MIB


def test_stack_that_fits_until_the_driver_rounds_it(container, shell):
    """The driver sets a little more than it was asked for; where that does not fit, all is as before."""
    asked = next(v for v in range(4097, 8192, 16) if large(v * THREADS) < large((v + 15) * THREADS))
    assert shell.status("set_limit", STACK, 2048) == 0
    room = large(asked * THREADS) - large(2048 * THREADS)
    assert shell.status("alloc", shell.free_bytes() // STEP * STEP - room) == 0
    before = container.agreed()
    assert shell.status("set_limit", STACK, asked) == OUT_OF_MEMORY
    assert shell("get_limit", STACK) == [0, 2048]
    assert container.agreed() == before
    assert shell.status("set_limit", STACK, asked - 1) == 0
    assert container.agreed() == before + large((asked - 1) * THREADS) - large(2048 * THREADS)


def test_what_the_driver_refuses_changes_nothing(container, shell):
    assert shell.status("set_limit", HEAP, 108 * MIB) == 0
    before = container.agreed()
    for error in (INVALID_VALUE, OUT_OF_MEMORY, 999):
        with sim.State(container.state) as books:
            books.inject(sim.Fault("cuCtxSetLimit", error))
        assert shell.status("set_limit", HEAP, 208 * MIB) == error
        assert shell.status("set_limit", HEAP, 8 * MIB) == error
        with sim.State(container.state) as books:
            books.clear()
        assert container.agreed() == before
    assert shell.status("set_limit", HEAP, 208 * MIB) == 0
    assert container.agreed() == before + 100 * MIB


@pytest.mark.here_only("qemu-user has no room for so many addresses")
def test_full_device_refuses_although_the_share_has_room(make_container, shells):
    container, neighbour = make_container(70000), make_container(70000)
    shell, other = shells(container), shells(neighbour)
    assert other.status("alloc", 60000 * MIB) == 0
    before = container.region().devices[0].used_bytes
    assert shell.status("set_limit", HEAP, 60000 * MIB) == OUT_OF_MEMORY
    assert container.region().devices[0].used_bytes == before
    assert shell.status("set_limit", HEAP, 10000 * MIB) == 0
    assert container.region().devices[0].used_bytes == before + 9992 * MIB


def test_limits_of_caches_and_unknown_ones_are_the_drivers(container, shell):
    before = container.agreed()
    assert shell.status("set_limit", L2_FETCH, 128) == 0
    assert shell("get_limit", L2_FETCH) == [0, 128]
    for limit in (-1, 11, 1 << 20):
        assert shell.status("set_limit", limit, 1 << 40) == UNSUPPORTED_LIMIT
    assert container.agreed() == before


@pytest.mark.parametrize(("mode", "counted"), [(Mode.OBSERVE, 2000 * MIB), (Mode.OFF, 0)])
def test_nothing_is_refused_where_limits_are_not_enforced(started, mode, counted):
    container, shell = started(1000, mode=mode)
    before = container.region().devices[0].used_bytes
    assert shell.status("set_limit", HEAP, 2008 * MIB) == 0
    assert shell("get_limit", HEAP) == [0, 2008 * MIB]
    assert container.region().devices[0].used_bytes == before + counted


BEYOND_ALL = [1 << 62, (1 << 64) - 1]  # as they are, and not in MiB
SIZES_MIB = st.integers(0, 1000) | st.sampled_from(BEYOND_ALL)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from(sorted(UNIT)), SIZES_MIB),
        st.tuples(st.sampled_from(["last", "one more"]), st.just(HEAP), st.just(0)),
        st.tuples(st.just("new"), st.integers(0, 1), st.just(0)),
        st.tuples(st.sampled_from(["end", "use"]), st.integers(0, 1), st.just(0)),
    ),
    min_size=15,
    max_size=40,
)
FROM_MIB = {
    STACK: lambda mib: mib * MIB // THREADS // 16 * 16,  # the driver rounds up to 16 bytes
    PRINT_BUFFER: lambda mib: mib * MIB,
    HEAP: lambda mib: mib * MIB,
    SYNC_DEPTH: lambda mib: mib // 900,
    PENDING_LAUNCHES: lambda mib: mib * 256,
}


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_after_any_sequence_our_books_are_the_drivers(make_container, shells, steps):
    """Contexts of two devices come, are current, change their limits and end; a new one has the initial limits.

    The heap is also set to the last size that fits, and to the first that does not.
    """
    container = make_container(LIMIT, LIMIT)
    shell = shells(container, device=None)
    contexts: list[tuple[int, int, dict[int, int]]] = []
    current = None
    for what, which, size in [*steps, *[("end", 0, 0)] * 4]:
        if what == "new" and len(contexts) < 4:
            current = (shell.made("context", which), which, dict(INITIAL))
            contexts.append(current)
        elif what in {"set", "last", "one more"} and current is not None:
            values, free, denied = current[2], shell.free_bytes(), container.region().devices[current[1]].denied
            fits = large(max(values[HEAP], INITIAL[HEAP])) + free // STEP * STEP
            value = fits + (what == "one more")
            if what == "set":
                value = size if size in BEYOND_ALL else FROM_MIB[which](size)
            assert shell("get_limit", which) == [0, values[which]]
            change = beyond(which, value) - beyond(which, values[which])
            status = shell.status("set_limit", which, value)
            assert status == (OUT_OF_MEMORY if change > free else 0)
            assert container.region().devices[current[1]].denied == denied + (status != 0)
            if status == 0:
                values[which] = up_to_16(value) if which == STACK else value
        elif what in {"end", "use"} and which < len(contexts):
            if what == "end":
                assert shell.status("destroy_context", contexts.pop(which)[0]) == 0
            current = contexts[which % len(contexts)] if contexts else None
            assert current is None or shell.status("use_context", current[0]) == 0
        for device in (0, 1):
            here = [values for _, at, values in contexts if at == device]
            reserve = container.region().devices[device].context_bytes if here else 0
            ours = sum(beyond(limit, value) for values in here for limit, value in values.items())
            assert container.agreed(device) == reserve + ours
    shell.kill()
