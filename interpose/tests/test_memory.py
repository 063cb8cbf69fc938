"""What counts, by kind of allocation; it always comes back."""

from __future__ import annotations

import hami_gpusim as sim
import pytest

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
OUT_OF_MEMORY = 2


@pytest.fixture
def shell(make_container, shells):
    return shells(make_container(4000))


def taken_by_books(gpus) -> int:
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
        (("alloc", MIB - 1), 2 * MIB, "free"),
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
    before, books = shell.free_bytes(), taken_by_books(gpus)
    thing = shell.made(*command)
    assert before - shell.free_bytes() == taken
    if command[0] not in {"managed", "external"}:
        assert taken_by_books(gpus) - books == taken
    assert shell.status(undo, thing) == 0
    assert shell.status("sync") == 0
    assert shell.free_bytes() == before


@pytest.mark.parametrize(
    "command",
    [
        ("alloc", 5000 * MIB),
        ("alloc", 2**63),
        ("alloc", 2**64 - 1),
        ("managed", 5000 * MIB),
        ("async", 5000 * MIB),
        ("create", 5000 * MIB, 0),
        ("pitch", 2**40, 2**40),
        ("array", 65536, 65536, 0),
        ("array_v1", 65536, 65536, 0),
        ("mipmap", 65536, 65536, 17),
        ("external", 5000 * MIB),
        ("external", 2**64 - 1),
    ],
    ids=str,
)
def test_refused_beyond_the_limit_with_out_of_memory(shell, make_container, command):
    before = shell.free_bytes()
    assert shell.status(*command) == OUT_OF_MEMORY
    assert shell.free_bytes() == before
    assert shell.status("alloc", 2 * MIB) == 0


def test_small_allocations_share_blocks(shell):
    before = shell.free_bytes()
    things = [shell("alloc", 4096)[1] for _ in range(512)]  # exactly one block
    assert before - shell.free_bytes() == 2 * MIB
    extra = shell("alloc", 4096)[1]
    assert before - shell.free_bytes() == 4 * MIB
    for thing in [*things[1:], extra]:
        assert shell.status("free", thing) == 0
    assert before - shell.free_bytes() == 2 * MIB
    assert shell.status("free", things[0]) == 0
    assert shell.free_bytes() == before


def test_small_allocation_fits_into_its_block_when_the_limit_is_full(shell):
    assert shell.status("alloc", MIB - 1) == 0
    assert shell.status("alloc", shell.free_bytes() // (2 * MIB) * 2 * MIB) == 0
    assert shell.status("alloc", 2 * MIB) == OUT_OF_MEMORY
    assert shell.status("alloc", 512) == OUT_OF_MEMORY  # of another size: would start a block
    assert shell.status("alloc", MIB - 1) == 0
    assert shell.status("alloc", MIB - 1) == OUT_OF_MEMORY


def test_created_memory_is_charged_to_the_device_it_is_on(started):
    container, shell = started(4000, 3000)
    assert shell.status("create", 8 * MIB, 1) == 0
    assert container.region().devices[1].used_bytes == 8 * MIB
    assert shell.status("create", 3000 * MIB, 1) == OUT_OF_MEMORY
    assert shell.status("create", 3000 * MIB, 0) == 0


def test_a_destroyed_context_gives_everything_back(started):
    container, shell = started(4000, device=None)
    context = shell("context", 0)[1]
    for size in [512, 4096, 2 * MIB, 100 * MIB]:
        assert shell.status("alloc", size) == 0
    assert shell.status("destroy_context", context) == 0
    assert container.region().devices[0].used_bytes == 0


def test_the_last_release_of_the_primary_context_gives_everything_back(started):
    container, shell = started(4000)
    reserve = container.region().devices[0].used_bytes
    assert reserve > 0
    assert shell.status("use", 0) == 0
    assert container.region().devices[0].used_bytes == reserve
    assert shell.status("alloc", 100 * MIB) == 0
    assert shell.status("release_primary", 0) == 0
    assert container.region().devices[0].used_bytes == reserve + 100 * MIB
    assert shell.status("release_primary", 0) == 0
    assert container.region().devices[0].used_bytes == 0


def test_a_limit_below_the_context_reserve_refuses_the_context(make_container, shells):
    shell = shells(make_container(100), device=None)
    assert shell.status("use", 0) == OUT_OF_MEMORY
    assert shell.status("context", 0) == OUT_OF_MEMORY


def test_a_failed_free_changes_nothing(shell):
    thing = shell("alloc", 2 * MIB)[1]
    before = shell.free_bytes()
    assert shell.status("free", thing + 1) == 0  # address 0: nothing to free
    assert shell.free_bytes() == before
    assert shell.status("free", thing) == 0
    assert shell.status("free", thing) != 0
    assert shell.free_bytes() == before + 2 * MIB


@pytest.mark.here_only("qemu-user has no room for so many addresses")
def test_no_limit_shows_and_gives_the_whole_device(started, gpus):
    container, shell = started(0)
    with sim.State(gpus) as state:
        total = state.devices[0].memory_total
    assert shell("total", 0) == [0, total]
    assert shell.status("alloc", 60000 * MIB) == 0
    assert container.region().devices[0].used_bytes > 60000 * MIB


def test_devices_are_known_by_uuid_not_by_number(started):
    _, shell = started(3000, 4000, order=(1, 0), device=None)
    assert shell("total", 0) == [0, 4000 * MIB]
    assert shell("total", 1) == [0, 3000 * MIB]
    assert shell("nvml", 1)[1] == 3000 * MIB


# Every way to take memory whose size can be chosen to 2 MiB: the last size that fits, the first that does not.
@pytest.mark.parametrize(
    ("command", "undo"),
    [
        (("alloc", "{}"), "free"),
        (("managed", "{}"), "free"),
        (("async", "{}"), "free_async"),
        (("create", "{}", 0), "release"),
        (("external", "{}"), "destroy_external"),
    ],
    ids=str,
)
def test_the_last_size_that_fits_and_the_first_that_does_not(shell, command, undo, processor):
    if processor != "here" and command[0] == "managed":
        pytest.skip("qemu-user has no room for so many addresses of the host")
    before = shell.free_bytes()
    room = before // (2 * MIB) * 2 * MIB

    def ask(size):
        return shell(*(str(word).format(size) for word in command))

    over = room + 2 * MIB if command[0] == "create" else room + 1
    assert ask(over) == [OUT_OF_MEMORY, 0]
    status, thing = ask(room)
    assert status == 0
    assert before - shell.free_bytes() == room
    assert shell.status(undo, thing) == 0
    assert shell.status("sync") == 0
    assert shell.free_bytes() == before


def test_a_green_context_takes_the_reserve_of_the_primary_one(started, make_container, shells):
    container, shell = started(4000, device=None)
    green = shell.made("green", 0)
    reserve = container.region().devices[0].used_bytes
    assert reserve == container.region().devices[0].context_bytes > 0
    assert shell.status("use_green", green) == 0
    assert shell.status("alloc", 10 * MIB) == 0
    assert shell.status("alloc", 4096) == 0
    assert container.region().devices[0].used_bytes == reserve + 12 * MIB
    second = shell("green", 0)[1]
    assert container.region().devices[0].used_bytes == reserve + 12 * MIB
    assert shell.status("destroy_green", green) == 0
    assert container.region().devices[0].used_bytes == reserve + 12 * MIB
    assert shell.status("destroy_green", second) == 0
    assert container.region().devices[0].used_bytes == 0
    assert shells(make_container(100), device=None).status("green", 0) == OUT_OF_MEMORY


def test_an_attached_context_ends_with_its_last_reference(started):
    container, shell = started(4000, device=None)
    context = shell("context", 0)[1]
    assert shell.status("attach") == 0
    assert shell.status("alloc", 10 * MIB) == 0
    held = container.region().devices[0].used_bytes
    assert shell.status("detach", context) == 0
    assert container.region().devices[0].used_bytes == held
    assert shell.status("detach", context) == 0
    assert container.region().devices[0].used_bytes == 0


@pytest.mark.parametrize("way", ["1", "1,0", "uuid", "uuid start", "1,9,0"])
def test_devices_chosen_and_ordered_by_the_program(make_container, shells, gpus, way):
    """The limit goes with the card, however CUDA_VISIBLE_DEVICES names it and in whatever order."""
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


@pytest.mark.parametrize("retained", [False, True])
def test_memory_counts_until_its_last_handle_and_mapping(shell, retained):
    before = shell.free_bytes()
    address = shell("reserve", 4 * MIB)[1]
    handle = shell("create", 4 * MIB, 0)[1]
    assert shell.status("map", address, handle, 4 * MIB) == 0
    again = shell("retain", address)[1] if retained else None
    assert shell.status("release", handle) == 0
    assert before - shell.free_bytes() == 4 * MIB
    assert shell.status("unmap", address, 0, 4 * MIB) == 0
    if retained:
        assert before - shell.free_bytes() == 4 * MIB
        assert shell.status("release", again) == 0
    assert shell.free_bytes() == before


def put_tile(shell, array: int, size: int, index: int) -> None:
    """Memory that is only in this place of a sparse array."""
    handle = shell("create", size, 0)[1]
    assert shell.status("map_tile", array, handle, index) == 0
    assert shell.status("release", handle) == 0


def test_memory_in_a_sparse_array_counts_until_it_is_unmapped(shell, gpus):
    before = shell.free_bytes()
    array = shell("sparse", 1024, 128)[1]
    assert shell.free_bytes() == before
    put_tile(shell, array, 2 * MIB, 0)
    assert before - shell.free_bytes() == 2 * MIB
    put_tile(shell, array, 4 * MIB, 1)
    assert before - shell.free_bytes() == 6 * MIB
    assert shell.status("unmap_tiles", array, 0, 1, 1) == 0
    assert before - shell.free_bytes() == 2 * MIB
    assert shell.status("unmap_tiles", array, 0, 0, 1) == 0
    assert shell.free_bytes() == before


def test_mapping_over_a_sparse_part_gives_back_what_was_there(shell):
    before = shell.free_bytes()
    array = shell("sparse", 1024, 128)[1]
    for size in (2 * MIB, 4 * MIB):
        put_tile(shell, array, size, 0)
        assert before - shell.free_bytes() == size
    assert shell.status("destroy_array", array) == 0
    assert shell.free_bytes() == before


def test_parts_of_a_sparse_array_unmapped_together(shell, gpus):
    before, books = shell.free_bytes(), taken_by_books(gpus)
    array = shell("sparse", 1024, 128)[1]
    for index in (1, 2, 4):
        put_tile(shell, array, 2 * MIB, index)
    assert shell.status("unmap_tiles", array, 0, 0, 3) == 0
    assert before - shell.free_bytes() == taken_by_books(gpus) - books == 2 * MIB
    assert shell.status("destroy_array", array) == 0
    assert shell.free_bytes() == before
    assert taken_by_books(gpus) == books


def test_a_context_takes_sparse_arrays_along(started):
    container, shell = started(4000, device=None)
    context = shell("context", 0)[1]
    array, handle = shell("sparse", 1024, 128)[1], shell("create", 2 * MIB, 0)[1]
    assert shell.status("map_tile", array, handle, 3) == 0
    assert shell.status("destroy_context", context) == 0
    assert container.region().devices[0].used_bytes == 2 * MIB  # its handle is not of the context
    assert shell.status("release", handle) == 0
    assert container.region().devices[0].used_bytes == 0


@pytest.mark.parametrize("kind", ["pool", "pool_of"])
def test_a_pool_counts_on_its_own_device_whatever_the_stream(started, gpus, kind):
    """Made for the second device, or that device's own; allocated from in a stream of the first."""
    container, shell = started(3000, 2000)
    pool = shell.made(kind, 1)
    with sim.State(gpus) as state:
        before = [device.memory_used for device in state.devices]
    thing = shell.made("from_pool", 500 * MIB, pool)
    with sim.State(gpus) as state:
        taken = [device.memory_used - was for device, was in zip(state.devices, before, strict=True)]
    found = container.region().devices
    assert taken == [0, 500 * MIB]
    assert [device.used_bytes - device.context_bytes for device in found] == [0, 500 * MIB]
    assert shell.status("from_pool", 1700 * MIB, pool) == OUT_OF_MEMORY
    assert shell.status("free_async", thing) == shell.status("sync") == 0
    assert [device.used_bytes - device.context_bytes for device in container.region().devices] == [0, 0]


@pytest.mark.here_only("qemu-user needs memory for each page that a program touches")
@pytest.mark.parametrize(
    ("command", "undo"),
    [
        (("alloc", 2 * MIB), "free"),
        (("array", 100, 100, 0), "destroy_array"),
        (("async", 2 * MIB), "free_async"),
        (("create", 2 * MIB, 0), "release"),
        (("multicast", 2 * MIB), "release"),
    ],
    ids=str,
)
def test_what_a_process_has_no_memory_to_remember_is_refused(started, gpus, command, undo, sanitized):
    """Never given and not counted, and never counted and not given."""
    if sanitized:
        pytest.skip("the sanitizers themselves need memory")
    container, shell = started(60000)
    before = container.region().devices[0].used_bytes
    assert shell.status(*command) == 0  # what is made once is there
    assert shell.status("starve") == 0
    made = [0]
    while (answer := shell(*command))[0] == 0:
        made.append(answer[1])
    assert answer[0] == OUT_OF_MEMORY
    each = 0 if command[0] == "multicast" else 2 * MIB
    assert 20 < len(made) < 20000
    assert container.region().devices[0].used_bytes == before + len(made) * each
    for thing in made:
        assert shell.status(undo, thing) == 0
    assert shell.status("sync") == 0
    assert container.region().devices[0].used_bytes == taken_by_books(gpus) == before


@pytest.mark.here_only("qemu-user needs memory for each page that a program touches")
def test_a_mapping_that_a_process_has_no_memory_to_remember_is_refused(started, gpus, sanitized):
    """It would hold memory that is not counted once its handle is released, as is usual."""
    if sanitized:
        pytest.skip("the sanitizers themselves need memory")
    container, shell = started(60000)
    assert shell("create", 2 * MIB, 0) == [0, 0]
    assert shell("reserve", 2 * MIB) == [0, 1]
    assert shell.status("starve") == 0
    assert shell.status("map", 1, 0, 2 * MIB) == OUT_OF_MEMORY
    assert shell.status("release", 0) == 0
    assert container.region().devices[0].used_bytes == taken_by_books(gpus)


MAPPED = 2  # CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP


@pytest.mark.here_only("qemu-user has no room for so many addresses of the host")
@pytest.mark.parametrize(("command", "undo"), [("host", "free_host"), ("register", "unregister")])
@pytest.mark.parametrize("flags", [0, MAPPED])
def test_host_memory_costs_the_device_nothing_at_the_limit(started, gpus, command, undo, flags):
    container, shell = started(1000)
    assert shell.status("alloc", shell.free_bytes() // (2 * MIB) * 2 * MIB) == 0
    before, books = container.region().devices[0], taken_by_books(gpus)
    things = []
    for _ in range(4):  # more than the limit
        thing = shell.made(command, 300 * MIB, flags)
        things.append(thing)
    assert container.region().devices[0] == before
    assert taken_by_books(gpus) == books
    for thing in things:
        assert shell.status(undo, thing) == 0
    assert container.region().devices[0] == before
    assert shell.status("alloc", 2 * MIB) == OUT_OF_MEMORY


PINNED, MANAGED = 1, 2  # CUmemAllocationType
NO_PLACE, IN_HOST, HOST_NUMA = 0, 2, 3  # CUmemLocationType


@pytest.mark.parametrize("place", [IN_HOST, HOST_NUMA])
@pytest.mark.parametrize("kind", ["pool_at", "own_pool_at"])
def test_a_pool_in_the_host_takes_nothing_of_the_device(started, kind, place):
    container, shell = started(2000)
    pool = shell.made(kind, PINNED, place)
    for _ in range(3):
        assert shell.status("from_pool", 1000 * MIB, pool) == 0
    device = container.region().devices[0]
    assert device.used_bytes == device.context_bytes


@pytest.mark.parametrize("place", [NO_PLACE, IN_HOST])
@pytest.mark.parametrize("kind", ["pool_at", "own_pool_at"])
def test_a_managed_pool_counts_wherever_it_prefers_to_be(started, kind, place):
    """As managed memory of any other kind: a kernel may bring all of it to the device."""
    container, shell = started(2000)
    pool = shell.made(kind, MANAGED, place)
    thing = shell.made("from_pool", 500 * MIB, pool)
    device = container.region().devices[0]
    assert device.used_bytes - device.context_bytes == 500 * MIB
    assert shell.status("from_pool", 2000 * MIB, pool) == OUT_OF_MEMORY
    assert shell.status("free_async", thing) == shell.status("sync") == 0
    device = container.region().devices[0]
    assert device.used_bytes == device.context_bytes


def test_threads_that_meet_a_pool_at_once_count_it_once(make_container, programs):
    make_container(8000).run(programs("first"), "pools", 60)
