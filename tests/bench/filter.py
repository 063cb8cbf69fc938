"""Filter in process: latency by nodes, fill, containers and running pods, and the cost of updates and bookings.

Every request has a shape not seen before, unless its figure says "known shape". "Filled" nodes all differ.

``python -m tests.bench.filter`` prints JSON; ``--nodes`` and ``--rounds`` choose sizes. ``--vendors`` measures all
vendors beside one instead.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import count, pairwise
from typing import TYPE_CHECKING

import yaml
from hami_nvidia import Nvidia, NvidiaConfig

from contrib.vendor_folders import ROOT, in_tree
from hami_core.inventory import Inventory, RawNames
from hami_core.model import (
    Allocation,
    Booking,
    ContainerKind,
    ContainerRequest,
    ContainerSlices,
    ContainerSpec,
    Device,
    Mutation,
    NodeFacts,
    PodFacts,
    PodRequest,
    Request,
    Slice,
    VendorRules,
)
from hami_core.placement.request import pod_request
from hami_core.plugins import load
from hami_core.wire.node import encode_devices_json
from tests.bench.figures import Figure, p50_p99, timings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hami_core.plugins.loaded import Loaded

BENCH = "filter"
CARDS = 8
MODELS = (("NVIDIA-A100", 40960), ("NVIDIA-H100", 81559), ("NVIDIA-T4", 15360), ("NVIDIA-L40S", 46068))
ONE_MS, SEVERAL_MS = (1.0, 3.0), (4.0, 10.0)


def rules() -> VendorRules:
    """NVIDIA's rules without the plugin layer, which hooks.py measures."""
    nvidia = Nvidia()
    (family,) = nvidia.families(NvidiaConfig(), None)
    return VendorRules(
        family,
        nvidia.check_type,
        nvidia.check_uuid,
        choose=lambda request, candidates, policy, devices: nvidia.choose(request, candidates),
        account=lambda request, device, piece, taken: nvidia.account(device, piece),
    )


class World:
    """A cluster.

    Args:
        nodes: How many, of 8 cards each.
        fill: The largest part of a card that is taken, from 0 to 1.
        pods: The largest number of running pods on a card. The more there are, the smaller each is.
    """

    def __init__(self, nodes: int, *, fill: float, pods: int = 4, seed: int = 7) -> None:
        self.rng = random.Random(seed)
        self.inventory = Inventory([rules()])
        self.names = [f"node-{number:05d}" for number in range(nodes)]
        self.running = 0
        self._unseen = count(1)
        for name in self.names:
            model, memory = self.rng.choice(MODELS)
            ids = [f"{name}-GPU-{i}" for i in range(CARDS)]
            devices = [Device(d, i, 10, memory, 100, model, "NVIDIA", i // 4) for i, d in enumerate(ids)]
            self.inventory.set_node(NodeFacts(name), {"NVIDIA": devices})
            if fill:
                self._fill(name, ids, memory, fill, pods)
        self.rng.shuffle(self.names)

    def _fill(self, node: str, ids: Sequence[str], memory: int, fill: float, pods: int) -> None:
        for device in ids:
            here = self.rng.randint(0, pods)
            for number in range(here):
                share = fill * self.rng.random() / here
                piece = Slice(device, "NVIDIA", int(memory * share), int(100 * share))
                uid = f"{device}-{number}"
                part = ContainerSlices("c", ContainerKind.APP, (piece,))
                self.inventory.set_pod(Booking(uid, "default", uid, Allocation(node, (part,))))
                self.running += 1

    def request(
        self, counts: Sequence[int], *, numa: bool = False, percent: bool = False, size: int = 12000
    ) -> PodRequest:
        """A pod with one app container for each count, with amounts that no earlier request has."""
        number = next(self._unseen)
        parts = tuple(
            ContainerRequest(f"c{i}", ContainerKind.APP, (self._ask(n, numa, percent, size),))
            for i, n in enumerate(counts)
        )
        policy = self.rng.choice(["binpack", "spread"])
        return PodRequest(f"uid-{number}", "default", "pod", parts, self.rng.choice(["binpack", "spread"]), policy)

    def _ask(self, cards: int, numa: bool, percent: bool, size: int) -> Request:
        rng = self.rng
        memory = 0 if percent else rng.randint(size // 8, size)
        return Request(
            "NVIDIA", cards, memory, rng.randint(5, 60) if percent else None, rng.randint(1, 60), numa_bind=numa
        )


NVIDIA = Device("", 0, 10, 40960, 100, "NVIDIA-A100", "NVIDIA")


@dataclass(frozen=True)
class Kind:
    """A kind of node, and a pod for it.

    Attributes:
        vendor: The vendor's name.
        facts: The node as the vendor's device plugin leaves it.
        limits: Limits of a container that asks for a part of a device, or for a whole one if they are not shared.
    """

    vendor: str
    facts: NodeFacts
    limits: Mapping[str, str]


@cache
def kinds() -> list[Kind]:
    """A kind of node for each vendor of the repository: its first example pod, and a node on which that pod fits."""
    found = []
    loaded = load({})
    for vendor in in_tree():
        if vendor.name == "nvidia":
            register = encode_devices_json([replace(NVIDIA, id=f"GPU-{i}", index=i) for i in range(CARDS)])
            limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}
            found.append(Kind("nvidia", NodeFacts("", {"hami.io/node-nvidia-register": register}), limits))
            continue
        first, *_ = yaml.safe_load_all((ROOT / f"contrib/examples/{vendor.name}.yaml").read_text("utf-8"))
        limits = {k: str(v) for k, v in first["spec"]["containers"][0]["resources"]["limits"].items()}
        for file in sorted(vendor.folder.glob("tests/data/nodes/*.yaml")):
            kind = Kind(vendor.name, facts_of(file), limits)
            inventory = Inventory(loaded.rules())
            inventory.set_node(kind.facts, devices_on(loaded, kind.facts))
            if inventory.filter(_pod(loaded, [kind], 0), [kind.facts.name]).best:
                found.append(kind)
                break
        else:
            raise ValueError(f"no node of {vendor.folder} takes the first pod of contrib/examples/{vendor.name}.yaml")
    return found


def facts_of(file: Path) -> NodeFacts:
    """The node in a manifest."""
    manifest = yaml.safe_load(file.read_text("utf-8"))
    meta, status = manifest["metadata"], manifest.get("status", {})
    capacity = {key: str(value) for key, value in status.get("capacity", {}).items()}
    allocatable = {key: str(value) for key, value in status.get("allocatable", capacity).items()}
    return NodeFacts(meta["name"], meta.get("annotations", {}), meta.get("labels", {}), capacity, allocatable)


def devices_on(loaded: Loaded, facts: NodeFacts) -> dict[str, Sequence[Device]]:
    """A node's devices by family."""
    return {word: found for word, found in loaded.register(facts).devices.items() if found}


def _pod(loaded: Loaded, asked: Sequence[Kind], number: int) -> PodRequest:
    """A pod with one container for each kind, as admission leaves it."""
    facts = PodFacts("default", "pod", f"uid-{number}")
    containers = []
    for place, kind in enumerate(asked):
        plain = ContainerSpec(f"c{place}", ContainerKind.APP, kind.limits)
        changed = loaded.mutate(plain, facts) or Mutation(False)
        containers.append(replace(plain, limits={**plain.limits, **changed.limits}))
        facts = replace(facts, annotations={**facts.annotations, **changed.pod_annotations})
    policies = {"hami.io/node-scheduler-policy": "binpack", "hami.io/gpu-scheduler-policy": "spread"}
    return pod_request(facts.uid, "default", "pod", containers, {**facts.annotations, **policies}, loaded.parse)


class MixedWorld:
    """A cluster of several vendors' nodes, with the rules as the plugin layer gives them.

    Args:
        vendors: The vendors that are loaded; None: all.
        nodes: How many nodes.
        kinds: The kinds of nodes. They take turns.
        fill: The part of the nodes on which a pod runs, from 0 to 1.
    """

    def __init__(
        self, vendors: Sequence[str] | None, nodes: int, kinds: Sequence[Kind], *, fill: float = 0.5, seed: int = 7
    ) -> None:
        self.rng = random.Random(seed)
        self._loaded = load({}, only=vendors)
        self.inventory = Inventory(self._loaded.rules())
        self.names = [f"node-{number:05d}" for number in range(nodes)]
        self._unseen = count(1)
        for number, name in enumerate(self.names):
            kind = kinds[number % len(kinds)]
            facts = replace(kind.facts, name=name)
            self.inventory.set_node(facts, devices_on(self._loaded, facts))
            if self.rng.random() < fill:
                self.inventory.book(self.request([kind]), name)
        self.rng.shuffle(self.names)

    def request(self, asked: Sequence[Kind], *, known: bool = False) -> PodRequest:
        """A pod with one container for each kind. Unless its shape may be known, its containers' names are new."""
        number = next(self._unseen)
        made = _pod(self._loaded, asked, number)
        if known:
            return made
        return replace(made, containers=tuple(replace(c, name=f"{c.name}-{number}") for c in made.containers))


def vendors_beside_one(nodes: int, rounds: int) -> list[Figure]:
    """Filter with all vendors loaded, beside Filter with one. Calls alternate, so both see the same machine."""
    every = kinds()
    (nvidia,) = [kind for kind in every if kind.vendor == "nvidia"]
    label = f"{nodes} nodes, all NVIDIA, pod of NVIDIA"
    sets = {len(every): None, 1: ["nvidia"]}
    taken = _alternating([MixedWorld(names, nodes, [nvidia]) for names in sets.values()], [nvidia], rounds)
    figures = []
    for number, mine in zip(sets, taken, strict=True):
        figures += p50_p99(BENCH, f"{label}, vendors loaded: {number}", mine)
    ratio = statistics.median(taken[0]) / statistics.median(taken[1])
    figures.append(Figure(BENCH, f"{label}, {len(every)} vendors over 1", ratio, "ratio", 1.1))
    mixed = MixedWorld(None, nodes, every)
    for asked in [*([kind] for kind in every), [nvidia, every[0]]]:
        words = " and ".join(kind.vendor for kind in asked)
        for known, shape in ((False, ""), (True, ", known shape")):
            (mine,) = _alternating([mixed], asked, rounds, known=known)
            figures += p50_p99(BENCH, f"{nodes} nodes, nodes of {len(every)} vendors, pod of {words}{shape}", mine)
    return figures


def _alternating(
    worlds: Sequence[MixedWorld], asked: Sequence[Kind], rounds: int, *, known: bool = False
) -> list[list[float]]:
    """Seconds of each Filter in each world. The worlds take turns every fifty calls."""
    taken: list[list[float]] = [[] for _ in worlds]
    for _ in range(0, rounds, 50):
        for world, mine in zip(worlds, taken, strict=True):
            ready = iter([world.request(asked, known=known) for _ in range(60)])
            mine.extend(timings(lambda w=world, r=ready: w.inventory.filter(next(r), w.names), 50))  # type: ignore[misc]
    return taken


def _latency(world: World, make: Callable[[], PodRequest], rounds: int, *, names: object = None) -> list[float]:
    asked = world.names if names is None else names
    return timings(lambda: world.inventory.filter(make(), asked), rounds)  # type: ignore[arg-type]


def _shapes(world: World, label: str, rounds: int, *, budget: bool) -> list[Figure]:
    shapes: dict[str, tuple[Callable[[], PodRequest], tuple[float, float]]] = {
        "1 container, 1 card": (lambda: world.request([1]), ONE_MS),
        "1 container, 4 cards": (lambda: world.request([4]), ONE_MS),
        "1 container, percentage": (lambda: world.request([1], percent=True), ONE_MS),
        "1 container, 2 cards, NUMA": (lambda: world.request([2], numa=True), ONE_MS),
        "2 containers, 1+1": (lambda: world.request([1, 1]), SEVERAL_MS),
        "2 containers, 2+2": (lambda: world.request([2, 2]), SEVERAL_MS),
        "4 containers of 1": (lambda: world.request([1, 1, 1, 1]), SEVERAL_MS),
    }
    figures: list[Figure] = []
    for shape, (make, limits) in shapes.items():
        taken = _latency(world, make, rounds)
        figures += p50_p99(BENCH, f"{label}, {shape}", taken, budget_ms=limits if budget else None)
    return figures


def _refusals(world: World, label: str, rounds: int, *, budget: bool) -> list[Figure]:
    """Measure requests that fit nowhere, so that the reasons of every node are written."""

    def call(counts: Sequence[int]) -> None:
        outcome = world.inventory.filter(world.request(counts, size=10**6), world.names)
        outcome.refused.json()

    def nearest() -> None:
        outcome.refused.nearest(3)

    outcome = world.inventory.filter(world.request([1], size=10**6), world.names)
    one = timings(lambda: call([8]), rounds)
    two = timings(lambda: call([8, 8]), rounds)
    return [
        *p50_p99(BENCH, f"{label}, nothing fits, reasons written", one, budget_ms=SEVERAL_MS if budget else None),
        *p50_p99(BENCH, f"{label}, nothing fits, 2 containers, reasons written", two),
        *p50_p99(BENCH, f"{label}, nothing fits, the three nearest misses alone", timings(nearest, rounds)),
    ]


def _changes(world: World, label: str, rounds: int, *, budget: bool) -> list[Figure]:
    inventory, names = world.inventory, world.names
    numbers = count()

    def event() -> None:
        number = next(numbers)
        node = names[number % len(names)]
        pieces = tuple(Slice(f"{node}-GPU-{i}", "NVIDIA", 100 + number % 50, 1) for i in range(2))
        part = ContainerSlices("c", ContainerKind.APP, pieces)
        inventory.set_pod(Booking("event", "default", "event", Allocation(node, (part,))))

    def bind() -> None:
        request = world.request([1], size=100)
        node = names[next(numbers) % len(names)]
        inventory.hold(request, node, 1.0)
        inventory.book(request, node)
        inventory.release(request.uid)

    event_us = [s * 1e6 for s in timings(event, rounds * 5)]
    bind_us = [s * 1e6 for s in timings(bind, rounds)]
    return [
        Figure(
            BENCH, f"{label}, pod event of two slices, p50", statistics.median(event_us), "µs", 100 if budget else None
        ),
        Figure(BENCH, f"{label}, hold + book + release, p50", statistics.median(bind_us), "µs"),
    ]


def run(*, quick: bool = False, sizes: Sequence[int] = (100, 1000, 5000), rounds: int = 0) -> list[Figure]:
    """Measure all cases."""
    rounds = rounds or (40 if quick else 300)
    figures: list[Figure] = []
    medians: dict[tuple[int, str], float] = {}
    for nodes in sizes:
        for fill, state in ((0.0, "empty"), (0.9, "filled")):
            world = World(nodes, fill=fill)
            label = f"{nodes} nodes {state}"
            last = nodes == sizes[-1] and nodes <= 5000 and state == "filled"
            shapes = _shapes(world, label, rounds, budget=last)
            medians[nodes, state] = shapes[0].value
            figures += shapes
            figures += _refusals(world, label, max(rounds // 10, 10), budget=last)
            if state == "filled":
                figures += _changes(world, label, rounds, budget=last)
                raw = RawNames(json.dumps(world.names).encode())
                taken = _latency(world, lambda w=world: w.request([1]), rounds, names=raw)  # type: ignore[misc]
                figures += p50_p99(BENCH, f"{label}, 1 container, raw names", taken)
    figures += vendors_beside_one(min(sizes[-1], 1000), rounds)
    return figures + _ratios(medians, sizes, rounds)


def _ratios(medians: dict[tuple[int, str], float], sizes: Sequence[int], rounds: int) -> list[Figure]:
    figures = []
    for small, large in pairwise(sizes):
        growth = (medians[large, "filled"] / medians[small, "filled"]) / (large / small)
        case = f"growth of latency over growth of nodes, {small} to {large}"
        figures.append(Figure(BENCH, case, growth, "ratio", 1.0))
    nodes = min(sizes[-1], 1000)
    few, many = World(nodes, fill=0.9, pods=2), World(nodes, fill=0.9, pods=8)
    slow = statistics.median(_latency(many, lambda: many.request([1]), rounds))
    fast = statistics.median(_latency(few, lambda: few.request([1]), rounds))
    case = f"{nodes} nodes, latency with {many.running} over {few.running} running pods"
    return [*figures, Figure(BENCH, case, slow / fast, "ratio", 1.5)]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.filter", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1000, 5000], help="cluster sizes, ascending")
    parser.add_argument("--rounds", type=int, default=0, help="calls per figure; default: 300")
    parser.add_argument("--vendors", action="store_true", help="all vendors loaded beside one, on 1000 nodes")
    options = parser.parse_args(argv)
    if options.vendors:
        figures = vendors_beside_one(1000, options.rounds or 300)
    else:
        figures = run(sizes=options.nodes, rounds=options.rounds)
    json.dump([asdict(figure) | {"within": figure.within} for figure in figures], sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
