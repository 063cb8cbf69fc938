"""Cells: tenants on one simulated device in virtual time, judged by the device's own books.

Each tenant is a container with a core limit and one or more processes of `programs/work.c`. The machine may be as busy
as it likes: time is `programs/virtual.c`'s, so a cell's result depends on its seed and on nothing else.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import hami_gpusim as sim
from hami_gpusim import testing
from hami_interpose import region, turn
from hami_interpose.limits import CorePolicy, DeviceLimit, Limits, encode

if TYPE_CHECKING:
    from pathlib import Path

CLOCK_STARTS = 10**12
WORLD_BYTES = 1 << 16
COUNTS = struct.Struct("<3Q")  # of each process in the world, from COUNTS_AT on
COUNTS_AT = 40
STEPS_A_SECOND = 10**9 // sim.STEP_NS
WARM = 3  # seconds that are judged by themselves
HOST_NS = 3000  # what computing before each launch takes


SHAPES = {
    "5us": "kernels=a_5us",
    "100us": "kernels=a_100us",
    "1ms": "kernels=a_1ms blocks=132",
    "10ms": "kernels=a_10ms blocks=4096",
    "50ms": "kernels=a_50ms blocks=10000",
    "graph1ms": "kernels=g_10us graph=100",
    "graph10ms": "kernels=g_10us graph=1000",
    "mix": "kernels=a_20us*10,b_200us,c_3000us random=1",
    "skewed": "kernels=v_300us_s100 blocks=1",
    "4streams": "kernels=s_400us_w25 streams=4",
    "4full": "kernels=s_400us streams=4",
    "synced": "kernels=y_200us sync=10 gap=100000",
    "ex": "kernels=e_300us how=ex",
    "cooperative": "kernels=c_2ms how=cooperative",
}
LAUNCH_MS = {"5us": 0.005, "100us": 0.1, "1ms": 1, "10ms": 10, "50ms": 50, "graph10ms": 10, "mix": 3, "cooperative": 2}


@dataclass(frozen=True)
class Tenant:
    """One container: its limit in percent, what it does, in how many processes.

    What is no shape is words for work.c; " | " stands between those of one process and of the next.
    """

    limit: int
    shape: str
    processes: int = 1
    words: str = ""
    controlled: bool = True
    policy: CorePolicy = CorePolicy.FORCE
    environment: dict[str, str] = field(default_factory=dict)
    part: int = 0  # of a divided card: its MIG device
    second: int | None = None  # limit on a second device, which it has too
    first: dict[str, str] = field(default_factory=dict)  # environment of its first process alone

    @property
    def work(self) -> list[str]:
        return self.work_of(0)

    def work_of(self, process: int) -> list[str]:
        shapes = self.shape.split(" | ")
        shape = shapes[process % len(shapes)]
        return f"{SHAPES.get(shape, shape)} {self.words}".split()


class Calls(NamedTuple):
    """System calls of a tenant's processes: sleeps and waits, wakes of others, looks at files."""

    waits: float
    wakes: float
    files: float


@dataclass(frozen=True)
class Result:
    """What one tenant had of the device: percent by step of 50 ms; the longest call in ms; its region.

    `calls`: for each ms of device time. `by_process`: the steps of each of its processes. `second`: what
    it had of a second device.
    """

    tenant: Tenant
    steps: list[float]
    longest_wait: float
    region: region.Region
    statuses: list[int]
    calls: Calls
    by_process: list[list[float]]
    second: list[float]

    def windows(self, seconds: float, first: float = WARM, last: float | None = None) -> list[float]:
        """Every window of that length, two steps apart."""
        length = round(seconds * STEPS_A_SECOND)
        steps = self.steps[round(first * STEPS_A_SECOND) : None if last is None else round(last * STEPS_A_SECOND)]
        return [sum(steps[i : i + length]) / length for i in range(0, len(steps) - length + 1, 2)]

    def share(self, first: float = WARM, last: float | None = None) -> float:
        steps = self.steps[round(first * STEPS_A_SECOND) : None if last is None else round(last * STEPS_A_SECOND)]
        return sum(steps) / len(steps)

    def share_of(self, process: int) -> float:
        steps = self.by_process[process][round(WARM * STEPS_A_SECOND) :]
        return sum(steps) / len(steps)

    def error(self, seconds: float) -> float:
        """The worst window's distance from the limit, in points."""
        return max(abs(share - self.tenant.limit) for share in self.windows(seconds))

    def __str__(self) -> str:
        ten, one = self.windows(10), self.windows(1)
        return (
            f"{self.tenant.processes} of {self.tenant.shape} at {self.tenant.limit} %: share {self.share():.1f}, "
            f"10 s {min(ten, default=0):.1f}…{max(ten, default=0):.1f}, 1 s {min(one):.1f}…{max(one):.1f}, "
            f"longest call {self.longest_wait:.0f} ms"
        )


@dataclass(frozen=True)
class Device:
    """What the cell assumes of the device and the machine."""

    slices: float = 0.002
    switch: float = 0.0
    wake_us: int = 50
    turns: bool = True
    parts: tuple[str, ...] = ()  # profiles of MIG devices, if it is divided


@dataclass(frozen=True)
class Place:
    """A device that tenants have: in the driver's books, and the turn page that they share."""

    uuid: str
    index: int
    page: Path


@dataclass
class Bench:
    """Runs cells; made by the fixture `cells`."""

    folder: Path
    work: Path
    hostile: Path
    virtual: Path
    preload: str
    seconds: int = 14
    patience: float = 170  # real seconds
    count: int = 0

    def run(
        self, seed: int, *tenants: Tenant, device: Device | None = None, deed: tuple[str, int] | None = None
    ) -> list[Result]:
        """Runs one cell and returns what each tenant had."""
        results, _ = self.run_with_idle(seed, *tenants, device=device, deed=deed)
        return results

    def run_with_idle(
        self, seed: int, *tenants: Tenant, device: Device | None = None, deed: tuple[str, int] | None = None
    ) -> tuple[list[Result], float]:
        """Also tells how many percent of the judged time the device, or the first part of a card, was idle.

        `deed`: what a hostile neighbour does to the turn page, and from which ms on.
        """
        device = device or Device()
        self.count += 1
        base = self.folder / f"cell{self.count}"
        devices = 1 if all(tenant.second is None for tenant in tenants) else 2
        sim.create(base / "gpus", f"a100x{devices}")
        with sim.State(base / "gpus") as state:
            state.set_slices(device.slices, switch=device.switch)
        places = self._places(base, device)
        total = sum(tenant.processes for tenant in tenants) + (deed is not None)
        header = struct.pack("<QQI", CLOCK_STARTS, 2**64 - 1, total)
        (base / "world").write_bytes(header + bytes(WORLD_BYTES - len(header)))
        roots = [self._container(base / f"container{i}", places, t, device.turns) for i, t in enumerate(tenants)]
        running = []
        for tenant, root in zip(tenants, roots, strict=True):
            visible = [places[tenant.part], *places[1 : 1 if tenant.second is None else 2]]
            for number in range(tenant.processes):
                words, extra = tenant.work_of(number), tenant.first if number == 0 else {}
                started = self._start(base, root, tenant, words, visible, extra, len(running), seed, device)
                running.append((root, started))
        neighbours = [] if deed is None else [self._start_hostile(base, places[0], deed, len(running), device)]
        try:
            output = [(root, process, process.communicate(timeout=self.patience)[0]) for root, process in running]
            for neighbour in neighbours:
                assert neighbour.wait(self.patience) == 0, "the hostile neighbour failed"
        finally:
            for process in [*neighbours, *(process for _, process in running)]:
                process.kill()
                process.wait()
        with sim.State(base / "gpus") as state:
            times = [{found.pid: found.steps for found in state.device_time(place.index)} for place in places]
            idle = state.idle_time(places[0].index)
        world = (base / "world").read_bytes()
        counts = {
            process.pid: COUNTS.unpack_from(world, COUNTS_AT + i * COUNTS.size)
            for i, (_, process) in enumerate(running)
        }
        results = [self._result(t, root, output, times, counts) for t, root in zip(tenants, roots, strict=True)]
        first = CLOCK_STARTS // sim.STEP_NS
        judged = range(first + WARM * STEPS_A_SECOND, first + self.seconds * STEPS_A_SECOND)
        return results, 100 * sum(idle.get(step, 0) for step in judged) / (len(judged) * sim.STEP_NS)

    def _places(self, base: Path, device: Device) -> list[Place]:
        if device.parts:
            testing.partition(base / "gpus", 0, *device.parts)
        with sim.State(base / "gpus") as state:
            found = state.mig_devices if device.parts else state.devices
            places = [Place(one.uuid, one.index, base / f"page{i}") for i, one in enumerate(found)]
        for place in places:
            place.page.write_bytes(turn.initial())
        return places

    @staticmethod
    def _container(root: Path, places: list[Place], tenant: Tenant, turns: bool) -> Path:
        for name in ("limits", "region", "turns"):
            (root / name).mkdir(parents=True)
        given = [(places[tenant.part], tenant.limit)]
        given += [] if tenant.second is None else [(places[1], tenant.second)]
        devices = tuple(DeviceLimit(place.uuid, 0, 0, limit) for place, limit in given)
        limits = Limits(devices, core_policy=tenant.policy)
        (root / "limits/limits").write_bytes(encode(limits))
        (root / "region/vgpu.cache").write_bytes(region.initial(limits))
        for place, _ in given if turns else ():
            os.link(place.page, root / "turns" / place.uuid)
        return root

    def _virtual(self, base: Path, index: int, device: Device) -> dict[str, str]:
        """The environment of those whose time is virtual."""
        return {
            "HAMI_VIRTUAL": str(base / "world"),
            "HAMI_VIRTUAL_INDEX": str(index),
            "HAMI_VIRTUAL_WAKE_NS": str(device.wake_us * 1000),
            "HAMI_VIRTUAL_SLACK_NS": str(device.wake_us * 1000 + 10000),
        }

    def _start_hostile(
        self, base: Path, place: Place, deed: tuple[str, int], index: int, device: Device
    ) -> subprocess.Popen[str]:
        command = [str(self.hostile), str(place.page), deed[0], str(deed[1]), str(self.seconds)]
        env = os.environ | self._virtual(base, index, device) | {"LD_PRELOAD": str(self.virtual)}
        return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, text=True)

    def _start(
        self,
        base: Path,
        root: Path,
        tenant: Tenant,
        work: list[str],
        visible: list[Place],
        extra: dict[str, str],
        index: int,
        seed: int,
        device: Device,
    ) -> subprocess.Popen[str]:
        ours = {
            "LD_PRELOAD": f"{self.virtual}:{self.preload}" if tenant.controlled else str(self.virtual),
            "HAMI_VGPU_ROOT": str(root),
            "HAMI_SIM_SEED": str(seed * 100 + index + 1),
            "CUDA_VISIBLE_DEVICES": ",".join(place.uuid for place in visible),
        }
        env = sim.environment(base / "gpus") | self._virtual(base, index, device) | ours
        words = [f"host={HOST_NS}", f"seed={seed * 100 + index}", f"seconds={self.seconds}", *work]
        return subprocess.Popen(
            [str(self.work), *words],
            env=env | tenant.environment | extra,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _steps(self, times: dict[int, dict[int, int]], pids: list[int]) -> list[float]:
        first = CLOCK_STARTS // sim.STEP_NS
        found = [times.get(pid, {}) for pid in pids]
        return [
            100 * sum(steps.get(first + i, 0) for steps in found) / sim.STEP_NS
            for i in range(self.seconds * STEPS_A_SECOND)
        ]

    def _result(
        self,
        tenant: Tenant,
        root: Path,
        output: list[tuple[Path, subprocess.Popen[str], str]],
        times: list[dict[int, dict[int, int]]],
        counts: dict[int, tuple[int, int, int]],
    ) -> Result:
        mine = [(process, out) for at, process, out in output if at == root]
        by_process = [self._steps(times[tenant.part], [process.pid]) for process, _ in mine]
        steps = [sum(step) for step in zip(*by_process, strict=True)]
        second = [] if tenant.second is None else self._steps(times[1], [process.pid for process, _ in mine])
        longest = max((json.loads(out)["longest"] for _, out in mine if out), default=0) / 1e6
        statuses = [process.returncode for process, _ in mine]
        device_ms = max(1, sum(steps) * sim.STEP_NS / 10**8)
        calls = Calls(*(sum(counts[process.pid][i] for process, _ in mine) / device_ms for i in range(3)))
        return Result(
            tenant, steps, longest, region.read(root / "region/vgpu.cache"), statuses, calls, by_process, second
        )
