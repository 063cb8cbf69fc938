"""Priorities: how long small requests of high priority take beside training of low priority."""

from __future__ import annotations

import importlib.util
import os
import statistics
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from hami_interpose import feedback as words
from hami_interpose.limits import CorePolicy

from .bed import ROOT
from .compute import find_rounds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .bed import Bed, Container
    from .report import Part

LOOK_S: Final = 0.2  # the agent and HAMi's monitor look every 5 s; runs here are too short for that
HIGH, LOW = 0, 1


def run(bed: Bed, part: Part, seconds: float = 4.0) -> None:
    """Measure requests alone, beside training on the bare card, and beside training with priorities."""
    rounds = find_rounds(bed)
    bare = bed.bare()
    alone = _requests(bare, None, rounds, seconds)
    sharing = _requests(bare, bare, rounds, seconds)
    high = bed.container(priority=HIGH, policy=CorePolicy.DEFAULT)
    low = bed.container(priority=LOW, policy=CorePolicy.DEFAULT)
    with _agent(bed, {"high": high, "low": low}):
        ours = _requests(high, low, rounds, seconds)
    for name, found in (("alone", alone), ("bare sharing", sharing)):
        says = f"median {found[0]:.2f} ms, 99th percentile {found[1]:.2f} ms of {found[2]} requests"
        part.add(name, None, says, p50_ms=found[0], p99_ms=found[1])
    says = f"median {ours[0]:.2f} ms, 99th percentile {ours[1]:.2f} ms of {ours[2]} requests"
    part.add("with our priority", ours[0] < 0.5 * (alone[0] + sharing[0]), says, p50_ms=ours[0], p99_ms=ours[1])


def _requests(where: Container, training: Container | None, rounds: int, seconds: float) -> tuple[float, float, int]:
    """Median and 99th percentile in ms, and number, of requests of 500 us that come every 10 ms."""
    inference = where.load("k_500us")
    inference.json("rounds", rounds)
    trainer = None
    if training is not None:
        trainer = training.load("k_10ms")
        trainer.json("rounds", rounds)
        trainer.send("go", int((seconds + 1.5) * 1000))
    inference.json("request", 1000, 10_000)  # by the end of this second the agent has noticed the requests
    found = [us / 1000 for us in inference.json("request", int(seconds * 1000), 10_000)["us"]]
    inference.end()
    if trainer is not None:
        trainer.json()
        trainer.end()
    return round(statistics.median(found), 3), round(sorted(found)[int(0.99 * (len(found) - 1))], 3), len(found)


@contextmanager
def _agent(bed: Bed, containers: dict[str, Container]) -> Iterator[None]:
    """Act as the node's agent: find the active containers, and tell the others to wait."""
    rule = agent_rule()
    tenants = {
        name: rule.Tenant(frozenset({bed.uuid}), container.limits.priority if container.limits else LOW)
        for name, container in containers.items()
    }
    files = {name: os.open(c.root / "region/vgpu.cache", os.O_RDWR) for name, c in containers.items() if c.root}
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_S):
            wanted = rule.feedback(tenants, {name: words.read(file) for name, file in files.items()})
            for name, file in files.items():
                os.pwrite(file, *reversed(words.recent_kernel(wanted[name].recent_kernel)))
                os.pwrite(file, *reversed(words.utilization_switch(wanted[name].utilization_switch)))
                os.pwrite(file, *reversed(words.agent_beat(int(time.time()))))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for file in files.values():
            os.close(file)


def agent_rule() -> Any:
    """Load the agent's own rule from its file, since its package needs distributions that may be missing here."""
    spec = importlib.util.spec_from_file_location("kit_feedback", ROOT / "vendors/nvidia/src/hami_nvidia/feedback.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
