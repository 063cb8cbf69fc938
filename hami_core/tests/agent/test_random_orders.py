"""In any order of admission, checkpoint, start, restart and deletion, each container has exactly its slice."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hami_core.model import ContainerKind
from hami_core.tests.agent.node import GPU, Node

APP, INIT, SIDECAR = ContainerKind.APP, ContainerKind.INIT, ContainerKind.SIDECAR
CARDS = ("card-00000000", "card-00000001")
SLOTS = 10  # slots of each card of the node
STEPS = ("pod", "pod", "pod", "start", "start", "land", "late", "stale", "agent", "kubelet", "delete", "reboot")


def slots_of(held) -> Counter[str]:
    """Most slots of each card that a pod holds at a time. Later containers reuse the slots of init containers."""
    lasting: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for _, kind, slices in held:
        now = lasting + Counter(card for card, _ in slices)
        most |= now
        lasting = lasting if kind is INIT else now
    return most


class Play:
    """A node, the allocations of its pods, and a random sequence of events."""

    def __init__(self, root: Path, seed: int) -> None:
        self.node = Node(root)
        self.random = random.Random(seed)
        self.given: dict[str, list] = {}
        self.placed: dict[str, Counter[str]] = {}
        self.wanted: dict[tuple[str, str], str] = {}
        self.made = 0
        self.old: bytes | None = None

    async def begin(self) -> None:
        await self.node.kubelet.start()
        await self.node.up()
        await self.node.registered()

    async def end(self) -> None:
        await self.node.end()

    async def step(self, what: str) -> None:
        await getattr(self, what)()

    async def pod(self) -> None:
        """Admit a pod with init, sidecar and app containers of one or two cards each, which reuse init slots."""
        if len(self.given) >= 4:
            return
        await self.connected()
        early = [INIT] * self.random.randint(0, 2) + [SIDECAR] * self.random.randint(0, 1)
        kinds = [*self.random.sample(early, len(early)), APP, APP]
        held = [
            (
                f"c{i}",
                kind,
                [(c, self.random.randint(1, 60)) for c in self.random.sample(CARDS, self.random.randint(1, 2))],
            )
            for i, kind in enumerate(kinds)
        ]
        need = slots_of(held)
        if any(need[card] + sum(self.placed[uid][card] for uid in self.given) > SLOTS for card in CARDS):
            return  # no scheduler would place it here
        self.made += 1
        uid = await self.node.pod(f"p{self.made}", held)
        self.given[uid] = []
        self.placed[uid] = need
        reuse: list[str] = []
        for name, kind, slices in held:
            count = len(slices)
            given = await self.node.kubelet.admit(
                uid, name, GPU, count, reuse=reuse[:count], pick=lambda free: self.random.sample(free, len(free))
            )
            if kind is INIT:
                reuse = list(dict.fromkeys([*reuse, *given.slots]))
            else:
                reuse = [s for s in reuse if s not in given.slots]
            self.given[uid].append(given)
            self.wanted[uid, name] = "\n".join(f"{uid} {name} {card} {mib}" for card, mib in slices)

    async def start(self) -> None:
        """Start some container, if the kubelet can."""
        everything = [g for group in self.given.values() for g in group]
        if not everything or not self.node.kubelet.slots.get(GPU):
            return
        given = self.random.choice(everything)
        try:
            await self.node.kubelet.prestart(given)
        except grpc.aio.AioRpcError as error:
            if not self.node.kubelet.hold_checkpoint and error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            return
        self.right(given, must=False)

    def right(self, given, *, must: bool) -> None:
        try:
            edits = self.node.kubelet.create(given)
        except KeyError:
            assert not must
            return
        assert self.node.limits_of(edits) == self.wanted[given.pod_uid, given.container]
        assert f"ACME_FOR={given.pod_uid}/{given.container}" in edits["env"]

    async def land(self) -> None:
        self.node.kubelet.hold_checkpoint = False
        self.node.kubelet.checkpoint()
        self.old = (self.node.plugin_dir / "kubelet_internal_checkpoint").read_bytes()

    async def late(self) -> None:
        """Delay all later writes of the checkpoint."""
        self.node.kubelet.hold_checkpoint = True

    async def stale(self) -> None:
        """Write an older copy of the checkpoint last."""
        if self.old:
            self.node.kubelet.write_checkpoint(self.old)

    async def agent(self) -> None:
        await self.node.down()
        await self.node.up()

    async def kubelet(self) -> None:
        await self.node.kubelet.restart()
        await self.connected()

    async def connected(self) -> None:
        await self.node.registered()
        agent = self.node.agent
        await self.node.kubelet.until(lambda: agent.link.is_connected)

    async def delete(self) -> None:
        if not self.given:
            return
        uid = self.random.choice(sorted(self.given))
        del self.given[uid]
        await self.node.server.remove("pods", f"default/{uid.removeprefix('uid-')}")
        self.node.kubelet.given = [g for g in self.node.kubelet.given if g.pod_uid != uid]
        if not self.node.kubelet.hold_checkpoint:
            self.node.kubelet.checkpoint()

    async def reboot(self) -> None:
        await self.node.down()
        await self.node.kubelet.stop()
        shutil.rmtree(self.node.cdi_dir, ignore_errors=True)
        await self.node.kubelet.start()
        await self.node.up(boot_id=f"boot-{self.random.random()}")
        await self.connected()

    async def settle(self) -> None:
        """Check that in the end every live container can start, and that no other files are left."""
        await self.land()
        await self.connected()
        for group in self.given.values():
            for one in group:
                await self.node.kubelet.prestart(one)
                self.right(one, must=True)
        live = sum(len(group) for group in self.given.values())
        await self.node.kubelet.until(lambda: len(list(self.node.cdi_dir.glob("*"))) == live)
        await self.node.kubelet.until(lambda: len(list((self.node.state_dir / "containers").iterdir())) == live)


async def play(seed: int, steps: list[str]) -> None:
    root = Path(tempfile.mkdtemp(prefix="hami-"))
    run = Play(root, seed)
    try:
        await run.begin()
        for step in steps:
            await run.step(step)
        await run.settle()
    finally:
        await run.end()
        shutil.rmtree(root)


COURSES = st.lists(st.sampled_from(STEPS), min_size=4, max_size=14)
RELAXED = (HealthCheck.too_slow, HealthCheck.data_too_large)


@settings(max_examples=12, deadline=None, suppress_health_check=RELAXED)
@given(seed=st.integers(0, 2**32), steps=COURSES)
def test_every_container_has_exactly_its_own_slice(seed, steps):
    asyncio.run(play(seed, steps))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@settings(max_examples=200, deadline=None, suppress_health_check=RELAXED)
@given(seed=st.integers(0, 2**32), steps=st.lists(st.sampled_from(STEPS), min_size=10, max_size=40))
def test_every_container_has_exactly_its_own_slice_long(seed, steps):
    asyncio.run(play(seed, steps))
