"""Processes that share memory, one of which is stopped after each store to shared memory while the others go on."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from hami_interpose import sim

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20
STEP = 2 * MIB
LIMIT = 3000
SIZE = 1000 * MIB
OUT_OF_MEMORY = 2


class Stepped:
    """A command that one process carries out store by store."""

    def __init__(self, shell: Any, *command: object) -> None:
        self.process, self.answer = shell.process, None
        self.process.stdin.write(" ".join(map(str, ("stepped", *command))) + "\n")
        self.process.stdin.flush()
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            readable, _, _ = select.select([self.process.stdout], [], [], 0.0005)
            if readable:
                self.answer = [int(word) for word in self.process.stdout.readline().split()]
                return
            if os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOHANG) is not None:
                return
        pytest.fail("it neither stopped nor answered")

    def step(self) -> None:
        if self.answer is None:
            self.process.send_signal(signal.SIGCONT)
            self._wait()

    def finish(self) -> list[int]:
        while self.answer is None:
            self.step()
        return self.answer


class Container:
    """One that takes, two that import, and one that takes all the room it finds; and what is counted of it all."""

    def __init__(self, container: Any, shells: Callable[..., Any], box: str) -> None:
        self.container = container
        self.taker, self.first, self.second, self.filler = (shells(container) for _ in range(4))
        for importer in (self.first, self.second):
            importer.box = f"{box}{importer.process.pid}"
            assert importer.status("box", importer.box) == 0
        self.reserve = self.counted()
        self.held: list[tuple[Any, int]] = []
        self.filled: int | None = None

    def counted(self) -> int:
        counted: int = self.container.region().devices[0].used_bytes
        return counted

    def make(self) -> int:
        status, handle = self.taker("create", SIZE, 0)
        assert status == 0
        for importer in (self.first, self.second):
            assert self.taker.status("post", handle, importer.box) == 0
        return int(handle)

    def keep(self, shell: Any, answer: list[int]) -> bool:
        """What came of an import."""
        assert answer[0] in {0, OUT_OF_MEMORY}
        if answer[0] == 0:
            self.held.append((shell, answer[1]))
        return answer[0] == 0

    def fill(self) -> None:
        room = self.filler.free_bytes() // STEP * STEP
        if room > 0:
            status, self.filled = self.filler("alloc", room)
            assert status == 0

    def end(self) -> None:
        """When all have done what they were at, what is there counts and is within the limit; so it is afterwards."""
        with sim.State(self.container.state) as books:
            assert books.devices[0].memory_used == self.counted() <= LIMIT * MIB
        for shell, handle in self.held:
            assert shell.status("release", handle) == 0
        self.held.clear()
        if self.filled is not None:
            assert self.filler.status("free", self.filled) == 0
        self.filled = None
        assert self.counted() == self.reserve


@pytest.fixture
def container(make_container, build_preset, shells, tmp_path) -> Container:
    box = make_container(LIMIT)
    box.variables["LD_PRELOAD"] = str(build_preset("faults"))
    return Container(box, shells, f"{tmp_path}/box")


def at_all_moments(attempt: Callable[[int, int], bool]) -> int:
    """Tries something for all pairs of a command's moments, the first no later than the second.

    Args:
        attempt: Tells whether the command had stores left at the second.

    Returns:
        Most stores that the command had.
    """
    late, more = -1, True
    while more:
        late += 1
        left = [attempt(early, late) for early in range(late + 1)]
        more = any(left)
    return late


def run(command: Stepped, *events: tuple[int, Callable[[], Any]]) -> bool:
    """Has things happen after so many stores. False: the command has fewer than the last says."""
    for at in range(events[-1][0] + 1):
        if at > 0:
            command.step()
        for when, event in events:
            if when == at:
                event()
    return command.answer is None


def test_an_importer_stopped_anywhere_while_the_taker_lets_go(container):
    """Its first store makes it a holder: from there on the memory counts, and another may come."""
    seen = set()

    def attempt(early: int, late: int) -> bool:
        handle, second = container.make(), []
        importing = Stepped(container.first, "fetch")

        def let_go() -> None:
            assert container.taker.status("release", handle) == 0
            container.fill()

        def come() -> None:
            second.append(container.keep(container.second, container.second("fetch")))

        more = run(importing, (early, let_go), (late, come))
        seen.add((container.keep(container.first, importing.finish()), *second))
        container.end()
        return more

    assert at_all_moments(attempt) >= 3
    assert seen == {(True, True)}


@pytest.mark.parametrize("comes", ["before", "after"])
@pytest.mark.parametrize("who", ["the taker", "the last importer"])
def test_one_who_lets_go_stopped_anywhere_while_another_imports(container, who, comes):
    """Once it has let go, whoever comes first has the room: another importer, or a process that wants all of it."""
    seen = set()

    def attempt(early: int, late: int) -> bool:
        leaver, handle = container.taker, container.make()
        if who == "the last importer":
            status, imported = container.first("fetch")
            assert status == container.taker.status("release", handle) == 0
            leaver, handle = container.first, imported
        letting_go = Stepped(leaver, "release", handle)

        def come() -> None:
            seen.add(container.keep(container.second, container.second("fetch")))

        events = [container.fill, come] if comes == "after" else [come, container.fill]
        more = run(letting_go, (early, events[0]), (late, events[1]))
        assert letting_go.finish() == [0]
        if who == "the taker":
            container.keep(container.first, container.first("fetch"))
        container.end()
        return more

    assert at_all_moments(attempt) >= 1
    assert seen == {comes == "before"}
