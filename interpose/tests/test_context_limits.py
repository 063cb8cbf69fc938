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
LARGER = {STACK: 4096, PRINT_BUFFER: 64 * MIB, HEAP: 512 * MIB, SYNC_DEPTH: 3, PENDING_LAUNCHES: 16384}
LIMIT = 4000


def large(size: int) -> int:
    return -(-size // STEP) * STEP


def beyond(limit: int, value: int) -> int:
    """What a value takes on the device beyond what a context starts with."""
    if limit not in UNIT:
        return 0
    if limit == STACK:
        value = -(-value // 16) * 16
    return max(0, large(UNIT[limit] * value) - large(UNIT[limit] * INITIAL[limit]))


@pytest.fixture
def container(make_container):
    return make_container(LIMIT)


@pytest.fixture
def shell(container, shells):
    return shells(container)


@pytest.mark.parametrize("limit", UNIT)
def test_a_raised_limit_counts_until_it_is_lowered(container, shell, limit):
    before = container.agreed()
    assert shell("get_limit", limit) == [0, INITIAL[limit]]
    assert shell.status("set_limit", limit, LARGER[limit]) == 0
    assert beyond(limit, LARGER[limit]) > 0
    assert container.agreed() == before + beyond(limit, LARGER[limit])
    assert shell.status("set_limit", limit, LARGER[limit]) == 0
    assert container.agreed() == before + beyond(limit, LARGER[limit])
    half = (LARGER[limit] + INITIAL[limit]) // 2
    assert shell.status("set_limit", limit, half) == 0
    assert container.agreed() == before + beyond(limit, half)
    assert shell.status("set_limit", limit, 0) == 0
    assert container.agreed() == before
    assert shell.status("set_limit", limit, INITIAL[limit]) == 0
    assert container.agreed() == before


def test_what_it_takes_is_shown_as_used_and_as_the_contexts(container, shell):
    free, before = shell.free_bytes(), container.region_path.read_bytes()[1864:1872]
    assert shell.status("set_limit", HEAP, 108 * MIB) == 0
    assert shell.free_bytes() == free - 100 * MIB
    after = container.region_path.read_bytes()[1864:1872]  # the v1 layout's context memory of the first process
    assert int.from_bytes(after, "little") - int.from_bytes(before, "little") == 100 * MIB


def test_the_last_heap_that_fits_and_the_first_that_does_not(container, shell):
    room = shell.free_bytes() // STEP * STEP
    denied = container.region().devices[0].denied
    before = container.agreed()
    assert shell.status("set_limit", HEAP, INITIAL[HEAP] + room + 1) == OUT_OF_MEMORY
    assert container.agreed() == before
    assert shell("get_limit", HEAP) == [0, INITIAL[HEAP]]
    assert container.region().devices[0].denied == denied + 1
    assert shell.status("set_limit", HEAP, INITIAL[HEAP] + room) == 0
    assert shell.status("alloc", STEP) == OUT_OF_MEMORY
    assert shell.status("set_limit", HEAP, INITIAL[HEAP] + room - STEP) == 0
    assert shell.status("alloc", STEP) == 0


def test_the_last_stack_that_fits_and_the_first_that_does_not(container, shell):
    room = shell.free_bytes()
    fits = max(value for value in range(1024, 65536, 16) if beyond(STACK, value) <= room)
    assert shell.status("set_limit", STACK, fits + 16) == OUT_OF_MEMORY
    assert shell.status("set_limit", STACK, fits) == 0
    assert shell("get_limit", STACK) == [0, fits]
    assert container.agreed() <= LIMIT * MIB


def test_a_stack_that_fits_until_the_driver_rounds_it(container, shell):
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


@pytest.mark.parametrize("limit", UNIT)
def test_a_size_beyond_all_numbers_is_refused(container, shell, limit):
    before = container.agreed()
    for value in (1 << 62, (1 << 64) - 1):
        assert shell.status("set_limit", limit, value) == OUT_OF_MEMORY
    assert container.agreed() == before
    assert shell("get_limit", limit) == [0, INITIAL[limit]]


def test_what_the_driver_refuses_leaves_everything_as_it_was(container, shell):
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
def test_a_full_device_refuses_although_the_share_has_room(make_container, shells):
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


def test_a_context_that_ends_gives_all_back(container, shells):
    shell = shells(container, device=None)
    first = shell("context", 0)[1]
    alone = container.agreed()
    for limit, value in LARGER.items():
        if limit != SYNC_DEPTH:
            assert shell.status("set_limit", limit, value) == 0
    assert container.agreed() > alone + 1000 * MIB
    second = shell("context", 0)[1]
    assert shell("get_limit", HEAP) == [0, INITIAL[HEAP]]
    assert shell.status("set_limit", HEAP, 108 * MIB) == 0
    assert shell.status("destroy_context", first) == 0
    assert container.agreed() == alone + 100 * MIB
    assert shell.status("use_context", second) == 0
    assert shell.status("set_limit", HEAP, 58 * MIB) == 0
    assert container.agreed() == alone + 50 * MIB
    assert shell.status("destroy_context", second) == 0
    assert container.agreed() == 0


def test_a_context_in_the_place_of_one_that_ended_starts_anew(container, shells):
    shell = shells(container, device=None)
    for _ in range(3):
        context = shell("context", 0)[1]
        alone = container.agreed()
        assert shell.status("set_limit", HEAP, 108 * MIB) == 0
        assert container.agreed() == alone + 100 * MIB
        assert shell.status("destroy_context", context) == 0
        assert container.agreed() == 0


@pytest.mark.parametrize("end", ["reset_primary", "release_primary"])
def test_a_primary_context_that_ends_gives_all_back(container, shell, end):
    alone = container.agreed()
    assert shell.status("set_limit", STACK, 4096) == 0
    assert shell.status("set_limit", HEAP, 108 * MIB) == 0
    assert container.agreed() > alone
    assert shell.status(end, 0) == 0
    assert container.agreed() == 0
    assert shell.status("use", 0) == 0
    assert container.agreed() == alone
    assert shell("get_limit", STACK) == [0, INITIAL[STACK]]


def test_each_device_has_its_own(started):
    container, shell = started(LIMIT, LIMIT, device=None)
    second = shell("context", 1)[1]
    alone = container.agreed(1)
    assert shell.status("set_limit", HEAP, 108 * MIB) == 0
    assert (container.agreed(0), container.agreed(1)) == (0, alone + 100 * MIB)
    assert shell.status("use", 0) == 0
    assert shell.status("set_limit", HEAP, 58 * MIB) == 0
    assert (container.agreed(0), container.agreed(1)) == (alone + 50 * MIB, alone + 100 * MIB)
    assert shell.status("destroy_context", second) == 0
    assert (container.agreed(0), container.agreed(1)) == (alone + 50 * MIB, 0)


def test_a_killed_process_leaves_nothing(container, shell, shells):
    other = shells(container)
    before = container.agreed()
    assert shell.status("set_limit", HEAP, 1008 * MIB) == 0
    assert container.agreed() == before + 1000 * MIB
    shell.kill()
    room = LIMIT * MIB - container.region().devices[0].context_bytes
    assert other.status("alloc", room // STEP * STEP) == 0
    assert other.status("alloc", STEP) == OUT_OF_MEMORY
    assert container.agreed() == LIMIT * MIB - room % STEP


def test_without_a_context_the_driver_says_so(container, shells):
    assert shells(container, device=None).status("set_limit", HEAP, 108 * MIB) == 201


@pytest.mark.parametrize(("mode", "counted"), [(Mode.OBSERVE, 2000 * MIB), (Mode.OFF, 0)])
def test_nothing_is_refused_where_limits_are_not_enforced(started, mode, counted):
    container, shell = started(1000, mode=mode)
    before = container.region().devices[0].used_bytes
    assert shell.status("set_limit", HEAP, 2008 * MIB) == 0
    assert shell("get_limit", HEAP) == [0, 2008 * MIB]
    assert container.region().devices[0].used_bytes == before + counted


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from(sorted(UNIT)), st.integers(0, 2000)),
        st.tuples(st.just("new"), st.just(0), st.just(0)),
        st.tuples(st.just("end"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("use"), st.integers(0, 3), st.just(0)),
    ),
    min_size=1,
    max_size=30,
)
FROM_MIB = {
    STACK: lambda mib: mib * MIB // THREADS,
    PRINT_BUFFER: lambda mib: mib * MIB,
    HEAP: lambda mib: mib * MIB,
    SYNC_DEPTH: lambda mib: mib // 900,
    PENDING_LAUNCHES: lambda mib: mib * 256,
}


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_after_any_sequence_our_books_are_the_drivers(container, shells, steps):
    shell = shells(container, device=None)
    contexts: list[tuple[int, dict[int, int]]] = []
    current = None
    for what, which, size in steps:
        if what == "new" and len(contexts) < 4:
            thing = shell.made("context", 0)
            contexts.append((thing, dict(INITIAL)))
            current = contexts[-1]
        elif what == "set" and current is not None:
            value = FROM_MIB[which](size)
            status = shell.status("set_limit", which, value)
            change = beyond(which, value) - beyond(which, current[1][which])
            if status == 0:
                current[1][which] = value
            else:
                assert status == OUT_OF_MEMORY
                assert change > shell.free_bytes()
        elif what == "end" and which < len(contexts):
            thing, _ = contexts.pop(which)
            assert shell.status("destroy_context", thing) == 0
            current = contexts[-1] if contexts else None
            if current is not None:
                assert shell.status("use_context", current[0]) == 0
        elif what == "use" and which < len(contexts):
            current = contexts[which]
            assert shell.status("use_context", current[0]) == 0
        reserve = container.region().devices[0].context_bytes if contexts else 0
        ours = sum(beyond(limit, value) for _, values in contexts for limit, value in values.items())
        assert container.agreed() == reserve + ours
    for thing, _ in contexts:
        assert shell.status("destroy_context", thing) == 0
    assert container.agreed() == 0
    shell.kill()
