"""Stream-ordered pools: what they keep counts, what they give back does not, and no growth passes the limit."""

from __future__ import annotations

import hami_gpusim as sim
import pytest

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
INVALID_VALUE, OUT_OF_MEMORY = 1, 2
LIMIT = 1600
SYNCS = ["sync", "sync_context", "sync_event"]
STEPS = {"HAMI_SIM_POOL_STEP_MIB": "32"}  # as some drivers
FRAGMENTED = {"HAMI_SIM_POOL_FRAGMENTED": "1"}


@pytest.fixture
def start(started):
    """A process of a container, on drivers of several habits."""
    return lambda **habit: started(LIMIT, variables=habit)


def room(container) -> int:
    return LIMIT * MIB - container.agreed()


@pytest.mark.parametrize("sync", SYNCS)
def test_what_a_wait_gives_back_is_free_for_others(start, shells, sync):
    """The one that had it does nothing any more; another process gets it."""
    container, shell = start()
    second = shells(container)
    before = container.agreed()
    size = room(container) // (4 * MIB) * 4 * MIB
    thing = shell.made("async", size)
    assert shell.status("free_async", thing) == 0
    assert container.agreed() == before + size
    assert second.status("alloc", size) == OUT_OF_MEMORY
    assert shell.status(sync) == 0
    assert container.agreed() == before
    assert second.status("alloc", size) == 0


def test_pool_keeps_its_threshold_until_trimmed_or_lowered(start):
    container, shell = start()
    before = container.agreed()
    pool = shell.made("pool_of", 0)
    assert shell.status("threshold", pool, 100 * MIB) == 0
    things = [shell.made("async", size * MIB) for size in (300, 50)]
    assert container.agreed() == before + 350 * MIB
    assert [shell.status("free_async", thing) for thing in things] == [0, 0]
    assert shell.status("sync") == 0
    assert container.agreed() == before + 100 * MIB
    thing = shell.made("async", 60 * MIB)  # of what it kept
    assert container.agreed() == before + 100 * MIB
    assert shell.status("trim_pool", pool) == 0
    assert container.agreed() == before + 60 * MIB
    assert shell.status("threshold", pool, 0) == shell.status("free_async", thing) == shell.status("sync") == 0
    assert container.agreed() == before


@pytest.mark.parametrize("free", ["free", "free_async"])
def test_waits_do_not_ask_about_a_pool_that_cannot_shrink(start, free):
    """Something in use lies in each of the steps of 32 MiB that it keeps. A wait that asks is told nothing here."""
    container, shell = start(**STEPS)
    before = container.agreed()
    assert shell.status("async", 10 * MIB) == 0
    assert shell.status(free, shell.made("async", 40 * MIB)) == 0
    assert container.agreed() == before + 64 * MIB
    assert shell.status("sync_context") == 0
    assert container.agreed() == before + 32 * MIB
    with sim.State(container.state) as books:
        books.inject(sim.Fault("cuMemPoolGetAttribute", error=999))
        assert [shell.status(sync) for sync in SYNCS] == [0, 0, 0]
        assert books.hits("cuMemPoolGetAttribute") == 0
        books.clear()
    assert container.agreed() == before + 32 * MIB


def test_pool_set_for_its_device_is_the_one_that_counts(start):
    container, shell = start()
    before = container.agreed()
    pool = shell("pool", 0)[1]
    assert shell.status("set_pool", pool, 0) == 0
    assert shell.status("threshold", pool, 2**64 - 1) == 0
    thing = shell("async", 200 * MIB)[1]
    assert shell.status("free_async", thing) == shell.status("sync") == 0
    assert container.agreed() == before + 200 * MIB
    assert shell.status("async", 150 * MIB) == 0
    assert container.agreed() == before + 200 * MIB
    assert shell.status("async", room(container) + 52 * MIB) == OUT_OF_MEMORY  # more than with what it has to spare
    assert shell.status("destroy_pool", pool) == 0
    assert shell.status("async", 100 * MIB) == 0  # from the device's own again


def test_spare_memory_of_a_pool_serves_at_the_limit(start):
    container, shell = start()
    pool = shell("pool_of", 0)[1]
    assert shell.status("threshold", pool, 2**64 - 1) == 0
    thing = shell("async", 600 * MIB)[1]
    assert shell.status("alloc", room(container) // (2 * MIB) * 2 * MIB) == 0
    assert shell.status("free_async", thing) == shell.status("sync") == 0
    full = container.agreed()
    assert shell.status("alloc", 2 * MIB) == OUT_OF_MEMORY
    for _ in range(6):
        assert shell.status("async", 100 * MIB) == 0
    assert container.agreed() == full
    assert shell.status("async", 2 * MIB) == OUT_OF_MEMORY


def test_spare_memory_goes_where_it_cannot_serve(start):
    """Freed, not waited for, and too little; without it there is room."""
    container, shell = start()
    pool = shell("pool_of", 0)[1]
    assert shell.status("threshold", pool, 2**64 - 1) == 0
    large = room(container) // (4 * MIB) * 2 * MIB + 100 * MIB
    assert shell.status("free_async", shell("async", large)[1]) == 0
    assert shell.status("async", large + 2 * MIB) == 0
    assert room(container) >= 0


@pytest.mark.parametrize("habit", [{}, STEPS, FRAGMENTED, STEPS | FRAGMENTED], ids=["usual", "steps", "pieces", "both"])
def test_no_growth_of_a_pool_passes_the_limit(start, habit):
    """Whatever the driver takes for an allocation that fits by itself."""
    container, shell = start(**habit)
    held, refused = [], 0
    for i in range(120):
        size = (2, 10, 34, 62)[i % 4] * MIB
        status, thing = shell("async", size)
        assert status in {0, OUT_OF_MEMORY}
        assert room(container) >= 0, f"allocation {i}"
        refused += status == OUT_OF_MEMORY
        if status == 0:
            held.append(thing)
        elif len(held) > 3:
            for _ in range(3):
                assert shell.status("free_async", held.pop(0)) == 0
    assert refused > 3
    assert container.region().devices[0].peak_bytes <= LIMIT * MIB
    assert container.region().devices[0].denied == refused
    for thing in held:
        assert shell.status("free_async", thing) == 0
    assert shell.status("sync") == 0
    assert container.agreed() == container.region().devices[0].context_bytes


def test_growth_taken_back_leaves_the_callers_address(start):
    container, shell = start(**STEPS)
    assert shell.status("alloc", (room(container) // MIB - 20) // 2 * 2 * MIB) == 0
    before = container.agreed()
    assert shell("async_over", 2 * MIB, 1234) == [OUT_OF_MEMORY, 1234]  # the pool took 32 MiB for it
    assert container.agreed() == before
    assert container.region().devices[0].denied == 1
    assert shell.status("alloc", 2 * MIB) == 0


@pytest.mark.parametrize(("sizes", "passed"), [((200, 300, 400), 0), ((700, 300, 400), 1)], ids=["seen", "late"])
def test_graphs_of_useless_spares_pass_the_limit_once(start, sizes, passed):
    """
    A launch cannot be undone: what it took too much is given back after it. That spare memory serves nothing is known
    from then on; where there was room for it, before it could be too much.
    """
    container, shell = start(**FRAGMENTED)
    over = 0
    for size in sizes:
        graph = shell("graph", size * MIB, 1, "node")[1]
        before = container.region().devices[0].peak_bytes
        for _ in range(10):
            assert shell.status("launch", graph) == 0
            assert room(container) >= 0
        over += LIMIT * MIB < container.region().devices[0].peak_bytes > before
    assert over == passed


LONG_MS, SHORT_MS = 1500, 100
SIZE = 200 * MIB


@pytest.mark.parametrize("first", ["free_async", "destroy_pool"])
@pytest.mark.parametrize("kept", [0, 2**64 - 1], ids=["usual", "keeps all"])
@pytest.mark.parametrize("wait", ["sync", "sync_context"])
def test_destroyed_pool_counts_until_its_stream_is_waited_for(start, shells, first, kept, wait):
    """The driver keeps the memory for as long as a kernel may use it. The call that destroys the pool returns early."""
    container, shell = start()
    second, other = shells(container), shell.made("stream")
    before, size = container.agreed(), room(container) // (4 * MIB) * 4 * MIB
    pool = shell.made("pool", 0)
    thing = shell.made("from_pool", size, pool)
    assert shell.status("threshold", pool, kept) == shell.status("run", LONG_MS) == 0
    calls = [("free_async", thing), ("destroy_pool", pool)]
    for call in calls if first == "free_async" else calls[::-1]:
        assert shell.status(*call) == shell.status("sync_stream", other) == 0
    assert container.agreed() == before + size
    assert second.status("alloc", size) == OUT_OF_MEMORY
    assert shell.status(wait) == 0
    assert container.agreed() == before
    assert second.status("alloc", size) == 0


@pytest.mark.parametrize(
    ("contexts", "end", "kept"),
    [(1, "sync_stream", "0"), (1, "sync_stream", "1"), (2, "sync_context", "0"), (2, "destroy_context", "0")],
)
def test_destroyed_pool_of_two_streams_is_never_free_early(start, contexts, end, kept):
    """The second stream, perhaps of another context, comes to its free later. `agreed` compares the driver's books."""
    container, shell = start(HAMI_SIM_POOL_SHARED_KEPT=kept)
    primary, pool = shell.made("current"), shell.made("pool", 0)
    places = [(primary, shell.made("stream"))]
    assert contexts == 1 or shell.status("context", 0) == 0
    places.append((shell.made("current"), shell.made("stream")))
    before, things = container.agreed(), [shell.made("from_pool", SIZE, pool) for _ in places]
    for (home, stream), thing, ms in zip(places, things, (SHORT_MS, LONG_MS), strict=True):
        assert shell.status("use_context", home) == 0
        assert shell.status("run_in", ms, stream) == shell.status("free_in", thing, stream) == 0
    assert shell.status("destroy_pool", pool) == 0
    assert container.agreed() == before + 2 * SIZE
    for home, stream in places:
        assert shell.status("use_context", home) == 0
        if end == "destroy_context" and home != primary:
            assert shell.status(end, home) == 0
        elif end != "destroy_context":
            assert shell.status(end, *([stream] if end == "sync_stream" else [])) == 0
        container.agreed()
    assert shell.status("use_context", primary) == shell.status("sync_context") == 0
    assert container.agreed() == before


@pytest.mark.parametrize("free", ["free_async", "free_in"])
def test_refusal_asks_whether_a_destroyed_pool_is_empty(start, free):
    """Nobody waits, and the stream has long come to the free."""
    container, shell = start()
    size = room(container) // (4 * MIB) * 4 * MIB
    pool, stream = shell.made("pool", 0), shell.made("stream")
    thing = shell.made("from_pool", size, pool)
    assert shell.status("destroy_pool", pool) == 0
    assert shell.status(free, thing, stream) == 0
    assert shell.status("alloc", size) == 0


@pytest.mark.parametrize("wait", ["sync", "sync_context"])
@pytest.mark.parametrize("first", ["wait", "destroy"])
def test_pool_the_driver_never_trims_is_over_after_the_wait(start, first, wait):
    """As CUDA's programming guide has it of pools that can be shared."""
    container, shell = start(HAMI_SIM_POOL_SHARED_KEPT="1")
    before, pool = container.agreed(), shell.made("pool", 0)
    thing = shell.made("from_pool", 400 * MIB, pool)
    assert shell.status("run", SHORT_MS) == shell.status("free_async", thing) == 0
    calls = [(wait,), ("destroy_pool", pool)]
    for call in calls if first == "wait" else calls[::-1]:
        assert container.agreed() == before + 400 * MIB
        assert shell.status(*call) == 0
    assert container.agreed() == before


def test_capture_in_a_threads_default_stream_takes_nothing(start):
    """It is the graph's, whose launch may be refused."""
    container, shell = start()
    before = container.agreed()
    assert shell.status("capture_own", 2 * LIMIT * MIB) == shell.status("capture_own", 100 * MIB) == 0
    assert container.agreed() == before
    assert container.region().devices[0].denied == 0


def test_pool_with_a_handle_just_destroyed_is_another(start):
    """The driver may give the handle to another thread before the call that destroys the pool has returned."""
    container, shell = start(HAMI_SIM_POOL_END_MS="400", **STEPS)
    before = container.agreed()
    thing = shell.made("swap_pool", shell.made("pool", 0), 34 * MIB)
    assert container.agreed() == before + 64 * MIB
    assert shell.status("free_async", thing) == shell.status("sync") == 0
    assert container.agreed() == before


@pytest.mark.parametrize("destroyed", [False, True], ids=["alive", "destroyed"])
def test_process_may_have_any_number_of_pools(start, destroyed):
    """Destroyed ones as well: a stream that is at work keeps all of them until it comes to the frees."""
    container, shell = start()
    before = container.agreed()
    assert shell.status("run", LONG_MS) == 0
    for _ in range(300):
        pool = shell.made("pool", 0)
        thing = shell.made("from_pool", 2 * MIB, pool)
        assert not destroyed or shell.status("free_async", thing) == shell.status("destroy_pool", pool) == 0
    assert shell.status("sync") == 0
    assert container.agreed() == before + (0 if destroyed else 600 * MIB)


def test_destroyed_current_pool_gives_way_to_the_devices_own(start):
    """At once, although the stream has yet to come to what was freed."""
    container, shell = start()
    before, pool = container.agreed(), shell.made("pool", 0)
    assert shell.status("set_pool", pool, 0) == 0
    thing = shell.made("async", 400 * MIB)
    assert shell.status("run", LONG_MS) == shell.status("free_async", thing) == 0
    assert shell.status("destroy_pool", pool) == 0
    assert shell.status("from_pool", 2 * MIB, pool) == shell.status("destroy_pool", pool) == INVALID_VALUE
    assert shell.status("destroy_pool", shell.made("pool_of", 0)) == INVALID_VALUE
    assert shell.status("async", 100 * MIB) == 0
    assert container.agreed() == before + 500 * MIB
    assert shell.status("sync") == 0
    assert container.agreed() == before + 100 * MIB
