"""Random clusters and requests, as the inventory's values and as the oracle's."""

from __future__ import annotations

import random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hami_nvidia import Nvidia, NvidiaConfig

from hami_core.inventory import Inventory
from hami_core.model import (
    Allocation,
    Booking,
    ContainerKind,
    ContainerRequest,
    ContainerSlices,
    Device,
    Family,
    MigPlacement,
    MigProfile,
    NodeFacts,
    PodRequest,
    Request,
    Resources,
    SelectorKeys,
    Slice,
    VendorRules,
    Weights,
)
from hami_core.policies import NODE_POLICIES, PolicyDefaults
from hami_core.vendorkit import default_check_type, default_check_uuid

from .oracle import OAsk, OCard, OPod

if TYPE_CHECKING:
    from collections.abc import Sequence

OTHER = Family(
    "OTHER",
    Resources("o/n", "o/mem", "", "o/core"),
    "o",
    uuid_selectors=(SelectorKeys("o/use-uuid", "o/nouse-uuid"),),
    type_selectors=(SelectorKeys("o/use-type", "o/nouse-type"),),
)
KEYS = {
    "NVIDIA": (
        "nvidia.com/use-gputype",
        "nvidia.com/nouse-gputype",
        "nvidia.com/use-gpuuuid",
        "nvidia.com/nouse-gpuuuid",
    ),
    "OTHER": ("o/use-type", "o/nouse-type", "o/use-uuid", "o/nouse-uuid"),
}
QUOTAS = {
    "NVIDIA": ("limits.nvidia.com/gpumem", "limits.nvidia.com/gpucores", "limits.nvidia.com/gpu"),
    "OTHER": ("limits.o/mem", "limits.o/core", "limits.o/n"),
}
MODELS = ["NVIDIA-A100-SXM4-40GB", "NVIDIA-H100", "NVIDIA-T4", "NVIDIA-L40S"]
A100 = (
    ("1g.5gb", 5120, 14, tuple((i, 1) for i in range(7))),
    ("2g.10gb", 10240, 28, ((0, 2), (2, 2), (4, 2))),
    ("3g.20gb", 20480, 42, ((0, 4), (4, 4))),
)
POLICIES = [
    "binpack",
    "spread",
    "mutex",
    "topology-aware",
    "numa",
    "mutex,spread",
    "binpack,numa",
    "spread,numa",
    "odd",
]
PLAIN_POLICIES = ["binpack", "spread", "mutex", "numa"]
"""Policies under which pods of several containers are placed in columns."""


def rules() -> list[VendorRules]:
    """NVIDIA's rules and those of a plain vendor."""
    nvidia = Nvidia()
    (family,) = nvidia.families(NvidiaConfig(), None)
    return [
        VendorRules(
            family,
            nvidia.check_type,
            nvidia.check_uuid,
            choose=lambda request, candidates, policy, devices: nvidia.choose(request, candidates),
            account=lambda request, device, piece, taken: nvidia.account(device, piece),
        ),
        VendorRules(
            OTHER,
            lambda request, kind: default_check_type(request, kind, OTHER),
            lambda request, device_id: default_check_uuid(request, device_id, OTHER),
        ),
    ]


class World:
    """A cluster in both forms. Its nodes are filled differently."""

    def __init__(
        self, rng: random.Random, *, nodes: int = 12, plain: bool = False, policies: Sequence[str] = ()
    ) -> None:
        self.rng = rng
        self.policies = policies or (PLAIN_POLICIES if plain else POLICIES)
        self.inventory = Inventory(rules(), PolicyDefaults(keep_idle_only=True))
        self.cluster: dict[str, dict[str, list[OCard]]] = {}
        self.rooms: dict[str, tuple[int | None, int | None, int | None]] = {}
        mig = not plain and rng.random() < 0.25
        links = not plain and rng.random() < 0.5
        for number in rng.sample(range(1000), rng.randint(1, nodes)):
            self.add_node(f"node-{number}", mig=mig, links=links)

    def add_node(self, name: str, *, mig: bool, links: bool) -> None:
        rng = self.rng
        rows: dict[str, list[OCard]] = {}
        for family in ("NVIDIA", "OTHER") if rng.random() < 0.3 else ("NVIDIA",) if rng.random() < 0.9 else ("OTHER",):
            rows[family] = [self._card(name, family, i, mig) for i in range(rng.choice([1, 2, 3, 4, 8, 8, 8, 12]))]
        if links:
            for row in rows.values():
                for card in row:
                    card.pairs = {other.id: rng.choice([0, 10, 20, 100, 200]) for other in row if other is not card}
        self.cluster[name] = rows
        self.inventory.set_node(NodeFacts(name), {w: [_device(c) for c in row] for w, row in rows.items()})
        self._fill(name, rows)

    def _card(self, node: str, family: str, index: int, mig: bool) -> OCard:
        rng = self.rng
        own = random.Random(f"{node}/{family}/{index}")  # a separate generator, so that each seed keeps its clusters
        partitioned = mig and family == "NVIDIA" and rng.random() < 0.6
        memory = (
            40960
            if partitioned
            else rng.choice([0, 8000, 16000, 16001, 40960, 81920] if rng.random() < 0.1 else [8000, 16000, 40960])
        )
        return OCard(
            id=f"{node}-{family}-{index}",
            family=family,
            index=rng.choice([index, index, index, 0]),
            slots=7 if partitioned else rng.choice([10, 10, 4, 1, 0] if rng.random() < 0.1 else [10, 4]),
            memory=memory,
            cores=rng.choice([100, 100, 100, 200, 0] if rng.random() < 0.2 else [100]),
            type=rng.choice(MODELS) if family == "NVIDIA" else rng.choice(["OTHER-1", "OTHER-2"]),
            numa=rng.choice([0, 0, 1, 1, 2]),
            reserved=own.choice([450, 1]) if memory and own.random() < 0.3 else 0,
            whole_only=own.random() < 0.05,
            mode="mig" if partitioned else rng.choice(["hami-core", "hami-core", "", "mps"]),
            healthy=rng.random() > 0.05,
            cordoned=rng.random() < 0.05,
            profiles=A100 if partitioned and rng.random() < 0.95 else (),
        )

    def _fill(self, node: str, rows: dict[str, list[OCard]]) -> None:
        rng = self.rng
        for row in rows.values():
            for card in row:
                policy = random.Random(card.id).choice(["", "", "spread", "mutex", "mutex,spread"])
                for number in range(rng.choice([0, 0, 1, 2, 3])):
                    memory = rng.choice([0, 1000, 5000, rng.randint(0, 9000)])
                    cores = rng.choice([0, 10, 25, 50, 100])
                    place = None
                    if card.mode == "mig":
                        start = rng.randrange(7)
                        if any(s <= start < s + z for s, z in card.mig):
                            continue
                        memory, cores, place = 5120, 14, (start, 1)
                        card.mig.append(place)
                    card.used += 1
                    card.used_memory += min(memory, card.memory)
                    card.used_cores += min(cores, card.cores)
                    piece = Slice(
                        card.id, card.family, memory, cores, mig_placement=MigPlacement(*place) if place else None
                    )
                    part = ContainerSlices("c", ContainerKind.APP, (piece,))
                    uid = f"{card.id}-{number}"
                    self.inventory.set_pod(Booking(uid, "filler", uid, Allocation(node, (part,)), policy))
                card.kept = card.used == 1 and "mutex" in policy  # alone on the card

    def pod(self) -> tuple[PodRequest, OPod]:
        """A new pod."""
        rng = self.rng
        policy = rng.choice(self.policies)
        weights = (1, 1, 1) if rng.random() < 0.8 else (rng.randint(0, 3), rng.randint(0, 3), rng.randint(1, 5))
        count = 1 if rng.random() < 0.55 else rng.randint(2, 4)
        kinds = ["app"] * count
        for i in range(count - 1):
            kinds[i] = rng.choice(["app", "app", "init", "sidecar"])
        kinds.sort(key=lambda kind: kind == "app")
        selectors = {} if rng.random() < 0.7 else self._selectors()
        numa_bind = rng.random() < 0.25
        containers = []
        for kind in kinds:
            families = rng.choice([["NVIDIA"], ["NVIDIA"], ["NVIDIA"], ["OTHER"], ["NVIDIA", "OTHER"], []])
            containers.append((kind, [self._ask(f, selectors, numa_bind) for f in families]))
        spread = rng.choice(list(NODE_POLICIES))
        named = policy != "spread" or random.Random(str(containers)).random() < 0.5  # spread is the default
        theirs = OPod(containers, spread, policy, weights, named)
        parts = tuple(
            ContainerRequest(f"c{i}", ContainerKind(kind), tuple(_request(ask) for ask in asks))
            for i, (kind, asks) in enumerate(containers)
        )
        uid = f"pod-{rng.random()}"
        return PodRequest(uid, "default", "pod", parts, spread, policy if named else "", Weights(*weights)), theirs

    def _selectors(self) -> dict[str, str]:
        rng = self.rng
        ids = [card.id for rows in self.cluster.values() for row in rows.values() for card in row]
        chosen = {
            "use_type": rng.choice(["", "A100", "a100,t4", "NVIDIA", ",H100"]),
            "nouse_type": rng.choice(["", "", "T4", "h100,L40"]),
            "use_uuid": rng.choice(["", ",".join(rng.sample([*ids, ""], min(len(ids), 6)))]),
            "nouse_uuid": rng.choice(["", ",", ",".join(rng.sample(ids, min(len(ids), 3)))]),
            "mode": rng.choice(["", "", "hami-core", "mig", "hami-core,mig"]),
        }
        return {key: value for key, value in chosen.items() if value}

    def _ask(self, family: str, selectors: dict[str, str], numa_bind: bool) -> OAsk:
        rng = self.rng
        memory = rng.choice([0, 1000, 4000, rng.randint(1, 20000)])
        percent = rng.choice([None, None, None, 10, 50] if memory else [None, 10, 33, 50, 100])
        cores = rng.choice([0, 0, 10, 30, 50, 100, 120])
        own = selectors if family == "NVIDIA" else {k: v for k, v in selectors.items() if k != "mode"}
        return OAsk(family, rng.choice([1, 1, 1, 2, 2, 3, 8]), memory, percent, cores, numa_bind, **own)

    def set_quota(self) -> None:
        """Sometimes limit the namespace, for one family or for both. Pods are the same with and without quotas."""
        rng = random.Random(str(sorted(self.cluster)))
        for word, names in QUOTAS.items():
            if rng.random() < 0.35:
                self.rooms[word] = (
                    rng.choice([None, rng.randint(0, 60000)]),
                    rng.choice([None, None, rng.randint(0, 300)]),
                    rng.choice([None, None, rng.randint(0, 5)]),
                )
                hard = {name: str(room) for name, room in zip(names, self.rooms[word], strict=True) if room is not None}
                self.inventory.set_quota("default", word.lower(), hard)


def _request(ask: OAsk) -> Request:
    annotations: dict[str, Any] = {
        key: value
        for key, value in zip(
            KEYS[ask.family], (ask.use_type, ask.nouse_type, ask.use_uuid, ask.nouse_uuid), strict=True
        )
        if value
    }
    if ask.mode:
        annotations["nvidia.com/vgpu-mode"] = ask.mode
    return Request(
        ask.family, ask.count, ask.memory, ask.percent, ask.cores, MappingProxyType(annotations), ask.numa_bind
    )


def _device(card: OCard) -> Device:
    profiles = tuple(
        MigProfile(name, memory, cores, 1, tuple(MigPlacement(*place) for place in places))
        for name, memory, cores, places in card.profiles
    )
    return Device(
        card.id, card.index, card.slots, card.memory, card.cores, card.type, card.family, card.numa, card.mode,
        card.healthy, card.cordoned, profiles, MappingProxyType(card.pairs), reserved_mib=card.reserved,
        whole_only="compute mode EXCLUSIVE" if card.whole_only else "",
    )  # fmt: skip
