"""What counts, by kind of allocation; it always comes back."""

from __future__ import annotations

import hami_gpusim as sim
import pytest

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
OUT_OF_MEMORY = 2
LIMIT = 4000


@pytest.fixture
def shell(make_container, shells):
    return shells(make_container(LIMIT))


def on_device(gpus) -> int:
    """What the simulated driver says that the first card has given."""
    with sim.State(gpus) as state:
        return state.devices[0].memory_used


@pytest.mark.parametrize(
    ("command", "taken", "undo"),
    [
        (("alloc", MIB), 2 * MIB, "free"),
        (("alloc", 2 * MIB), 2 * MIB, "free"),
        (("alloc", 2 * MIB + 1), 4 * MIB, "free"),
        (("alloc", 1), 2 * MIB, "free"),
        (("pitch", 4, 10000), 6 * MIB, "free"),  # rows of 4 bytes take 512
        (("managed", 3 * MIB), 4 * MIB, "free"),  # may come to lie there
        (("async", 3 * MIB), 4 * MIB, "free_async"),
        (("async", 3 * MIB), 4 * MIB, "free"),
        (("create", 4 * MIB, 0), 4 * MIB, "release"),
        (("array", 1024, 1024, 0), 16 * MIB, "destroy_array"),
        (("array", 100, 100, 10), 2 * MIB, "destroy_array"),
        (("array_v1", 1024, 1024, 0), 16 * MIB, "destroy_array"),
        (("array2d_v1", 1024, 1024), 16 * MIB, "destroy_array"),
        (("mipmap", 1024, 1024, 11), 22 * MIB, "destroy_mipmap"),
        (("external", 3 * MIB), 4 * MIB, "destroy_external"),
    ],
    ids=str,
)
def test_charged_as_taken_and_given_back(shell, gpus, command, taken, undo):
    before, books = shell.free_bytes(), on_device(gpus)
    thing = shell.made(*command)
    assert before - shell.free_bytes() == taken
    if command[0] not in {"managed", "external"}:
        assert on_device(gpus) - books == taken
    assert shell.status(undo, thing) == shell.status("sync") == 0
    assert shell.free_bytes() == before
    assert shell.status(undo, thing) != 0
    assert shell.free_bytes() == before, "a failed free changes nothing"


# Every way to take memory whose size can be chosen to 2 MiB: the last size that fits, the first that does not.
@pytest.mark.parametrize(
    ("kind", "more", "undo"),
    [
        ("alloc", 1, "free"),
        ("managed", 1, "free"),
        ("async", 1, "free_async"),
        ("create", 2 * MIB, "release"),
        ("external", 1, "destroy_external"),
    ],
)
def test_last_size_that_fits_and_first_that_does_not(shell, kind, more, undo, processor):
    if processor != "here" and kind == "managed":
        pytest.skip("qemu-user has no room for so many addresses of the host")
    before = shell.free_bytes()
    room = before // (2 * MIB) * 2 * MIB
    assert shell(kind, room + more, 0) == [OUT_OF_MEMORY, 0]
    thing = shell.made(kind, room, 0)
    assert before - shell.free_bytes() == room
    assert shell.status(undo, thing) == shell.status("sync") == 0
    assert shell.free_bytes() == before


@pytest.mark.parametrize(
    "command",
    [
        ("alloc", 2**63),
        ("alloc", 2**64 - 1),
        ("pitch", 2**40, 2**40),
        ("array", 65536, 65536, 0),
        ("array_v1", 65536, 65536, 0),
        ("mipmap", 65536, 65536, 17),
        ("external", 2**64 - 1),
    ],
    ids=str,
)
def test_sizes_beyond_all_numbers_are_refused(shell, command):
    before = shell.free_bytes()
    assert shell.status(*command) == OUT_OF_MEMORY
    assert shell.free_bytes() == before
    assert shell.status("alloc", 2 * MIB) == 0


def test_small_allocations_share_blocks_up_to_the_limit(shell):
    before = shell.free_bytes()
    halves = [shell.made("alloc", MIB - 1) for _ in range(4)]  # two blocks
    assert shell.status("free", halves[0]) == shell.status("alloc", MIB - 1) == 0
    assert before - shell.free_bytes() == 4 * MIB, "the driver fills the first one again"
    things = [shell.made("alloc", 4096) for _ in range(512)]  # exactly one block
    assert before - shell.free_bytes() == 6 * MIB
    assert shell.status("alloc", MIB - 1) == 0
    assert shell.status("alloc", shell.free_bytes() // (2 * MIB) * 2 * MIB) == 0
    full = shell.free_bytes()
    assert shell.status("alloc", 4096) == OUT_OF_MEMORY, "would start a block"
    assert shell.status("alloc", MIB - 1) == 0
    assert shell.status("alloc", MIB - 1) == OUT_OF_MEMORY
    for thing in things[1:]:
        assert shell.status("free", thing) == 0
    assert shell.free_bytes() == full
    assert shell.status("free", things[0]) == 0
    assert shell.free_bytes() == full + 2 * MIB


FILL = [
    ("alloc", 512),
    ("alloc", 100 * MIB),
    ("managed", 10 * MIB),
    ("array", 1024, 1024, 0),
    ("external", 10 * MIB),
    ("image", 10 * MIB),
    ("set_limit", 2, 108 * MIB),  # the heap of kernels, of 8 MiB at first
]
# How a program comes to a context, and the calls of which the last ends it.
WAYS = {
    "destroyed": ([("context", 0)], [("destroy_context", 0)]),
    "detached": ([("context", 0), ("attach",)], [("detach", 0), ("detach", 0)]),
    "released": ([("use", 0), ("use", 0)], [("release_primary", 0), ("release_primary", 0)]),
    "reset": ([("use", 0), ("use", 0)], [("reset_primary", 0)]),
    "green": ([("green", 0), ("use_green", 0), ("green", 0)], [("destroy_green", 0), ("destroy_green", 1)]),
}


@pytest.mark.parametrize("way", WAYS)
def test_context_takes_all_in_it_along(started, way):
    container, shell = started(LIMIT, device=None)
    begin, ends = WAYS[way]
    assert [shell.status(*command) for command in begin] == [0] * len(begin)
    reserve = container.agreed()
    assert reserve == container.region().devices[0].context_bytes > 0
    handle = shell.made("create", 2 * MIB, 0)
    assert [shell.status(*command) for command in FILL] == [0] * len(FILL)
    assert shell.status("map_tile", shell.made("sparse", 1024, 128), handle, 3) == 0
    held = container.region().devices[0].used_bytes
    assert held == reserve + (2 + 2 + 100 + 10 + 16 + 10 + 10 + 100) * MIB
    for end in ends[:-1]:
        assert shell.status(*end) == 0
        assert container.region().devices[0].used_bytes == held, "one reference is left"
    assert shell.status(*ends[-1]) == 0
    assert container.agreed() == 2 * MIB, "a handle is not of the context"
    assert shell.status("release", handle) == 0
    assert container.region().devices[0].used_bytes == 0


@pytest.mark.parametrize("kind", ["use", "context", "green"])
def test_context_that_does_not_fit_is_refused(make_container, shells, kind):
    container = make_container(100)
    assert shells(container, device=None).status(kind, 0) == OUT_OF_MEMORY
    assert container.agreed() == 0


@pytest.mark.here_only("qemu-user has no room for so many addresses")
def test_no_limit_shows_and_gives_the_whole_device(started, gpus):
    container, shell = started(0)
    with sim.State(gpus) as state:
        total = state.devices[0].memory_total
    assert shell("total", 0) == [0, total]
    assert shell.status("alloc", 60000 * MIB) == 0
    assert container.agreed() > 60000 * MIB


def test_limits_go_by_uuid_and_not_by_number(started):
    _, shell = started(3000, 4000, order=(1, 0), device=None)
    assert (shell("total", 0), shell("total", 1)) == ([0, 4000 * MIB], [0, 3000 * MIB])
    assert shell("nvml", 1)[1] == 3000 * MIB


@pytest.mark.parametrize("way", ["1", "1,0", "uuid", "uuid start", "1,9,0"])
def test_limit_follows_its_card_in_cuda_visible_devices(make_container, shells, gpus, way):
    container = make_container(3000, 4000)
    with sim.State(gpus) as state:
        first, second = (device.uuid for device in state.devices)
    names = {"uuid": f"{second},{first}", "uuid start": f"{second[:12]},{first[:12]}"}
    container.variables["CUDA_VISIBLE_DEVICES"] = names.get(way, way)
    shell = shells(container)
    assert shell("info")[2] == shell("total", 0)[1] == 4000 * MIB
    assert shell.status("alloc", 3200 * MIB) == 0
    assert [device.used_bytes > 0 for device in container.region().devices] == [False, True]
    assert shell("nvml", 0)[1:3] == [3000 * MIB, 0]  # NVML's numbers stay
    if way not in {"1", "1,9,0"}:  # what follows a number that is no card's is not visible
        assert shell("total", 1)[1] == 3000 * MIB
        assert shell.status("create", 8 * MIB, 1) == 0
        assert container.region().devices[0].used_bytes == 8 * MIB


@pytest.mark.parametrize("kind", ["create", "pool", "pool_of"])
def test_memory_counts_on_its_own_device(started, kind):
    """The context and the stream are the first device's, the memory or its pool the second one's."""
    container, shell = started(3000, 2000)
    first, pool = container.agreed(0), None if kind == "create" else shell.made(kind, 1)

    def command(mib: int) -> tuple[object, ...]:
        return ("create", mib * MIB, 1) if pool is None else ("from_pool", mib * MIB, pool)

    thing = shell.made(*command(500))
    assert (container.agreed(0), container.agreed(1)) == (first, 500 * MIB)
    assert shell.status(*command(1700)) == OUT_OF_MEMORY
    assert shell.status("release" if pool is None else "free_async", thing) == shell.status("sync") == 0
    assert (container.agreed(0), container.agreed(1)) == (first, 0)


@pytest.mark.here_only("qemu-user needs memory for each page that a program touches")
@pytest.mark.parametrize(
    ("command", "undo"),
    [
        (("alloc", 2 * MIB), "free"),
        (("array", 100, 100, 0), "destroy_array"),
        (("async", 2 * MIB), "free_async"),
        (("create", 2 * MIB, 0), "release"),
        (("multicast", 2 * MIB), "release"),
        (("map", 1, 0, 2 * MIB), ""),
    ],
    ids=str,
)
def test_nothing_is_given_that_cannot_be_remembered(started, command, undo, sanitized):
    """The process gets no more memory of its own. What it cannot record is refused, and neither given nor counted."""
    if sanitized:
        pytest.skip("the sanitizers themselves need memory")
    container, shell = started(60000)
    assert shell("create", 2 * MIB, 0) == [0, 0]
    assert shell("reserve", 2 * MIB) == [0, 1]
    before = container.agreed()
    if undo:
        assert shell("alloc" if command[0] == "map" else command[0], *command[1:]) == [0, 2]  # tables are made once
    assert shell.status("starve") == 0
    made = [2] if undo else []
    while (answer := shell(*command))[0] == 0:
        made.append(answer[1])
    assert answer[0] == OUT_OF_MEMORY
    assert 20 < len(made) < 20000 or not undo
    for thing in made:
        assert shell.status(undo, thing) == 0
    assert shell.status("sync") == 0
    assert container.agreed() == before
    assert shell.status("release", 0) == 0
    assert container.agreed() == before - 2 * MIB


MAPPED = 2  # CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP


@pytest.mark.here_only("qemu-user has no room for so many addresses of the host")
@pytest.mark.parametrize(("command", "undo"), [("host", "free_host"), ("register", "unregister")])
@pytest.mark.parametrize("flags", [0, MAPPED])
def test_host_memory_costs_the_device_nothing(started, command, undo, flags):
    container, shell = started(1000)
    assert shell.status("alloc", shell.free_bytes() // (2 * MIB) * 2 * MIB) == 0
    before = container.region().devices[0], container.agreed()
    things = [shell.made(command, 300 * MIB, flags) for _ in range(4)]  # more than the limit
    assert (container.region().devices[0], container.agreed()) == before
    assert [shell.status(undo, thing) for thing in things] == [0] * 4
    assert (container.region().devices[0], container.agreed()) == before
    assert shell.status("alloc", 2 * MIB) == OUT_OF_MEMORY


PINNED, MANAGED = 1, 2  # CUmemAllocationType
NO_PLACE, IN_HOST, HOST_NUMA = 0, 2, 3  # CUmemLocationType


@pytest.mark.parametrize(
    ("type_", "place", "counted"),
    [
        (PINNED, IN_HOST, 0),
        (PINNED, HOST_NUMA, 0),
        (MANAGED, NO_PLACE, 500 * MIB),  # a kernel may bring all of it to the device
        (MANAGED, IN_HOST, 500 * MIB),
    ],
)
@pytest.mark.parametrize("kind", ["pool_at", "own_pool_at"])
def test_pool_in_the_host_counts_only_if_it_may_move(started, kind, type_, place, counted):
    container, shell = started(2000)
    reserve = container.agreed()
    pool = shell.made(kind, type_, place)
    thing = shell.made("from_pool", 500 * MIB, pool)
    assert container.region().devices[0].used_bytes == reserve + counted
    assert shell.status("from_pool", 2000 * MIB, pool) == (OUT_OF_MEMORY if counted else 0)
    assert shell.status("free_async", thing) == shell.status("sync") == 0
    assert container.region().devices[0].used_bytes == reserve


def test_threads_that_meet_a_pool_at_once_count_it_once(make_container, programs):
    make_container(8000).run(programs("first"), "pools", 60)
