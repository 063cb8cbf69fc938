"""What is in use is what the living hold, whatever became of the others."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
OUT_OF_MEMORY = 2
LIMIT = 3000
SHARE = 1800  # of the device, where memory is scaled


def used(container) -> int:
    return container.region().devices[0].used_bytes


def wait_for_use(container, expected: int) -> None:
    """Of a program that has ended: in a second, seen as looks 10 ms apart, which a machine under load makes longer."""
    for _ in range(100):
        if used(container) == expected:
            return
        time.sleep(0.01)
    pytest.fail(f"a second after the end {used(container)} bytes are counted instead of {expected}")


def wait_for_exec(shell, program: str) -> None:
    """Until the process is that program; on a busy machine this takes as long as it does."""
    exe = Path(f"/proc/{shell.process.pid}/exe")
    deadline = time.monotonic() + 60
    while exe.resolve() != Path(program).resolve():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_memory_of_the_only_process_returns_with_its_death(started):
    """Nobody is left to look: the reader itself tells the dead from the living."""
    container, shell = started(4000)
    assert shell.status("alloc", 1000 * MIB) == 0
    assert used(container) > 1000 * MIB
    shell.kill()
    wait_for_use(container, 0)
    assert container.region().processes == ()


@pytest.mark.here_only("a program that qemu-user runs cannot become another")
def test_memory_of_a_program_returns_when_it_becomes_another(make_container, shells):
    container = make_container(LIMIT)
    first, second = shells(container), shells(container)
    reserve = container.region().devices[0].context_bytes
    assert first.status("alloc", 1000 * MIB) == 0
    cat = shutil.which("cat")
    first.process.stdin.write(f"exec {cat}\n")  # lives on, without CUDA
    wait_for_exec(first, cat)
    wait_for_use(container, reserve)
    assert first.process.poll() is None
    room = LIMIT * MIB - reserve
    assert second.status("alloc", room // (2 * MIB) * 2 * MIB) == 0
    assert first.process.poll() is None


@pytest.mark.here_only("a program that qemu-user runs cannot become another")
def test_a_program_that_starts_itself_again_starts_from_nothing(started):
    container, shell = started(LIMIT)
    reserve = container.region().devices[0].context_bytes
    assert shell.status("alloc", 2000 * MIB) == 0
    assert shell.line("exec") == "ready\n"
    assert shell.status("use", 0) == 0
    assert used(container) == reserve
    assert shell.status("alloc", 2000 * MIB) == 0
    assert used(container) == reserve + 2000 * MIB


@pytest.mark.here_only("a program that qemu-user runs cannot become another")
def test_a_program_that_starts_itself_again_may_come_to_another_slot(make_container, shells):
    """The slot before its own has become free meanwhile; what the old program held must not stay counted."""
    container = make_container(LIMIT)
    gone, stays = shells(container), shells(container)
    reserve = used(container) // 2
    assert stays.status("alloc", 2000 * MIB) == 0
    gone.kill()
    wait_for_use(container, reserve + 2000 * MIB)
    assert stays.status("alloc", 2000 * MIB) == OUT_OF_MEMORY  # who is refused has looked for the dead
    assert stays.line("exec") == "ready\n"
    assert stays.status("use", 0) == 0
    assert used(container) == reserve
    assert stays.status("alloc", 2000 * MIB) == 0


@dataclass
class Living:
    """The model of one process: what it holds, by number of the thing."""

    shell: object
    large: dict[int, int] = field(default_factory=dict)
    small: dict[int, int] = field(default_factory=dict)  # its block
    undo: dict[int, str] = field(default_factory=dict)  # how those are given back that cuMemFree does not free
    managed: set[int] = field(default_factory=set)
    host: dict[int, int] = field(default_factory=dict)  # beyond the share of the device
    suspended: bool = False

    def holds(self) -> int:
        return sum(self.large.values()) + 2 * MIB * len(set(self.small.values()))


SIZES = st.sampled_from([1, 512, 4096, 100_000, MIB - 1, MIB, 3 * MIB, 64 * MIB, 300 * MIB, 900 * MIB])
WHO = st.integers(0, 3)
UNDO = {"async": "free_async", "create": "release", "array": "destroy_array"}
ROW = 4096  # bytes of a row of 256 texels
STEPS = st.one_of(
    st.just(("start",)),
    *[st.tuples(st.just(kind), WHO, SIZES) for kind in ("alloc", "alloc", "managed", *UNDO)],
    *[st.tuples(st.just("free"), WHO, st.integers(0, 20)) for _ in range(4)],
    st.tuples(st.just("fork"), WHO),
    st.tuples(st.just("exec"), WHO),
    st.tuples(st.just("exit"), WHO),
    st.tuples(st.just("suspend"), WHO),
    st.tuples(st.just("resume"), WHO),
    st.tuples(st.just("kill"), WHO),
)


class World:
    """Processes of one container and what they should hold."""

    def __init__(self, container, shells, share: int) -> None:
        self.container, self.shells, self.living, self.reserve = container, shells, [], 0
        self.share = share * MIB
        self.warden = shells(container, device=None)
        self.start()
        self.reserve = used(container)

    def start(self) -> None:
        if len(self.living) == 4:
            return
        one = Living(self.shells(self.container, device=None))
        fits = self.on_device() + self.reserve <= self.share
        assert one.shell.status("use", 0) == (0 if fits else OUT_OF_MEMORY)
        self.living.append(one)
        if not fits:
            self.end(one, kill=False)

    def on_device(self) -> int:
        return sum(self.reserve + one.holds() for one in self.living if not one.suspended)

    def in_host(self) -> int:
        return sum(sum(one.host.values()) for one in self.living)

    def check(self) -> None:
        found = self.container.region().devices[0]
        assert found.oversubscription.used_bytes == self.in_host() <= LIMIT * MIB - self.share
        assert found.used_bytes == self.on_device() + self.in_host()
        assert self.on_device() <= self.share

    def alloc(self, one: Living, size: int, kind: str = "alloc") -> None:
        arguments = {"create": (-(-size // (2 * MIB)) * 2 * MIB, 0), "array": (256, -(-size // ROW), 0)}
        status, thing = one.shell(kind, *arguments.get(kind, (size,)))
        taken = (size + 2 * MIB - 1) // (2 * MIB) * 2 * MIB
        if_in_host = (size + 65535) // 65536 * 65536
        beyond = self.on_device() + taken > self.share
        if status == OUT_OF_MEMORY:
            assert beyond
            assert kind in UNDO or self.in_host() + if_in_host > LIMIT * MIB - self.share
            return
        assert status == 0
        if self.container.region().devices[0].oversubscription.used_bytes != self.in_host():
            assert beyond
            assert kind not in UNDO
            one.host[thing] = if_in_host
        elif size >= MIB or kind not in {"alloc", "async"}:
            one.large[thing] = taken
        else:
            one.small[thing] = one.shell("where", thing)[1] >> 21
        if kind in UNDO:
            one.undo[thing] = UNDO[kind]
        if kind == "managed":
            one.managed.add(thing)

    def free(self, one: Living, which: int) -> None:
        things = sorted({**one.large, **one.small, **one.host})
        if things:
            thing = things[which % len(things)]
            assert one.shell.status(one.undo.get(thing, "free"), thing) == 0
            if one.undo.get(thing) == "free_async":
                assert one.shell.status("sync") == 0  # until then the pool has it
            for held in (one.large, one.small, one.host, one.undo):
                held.pop(thing, None)
            one.managed.discard(thing)

    def suspend(self, one: Living) -> None:
        """One that has managed memory cannot leave, and would be of no use any more."""
        pid = one.shell.process.pid
        if not one.host and not one.managed and not one.suspended:
            assert [self.warden.status(step, pid) for step in ("lock", "checkpoint")] == [0, 0]
            one.suspended = True

    def resume(self, one: Living) -> None:
        pid = one.shell.process.pid
        if one.suspended:
            fits = self.on_device() + self.reserve + one.holds() <= self.share
            assert self.warden.status("restore", pid) == (0 if fits else OUT_OF_MEMORY)
            assert not fits or self.warden.status("unlock", pid) == 0
            one.suspended = not fits

    def end(self, one: Living, *, kill: bool) -> None:
        self.living.remove(one)
        if kill:
            one.shell.process.kill()
        one.shell.process.stdin.close()
        one.shell.process.wait()
        one.shell.process.stdout.close()
        one.shell.process.stderr.close()

    def step(self, name: str, *arguments: int) -> None:
        if name == "start":
            self.start()
            return
        if not self.living:
            return
        one = self.living[arguments[0] % len(self.living)]
        if name == "suspend":
            self.suspend(one)
        elif name == "resume":
            self.resume(one)
        elif one.suspended and name not in {"exit", "kill"}:
            return  # its calls would wait
        elif name in {"alloc", "managed", *UNDO}:
            self.alloc(one, arguments[1], name)
        elif name == "free":
            self.free(one, arguments[1])
        elif name == "fork":
            assert one.shell.status("fork") == 0
        elif name == "exec":
            assert one.shell.line("exec") == "ready\n"
            assert one.shell.status("use", 0) == 0
            one.large, one.small, one.host, one.undo, one.managed = {}, {}, {}, {}, set()
        else:
            self.end(one, kill=name == "kill")


def live_through(container, shells, steps, share: int) -> None:
    world = World(container, shells, share)
    for step in steps:
        world.step(*step)
        world.check()
    while world.living:
        world.end(world.living[0], kill=True)
    assert used(world.container) == 0
    world.warden.process.kill()
    world.warden.process.communicate()


@pytest.mark.here_only("a program that qemu-user runs cannot become another")
@pytest.mark.parametrize("share", [LIMIT, SHARE], ids=["plain", "scaled"])
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=25, max_size=60))
def test_use_is_the_sum_of_what_the_living_hold(make_container, shells, share, steps):
    live_through(make_container(LIMIT, physical_mib=share), shells, steps, share)


@pytest.mark.here_only("a program that qemu-user runs cannot become another")
@pytest.mark.soak
@pytest.mark.parametrize("share", [LIMIT, SHARE], ids=["plain", "scaled"])
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=20, max_size=200))
def test_use_is_the_sum_of_what_the_living_hold_for_long(make_container, shells, share, steps):
    live_through(make_container(LIMIT, physical_mib=share), shells, steps, share)
