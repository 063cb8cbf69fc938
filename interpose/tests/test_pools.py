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
def test_what_a_pool_gives_back_when_somebody_waits_is_free_for_others(start, shells, sync):
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


def test_a_pool_keeps_its_release_threshold_until_it_is_trimmed(start):
    container, shell = start()
    before = container.agreed()
    pool = shell("pool_of", 0)[1]
    assert shell.status("threshold", pool, 100 * MIB) == 0
    things = [shell("async", size * MIB)[1] for size in (300, 50)]
    assert container.agreed() == before + 350 * MIB
    for thing in things:
        assert shell.status("free_async", thing) == 0
    assert shell.status("sync") == 0
    assert container.agreed() == before + 100 * MIB
    assert shell("async", 60 * MIB)[0] == 0  # of what it kept
    assert container.agreed() == before + 100 * MIB
    assert shell.status("trim_pool", pool) == 0
    assert container.agreed() == before + 60 * MIB


def test_a_threshold_set_lower_later_counts_from_the_next_wait_on(start):
    container, shell = start()
    before = container.agreed()
    pool = shell("pool_of", 0)[1]
    assert shell.status("threshold", pool, 2**64 - 1) == 0
    assert shell.status("free_async", shell("async", 300 * MIB)[1]) == shell.status("sync") == 0
    assert container.agreed() == before + 300 * MIB
    assert shell.status("threshold", pool, 0) == 0
    assert shell.status("free_async", shell("async", 10 * MIB)[1]) == shell.status("sync") == 0
    assert container.agreed() == before


class Looks:
    """Whether a wait looks at pools: then it is told nothing, and nothing changes by that."""

    def __init__(self, container, shell):
        self.container, self.shell = container, shell

    def __call__(self, *sync) -> bool:
        before = self.container.region().devices[0].used_bytes
        with sim.State(self.container.state) as books:
            books.inject(sim.Fault("cuMemPoolGetAttribute", error=999))
            assert self.shell.status(*sync) == 0
            looked = books.hits("cuMemPoolGetAttribute") > 0
            books.clear()
        assert self.container.region().devices[0].used_bytes == before
        return looked


@pytest.mark.parametrize("sync", SYNCS)
@pytest.mark.parametrize("free", ["free", "free_async"])
def test_a_pool_that_keeps_more_than_is_used_is_not_looked_at_for_ever(start, sync, free):
    """Of the 32 MiB that it has taken at once something is in use."""
    container, shell = start(**STEPS)
    looks, before = Looks(container, shell), container.agreed()
    assert shell.status("async", 10 * MIB) == 0
    for _ in range(3):
        thing = shell.made("async", 40 * MIB)
        assert shell.status(free, thing) == 0
        assert container.agreed() == before + 64 * MIB
        assert shell.status(sync) == 0
        assert container.agreed() == before + 32 * MIB
        if sync == "sync_event" and free == "free_async":
            assert looks(sync), "an event says nothing about the stream's end"
            assert shell.status("sync") == 0
        assert not any(looks(each) for each in SYNCS)


def test_a_pool_is_looked_at_until_its_stream_or_context_is_waited_for(start):
    """Where all frees were in one stream, a wait for that one; else only a wait for the context sees the end of all."""
    container, shell = start(**STEPS)
    looks = Looks(container, shell)
    first, second = (shell("stream")[1] for _ in range(2))
    things = [shell("async", 40 * MIB)[1] for _ in range(3)]
    assert shell.status("async", 10 * MIB) == 0
    assert shell.status("free_in", things[0], first) == 0
    for other in (("sync_stream", second), ("sync",), ("sync_event",)):
        assert shell.status(*other) == 0
        assert looks(*other)
    assert shell.status("sync_stream", first) == 0
    assert not looks("sync_stream", first)
    assert shell.status("free_in", things[1], first) == shell.status("free_in", things[2], second) == 0
    for stream in (first, second):
        assert shell.status("sync_stream", stream) == 0
        assert looks("sync_stream", stream)
    assert shell.status("sync_context") == 0
    assert not looks("sync_stream", first)


def test_a_pool_set_for_its_device_is_the_one_that_counts(start):
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


def test_what_a_pool_has_to_spare_gives_way_to_what_it_cannot_serve(start):
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


def test_growth_that_is_taken_back_leaves_the_callers_address_alone(start):
    container, shell = start(**STEPS)
    assert shell.status("alloc", (room(container) // MIB - 20) // 2 * 2 * MIB) == 0
    before = container.agreed()
    assert shell("async_over", 2 * MIB, 1234) == [OUT_OF_MEMORY, 1234]  # the pool took 32 MiB for it
    assert container.agreed() == before
    assert container.region().devices[0].denied == 1
    assert shell.status("alloc", 2 * MIB) == 0


@pytest.mark.parametrize(("sizes", "passed"), [((200, 300, 400), 0), ((700, 300, 400), 1)], ids=["seen", "late"])
def test_graphs_whose_spare_memory_serves_nothing_pass_the_limit_once_at_most(start, sizes, passed):
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


@pytest.mark.parametrize("first", ["free", "destroy"])
@pytest.mark.parametrize("wait", ["sync", "sync_context"])
def test_what_a_destroyed_pool_had_counts_until_the_stream_has_come_to_the_free(start, shells, first, wait):
    """The driver keeps it for as long as a kernel may use it; the call that destroys the pool returns at once."""
    container, shell = start()
    second = shells(container)
    before, size = container.agreed(), room(container) // (4 * MIB) * 4 * MIB
    pool = shell("pool", 0)[1]
    thing = shell("from_pool", size, pool)[1]
    assert shell.status("run", LONG_MS) == 0
    calls = [("free_async", thing), ("destroy_pool", pool)]
    for call in calls if first == "free" else calls[::-1]:
        assert shell.status(*call) == 0
    assert container.agreed() == before + size
    assert second.status("alloc", size) == OUT_OF_MEMORY
    assert shell.status(wait) == 0
    assert container.agreed() == before
    assert second.status("alloc", size) == 0


class Destroyed:
    """A pool that was destroyed although two streams have yet to come to what was freed in them, the second later."""

    def __init__(self, container, shell) -> None:
        self.container, self.shell = container, shell
        self.pool = shell("pool", 0)[1]
        self.things = [shell("from_pool", SIZE, self.pool)[1] for _ in range(2)]
        self.before = container.agreed() - 2 * SIZE

    def free(self, number: int, *stream: int) -> None:
        """In a stream of the current context, or its default one, that is at work."""
        run, free = ("run_in", "free_in") if stream else ("run", "free_async")
        assert self.shell.status(run, SHORT_MS + number * LONG_MS, *stream) == 0
        assert self.shell.status(free, self.things[number], *stream) == 0

    def counts(self) -> bool:
        found = self.container.agreed() - self.before
        assert found in (0, 2 * SIZE)
        return found != 0


def test_a_destroyed_pool_is_over_when_each_of_its_streams_was_waited_for(start):
    container, shell = start()
    destroyed = Destroyed(container, shell)
    streams = [shell("stream")[1] for _ in range(2)]
    for number, stream in enumerate(streams):
        destroyed.free(number, stream)
    assert shell.status("destroy_pool", destroyed.pool) == 0
    assert destroyed.counts()
    assert shell.status("sync_stream", streams[0]) == 0
    assert destroyed.counts()
    assert shell.status("sync_stream", streams[1]) == 0
    assert not destroyed.counts()


@pytest.mark.parametrize("end", ["sync", "sync_context", "destroy_context"])
def test_a_destroyed_pool_counts_what_the_driver_has_of_several_contexts(start, end):
    """The simulated driver waits for the work of both contexts whichever is waited for; `used` compares its books."""
    container, shell = start()
    primary = shell("current")[1]
    assert shell.status("context", 0) == 0
    other = shell("current")[1]
    destroyed = Destroyed(container, shell)
    destroyed.free(0)
    assert shell.status("use_context", primary) == 0
    destroyed.free(1)
    assert shell.status("destroy_pool", destroyed.pool) == 0
    assert destroyed.counts()
    assert shell.status("use_context", other) == 0
    assert shell.status(*([end, other] if end == "destroy_context" else [end])) == 0
    assert shell.status("use_context", primary) == shell.status("sync") == 0
    assert not destroyed.counts()


def test_an_idle_pool_that_is_destroyed_is_free_at_once(start):
    container, shell = start()
    before = container.agreed()
    pool = shell("pool", 0)[1]
    assert shell.status("free_async", shell("from_pool", 400 * MIB, pool)[1]) == 0
    assert shell.status("destroy_pool", pool) == 0
    assert container.agreed() == before


@pytest.mark.parametrize("free", ["free", "free_async"])
def test_each_allocation_of_a_destroyed_pool_counts_until_it_is_freed(start, free):
    container, shell = start()
    before, size = container.agreed(), 400 * MIB
    pool = shell("pool", 0)[1]
    things = [shell("from_pool", size, pool)[1] for _ in range(2)]
    assert shell.status("destroy_pool", pool) == 0
    for left, thing in ((2, things[0]), (1, things[1])):
        assert container.agreed() == before + left * size
        assert shell.status(free, thing) == 0
    assert container.agreed() == before


@pytest.mark.parametrize("free", ["free_async", "free_in"])
def test_a_refusal_asks_whether_what_a_destroyed_pool_had_is_free(start, free):
    """Nobody waits, and the stream has long come to the free."""
    container, shell = start()
    size = room(container) // (4 * MIB) * 4 * MIB
    pool, stream = shell("pool", 0)[1], shell("stream")[1]
    thing = shell("from_pool", size, pool)[1]
    assert shell.status("destroy_pool", pool) == 0
    assert shell.status(free, thing, stream) == 0
    assert shell.status("alloc", size) == 0


def test_a_stream_that_has_the_handle_of_an_ended_one_is_another(start):
    container, shell = start(**STEPS)
    looks, stream = Looks(container, shell), shell("stream")[1]
    thing = shell("async", 40 * MIB)[1]
    assert shell.status("async", 10 * MIB) == 0
    assert shell.status("free_in", thing, stream) == shell.status("end_stream", stream) == 0
    again = shell("stream")[1]
    assert shell.status("sync_stream", again) == 0
    assert looks("sync_stream", again)
    assert shell.status("sync_context") == 0
    assert not looks("sync_context")


def test_what_is_captured_in_a_threads_own_default_stream_takes_nothing(start):
    """It is the graph's, whose launch may be refused."""
    container, shell = start()
    before = container.agreed()
    assert shell.status("capture_own", 2 * LIMIT * MIB) == 0
    assert shell.status("capture_own", 100 * MIB) == 0
    assert container.agreed() == before
    assert container.region().devices[0].denied == 0


def test_a_pool_that_has_the_handle_of_one_just_destroyed_is_another(start):
    """The driver may give the handle to another thread before the call that destroys the pool has returned."""
    container, shell = start(HAMI_SIM_POOL_END_MS="400", **STEPS)
    before = container.agreed()
    thing = shell.made("swap_pool", shell("pool", 0)[1], 34 * MIB)
    assert container.agreed() == before + 64 * MIB
    assert shell.status("free_async", thing) == shell.status("sync") == 0
    assert container.agreed() == before


def test_a_pool_that_keeps_what_is_freed_counts_when_it_is_destroyed_before_its_stream_has_come_to_the_free(start):
    """A wait for another stream ends the watch on it, since it would keep that anyway, but not what it has."""
    container, shell = start()
    before, other = container.agreed(), shell("stream")[1]
    pool = shell("pool", 0)[1]
    assert shell.status("threshold", pool, 2**64 - 1) == 0
    thing = shell("from_pool", 400 * MIB, pool)[1]
    assert shell.status("run", LONG_MS) == shell.status("free_async", thing) == 0
    assert shell.status("sync_stream", other) == shell.status("destroy_pool", pool) == 0
    assert container.agreed() == before + 400 * MIB
    assert shell.status("sync") == 0
    assert container.agreed() == before


@pytest.mark.parametrize("destroyed", [False, True], ids=["alive", "destroyed"])
def test_a_process_may_have_any_number_of_pools(start, destroyed):
    """Destroyed ones as well: a stream that is at work keeps all of them until it comes to the frees."""
    container, shell = start()
    before = container.agreed()
    assert shell.status("run", LONG_MS) == 0
    for number in range(1, 301):
        status, pool = shell("pool", 0)
        assert status == 0, f"pool {number}"
        status, thing = shell("from_pool", 2 * MIB, pool)
        assert status == 0, f"pool {number}"
        assert not destroyed or shell.status("free_async", thing) == shell.status("destroy_pool", pool) == 0
    assert shell.status("sync") == 0
    assert container.agreed() == before + (0 if destroyed else 600 * MIB)


def test_a_current_pool_that_is_destroyed_gives_way_to_the_devices_own(start):
    """At once, although the stream has yet to come to what was freed."""
    container, shell = start()
    before, pool = container.agreed(), shell("pool", 0)[1]
    assert shell.status("set_pool", pool, 0) == 0
    thing = shell("async", 400 * MIB)[1]
    assert shell.status("run", LONG_MS) == shell.status("free_async", thing) == 0
    assert shell.status("destroy_pool", pool) == 0
    assert shell("from_pool", 2 * MIB, pool)[0] == shell.status("destroy_pool", pool) == INVALID_VALUE
    assert shell.status("destroy_pool", shell("pool_of", 0)[1]) == INVALID_VALUE
    assert shell("async", 100 * MIB)[0] == 0
    assert container.agreed() == before + 500 * MIB
    assert shell.status("sync") == 0
    assert container.agreed() == before + 100 * MIB


@pytest.mark.parametrize("wait", ["sync", "sync_context"])
@pytest.mark.parametrize("first", ["wait", "destroy"])
def test_a_pool_that_the_driver_never_trims_is_over_after_the_wait(start, first, wait):
    """As CUDA's programming guide has it of pools that can be shared."""
    container, shell = start(HAMI_SIM_POOL_SHARED_KEPT="1")
    before, pool = container.agreed(), shell("pool", 0)[1]
    thing = shell("from_pool", 400 * MIB, pool)[1]
    assert shell.status("run", SHORT_MS) == shell.status("free_async", thing) == 0
    calls = [(wait,), ("destroy_pool", pool)]
    for call in calls if first == "wait" else calls[::-1]:
        assert container.agreed() == before + 400 * MIB
        assert shell.status(*call) == 0
    assert container.agreed() == before
