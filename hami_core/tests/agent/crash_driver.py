"""Kills the agent's core before each of its changes to the disk in turn, then lets another core finish the work.

Run as a program: ``crash_driver.py FOLDER SCENARIO``. Prints one JSON line: how many places it was killed at.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import structlog

from hami_core.agent import cdi
from hami_core.agent.authority import Authority, Policy
from hami_core.agent.bind_finisher import BindFinisher
from hami_core.agent.cdi import SpecFolder
from hami_core.agent.identity import CheckpointReader
from hami_core.agent.pods import PodIndex
from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.agent.reconcile import Reconciler
from hami_core.agent.records import RecordStore
from hami_core.agent.vendor import Vendor
from hami_core.kube.informer import Informer
from hami_core.kube.port import PODS
from hami_core.model import ContainerKind
from hami_core.tests.agent.node import FAMILY, GPU, KEY, Node, RecordedActions
from hami_core.tests.agent.stub_kubelet import Given

CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir"}
CARDS = ("card-00000000", "card-00000001")


def kill_before(step: int, root: Path) -> None:
    left = step

    def hook(event: str, args: tuple) -> None:
        nonlocal left
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        if event in CHANGES or writes:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


class World:
    """A node whose kubelet and API server are plain data."""

    def __init__(self, root: Path, names: list[str]) -> None:
        self.node = Node(root)
        self.names = names
        self.node.plugin_dir.mkdir(parents=True, exist_ok=True)

    async def fill(self) -> None:
        held = [("init", ContainerKind.INIT, [(CARDS[0], 50)]), ("main", ContainerKind.APP, [(c, 70) for c in CARDS])]
        uid = await self.node.pod("a", held)
        slots = [[f"{CARDS[0]}-0"], [f"{CARDS[0]}-0", f"{CARDS[1]}-0"]]
        for (container, _, _), name, ids in zip(held, self.names, slots, strict=True):
            response = api.ContainerAllocateResponse()
            response.cdi_devices.add(name=cdi.qualified("acme.hami.io/slot", name))
            self.node.kubelet.given.append(Given(uid, container, GPU, ids, response))
        self.node.kubelet.checkpoint()

    async def empty(self) -> None:
        self.node.kubelet.given.clear()
        self.node.kubelet.checkpoint()
        await self.node.server.remove("pods", "default/a")

    async def live(self, boot: str, done) -> Reconciler:
        node = self.node
        informer = Informer(node.api, PODS)
        actions = RecordedActions(BindFinisher(node.api, lambda: None, [FAMILY]), node.api)
        actions.nudge = lambda resource: None
        core = Reconciler(
            vendors=[Vendor(node.vendor)],
            reader=CheckpointReader(node.plugin_dir, frozenset({GPU})),
            store=RecordStore(node.state_dir),
            specs=SpecFolder(node.cdi_dir),
            pods=PodIndex(informer, lambda: core.wake()),  # noqa: PLW0108 - made just now
            authority=Authority("n1", {"ACME": FAMILY}, (KEY.public_key(),), Policy()),
            actions=actions,
            boot_id=boot,
            prestart_wait_s=5.0,
        )
        core.devices.update({d.id: d for d in node.vendor.discover()})
        await core.start()
        tasks = [asyncio.ensure_future(informer.run()), asyncio.ensure_future(core.run())]
        async with asyncio.timeout(60):
            await informer.synced.wait()
            core.wake()  # as the process does at intervals: an empty list of pods causes no wake
            while not done(core):
                await asyncio.sleep(0.002)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return core

    def specs(self) -> dict[str, dict]:
        found = {}
        for path in self.node.cdi_dir.glob("*.json") if self.node.cdi_dir.exists() else ():
            spec = json.loads(path.read_text())
            found[spec["devices"][0]["name"]] = spec["devices"][0]["containerEdits"]
        return found

    def check(self) -> None:
        """Check that every container with a spec has complete and correct files."""
        wanted = {
            self.names[0]: f"uid-a init {CARDS[0]} 50",
            self.names[1]: "\n".join(f"uid-a main {c} 70" for c in CARDS),
        }
        for name, edits in self.specs().items():
            assert self.node.limits_of(edits) == wanted[name], name
            region = next(Path(m["hostPath"]) for m in edits["mounts"] if m["containerPath"].endswith("region"))
            assert (region / "vgpu.cache").stat().st_size == 4096

    def filled(self, core: Reconciler) -> bool:
        return SpecFolder(self.node.cdi_dir).names() == set(self.names) and len(core.records) == 2

    def emptied(self, core: Reconciler) -> bool:
        return not SpecFolder(self.node.cdi_dir).names() and not core.records


async def scenario(world: World, kind: str) -> None:
    if kind == "arrive":
        await world.live("boot-1", world.filled)
    elif kind == "leave":
        await world.empty()
        await world.live("boot-1", world.emptied)
    else:
        await world.live("boot-2", world.filled)


async def prepare(world: World, kind: str) -> None:
    await world.fill()
    if kind != "arrive":
        await world.live("boot-1", world.filled)
    if kind == "reboot":
        shutil.rmtree(world.node.cdi_dir)


async def first_life(root: Path, names: list[str], kind: str, step: int) -> None:
    """Run the scenario and kill it before a step, if it has that many steps."""
    world = World(root, names)
    await prepare(world, kind)
    kill_before(step, root)
    await scenario(world, kind)


async def next_life(root: Path, names: list[str], kind: str) -> None:
    world = World(root, names)
    world.check()
    await world.fill()
    await scenario(world, kind)
    world.check()
    left = [p.name for p in root.rglob("*") if p.name.startswith(".new-")]
    assert not left, left


def main(root: Path, kind: str) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    names = [cdi.fresh_name() for _ in range(2)]
    step = 0
    while True:
        step += 1
        here = root / str(step)
        child = os.fork()
        if child == 0:
            asyncio.run(first_life(here, names, kind, step))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        assert killed or os.WEXITSTATUS(status) == 0, f"step {step}: {status}"
        child = os.fork()
        if child == 0:
            asyncio.run(next_life(here, names, kind))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, f"after a kill at step {step} the next life failed"
        shutil.rmtree(here)
        if not killed:
            print(json.dumps({"steps": step - 1}))
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
