"""Memory that processes of a container share is counted once, and for as long as anybody has it.

Any order of creating, giving, mapping, lending and ending is in test_life.py; here is what has a rule of its own.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import hami_gpusim as sim
import pytest

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

    def shared(self) -> int:
        """Bytes in use, without the reserves of contexts."""
        return self.used() - self.reserve

    def counted(self) -> int:
        """The same without asking the driver, whose books do not have another API's memory."""
        return self.container.region().devices[0].used_bytes - self.reserve

    def room(self) -> int:
        return (LIMIT * MIB - self.container.region().devices[0].used_bytes) // (2 * MIB) * 2 * MIB

    def is_full(self) -> None:
        """Nobody gets more than the limit leaves beside what is counted."""
        assert self.other.status("alloc", self.room() + 2 * MIB) == OUT_OF_MEMORY
        assert self.other.status("free", self.other.made("alloc", self.room())) == 0

    def ends(self, how: str, *undo: object) -> None:
        """The taker lets go: by its death, with which its context goes, or by what undoes its hold."""
        if how == "is killed":
            self.taker.kill()
            self.reserve -= self.container.region().devices[self.device].context_bytes
        else:
            assert self.taker.status(*undo) == 0

    def lend_address(self) -> tuple[int, str]:
        """The other opens what the taker took by its address; returns the thing and its handle."""
        thing = self.taker.made("alloc", SIZE)
        handle = self.taker.line("ipc_get", thing).split()[1]
        self.other.made("ipc_open", handle)
        return thing, handle

    def give(self) -> int:
        handle = self.taker.made("create", SIZE, self.device)
        assert self.taker.status("post", handle, self.box) == 0
        return handle

    def fetch(self) -> list[tuple[object, ...]]:
        """The other maps what it was given; returns what ends that."""
        handle, address = self.other.made("fetch"), self.other.made("reserve", SIZE)
        assert self.other.status("map", address, handle, SIZE) == 0
        return [("release", handle), ("unmap", address, 0, SIZE)]

    def lend_external(self, size: int = SIZE) -> None:
        """Both import memory of another API, which the taker calls that large."""
        assert self.taker("external_lent", size, self.box) == [0, 0]
        assert self.other("external_fetched", SIZE) == [0, 0]


@pytest.fixture
def pair(make_container, shells, tmp_path) -> Pair:
    return Pair(make_container(LIMIT), shells, tmp_path / "box")


@pytest.fixture
def across(make_container, shells, tmp_path) -> Pair:
    """The taker is on the first device and the other process on the second."""
    return Pair(make_container(LIMIT, LIMIT), shells, tmp_path / "box", devices=(0, 1))


# ---- by descriptor and by address ----


@pytest.mark.parametrize("way", ["descriptor", "address"])
@pytest.mark.parametrize("how", ["gives back", "is killed"])
def test_memory_its_taker_let_go_of_counts_to_the_last_close(pair, how, way):
    """The other has a handle and a mapping, or has opened the same address twice."""
    if way == "descriptor":
        taken = ("release", pair.give())
        undo = pair.fetch()
    else:
        thing, handle = pair.lend_address()
        taken, undo = ("free", thing), [("ipc_close", 0), ("ipc_close", pair.other.made("ipc_open", handle))]
    assert pair.shared() == SIZE
    pair.ends(how, *taken)
    for end in undo:
        assert pair.shared() == SIZE
        pair.is_full()
        assert pair.other.status(*end) == 0
    assert pair.shared() == 0
    assert pair.container.region().devices[0].orphaned_bytes == 0


def test_memory_is_counted_when_it_is_imported_later(pair):
    """A broker takes memory for others and keeps none. While the descriptor is under way nobody counts it."""
    assert pair.taker.status("release", pair.give()) == 0
    undo = pair.fetch()
    assert pair.shared() == SIZE
    assert [pair.other.status(*end) for end in undo] == [0, 0]
    assert pair.shared() == 0


@pytest.mark.parametrize(("kind", "how"), [("fetch", "releases"), ("fetch", "is killed"), ("fetch_pool", "is killed")])
def test_import_of_what_nobody_has_must_fit(pair, shells, kind, how):
    """What was given away while a descriptor of it was under way cannot be had a second time."""
    third = shells(pair.container)
    pair.reserve = pair.used()
    if kind == "fetch":
        pair.ends(how, "release", pair.give())
    else:
        pool = pair.taker.made("pool", 0)
        assert pair.taker.status("from_pool", SIZE, pool) == pair.taker.status("post_pool", pool, pair.box) == 0
        pair.ends(how)
    room = pair.room()
    assert third.status("alloc", room) == 0
    assert pair.other.status(kind) == OUT_OF_MEMORY
    assert pair.shared() == room
    assert pair.container.region().devices[0].orphaned_bytes == 0


@pytest.mark.parametrize("way", ["descriptor", "address"])
@pytest.mark.parametrize("how", ["frees", "is killed"])
def test_memory_of_another_device_counts_there(across, how, way):
    second = across.used(1)
    if way == "descriptor":
        taken = ("release", across.give())
        undo = across.fetch()
    else:
        taken = ("free", across.lend_address()[0])
        undo = [("ipc_close", 0)]
    assert (across.shared(), across.used(1)) == (SIZE, second)
    thing = across.other.made("alloc", LIMIT * MIB - second)  # its own device has as much as before
    assert across.other.status("free", thing) == 0
    across.ends(how, *taken)
    assert (across.shared(), across.used(1)) == (SIZE, second)
    assert [across.other.status(*end) for end in undo] == [0] * len(undo)
    assert (across.shared(), across.used(1)) == (0, second)


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


def test_what_ends_with_its_context_is_closed(pair):
    assert pair.other("context", 0) == [0, 0]
    thing, _ = pair.lend_address()
    assert pair.taker("external_lent", SIZE, pair.box)[0] == pair.other("external_fetched", SIZE)[0] == 0
    assert pair.counted() == 2 * SIZE
    assert pair.other.status("destroy_context", 0) == 0
    assert pair.taker.status("free", thing) == pair.taker.status("destroy_external", 1) == 0
    assert pair.shared() == 0


@pytest.mark.parametrize("way", ["descriptor", "address"])
def test_memory_of_another_container_counts_if_it_fits(make_container, shells, tmp_path, way):
    taker, importer = (shells(make_container(LIMIT)) for _ in range(2))
    there = importer.free_bytes()
    if way == "address":
        enter = ("ipc_open", taker.line("ipc_get", taker.made("alloc", SIZE)).split()[1])
        undo = [("ipc_close", 0)]
    else:
        assert importer.status("box", tmp_path / "box") == 0
        assert taker.status("post", taker.made("create", SIZE, 0), tmp_path / "box") == 0
        handle, address = importer.made("fetch"), importer.made("reserve", SIZE)
        enter, undo = ("map", address, handle, SIZE), [("unmap", address, 0, SIZE), ("release", handle)]
    thing = importer.made("alloc", there - SIZE + 2 * MIB)
    left = importer.free_bytes()
    assert left < SIZE
    assert importer.status(*enter) == OUT_OF_MEMORY
    assert importer.free_bytes() == left
    assert importer.status("free", thing) == importer.status(*enter) == 0
    assert importer.free_bytes() == there - SIZE
    assert importer.status("alloc", importer.free_bytes() + 2 * MIB) == OUT_OF_MEMORY
    assert [importer.status(*end) for end in undo] == [0] * len(undo)
    assert importer.free_bytes() == there


def test_peers_charge_each_device_with_its_own(make_container, shells):
    """A process with contexts on two devices that reach each other's memory, and its neighbour on the second."""
    container = make_container(LIMIT, LIMIT)
    both, neighbour = shells(container, device=None), shells(container, device=1)
    assert (both("context", 1), both("context", 0)) == ([0, 0], [0, 1])
    before = [container.agreed(device) for device in (0, 1)]
    assert both.status("enable_peer", 0) == both.status("alloc", SIZE) == 0
    assert both.status("use_context", 0) == both.status("enable_peer", 1) == both.status("alloc", SIZE // 2) == 0
    used = [container.agreed(device) for device in (0, 1)]
    assert used == [before[0] + SIZE, before[1] + SIZE // 2]
    assert neighbour.status("alloc", LIMIT * MIB - used[1] + 2 * MIB) == OUT_OF_MEMORY
    assert neighbour.status("alloc", (LIMIT * MIB - used[1]) // (2 * MIB) * 2 * MIB) == 0


def test_threads_that_share_one_address_at_once_make_one_share(make_container, programs):
    """A second one would count beside the first."""
    container = make_container(LIMIT)
    process = container.start(programs("handles"), "ipc", 300, 3)
    assert process.stdout.readline() == "0\n"
    assert container.agreed() == container.region().devices[0].context_bytes


# ---- another API's memory ----


@pytest.mark.parametrize("how", ["destroys it", "is killed", "stays"])
def test_external_memory_counts_once_until_both_let_go(pair, how):
    pair.lend_external()
    assert pair.counted() == SIZE
    if how == "stays":
        assert pair.other.status("destroy_external", 0) == 0
        assert pair.counted() == SIZE
        assert pair.taker("external_lent", SIZE, pair.box) == [0, 1]  # that is other memory
        assert pair.counted() == 2 * SIZE
        assert pair.taker.status("destroy_external", 0) == pair.taker.status("destroy_external", 1) == 0
    else:
        pair.ends(how, "destroy_external", 0)
        assert pair.counted() == SIZE
        pair.is_full()
        assert pair.other.status("destroy_external", 0) == 0
    assert pair.counted() == 0


@pytest.mark.parametrize("kind", [2, 8, 9])  # a Windows handle, an NvSciBuf object, a DMA buffer
def test_external_memory_without_identity_counts_each_time(pair, kind):
    """Nothing tells which memory such handles are of: too much counts, never too little."""
    for shell in (pair.taker, pair.taker, pair.other):
        assert shell.status("external_kind", SIZE // 2, kind) == 0
    assert pair.counted() == 3 * SIZE // 2
    assert pair.other.status("external_kind", LIMIT * MIB - pair.counted(), kind) == OUT_OF_MEMORY
    pair.ends("is killed")
    assert pair.counted() == SIZE // 2
    assert pair.other.status("destroy_external", 0) == 0
    assert pair.counted() == 0


def test_external_memory_called_smaller_before_counts_again(pair):
    """Importers alone say how large it is: a lower word of one does not give another one more."""
    pair.lend_external(2 * MIB)
    assert pair.counted() == 2 * MIB + SIZE
    assert pair.taker.status("alloc", pair.room()) == 0
    full = pair.counted()
    assert pair.taker.status("external_again", 2 * SIZE) == OUT_OF_MEMORY
    assert pair.counted() == full
    assert pair.taker.status("destroy_external", 0) == 0
    assert pair.counted() == full - 2 * MIB
    assert pair.other.status("destroy_external", 0) == 0
    assert pair.counted() == full - 2 * MIB - SIZE


@pytest.mark.parametrize("who", ["taker", "other"])
def test_external_memory_nobody_has_is_refused_if_too_large(pair, who):
    """A descriptor of it may still be there, and what it was counted for has been given to others."""
    importer = getattr(pair, who)
    assert pair.taker("external_lent", SIZE, pair.box) == [0, 0]
    assert pair.taker.status("destroy_external", 0) == 0
    assert pair.counted() == 0
    thing, full = pair.taker.made("alloc", pair.room()), pair.counted()
    assert importer.status("external_fetched" if who == "other" else "external_again", SIZE) == OUT_OF_MEMORY
    assert pair.counted() == full
    assert pair.taker.status("free", thing) == importer.status("external_again", SIZE) == 0
    assert pair.counted() == SIZE
    pair.is_full()
    assert pair.taker.status("external_again", SIZE) == 0
    assert pair.counted() == SIZE, "once for the two imports"


# ---- multicast ----


@pytest.mark.parametrize("ends", ["unbinds", "releases the object", "unmaps the object"])
def test_memory_bound_to_multicast_counts_while_it_is(pair, ends):
    taker, half = pair.taker, SIZE // 2
    assert taker("multicast", SIZE) == [0, 0]
    assert (taker("create", half, 0), taker("create", half, 0), taker("reserve", half)) == ([0, 1], [0, 2], [0, 3])
    assert taker.status("map", 3, 2, half) == 0
    assert taker.status("bind", 0, 1, half, 0) == taker.status("bind_address", 0, 3, half, half) == 0
    assert taker.status("release", 1) == taker.status("release", 2) == taker.status("unmap", 3, 0, half) == 0
    assert pair.shared() == SIZE
    if ends == "unbinds":
        assert taker.status("unbind", 0, 0, half, half) == 0
        assert pair.shared() == half
        assert taker.status("unbind", 0, 0, SIZE, 0) == 0
    elif ends == "unmaps the object":
        assert taker("reserve", SIZE) == [0, 4]
        assert taker.status("map", 4, 0, SIZE) == taker.status("release", 0) == 0
        assert pair.shared() == SIZE
        assert taker.status("unmap", 4, 0, SIZE) == 0
    else:
        assert taker.status("release", 0) == 0
    assert pair.shared() == 0


def test_imported_memory_is_unbound_on_its_own_device_alone(make_container, shells, tmp_path):
    pair = Pair(make_container(LIMIT, LIMIT), shells, tmp_path / "box", devices=(1, 0))
    other, first = pair.other, pair.used(0)
    pair.give()
    assert (other("multicast", SIZE), other("fetch"), other("create", SIZE, 0)) == ([0, 0], [0, 1], [0, 2])
    assert other.status("bind", 0, 1, SIZE, 0) == other.status("bind", 0, 2, SIZE, 0) == 0
    assert other.status("release", 1) == other.status("release", 2) == 0
    pair.taker.kill()
    for left, device in ([(SIZE, SIZE), 0], [(0, SIZE), 1]):
        assert (pair.used(0) - first, pair.used(1)) == left
        assert other.status("unbind", 0, 0, SIZE, 0, device) == 0
    assert (pair.used(0) - first, pair.used(1)) == (0, 0)


# ---- pools ----


def test_importer_holds_a_pool_until_its_stream_is_waited_for(pair):
    """It frees behind a kernel and destroys the pool; the process that made the pool has died."""
    pool = pair.taker.made("pool", 0)
    address = pair.taker.made("from_pool", SIZE, pool)
    assert pair.taker.status("post_pool", pool, pair.box) == 0
    imported = pair.other.made("fetch_pool")
    pointer = pair.other.made("import_pointer", imported, pair.taker.line("export_pointer", address).split()[1])
    assert pair.other.status("from_pool", 2 * MIB, imported) not in {0, OUT_OF_MEMORY}, "the driver's answer"
    pair.ends("is killed")
    assert pair.other.status("run", 1000) == pair.other.status("free_async", pointer) == 0
    assert pair.other.status("destroy_pool", imported) == 0
    assert pair.shared() == SIZE
    assert pair.other.status("sync") == 0
    assert pair.shared() == 0


# ---- killed at each store ----


@pytest.mark.here_only("the build with fault points is this machine's")
def test_taker_killed_at_each_store_leaves_what_it_gave(pair, killed_at_each_store):
    container = pair.container
    pair.taker.kill()
    reserve = container.agreed()
    scenario = ("use 0", f"create {SIZE} 0", f"post 0 {pair.box}", "release 0")
    for point, out in enumerate(killed_at_each_store(container, *scenario, least=30), 1):
        if out.split("\n")[3:4] == ["0"]:
            undo = pair.fetch()
            assert container.agreed() == reserve + SIZE, f"killed at point {point}"
            assert pair.other.status("alloc", LIMIT * MIB - reserve - SIZE + 2 * MIB) == OUT_OF_MEMORY
            assert [pair.other.status(*end) for end in undo] == [0, 0]
        assert container.agreed() == reserve, f"killed at point {point}"
    pair.other.made("alloc", pair.room())  # all of the limit is there again


@pytest.mark.here_only("the build with fault points is this machine's")
@pytest.mark.parametrize("step", ["2", "512"])
def test_pool_maker_killed_at_each_store_leaves_all(started, killed_at_each_store, tmp_path, step):
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
