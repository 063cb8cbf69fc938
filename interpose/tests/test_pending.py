"""Frees that a stream has yet to come to: none is forgotten too early, and none that can be told apart too late."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

PLACES = 8
UNKNOWN, ALL, EVENT, LEGACY = -1, -2, 0, 1
NO_CONTEXT = 0
STREAMS = st.sampled_from([LEGACY, UNKNOWN, *range(16, 28)])
CONTEXTS = st.sampled_from([NO_CONTEXT, *range(100, 112)])
MANY = st.lists(CONTEXTS, min_size=1, max_size=12)


@dataclass(frozen=True)
class Free:
    context: int
    stream: int
    at: int
    ending: bool = False

    def is_over(self, context: int, stream: int, frees: int, only: bool) -> bool:
        here = only or context == self.context != NO_CONTEXT
        everywhere = stream not in (LEGACY, UNKNOWN, ALL, EVENT)
        waited = here if stream == ALL else stream == self.stream != UNKNOWN and (here or everywhere)
        return waited and self.at <= frees


class Table(RuleBasedStateMachine):
    """Beside the truth: each free by itself."""

    program: str

    @initialize(only=st.booleans(), spread=st.booleans())
    def start(self, only: bool, spread: bool) -> None:
        self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.only, self.context = only, None if spread and not only else 100
        self.frees: list[Free] = []
        self.count = self.places = 0
        self.told_apart = True

    def teardown(self) -> None:
        if hasattr(self, "process"):
            self.process.communicate()

    def place(self, context: int) -> int:
        return context if self.context is None or context == NO_CONTEXT else self.context

    def tell(self, command: str, context: int, stream: int = 0, frees: int = 0) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(command, context, stream, frees, int(self.only), file=self.process.stdin, flush=True)
        self.places = int(self.process.stdout.readline())

    @rule(context=CONTEXTS, stream=STREAMS)
    def free(self, context: int, stream: int) -> None:
        self.count += 1
        before, context = self.places, self.place(context)
        same = [at for at in self.frees if (at.context, at.stream) == (context, stream)]
        self.frees = [at if at not in same else replace(at, ending=False) for at in self.frees]
        self.frees.append(Free(context, stream, self.count))
        self.tell("freed", context, stream, self.count)
        self.told_apart = self.told_apart and not (before == PLACES and not same)

    @rule(context=CONTEXTS, stream=STREAMS | st.sampled_from([ALL, ALL, EVENT]), since=st.integers(0, 3))
    def wait(self, context: int, stream: int, since: int) -> None:
        """Some frees may have been while it lasted."""
        context, frees = self.place(context), max(self.count - since, 0)
        self.frees = [at for at in self.frees if not at.is_over(context, stream, frees, self.only)]
        self.tell("waited", context, stream, frees)

    @rule(contexts=st.lists(CONTEXTS, min_size=9, max_size=12, unique=True) | MANY, first=st.integers(16, 20))
    def free_in_many(self, contexts: list[int], first: int) -> None:
        for stream, context in enumerate(contexts, first):
            self.free(context, stream)

    @rule(data=st.data())
    def wait_for_all_but_one(self, data: st.DataObject) -> None:
        """However the others were told apart, that one stays."""
        if not self.frees:
            return
        one = data.draw(st.sampled_from(self.frees))
        waits = [(at.context, at.stream) for at in self.frees] + [(one.context, stream) for stream in range(16, 28)]
        waits += [(context, stream) for context in range(99, 112) for stream in (LEGACY, ALL, UNKNOWN)]
        for context, stream in waits:
            if not one.is_over(self.place(context), stream, self.count, self.only):
                self.wait(context, stream, 0)

    @rule(stream=st.integers(16, 27))
    def end_stream(self, stream: int) -> None:
        self.frees = [replace(at, stream=UNKNOWN) if at.stream == stream else at for at in self.frees]
        self.tell("end_stream", NO_CONTEXT, stream)

    @rule(context=CONTEXTS)
    def end_begins(self, context: int) -> None:
        context = self.place(context)
        self.frees = [replace(at, ending=at.ending or context == at.context != NO_CONTEXT) for at in self.frees]
        self.tell("ending", context)

    @rule(context=CONTEXTS)
    def end(self, context: int) -> None:
        context = self.place(context)
        self.frees = [at for at in self.frees if not (at.ending and at.context == context)]
        self.tell("ended", context)

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "process"):
            return
        assert self.places <= PLACES
        assert self.places > 0 or not self.frees, "forgotten too early"
        if self.told_apart:
            assert (self.places == 0) == (not self.frees), "kept too long"
        self.told_apart = self.told_apart or self.places == 0


def run(programs, examples: int) -> None:
    class Ours(Table):
        program = str(programs("pending"))

    run_state_machine_as_test(Ours, settings=settings(max_examples=examples, stateful_step_count=60, deadline=None))


def test_no_free_is_forgotten_too_early_or_kept_too_long(programs):
    run(programs, 100)


@pytest.mark.soak
def test_no_free_is_forgotten_in_many_orders(programs):
    run(programs, 10_000)
