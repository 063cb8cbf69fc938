"""Memory that processes of a container share is counted once, and for as long as anybody has it."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

import hami_gpusim as sim
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

pytestmark = pytest.mark.each_machine

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
LIMIT = 3000
SIZE = 1000 * MIB
OUT_OF_MEMORY = 2


class Pair:
    """Two processes of one container, and what both readers say of it."""

    def __init__(self, container, shells, box: Path, devices: tuple[int, int] = (0, 0)) -> None:
        self.container, self.box, self.device = container, box, devices[0]
        self.taker, self.other = (shells(container, device=device) for device in devices)
        assert self.other.status("box", box) == 0
        self.reserve = self.used()

    def used(self, device: int | None = None) -> int:
        return self.container.agreed(self.device if device is None else device)

    def kill_taker(self) -> None:
        """Its context goes with it."""
        self.taker.kill()
        self.reserve //= 2

    def taker_ends(self, how: str, *undo: object) -> None:
        """By its death, or its hold of the memory by what undoes that."""
        if how == "is killed":
            self.kill_taker()
        else:
            assert self.taker.status(*undo) == 0

    def lend_address(self) -> tuple[int, str]:
        """The other opens what the taker took by its address; returns the thing and its handle."""
        thing = self.taker.made("alloc", SIZE)
        handle = self.taker.line("ipc_get", thing).split()[1]
        self.other.made("ipc_open", handle)
        return thing, handle

    def lend_external(self, size: int = SIZE) -> None:
        """Both import memory of another API, which the taker calls that large."""
        assert self.taker("external_lent", size, self.box) == [0, 0]
        assert self.other("external_fetched", SIZE) == [0, 0]

    def shared(self) -> int:
        """Of that, what is not for contexts."""
        return self.used() - self.reserve

    def make(self, size: int = SIZE) -> int:
        return self.taker.made("create", size, self.device)

    def give(self, handle: int) -> None:
        assert self.taker.status("post", handle, self.box) == 0

    def fetch(self, size: int = SIZE) -> tuple[int, int]:
        """Handle and mapped address in the other process."""
        handle, address = self.other.made("fetch"), self.other.made("reserve", size)
        assert self.other.status("map", address, handle, size) == 0
        return handle, address


@pytest.fixture
def pair(make_container, shells, tmp_path) -> Pair:
    return Pair(make_container(LIMIT), shells, tmp_path / "box")


def test_an_import_costs_nothing_while_the_taker_has_it(pair):
    handle = pair.make()
    pair.give(handle)
    imported, address = pair.fetch()
    assert pair.shared() == SIZE
    assert pair.other.status("unmap", address, 0, SIZE) == pair.other.status("release", imported) == 0
    assert pair.shared() == SIZE
    assert pair.taker.status("release", handle) == 0
    assert pair.shared() == 0


@pytest.mark.parametrize("ends", ["releases", "exits", "is killed"])
def test_memory_its_taker_let_go_of_counts_until_last_close(pair, ends):
    handle = pair.make()
    pair.give(handle)
    imported, address = pair.fetch()
    if ends == "releases":
        assert pair.taker.status("release", handle) == 0
    else:
        pair.reserve //= 2
        pair.taker.process.send_signal(signal.SIGKILL if ends == "is killed" else signal.SIGTERM)
        pair.taker.process.wait()
    assert pair.shared() == SIZE
    free = LIMIT * MIB - pair.used()
    end = time.monotonic() + 1
    while pair.other.free_bytes() != free and time.monotonic() < end:
        time.sleep(0.02)
    assert pair.other.free_bytes() == free, "a dead process's context is gone within a second, too"
    assert pair.other.status("alloc", free + 2 * MIB) == 2, "beyond the limit with what is shared"
    thing = pair.other.made("alloc", free // (2 * MIB) * 2 * MIB)
    assert pair.other.status("free", thing) == 0
    assert pair.other.status("release", imported) == 0
    assert pair.shared() == SIZE, "still mapped"
    assert pair.other.status("unmap", address, 0, SIZE) == 0
    assert pair.shared() == 0
    assert pair.container.region().devices[0].orphaned_bytes == 0


def test_what_is_imported_after_its_taker_let_go_is_counted_then(pair):
    """A broker: it takes memory for others and keeps none of it. While a descriptor is under way nobody counts it."""
    handle = pair.make()
    pair.give(handle)
    assert pair.taker.status("release", handle) == 0
    imported, address = pair.fetch()
    assert pair.shared() == SIZE
    assert pair.other.status("unmap", address, 0, SIZE) == pair.other.status("release", imported) == 0
    assert pair.shared() == 0


@pytest.mark.parametrize("ends", ["releases", "is killed"])
def test_memory_nobody_has_is_refused_where_it_does_not_fit(pair, shells, ends):
    """What was given away while a descriptor of it was under way cannot be had a second time."""
    third, handle = shells(pair.container), pair.make()
    pair.reserve = pair.used() - SIZE
    pair.give(handle)
    reserve = pair.reserve if ends == "releases" else pair.reserve * 2 // 3
    pair.taker_ends(ends, "release", handle)
    pair.reserve = reserve
    room = (LIMIT * MIB - pair.reserve) // (2 * MIB) * 2 * MIB
    assert third.status("alloc", room) == 0
    assert pair.other.status("fetch") == OUT_OF_MEMORY
    assert pair.shared() == room
    assert pair.container.region().devices[0].orphaned_bytes == 0


def test_limit_holds_against_takers_that_share_and_end(pair, shells):
    for round_ in range(4):
        taker = shells(pair.container)
        status, handle = taker("create", SIZE, 0)
        if round_ * SIZE + 3 * pair.reserve // 2 + SIZE > LIMIT * MIB:
            assert status == 2
            return
        assert status == 0
        assert taker.status("post", handle, pair.box) == 0
        pair.fetch()
        taker.kill()
    pytest.fail("four times a third of the limit")


def test_memory_several_import_counts_once_until_last_close(pair, shells, tmp_path):
    handle = pair.make()
    third = shells(pair.container)
    assert third.status("box", tmp_path / "second") == 0
    pair.reserve = pair.used() - SIZE
    pair.give(handle)
    assert pair.taker.status("post", handle, tmp_path / "second") == 0
    imported, address = pair.fetch()
    assert third("fetch")[0] == third("reserve", SIZE)[0] == third.status("map", 1, 0, SIZE) == 0
    assert pair.shared() == SIZE
    assert pair.taker.status("release", handle) == 0
    assert pair.shared() == SIZE
    assert pair.other.status("unmap", address, 0, SIZE) == pair.other.status("release", imported) == 0
    assert pair.shared() == SIZE
    third.kill()
    pair.reserve = pair.reserve * 2 // 3
    assert pair.shared() == 0


def test_a_process_that_imports_its_own_counts_it_once(pair):
    assert pair.taker.status("box", f"{pair.box}-own") == 0
    handle = pair.make()
    assert pair.taker.status("post", handle, f"{pair.box}-own") == 0
    assert pair.taker("fetch") == [0, 1]
    assert pair.taker("reserve", SIZE) == [0, 2]
    assert pair.taker.status("map", 2, 1, SIZE) == 0
    assert pair.shared() == SIZE
    assert pair.taker.status("release", handle) == 0
    assert pair.shared() == SIZE
    assert pair.taker.status("unmap", 2, 0, SIZE) == pair.taker.status("release", 1) == 0
    assert pair.shared() == 0


def test_memory_of_another_device_counts_there(make_container, shells, tmp_path):
    """Two processes on two devices: what the one took on the first the other maps, and keeps."""
    pair = Pair(make_container(LIMIT, LIMIT), shells, tmp_path / "box", devices=(0, 1))
    second = pair.used(1)
    handle = pair.make()
    pair.give(handle)
    pair.fetch()
    pair.taker.kill()
    assert pair.used(0) == SIZE
    assert pair.used(1) == second


def counted(pair) -> int:
    """External memory is in the other API's books, not in the driver's."""
    return pair.container.region().devices[0].used_bytes - pair.reserve


@pytest.mark.parametrize("ends", ["destroys it", "is killed"])
def test_external_memory_of_two_counts_once_until_both_let_go(pair, ends):
    pair.lend_external()
    assert counted(pair) == SIZE
    pair.taker_ends(ends, "destroy_external", 0)
    assert counted(pair) == SIZE
    assert pair.other.status("alloc", LIMIT * MIB - SIZE - pair.reserve + 2 * MIB) == OUT_OF_MEMORY
    assert pair.other.status("destroy_external", 0) == 0
    assert counted(pair) == 0


def test_external_memory_one_lets_go_of_stays_with_the_other(pair):
    pair.lend_external()
    assert pair.other.status("destroy_external", 0) == 0
    assert counted(pair) == SIZE
    assert pair.taker("external_lent", SIZE, pair.box) == [0, 1]  # that is other memory
    assert counted(pair) == 2 * SIZE
    assert pair.taker.status("destroy_external", 0) == pair.taker.status("destroy_external", 1) == 0
    assert counted(pair) == 0


@pytest.mark.parametrize("kind", [2, 8, 9])  # a Windows handle, an NvSciBuf object, a DMA buffer
def test_external_memory_by_other_handles_counts_for_each_import(pair, kind):
    """What they are of is known by nothing: too much, never too little."""
    for shell in (pair.taker, pair.taker, pair.other):
        assert shell.status("external_kind", SIZE // 2, kind) == 0
    assert counted(pair) == 3 * SIZE // 2
    assert pair.other.status("external_kind", LIMIT * MIB - counted(pair), kind) == OUT_OF_MEMORY
    pair.kill_taker()
    assert counted(pair) == SIZE // 2
    assert pair.other.status("destroy_external", 0) == 0
    assert counted(pair) == 0


def test_external_memory_called_smaller_before_counts_again(pair):
    """Its size is known by the importers' word alone: nobody has more for another's lower one."""
    pair.lend_external(2 * MIB)
    assert counted(pair) == 2 * MIB + SIZE
    assert pair.taker.status("destroy_external", 0) == 0
    assert counted(pair) == SIZE
    assert pair.other.status("destroy_external", 0) == 0
    assert counted(pair) == 0


def test_external_memory_ends_with_the_context_that_imported_it(pair):
    assert pair.other("context", 0) == [0, 0]
    assert pair.taker("external_lent", SIZE, pair.box) == [0, 0]
    assert pair.other("external_fetched", SIZE) == [0, 1]
    assert pair.other.status("destroy_context", 0) == pair.taker.status("destroy_external", 0) == 0
    assert counted(pair) == 0


def fill(pair) -> int:
    """Takes all that is left; returns the thing."""
    return pair.taker.made("alloc", (LIMIT * MIB - pair.container.region().devices[0].used_bytes) // MIB * MIB)


@pytest.mark.parametrize("who", ["taker", "other"])
def test_external_memory_nobody_has_is_refused_if_too_large(pair, who):
    """A descriptor of it may still be there, and what it was counted for has been given to others."""
    importer = getattr(pair, who)
    again = "external_fetched" if who == "other" else "external_again"
    assert pair.taker("external_lent", SIZE, pair.box) == [0, 0]
    assert pair.taker.status("destroy_external", 0) == 0
    assert counted(pair) == 0
    thing = fill(pair)
    full = counted(pair)
    assert importer.status(again, SIZE) == OUT_OF_MEMORY
    assert counted(pair) == full
    assert pair.taker.status("free", thing) == 0
    assert importer.status("external_again", SIZE) == 0
    assert counted(pair) == SIZE
    assert pair.taker.status("alloc", LIMIT * MIB - SIZE - pair.reserve + 2 * MIB) == OUT_OF_MEMORY
    first = pair.taker("external_again", SIZE)
    assert first[0] == 0
    assert counted(pair) == SIZE, "once for the two imports"


def test_external_memory_that_is_said_to_be_larger_counts_so(pair):
    pair.lend_external(2 * MIB)
    assert counted(pair) >= SIZE
    fill(pair)
    assert pair.taker.status("external_again", 2 * SIZE) == OUT_OF_MEMORY


@pytest.mark.parametrize("ends", ["frees", "is killed"])
def test_memory_of_another_device_shared_by_address_counts_there(make_container, shells, tmp_path, ends):
    """Two processes on two devices: what the one took on the first the other opens from the second, and keeps."""
    pair = Pair(make_container(LIMIT, LIMIT), shells, tmp_path / "box", devices=(0, 1))
    second = pair.used(1)
    thing, _ = pair.lend_address()
    assert (pair.shared(), pair.used(1)) == (SIZE, second)
    assert pair.other.status("alloc", LIMIT * MIB - second) == 0  # its own device has as much as before
    assert pair.other.status("free", 1) == 0
    pair.taker_ends(ends, "free", thing)
    pair.reserve = pair.reserve if ends == "frees" else 0  # of the taker alone
    assert (pair.shared(), pair.used(1)) == (SIZE, second)
    assert pair.other.status("ipc_close", 0) == 0
    assert (pair.shared(), pair.used(1)) == (0, second)


def test_memory_at_one_address_counts_until_both_closed_it(make_container, shells, tmp_path):
    """As drivers may give it to a process with contexts on two devices."""
    container = make_container(LIMIT, LIMIT)
    container.variables["HAMI_SIM_IPC_ONE_ADDRESS"] = "1"
    pair = Pair(container, shells, tmp_path / "box", devices=(0, 1))
    thing, handle = pair.lend_address()
    assert pair.other("context", 0)[0] == 0
    reserves = pair.used(0) - SIZE
    assert pair.other("ipc_open", handle)[0] == 0
    assert pair.taker.status("free", thing) == 0
    for left in (SIZE, 0):
        assert pair.other.status("ipc_close", 0) == 0
        assert pair.used(0) == reserves + left


def test_peers_charge_each_device_with_its_own(make_container, shells):
    """A process with contexts on two devices that reach each other's memory, and its neighbour on the second."""
    container = make_container(LIMIT, LIMIT)
    both, neighbour = shells(container, device=None), shells(container, device=1)
    assert both("context", 1) == [0, 0]
    assert both("context", 0) == [0, 1]
    before = [device.used_bytes for device in container.region().devices]
    assert both.status("enable_peer", 0) == 0
    assert [device.used_bytes for device in container.region().devices] == before
    assert both.status("alloc", SIZE) == 0
    assert both.status("use_context", 0) == both.status("enable_peer", 1) == 0
    assert both.status("alloc", SIZE // 2) == 0
    used = [device.used_bytes for device in container.region().devices]
    assert used == [before[0] + SIZE, before[1] + SIZE // 2]
    with sim.State(container.state) as books:
        assert [device.memory_used for device in books.devices] == used
    assert neighbour.status("alloc", LIMIT * MIB - used[1] + 2 * MIB) == OUT_OF_MEMORY
    assert neighbour.status("alloc", (LIMIT * MIB - used[1]) // (2 * MIB) * 2 * MIB) == 0


@pytest.mark.parametrize("ends", ["frees", "is killed"])
def test_memory_shared_by_address_counts_until_last_close(pair, ends):
    thing, _ = pair.lend_address()
    assert pair.shared() == SIZE
    pair.taker_ends(ends, "free", thing)
    assert pair.shared() == SIZE
    assert pair.other.status("ipc_close", 0) == 0
    assert pair.shared() == 0


def test_memory_by_address_closed_first_is_the_takers_alone(pair):
    thing, handle = pair.lend_address()
    assert pair.other("ipc_open", handle)[0] == 0
    assert pair.other.status("ipc_close", 0) == 0
    assert pair.shared() == SIZE
    assert pair.other.status("ipc_close", 1) == 0
    assert pair.taker.status("free", thing) == 0
    assert pair.shared() == 0


def test_what_ends_with_its_context_is_closed(pair):
    assert pair.other("context", 0) == [0, 0]
    thing, _ = pair.lend_address()
    assert pair.other.status("destroy_context", 0) == 0
    assert pair.taker.status("free", thing) == 0
    assert pair.shared() == 0


@pytest.mark.here_only("a program that qemu-user runs cannot become another")
def test_an_exec_lets_go_of_what_was_imported(pair):
    handle = pair.make()
    pair.give(handle)
    pair.fetch()
    assert pair.taker.status("release", handle) == 0
    assert pair.shared() == SIZE
    pair.box.unlink()
    assert pair.other.line("exec") == "ready\n"
    assert pair.other.status("use", 0) == 0
    assert pair.shared() == 0


def bring(taker, importer, box, way) -> tuple[tuple, list[tuple]]:
    """What the importer does to have what the taker took, of which it has nothing yet; and what ends that."""
    if way == "address":
        assert taker("alloc", SIZE) == [0, 0]
        return ("ipc_open", taker.line("ipc_get", 0).split()[1]), [("ipc_close", 0)]
    assert importer.status("box", box) == 0
    assert taker("create", SIZE, 0) == [0, 0]
    assert taker.status("post", 0, box) == 0
    assert importer("fetch") == [0, 0]
    assert importer("reserve", SIZE) == [0, 1]
    return ("map", 1, 0, SIZE), [("unmap", 1, 0, SIZE), ("release", 0)]


@pytest.mark.parametrize("way", ["descriptor", "address"])
def test_memory_of_another_container_counts_here_if_it_fits(make_container, shells, tmp_path, way):
    taker, importer = (shells(make_container(LIMIT)) for _ in range(2))
    there = importer.free_bytes()
    enter, ends = bring(taker, importer, tmp_path / "box", way)
    thing = importer.made("alloc", there - SIZE + 2 * MIB)
    left = importer.free_bytes()
    assert left < SIZE
    assert importer.status(*enter) == OUT_OF_MEMORY
    assert importer.free_bytes() == left
    assert importer.status("free", thing) == importer.status(*enter) == 0
    assert importer.free_bytes() == there - SIZE
    assert importer.status("alloc", importer.free_bytes() + 2 * MIB) == OUT_OF_MEMORY
    assert [importer.status(*end) for end in ends] == [0] * len(ends)
    assert importer.free_bytes() == there


def test_threads_that_ask_for_the_handle_of_one_address_make_one_share(make_container, programs):
    """A second one would count beside the first."""
    container = make_container(LIMIT)
    process = container.start(programs("handles"), "ipc", 300, 3)
    assert process.stdout.readline() == "0\n"
    device = container.region().devices[0]
    assert device.used_bytes == device.context_bytes


@pytest.mark.parametrize("ends", ["unbinds", "releases the object", "unmaps the object"])
def test_what_is_bound_to_a_multicast_object_counts_as_long_as_it_is(pair, ends):
    taker, half = pair.taker, SIZE // 2
    assert taker("multicast", SIZE) == [0, 0]
    assert taker("create", half, 0) == [0, 1]
    assert taker("create", half, 0) == [0, 2]
    assert taker("reserve", half) == [0, 3]
    assert taker.status("map", 3, 2, half) == 0
    assert taker.status("bind", 0, 1, half, 0) == taker.status("bind_address", 0, 3, half, half) == 0
    assert taker.status("release", 1) == taker.status("release", 2) == taker.status("unmap", 3, 0, half) == 0
    assert pair.shared() == SIZE
    if ends == "unbinds":
        assert taker.status("unbind", 0, 0, half, half) == 0
        assert pair.shared() == half
        assert taker.status("unbind", 0, 0, SIZE, 0) == 0
    else:
        if ends == "unmaps the object":
            assert taker("reserve", SIZE) == [0, 4]
            assert taker.status("map", 4, 0, SIZE) == 0
        assert taker.status("release", 0) == 0
        if ends == "unmaps the object":
            assert pair.shared() == SIZE
            assert taker.status("unmap", 4, 0, SIZE) == 0
    assert pair.shared() == 0


def test_imported_memory_is_unbound_on_its_own_device_alone(make_container, shells, tmp_path):
    pair = Pair(make_container(LIMIT, LIMIT), shells, tmp_path / "box", devices=(1, 0))
    other, first = pair.other, pair.used(0)
    pair.give(pair.make())
    assert other("multicast", SIZE) == [0, 0]
    assert other("fetch") == [0, 1]
    assert other("create", SIZE, 0) == [0, 2]
    assert other.status("bind", 0, 1, SIZE, 0) == other.status("bind", 0, 2, SIZE, 0) == 0
    assert other.status("release", 1) == other.status("release", 2) == 0
    pair.taker.kill()
    assert (pair.used(0) - first, pair.used(1)) == (SIZE, SIZE)
    assert other.status("unbind", 0, 0, SIZE, 0, 0) == 0
    assert (pair.used(0) - first, pair.used(1)) == (0, SIZE)
    assert other.status("unbind", 0, 0, SIZE, 0, 1) == 0
    assert (pair.used(0) - first, pair.used(1)) == (0, 0)


def share_pool(pair: Pair) -> tuple[int, int, int]:
    """An allocation from a shared pool: the pool and the address at the taker, the pool at the other."""
    pool = pair.taker.made("pool", 0)
    address = pair.taker.made("from_pool", SIZE, pool)
    assert pair.taker.status("post_pool", pool, pair.box) == 0
    return pool, address, pair.other.made("fetch_pool")


def import_pointer(pair: Pair, address: int, imported: int) -> int:
    return pair.other.made("import_pointer", imported, pair.taker.line("export_pointer", address).split()[1])


@pytest.mark.parametrize("first", ["frees", "destroys", "is killed"])
def test_a_shared_pool_counts_once_until_the_last_has_let_it_go(pair, first):
    pool, address, imported = share_pool(pair)
    pointer = import_pointer(pair, address, imported)
    assert pair.shared() == SIZE
    if first == "is killed":
        pair.kill_taker()
        assert pair.shared() == SIZE
    assert pair.other.status("free_async", pointer) == pair.other.status("sync") == 0
    assert pair.shared() == SIZE
    if first == "frees":
        assert pair.taker.status("free_async", address) == pair.taker.status("sync") == 0
        assert pair.shared() == 0
    assert pair.other.status("destroy_pool", imported) == 0
    assert pair.shared() == (SIZE if first == "destroys" else 0)
    if first == "destroys":
        assert pair.taker.status("free_async", address) == pair.taker.status("sync") == 0
        assert pair.taker.status("destroy_pool", pool) == 0
        assert pair.shared() == 0


def test_an_importer_holds_a_pool_until_its_stream_is_waited_for(pair):
    """It frees behind a kernel and destroys the pool; whoever made the pool has died."""
    _, address, imported = share_pool(pair)
    pointer = import_pointer(pair, address, imported)
    pair.kill_taker()
    assert pair.other.status("run", 1000) == pair.other.status("free_async", pointer) == 0
    assert pair.other.status("destroy_pool", imported) == 0
    assert pair.shared() == SIZE
    assert pair.other.status("sync") == 0
    assert pair.shared() == 0


def test_a_shared_pool_counts_as_it_grows_and_shrinks(pair):
    """It is shared before anything is in it, and what it has when its maker dies is what stays."""
    pool = pair.taker.made("pool", 0)
    assert pair.taker.status("post_pool", pool, pair.box) == 0
    status, imported = pair.other("fetch_pool")
    assert status == pair.shared() == 0
    _, first = pair.taker("from_pool", SIZE, pool)
    _, second = pair.taker("from_pool", SIZE // 2, pool)
    assert pair.shared() == SIZE * 3 // 2
    assert pair.taker.status("free_async", first) == pair.taker.status("sync") == 0
    assert pair.shared() == SIZE // 2
    pointer = import_pointer(pair, second, imported)
    pair.kill_taker()
    assert pair.shared() == SIZE // 2
    assert pair.other.status("alloc", (LIMIT - SIZE // MIB // 2) * MIB - pair.reserve + 2 * MIB) == OUT_OF_MEMORY
    assert pair.other.status("free_async", pointer) == pair.other.status("sync") == 0
    assert pair.other.status("destroy_pool", imported) == 0
    assert pair.shared() == 0


def test_shared_pool_nobody_has_is_refused_if_too_large(pair, shells):
    third = shells(pair.container)
    pair.reserve = pair.used()
    _, pool = pair.taker("pool", 0)
    assert pair.taker("from_pool", SIZE, pool)[0] == 0
    assert pair.taker.status("post_pool", pool, pair.box) == 0
    pair.taker.kill()
    pair.reserve = pair.reserve * 2 // 3
    room = (LIMIT * MIB - pair.reserve) // (2 * MIB) * 2 * MIB
    assert third.status("alloc", room) == 0
    assert pair.other.status("fetch_pool") == OUT_OF_MEMORY
    assert pair.shared() == room


def test_importer_that_takes_from_a_pool_leaves_its_size(pair):
    pool, _, imported = share_pool(pair)
    assert pair.other.status("from_pool", 2 * MIB, imported) not in {0, OUT_OF_MEMORY}
    assert pair.taker.status("trim_pool", pool) == 0
    assert pair.other.status("from_pool", 2 * MIB, imported) not in {0, OUT_OF_MEMORY}
    pair.kill_taker()
    assert pair.shared() == SIZE


def test_a_container_cannot_grow_by_pools_of_processes_that_end(pair, shells):
    kept = 0
    while True:
        maker = shells(pair.container)
        _, pool = maker("pool", 0)
        status, _ = maker("from_pool", SIZE, pool)
        if status == OUT_OF_MEMORY:
            break
        assert maker.status("post_pool", pool, pair.box) == 0
        assert pair.other("fetch_pool")[0] == 0
        maker.kill()
        kept += 1
        assert pair.used() - pair.reserve == kept * SIZE
    assert 0 < kept <= LIMIT * MIB // SIZE


class Sharing(RuleBasedStateMachine):
    """Processes that take, give, import and let go in any order, and are killed: ours is the driver's own count."""

    make: Any
    start: Any
    folder: Path

    @initialize()
    def begin(self) -> None:
        self.container = self.make(60000)
        self.shells = [self.new() for _ in range(2)]
        self.pieces: list[dict[str, Any]] = []

    def new(self) -> Any:
        shell = self.start(self.container)
        shell.box = self.folder / f"box{shell.process.pid}"
        assert shell.status("box", shell.box) == 0
        return shell

    @rule(which=st.integers(0, 1), pages=st.integers(1, 64))
    def take(self, which: int, pages: int) -> None:
        handle = self.shells[which].made("create", pages * 2 * MIB, 0)
        self.pieces.append({"size": pages * 2 * MIB, "owner": self.shells[which], "handle": handle, "held": []})

    @precondition(lambda self: self.pieces)
    @rule(data=st.data(), which=st.integers(0, 1))
    def give(self, data: Any, which: int) -> None:
        piece = data.draw(st.sampled_from(self.pieces))
        to = self.shells[which]
        if piece["owner"] is None:
            return
        assert piece["owner"].status("post", piece["handle"], to.box) == 0
        handle = to.made("fetch")
        address = to.made("reserve", piece["size"])
        assert to.status("map", address, handle, piece["size"]) == 0
        piece["held"].append((to, handle, address))
        self.check()

    @precondition(lambda self: self.pieces)
    @rule(data=st.data())
    def let_go(self, data: Any) -> None:
        piece = data.draw(st.sampled_from(self.pieces))
        if piece["owner"] is not None:
            assert piece["owner"].status("release", piece["handle"]) == 0
            piece["owner"] = None
        self.check()

    @precondition(lambda self: any(piece["held"] for piece in self.pieces))
    @rule(data=st.data())
    def close(self, data: Any) -> None:
        piece = data.draw(st.sampled_from([piece for piece in self.pieces if piece["held"]]))
        shell, handle, address = piece["held"].pop()
        assert shell.status("unmap", address, 0, piece["size"]) == 0
        assert shell.status("release", handle) == 0
        self.check()

    @rule(which=st.integers(0, 1))
    def kill(self, which: int) -> None:
        gone = self.shells[which]
        gone.kill()
        for piece in self.pieces:
            piece["owner"] = None if piece["owner"] is gone else piece["owner"]
            piece["held"] = [held for held in piece["held"] if held[0] is not gone]
        self.shells[which] = self.new()
        self.check()

    def check(self) -> None:
        self.pieces = [piece for piece in self.pieces if piece["owner"] is not None or piece["held"]]
        self.container.agreed()

    def teardown(self) -> None:
        if hasattr(self, "container"):
            self.container.stop()


LONG = pytest.param(300, 60, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])


@pytest.mark.parametrize(("examples", "steps"), [(12, 25), LONG])
def test_any_order_of_taking_sharing_and_ending(make_container, shells, tmp_path, examples, steps):
    class Bound(Sharing):
        make = staticmethod(make_container)
        start = staticmethod(shells)
        folder = tmp_path

    habits = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    run_state_machine_as_test(Bound, settings=habits)


@pytest.mark.here_only("the build with fault points is this machine's")
def test_taker_killed_at_each_store_leaves_what_was_given(make_container, shells, killed_at_each_store, tmp_path):
    box, container = tmp_path / "box", make_container(LIMIT)
    survivor = shells(container)
    assert survivor.status("box", box) == 0
    reserve = container.agreed()
    scenario = ("use 0", f"create {SIZE} 0", f"post 0 {box}", "release 0")
    for point, out in enumerate(killed_at_each_store(container, *scenario, least=30), 1):
        if out.split("\n")[3:4] == ["0"]:
            handle, address = survivor.made("fetch"), survivor.made("reserve", SIZE)
            assert survivor.status("map", address, handle, SIZE) == 0
            assert container.agreed() == reserve + SIZE, f"killed at point {point}"
            assert survivor.status("alloc", LIMIT * MIB - reserve - SIZE + 2 * MIB) == OUT_OF_MEMORY
            assert survivor.status("unmap", address, 0, SIZE) == survivor.status("release", handle) == 0
        assert container.agreed() == reserve, f"killed at point {point}"
    survivor.made("alloc", (LIMIT * MIB - reserve) // (2 * MIB) * 2 * MIB)  # all of the limit is there again


@pytest.mark.here_only("the build with fault points is this machine's")
@pytest.mark.parametrize("step", ["2", "512"])
def test_maker_of_a_pool_killed_at_each_store_leaves_all(started, killed_at_each_store, tmp_path, step):
    """What it was about to take may count as long as the pool is there; what it took always does."""
    container, survivor = started(LIMIT, variables={"HAMI_SIM_POOL_STEP_MIB": step})
    reserve, found = container.agreed(), set()

    def make_ready(point: int) -> None:
        assert survivor.status("box", tmp_path / f"box{point}") == 0
        assert survivor.line("processes", 0).startswith("0 "), "the one before is swept"

    scenario = (f"post_pool 0 {tmp_path}/box{{n}}", f"from_pool {SIZE} 0", f"from_pool {SIZE // 2} 0")
    makers = killed_at_each_store(container, "use 0", "pool 0", *scenario, before=make_ready, least=30)
    for point, out in enumerate(makers, 1):
        if out.split("\n")[3:4] == ["0"]:
            imported = survivor.made("fetch_pool")
            counted = container.region().devices[0].used_bytes
            with sim.State(container.state) as books:
                found.add(books.devices[0].memory_used)
                assert books.devices[0].memory_used <= counted <= reserve + SIZE * 2, f"killed at point {point}"
            assert survivor.status("destroy_pool", imported) == 0
        assert container.agreed() == reserve, f"killed at point {point}"
    assert len(found) == 3


@pytest.mark.here_only("the build with fault points is this machine's")
def test_importer_killed_at_each_store_leaves_the_taker_all(make_container, shells, killed_at_each_store, tmp_path):
    container, boxes = make_container(LIMIT), []
    survivor = shells(container)
    handle = survivor.made("create", SIZE, 0)
    reserve = container.agreed()

    def post(importer) -> None:
        while not boxes[-1].exists() and importer.poll() is None:
            time.sleep(0.001)
        if boxes[-1].exists():
            survivor.line("post", handle, boxes[-1])

    mapping = (f"reserve {SIZE}", f"map 1 0 {SIZE}", f"unmap 1 0 {SIZE}", "release 0")
    importers = killed_at_each_store(
        container,
        *(f"box {tmp_path}/box{{n}}", "use 0", "fetch", *mapping),
        before=lambda n: boxes.append(tmp_path / f"box{n}"),
        meanwhile=post,
        least=20,
    )
    for point, _ in enumerate(importers, 1):
        assert container.agreed() == reserve, f"killed at point {point}"
    assert survivor.status("release", handle) == 0
    assert container.agreed() == reserve - SIZE
    assert container.region().devices[0].orphaned_bytes == 0
