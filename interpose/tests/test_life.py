"""The region counts what living processes hold, in any order of taking, sharing, freeing, suspending and ending."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import hami_gpusim as sim
import pytest

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
OUT_OF_MEMORY, NOT_SUPPORTED = 2, 801
LIMIT = 3000
SHARE = 1800  # of the device, where memory is scaled
BLOCK = 2 * MIB  # the driver's granule
PAGE_IN_HOST = 64 << 10
MOST_LIVING = 3


def used(container) -> int:
    return container.region().devices[0].used_bytes


def up(size: int, granule: int = BLOCK) -> int:
    return -(-size // granule) * granule


@dataclass(eq=False)
class Thing:
    """What a process has made: how it is given back, and what the driver's books of the device do not show of it."""

    kind: str
    number: int
    undo: tuple[Any, ...]
    size: int = 0
    managed: int = 0
    in_host: int = 0
    pool: Thing | None = None


@dataclass(eq=False)
class Living:
    """A process and all that it has."""

    shell: Any
    box: Path
    things: list[Thing] = field(default_factory=list)
    suspended: bool = False

    def of(self, *kinds: str) -> list[Thing]:
        return [thing for thing in self.things if thing.kind in kinds]


# What a process makes of a size, by which command, and how it gives that back.
TAKES = {
    "alloc": (lambda size: ("alloc", size), "free"),
    "managed": (lambda size: ("managed", size), "free"),
    "async": (lambda size: ("async", size), "free_async"),
    "create": (lambda size: ("create", up(size), 0), "release"),
    "array": (lambda size: ("array", 256, max(256, up(size, 4096) // 4096), 0), "destroy_array"),  # at least 1 MiB
    "sparse": (lambda _: ("sparse", 1024, 128), "destroy_array"),
    "image": (lambda size: ("image", min(size, 60 * MIB)), "unload"),
    "graph": (lambda size: ("graph", size, 1, "node"), "destroy_graph"),
    "pool": (lambda _: ("pool", 0), "destroy_pool"),
}
EMPTY_AT_FIRST = {"graph", "pool", "sparse"}
MAY_LIE_IN_HOST = {"alloc", "managed"}
# What it does with such a thing, and with which kind.
USES = {
    "map": "create",
    "retain": "mapping",
    "give": "create",
    "lend": "alloc",
    "share_pool": "pool",
    "tile": "sparse",
    "untile": "sparse",
    "from_pool": "pool",
    "launch": "graph",
    "threshold": "pool",
}
TO_ANOTHER = {"give", "lend", "share_pool"}
THEMES = {
    "linear": ("alloc", "managed", "lend"),
    "physical": ("create", "map", "retain", "give"),
    "arrays": ("array", "sparse", "tile", "untile"),
    "pools": ("async", "from_pool", "threshold", "sync"),
    "shared pools": ("from_pool", "share_pool"),
    "code": ("image", "graph", "launch", "sync"),
}
ENDS = ("start", "fork", "exec", "exit", "kill", "suspend", "resume")
SIZES = [1, 4096, 100_000, MIB - 1, MIB, 3 * MIB, 40 * MIB, 300 * MIB, 900 * MIB]


def order_of(theme: str, seed: int, most: int) -> list[tuple[str, int, int, int]]:
    """Steps of a theme and another one, so that they meet; what is made is given back nearly as often."""
    draw = Random(f"{theme} {seed}")
    names = [*THEMES[theme], *draw.choice(list(THEMES.values())), *draw.sample(ENDS, draw.randint(1, 4))]
    names += ["free"] * (len(names) // 2)
    count = draw.randint(20, most)
    return [(draw.choice(names), draw.randrange(3), draw.randrange(21), draw.choice(SIZES)) for _ in range(count)]


class World:
    """Processes of one container. After each step ours is the driver's count, and the limit holds."""

    def __init__(self, container, shells, folder: Path, share: int) -> None:
        self.container, self.shells, self.folder, self.share = container, shells, folder, share * MIB
        self.warden, self.living = shells(container, device=None), []
        self.start()
        self.start()

    def room(self) -> tuple[int, int]:
        """Bytes that the container may still take: on the device, and of the host's memory."""
        found = self.container.region().devices[0]
        in_host = found.oversubscription.used_bytes
        return self.share - found.used_bytes + in_host, LIMIT * MIB - self.share - in_host

    def check(self, step: object) -> None:
        found = self.container.region().devices[0]
        things = [thing for one in self.living for thing in one.things]
        in_host = sum(thing.in_host for thing in things)
        with sim.State(self.container.state) as books:
            on_device = books.devices[0].memory_used + sum(thing.managed for thing in things)
        assert (found.used_bytes, found.oversubscription.used_bytes) == (on_device + in_host, in_host), step
        assert found.peak_bytes <= self.share, step
        assert in_host <= LIMIT * MIB - self.share, step

    # ---- taking ----

    def start(self) -> None:
        if len(self.living) < MOST_LIVING:
            shell = self.shells(self.container, device=None)
            one = Living(shell, self.folder / f"box{shell.process.pid}")
            self.living.append(one)
            self.begin(one)

    def begin(self, one: Living) -> None:
        """It may find no room for its context, and ends then."""
        one.box.unlink(missing_ok=True)
        assert one.shell.status("box", one.box) == 0
        if not self.made(one, ("use", 0), 420 * MIB):
            self.end(one, kill=False)

    def made(self, one: Living, command: tuple[Any, ...], size: int, *, host: bool = False) -> list[int]:
        """The answer; nothing if it was refused, which it may only be where there was no room."""
        on_device, in_host = self.room()
        answer = one.shell(*command)
        if answer[0] == 0:
            return answer
        assert answer[0] == OUT_OF_MEMORY, command
        assert on_device < up(size), command
        assert not host or in_host < up(size, PAGE_IN_HOST), command
        return []

    def take(self, one: Living, kind: str, size: int) -> None:
        (on_device, in_host), host = self.room(), kind in MAY_LIE_IN_HOST
        command, undo = TAKES[kind]
        answer = self.made(one, command(size), 0 if kind in EMPTY_AT_FIRST else size, host=host)
        if answer:
            thing = Thing(kind, answer[1], (undo, answer[1]), size)
            if host and self.room()[1] < in_host:
                assert on_device < up(size)
                thing.in_host = up(size, PAGE_IN_HOST)
            elif kind == "managed":
                thing.managed = up(size)
            one.things.append(thing)

    def from_pool(self, one: Living, pool: Thing, size: int) -> None:
        if answer := self.made(one, ("from_pool", size, pool.number), size):
            one.things.append(Thing("pooled", answer[1], ("free_async", answer[1]), size, pool=pool))

    def launch(self, one: Living, graph: Thing) -> None:
        self.made(one, ("launch", graph.number), graph.size)

    def threshold(self, one: Living, pool: Thing, size: int) -> None:
        """Raised only: a lower one is noticed at the next free."""
        pool.size = max(pool.size, size)
        assert one.shell.status("threshold", pool.number, pool.size) == 0

    # ---- one thing, several holders ----

    def map(self, one: Living, handle: Thing) -> None:
        size = up(handle.size)
        address = one.shell.made("reserve", size)
        assert one.shell.status("map", address, handle.number, size) == 0
        one.things.append(Thing("mapping", address, ("unmap", address, 0, size), size))

    def retain(self, one: Living, mapping: Thing) -> None:
        number = one.shell.made("retain", mapping.number)
        one.things.append(Thing("create", number, ("release", number), mapping.size))

    def give(self, one: Living, handle: Thing, to: Living) -> None:
        assert one.shell.status("post", handle.number, to.box) == 0
        number = to.shell.made("fetch")
        to.things.append(Thing("create", number, ("release", number), handle.size))

    def lend(self, one: Living, thing: Thing, to: Living) -> None:
        if thing.in_host or to is one:
            return
        number = to.shell.made("ipc_open", one.shell.line("ipc_get", thing.number).split()[1])
        to.things.append(Thing("opened", number, ("ipc_close", number)))

    def share_pool(self, one: Living, pool: Thing, to: Living) -> None:
        assert one.shell.status("post_pool", pool.number, to.box) == 0
        number = to.shell.made("fetch_pool")
        to.things.append(Thing("imported", number, ("destroy_pool", number)))
        for thing in [thing for thing in one.things if thing.pool is pool]:
            data = one.shell.line("export_pointer", thing.number).split()[1]
            pointer = to.shell.made("import_pointer", number, data)
            to.things.append(Thing("pointer", pointer, ("free_async", pointer)))

    def tile(self, one: Living, array: Thing, which: int) -> None:
        """Maps memory that is in this part of the array alone, perhaps over what is there."""
        size = BLOCK << which % 2
        if handle := self.made(one, ("create", size, 0), size):
            assert one.shell.status("map_tile", array.number, handle[1], which % 3) == 0
            assert one.shell.status("release", handle[1]) == 0

    def untile(self, one: Living, array: Thing, which: int) -> None:
        assert one.shell.status("unmap_tiles", array.number, 0, which % 3, 1 + which % 2) == 0

    # ---- ends ----

    def free(self, one: Living, thing: Thing) -> None:
        assert one.shell.status(*thing.undo) == 0, thing
        one.things.remove(thing)

    def suspend(self, one: Living) -> None:
        pid = one.shell.process.pid
        assert self.warden.status("lock", pid) == 0
        status = self.warden.status("checkpoint", pid)
        assert status in {0, NOT_SUPPORTED}  # what others may hold cannot leave, and the process is of no use any more
        one.suspended = True
        if status != 0:
            self.check("one that cannot leave stays counted")
            self.end(one, kill=True)

    def resume(self, one: Living) -> None:
        pid, before = one.shell.process.pid, self.room()[0]
        [found] = [process for process in self.container.region().processes if process.pid == pid]
        status = self.warden.status("restore", pid)
        assert status == (0 if found.away_bytes[0] <= before else OUT_OF_MEMORY)
        assert status != 0 or self.warden.status("unlock", pid) == 0
        one.suspended = status != 0

    def end(self, one: Living, *, kill: bool) -> None:
        self.living.remove(one)
        if kill:
            one.shell.process.kill()
        one.shell.process.communicate()

    def exec(self, one: Living) -> None:
        assert one.shell.line("exec") == "ready\n"
        one.things.clear()
        self.begin(one)

    # ---- steps ----

    def use(self, one: Living, name: str, which: int, size: int) -> None:
        """Uses a thing of a kind, which the process makes first if it has none."""
        if not one.of(USES[name]):
            self.make(one, USES[name], which, size)
        others = [other for other in self.living if other is not one or which % 4 == 0]
        things, to = one.of(USES[name]), others[which % len(others)] if others else one
        if things and not to.suspended:
            last = {"from_pool": size, "threshold": size, "tile": which, "untile": which}
            more = (to,) if name in TO_ANOTHER else (last[name],) if name in last else ()
            getattr(self, name)(one, things[which % len(things)], *more)

    def make(self, one: Living, kind: str, which: int, size: int) -> None:
        if kind in TAKES:
            self.take(one, kind, size)
        else:
            self.use(one, "map", which, size)

    def step(self, name: str, who: int, which: int, size: int) -> None:
        away = [one for one in self.living if one.suspended]
        if name == "start" or not self.living:
            self.start()
            return
        one = away[0] if name == "resume" and away else self.living[who % len(self.living)]
        if name in {"exit", "kill"}:
            self.end(one, kill=name == "kill")
        elif one.suspended != (name == "resume"):
            return  # the calls of a suspended process wait
        elif name in TAKES:
            self.take(one, name, size)
        elif name in USES:
            self.use(one, name, which, size)
        elif name == "free" and one.things:
            self.free(one, one.things[which % len(one.things)])
        elif name == "fork":
            assert one.shell.status("fork") == 0
        elif name == "sync":
            assert one.shell.status("sync") == one.shell.status("trim_graphs", 0) == 0
        elif name != "free":
            getattr(self, name)(one)


def live_through(container, shells, folder, steps, share: int) -> None:
    try:
        world = World(container, shells, folder, share)
        for number, step in enumerate(steps):
            world.step(*step)
            world.check(f"step {number} of {steps}")
    finally:
        container.stop()
    assert container.agreed() == 0, "all are gone"


LONG = pytest.param(300, 200, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])


@pytest.mark.here_only("a program that qemu-user runs cannot become another")
@pytest.mark.parametrize(("orders", "most"), [(20, 60), LONG])
@pytest.mark.parametrize("share", [LIMIT, SHARE], ids=["plain", "scaled"])
@pytest.mark.parametrize("theme", THEMES)
def test_use_is_the_sum_of_what_the_living_hold(make_container, shells, tmp_path, theme, share, orders, most):
    for seed in range(orders):
        live_through(make_container(LIMIT, physical_mib=share), shells, tmp_path, order_of(theme, seed, most), share)


def wait_until(condition: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_memory_of_the_only_process_returns_at_its_death(started):
    """Nobody is left to look: the reader itself tells the dead from the living."""
    container, shell = started(4000)
    assert shell.status("alloc", 1000 * MIB) == 0
    assert used(container) > 1000 * MIB
    shell.kill()
    wait_until(lambda: used(container) == 0, 60)
    assert container.region().processes == ()


@pytest.mark.here_only("a program that qemu-user runs cannot become another")
def test_memory_returns_when_a_program_becomes_another(make_container, shells):
    container = make_container(LIMIT)
    first, second = shells(container), shells(container)
    reserve = container.region().devices[0].context_bytes
    assert first.status("alloc", 1000 * MIB) == 0
    cat = Path(str(shutil.which("cat"))).resolve()
    first.process.stdin.write(f"exec {cat}\n")  # lives on, without CUDA
    wait_until(lambda: Path(f"/proc/{first.process.pid}/exe").resolve() == cat, 60)
    wait_until(lambda: used(container) == reserve, 60)
    assert second.status("alloc", (LIMIT * MIB - reserve) // BLOCK * BLOCK) == 0
    assert first.process.poll() is None


@pytest.mark.here_only("a program that qemu-user runs cannot become another")
def test_program_that_starts_again_may_get_another_slot(make_container, shells):
    """The slot before its own is free by then. What the old program held must not stay counted in the old slot."""
    container = make_container(LIMIT)
    gone, stays = shells(container), shells(container)
    reserve = used(container) // 2
    assert stays.status("alloc", 2000 * MIB) == 0
    gone.kill()
    assert stays.status("alloc", 2000 * MIB) == OUT_OF_MEMORY  # a refused process has looked for the dead
    assert stays.line("exec") == "ready\n"
    assert stays.status("use", 0) == 0
    assert used(container) == reserve
    assert stays.status("alloc", 2000 * MIB) == 0
