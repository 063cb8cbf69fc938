"""A naive second implementation of placement: plain objects, sorting, one card after the other, no shared code.

It follows HAMi v2.10's published behaviour step by step (check order, sort orders, float32 scores, histogram) and
Kubernetes' rule for init containers and sidecars. Slow on purpose: nothing here is clever.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

F = np.float32
MORE_NODE_RANKS: dict[str, Callable[[float], float]] = {}
MORE_DEVICE_RANKS: dict[str, Callable[[OCard], float]] = {}
"""Policies that a test adds: word → rank, greatest first."""


@dataclass
class OCard:
    id: str
    family: str
    index: int
    slots: int
    memory: int
    cores: int
    type: str
    numa: int = 0
    mode: str = ""
    healthy: bool = True
    cordoned: bool = False
    profiles: tuple = ()
    pairs: dict = field(default_factory=dict)
    reserved: int = 0
    whole_only: bool = False
    used: int = 0
    used_memory: int = 0
    used_cores: int = 0
    mig: list = field(default_factory=list)
    kept: bool = False

    def copy(self) -> OCard:
        return OCard(**{**self.__dict__, "mig": list(self.mig)})


@dataclass
class OAsk:
    family: str
    count: int
    memory: int = 0
    percent: int | None = None
    cores: int = 0
    numa_bind: bool = False
    use_type: str = ""
    nouse_type: str = ""
    use_uuid: str = ""
    nouse_uuid: str = ""
    mode: str = ""


@dataclass
class OPod:
    containers: list  # (kind, [OAsk])
    node_policy: str = "binpack"
    device_policy: str = "spread"
    weights: tuple = (1, 1, 1)
    names_policy: bool = True


def needed(card: OCard, ask: OAsk) -> int:
    if ask.memory:
        return ask.memory
    return (card.memory - card.reserved) * ask.percent // 100 if ask.percent is not None else 0


def card_score(card: OCard, ask: OAsk, weights: tuple) -> np.float32:
    if 0 in (card.slots, card.cores, card.memory):
        return F(0)
    slots = F(card.used + 1) / F(card.slots)
    cores = F(card.used_cores + ask.cores) / F(card.cores)
    scored = card.memory * ask.percent // 100 if ask.percent else ask.memory
    memory = F(card.used_memory + scored) / F(card.memory)
    total = F(weights[0]) * slots + F(weights[1]) * cores
    return F(10) * (total + F(weights[2]) * memory)


def in_order(cards: list[OCard], ask: OAsk, pod: OPod) -> list[OCard]:
    """First to try first."""
    policy = pod.device_policy
    words = policy.split(",")
    rows = []
    for position, card in enumerate(cards):
        score = float(card_score(card, ask, pod.weights))
        if len(words) > 1 or policy == "numa":
            keys = []
            for word in words:
                if word in ("binpack", "spread", "numa", *MORE_DEVICE_RANKS) and word not in keys:
                    keys.append(word)
            keys = keys or ["spread"]
            if ask.numa_bind and keys[0] != "numa":
                keys = ["numa", *keys]
            more = {word: rank(card) for word, rank in MORE_DEVICE_RANKS.items()}
            key = [{"binpack": score, "spread": -score, "numa": card.numa, **more}[k] for k in keys] + [card.index]
        elif policy == "mutex":
            key = [-card.used, card.numa]
        elif policy in MORE_DEVICE_RANKS:
            rank = MORE_DEVICE_RANKS[policy](card)
            key = [card.numa, rank] if ask.numa_bind else [rank, card.numa]
        elif ask.numa_bind:
            key = [-card.numa, score] if policy == "binpack" else [card.numa, -score]
        elif policy == "binpack":
            key = [score, card.numa]
        else:
            key = [-score, card.numa]
        rows.append((key, position, card))
    rows.sort(key=lambda row: (row[0], row[1]))
    return [card for _, _, card in reversed(rows)]


def type_ok(card: OCard, ask: OAsk) -> bool:
    if card.whole_only:
        if ask.memory and ask.memory < card.memory - card.reserved:
            return False
        if not ask.memory and ask.percent not in (None, 100):
            return False
        if 0 < ask.cores < 100:
            return False
    name = card.type.upper()
    if ask.use_type and not any(w and w.upper() in name for w in ask.use_type.split(",")):
        return False
    if any(w and w.upper() in name for w in ask.nouse_type.split(",")):
        return False
    return not ask.mode or card.mode in ask.mode


def uuid_ok(card: OCard, ask: OAsk) -> bool:
    if ask.use_uuid and card.id not in ask.use_uuid.split(","):
        return False
    return card.id not in ask.nouse_uuid.split(",")


def mig_slot(card: OCard, memory: int, taken: list) -> tuple | None:
    for name, profile_memory, cores, places in sorted(card.profiles, key=lambda p: p[1]):
        if profile_memory < memory:
            continue
        free = [
            (start, size)
            for start, size in places
            if all(start + size <= s or s + z <= start for s, z in card.mig + taken)
        ]
        if free:
            best = max(free) if name.startswith(("1g.", "3g.")) else min(free)
            return name, profile_memory, cores, best
    return None


def try_container(cards: list[OCard], ask: OAsk, pod: OPod, quota_ok, *, link: bool = True) -> list | str:
    """[(card, memory, cores, mig place)] or the reason."""
    migs = [c for c in cards if c.mode == "mig" and type_ok(c, ask)]
    if len(cards) < ask.count and not migs:
        return "NodeInsufficientDevice"
    words = [w.strip() for w in pod.device_policy.split(",")]
    gather = link and "topology-aware" in words and ask.family == "NVIDIA"
    why: Counter = Counter()
    taken: list = []
    numa = None
    if ask.numa_bind and pod.names_policy and len({c.numa for c in cards}) > 1:
        best = best_numa(cards, ask, pod, quota_ok)
        if best:
            return best
    for card in in_order(cards, ask, pod):
        if not card.healthy:
            why["CardNotHealth"] += 1
            continue
        if card.cordoned:
            why["CardCordoned"] += 1
            continue
        if not type_ok(card, ask):
            why["CardTypeMismatch"] += 1
            continue
        if ask.numa_bind and card.numa != numa:
            if gather and len(taken) >= ask.count:
                break
            if taken:
                why["NumaNotFit"] += len(taken)
            taken = []
            numa = card.numa
        while True:
            same = [t for t in taken if t[0] is card]
            memory, cores, place = needed(card, ask), min(ask.cores, 100), None
            if not uuid_ok(card, ask):
                reason = "CardUuidMismatch"
            elif card.slots <= card.used + len(same):
                reason = "CardTimeSlicingExhausted"
            elif card.kept or ("mutex" in words and card.used > 0):
                reason = "ExclusiveDeviceAllocateConflict"
            elif not quota_ok(([] if gather else [(t[0].id, t[1], t[2]) for t in taken]) + [(card.id, memory, cores)]):
                reason = "ResourceQuotaNotFit"
            elif card.memory - card.used_memory < memory:
                reason = "CardInsufficientMemory"
            elif card.cores - card.used_cores < cores:
                reason = "CardInsufficientCore"
            elif card.cores == 100 and cores == 100 and card.used > 0:
                reason = "ExclusiveDeviceAllocateConflict"
            elif card.cores != 0 and card.used_cores == card.cores and cores == 0:
                reason = "CardComputeUnitsExhausted"
            elif card.mode == "mig":
                slot = mig_slot(card, memory, [t[3] for t in same])
                reason = "" if slot else "CardMigTopologyInfeasible"
                if slot:
                    _, memory, cores, place = slot
                    before = [] if gather else [(t[0].id, t[1], t[2]) for t in taken]
                    reason = "" if quota_ok([*before, (card.id, memory, cores)]) else "ResourceQuotaNotFit"
            else:
                reason = ""
            if reason:
                why[reason] += 1
                break
            taken.append((card, memory, cores, place))
            if not gather and len(taken) == ask.count:
                return taken
            if card.mode != "mig" or len(same) + 1 == ask.count:
                break
    if gather and len(taken) >= ask.count:
        best = pick_linked(taken, ask.count)
        if quota_ok([(c.id, memory, cores) for c, memory, cores, _ in best]):
            return best
        return try_container(cards, ask, pod, quota_ok, link=False)
    if taken:
        why["AllocatedCardsInsufficientRequest"] += len(taken)
    return ", ".join(sorted(f"{n}/{len(cards)} {word}" for word, n in why.items()))


def best_numa(cards: list[OCard], ask: OAsk, pod: OPod, quota_ok) -> list:
    """The cards that the container takes: each NUMA node is tried alone, and the policy ranks the results.

    Of equal results the first wins.
    """
    found = []
    for numa in dict.fromkeys(card.numa for card in in_order(cards, ask, pod)):
        picked = try_container([card for card in cards if card.numa == numa], ask, pod, quota_ok)
        if not isinstance(picked, str):
            ranks = [ranks_of(card, ask, pod) for card, *_ in picked]
            found.append(([sum(each) for each in zip(*ranks, strict=True)], picked))
    return max(found, key=lambda one: one[0])[1] if found else []


def ranks_of(card: OCard, ask: OAsk, pod: OPod) -> list[float]:
    score = float(card_score(card, ask, pod.weights))
    ranks = {"binpack": score, "spread": -score, "numa": card.numa}
    ranks |= {word: rank(card) for word, rank in MORE_DEVICE_RANKS.items()}
    words = list(dict.fromkeys(pod.device_policy.split(",")))
    if pod.device_policy == "mutex":
        return [-card.used]
    return [ranks[word] for word in words if word in ranks] or [-score]


def pick_linked(taken: list, count: int) -> list:
    if len(taken) == count:
        return taken
    link = lambda a, b: a[0].pairs.get(b[0].id, 0)  # noqa: E731
    if count == 1:
        return [min(taken, key=lambda a: sum(link(a, b) for b in taken if b is not a))]
    links = [[link(a, b) for a in taken] for b in taken]  # by the later of two, then by the earlier
    strongest = [max(row) for row in links]
    best, chosen = -1, ()

    def extend(picked: tuple[int, ...], total: int) -> None:
        """Try all combinations in order, except those that can't win. The first one with the greatest sum wins."""
        nonlocal best, chosen
        missing = count - len(picked)
        if not missing:
            if total > best:
                best, chosen = total, picked
            return
        start = picked[-1] + 1 if picked else 0
        rest = [sum([row[other] for other in picked]) for row in links[start:]]
        most = sum(sorted(rest)[-missing:]) + max(strongest[start:]) * missing * (missing - 1) // 2
        if total + most <= best:
            return
        for at in range(start, len(taken) - missing + 1):
            extend((*picked, at), total + rest[at - start])

    extend((), 0)
    return [taken[at] for at in chosen]


def peak_sum(history: list, extra: list) -> tuple[int, int, int]:
    """Whole-pod (MiB, percent, slots) of a family, per device peaks summed, if the next container had ``extra``."""
    ids = {i for _, _, i, _, _ in history} | {i for i, _, _ in extra}
    total = [0, 0, 0]
    for device in ids:
        running, peak = [0, 0, 0], [0, 0, 0]
        for number in sorted({n for n, *_ in history}):
            rows = [(k, m, c) for n, k, i, m, c in history if n == number and i == device]
            more = [sum(m for _, m, _ in rows), sum(c for _, _, c in rows), len(rows)]
            now = [running[i] + more[i] for i in range(3)]
            peak = [max(peak[i], now[i]) for i in range(3)]
            if rows and rows[0][0] != "init":
                running = now
        mine = [(m, c) for i, m, c in extra if i == device]
        more = [sum(m for m, _ in mine), sum(c for _, c in mine), len(mine)]
        for i in range(3):
            total[i] += max(peak[i], running[i] + more[i])
    return total[0], total[1], total[2]


def place_pod(node: dict[str, list[OCard]], pod: OPod, rooms: dict[str, tuple] | None = None) -> list | str:
    """Per container [(device id, memory, cores, mig place)], or the reason.

    ``rooms``: per family what the quota leaves, (MiB, percent, devices), None: no limit.
    """
    cards = {family: [c.copy() for c in sorted(row, key=lambda c: c.index)] for family, row in node.items()}
    result: list = []
    history: list = []
    for number, (kind, asks) in enumerate(pod.containers):
        got = []
        for ask in asks:

            def quota_ok(extra: list, ask: OAsk = ask, history: list = history) -> bool:
                room = (rooms or {}).get(ask.family, (None, None, None))
                sums = peak_sum([row[1:] for row in history if row[0] == ask.family], extra)
                return all(left is None or amount <= left for amount, left in zip(sums, room, strict=True))

            found = try_container(cards.get(ask.family, []), ask, pod, quota_ok)
            if isinstance(found, str):
                return found
            got += [(ask.family, *f) for f in found]
            history += [(ask.family, number, kind, c.id, m, p) for c, m, p, _ in found]
        result.append([(card.id, memory, cores, place) for _, card, memory, cores, place in got])
        if kind != "init":
            for _, card, memory, cores, place in got:
                card.used += 1
                card.used_memory += memory
                card.used_cores += cores
                if place:
                    card.mig.append(place)
    return result


def node_value(node: dict[str, list[OCard]]) -> np.float32:
    cards = [c for row in node.values() for c in row]
    slots, cores, memory = (sum(getattr(c, a) for c in cards) for a in ("slots", "cores", "memory"))
    if 0 in (slots, cores, memory):
        return F(0)
    total = F(sum(c.used for c in cards)) / F(slots) + F(sum(c.used_cores for c in cards)) / F(cores)
    return F(10) * (total + F(sum(c.used_memory for c in cards)) / F(memory))


def filter_pod(cluster: dict[str, dict[str, list[OCard]]], pod: OPod, names: list[str], rooms=None):
    """(best first [(name, score)], {name: reason})."""
    fits, refused = [], {}
    for name in dict.fromkeys(names):
        if name not in cluster:
            refused[name] = "node unregistered"
            continue
        placed = place_pod(cluster[name], pod, rooms)
        if isinstance(placed, str):
            refused[name] = placed
        else:
            fits.append((name, float(node_value(cluster[name]))))
    rank = {"spread": lambda score: -score, **MORE_NODE_RANKS}.get(pod.node_policy, lambda score: score)
    fits.sort(key=lambda f: (-rank(f[1]), f[0]))
    return fits, refused
