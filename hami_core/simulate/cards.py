"""The amounts of all cards in columns, ``[node, card]``, so that a whole cluster is measured at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hami_core.placement.fit import WHOLE_CARD
from hami_core.placement.place import Plan

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hami_core.inventory import Inventory
    from hami_core.model import PodRequest
    from hami_core.placement.fit import Ask as PlannedAsk
    from hami_core.scheduler.cluster import Cluster

_NO_FAMILY: Final = -1


def candidates(cluster: Cluster) -> tuple[list[str], set[tuple[str, str]]]:
    """The nodes that may get pods, and the families that some of them don't give.

    A node that is marked unschedulable is no candidate: kube-scheduler does not ask us about it.
    """
    stored = cluster.nodes.store
    names = [n for n in cluster.inventory.node_names() if n not in stored or not stored[n].spec.unschedulable]
    words = tuple(cluster.families)
    concerned = [name for name in names if name in cluster.closed_nodes or cluster.inventory.bar(name, words)]
    closed = {
        (name, word)
        for name in concerned
        for word in words
        if word in cluster.closed_nodes.get(name, ()) or cluster.inventory.bar(name, [word])
    }
    return names, closed


class Cards:
    """A copy of the inventory's amounts. `refresh` brings a node up to date after each change.

    Cards that are unhealthy or cordoned, and cards of closed nodes, are left out: nobody can book them.

    Args:
        inventory: The cluster.
        names: Its nodes.
        closed: Pairs of a node and the common word of a family for which it takes no new pods.

    Attributes:
        nodes: Number of nodes.
        cards: Number of cards.
        memory_mib: Their memory.
        cores: Their cores in percent.
        booked_memory_mib: Memory that is booked.
        booked_cores: Cores that are booked.
        used_cards: Cards with a pod.
    """

    def __init__(self, inventory: Inventory, names: Sequence[str], closed: Collection[tuple[str, str]] = ()) -> None:
        self._inventory = inventory
        self._rows = {name: row for row, name in enumerate(names)}
        self._words = {word: number for number, word in enumerate(inventory.rules)}
        usages = [inventory.usage(name) for name in names]
        shape = len(names), max((len(row) for row in usages), default=0)
        self.total_memory, self.usable_memory, self.total_cores, self.total_slots = np.zeros((4, *shape), np.int64)
        self.used_memory, self.used_cores, self.used_slots = np.zeros((3, *shape), np.int64)
        self._family = np.full(shape, _NO_FAMILY, np.int16)
        for row, (name, cards) in enumerate(zip(names, usages, strict=True)):
            for at, usage in enumerate(cards):
                device = usage.device
                if not device.healthy or device.cordoned or (name, device.family) in closed:
                    continue
                self._family[row, at] = self._words.get(device.family, _NO_FAMILY)
                self.total_memory[row, at] = device.memory_mib
                self.usable_memory[row, at] = device.usable_mib
                self.total_cores[row, at] = device.cores
                self.total_slots[row, at] = device.slots
        self._by_family: dict[str, np.ndarray] = {}
        self.offered = self._family != _NO_FAMILY
        self.nodes = len(names)
        self.cards = int(self.offered.sum())
        self.memory_mib = int(self.total_memory.sum())
        self.cores = int(self.total_cores.sum())
        self.booked_memory_mib = self.booked_cores = self.used_cards = 0
        for name in names:
            self.refresh(name)

    def refresh(self, node: str) -> None:
        """Copy a node's amounts."""
        row = self._rows[node]
        for at, usage in enumerate(self._inventory.usage(node)):
            if not self.offered[row, at]:
                continue
            memory, cores, slots = usage.used_memory_mib, usage.used_cores, usage.used_slots
            before = int(self.used_slots[row, at])
            self.booked_memory_mib += memory - int(self.used_memory[row, at])
            self.booked_cores += cores - int(self.used_cores[row, at])
            self.used_cards += (slots > 0) - (before > 0)
            self.used_memory[row, at], self.used_cores[row, at], self.used_slots[row, at] = memory, cores, slots

    def may_take(self, node: str, asks: Sequence[Ask]) -> bool:
        """Whether, for each of the requests, some card of the node has the amounts free. If not, the pod can't fit."""
        free = Free(self, self._rows[node])
        return all(ask.open_cards(free).any() for ask in asks)

    def may_take_each(self, node: str, memory_mib: np.ndarray, cores: np.ndarray) -> np.ndarray:
        """For each request of a size, whether some card of the node has so much memory and cores free."""
        free = Free(self, self._rows[node])
        has_room = (free.memory_mib >= memory_mib[:, None]) & (free.cores >= cores[:, None])
        found: np.ndarray = np.count_nonzero(has_room, axis=1) > 0
        return found

    def of_family(self, word: str) -> np.ndarray:
        """The cards of a family."""
        found = self._by_family.get(word)
        if found is None:
            found = self._by_family[word] = self._family == self._words.get(word, _NO_FAMILY - 1)
        return found


class Free:
    """The free amounts on the cards of one node or of all nodes.

    Args:
        cards: The cards.
        row: A node's row; None: all.
    """

    def __init__(self, cards: Cards, row: int | None = None) -> None:
        self._cards = cards
        self._at: int | slice = slice(None) if row is None else row
        at = self._at
        self.memory_mib: np.ndarray = cards.total_memory[at] - cards.used_memory[at]
        self.cores: np.ndarray = cards.total_cores[at] - cards.used_cores[at]
        self.has_slot: np.ndarray = cards.used_slots[at] < cards.total_slots[at]
        self.is_idle: np.ndarray = cards.used_slots[at] == 0

    def of_family(self, word: str) -> np.ndarray:
        """The cards of a family."""
        found: np.ndarray = self._cards.of_family(word)[self._at]
        return found

    @property
    def total_cores(self) -> np.ndarray:
        """Cores of each card, in percent."""
        total: np.ndarray = self._cards.total_cores[self._at]
        return total

    @property
    def usable_mib(self) -> np.ndarray:
        """Memory that containers can have of each card if it is idle. Percentages count from it."""
        usable: np.ndarray = self._cards.usable_memory[self._at]
        return usable


class Ask:
    """One request of a pod, to be compared with many cards. The checks are those of `hami_core.placement.fit`.

    Args:
        planned: The request as placement sees it.

    Attributes:
        request: The request.
        cores: Percent of a card, at most 100.
        idle_only: Whether it takes idle cards only (`mutex`).
        full_card_rule: Whether its family has HAMi's rules on exclusive and sold-out cards.
    """

    def __init__(self, planned: PlannedAsk) -> None:
        self.request = planned.request
        self.cores = planned.cores
        self.idle_only = planned.idle_only
        self.full_card_rule = planned.rules.family.full_card_rule

    @property
    def exclusive(self) -> bool:
        """Whether it takes a card of 100 % cores for itself."""
        return self.full_card_rule and self.cores == WHOLE_CARD

    def memory_on(self, usable_mib: np.ndarray) -> int | np.ndarray:
        """MiB that it takes of each card, as `hami_core.model.Request.memory_on`."""
        if self.request.memory_mib > 0 or self.request.memory_percent is None:
            return self.request.memory_mib
        return usable_mib * self.request.memory_percent // 100

    def shares(self, free: Free) -> np.ndarray:
        """The cards of the family that have a slot and may be shared. Ignores memory and cores.

        No pod keeps others off a card here: simulations leave `hami_core.policies.PolicyDefaults.keep_idle_only` off.
        """
        open_: np.ndarray = free.has_slot & free.of_family(self.request.family)
        if self.idle_only:
            open_ &= free.is_idle
        if self.exclusive:
            open_ &= free.is_idle | (free.total_cores != WHOLE_CARD)
        return open_

    def has_cores(self, free: Free) -> np.ndarray:
        """The cards with enough cores free. A card with all cores sold takes no pod that asks for none."""
        enough: np.ndarray = free.cores >= self.cores
        if self.full_card_rule and self.cores == 0:
            enough &= (free.cores != 0) | (free.total_cores == 0)
        return enough

    def open_cards(self, free: Free) -> np.ndarray:
        """The cards that have the memory, cores and slot of the request free, and may be shared."""
        open_: np.ndarray = free.memory_mib >= self.memory_on(free.usable_mib)
        open_ &= self.has_cores(free)
        open_ &= self.shares(free)
        return open_


def asks_of(request: PodRequest, inventory: Inventory) -> tuple[Ask, ...]:
    """All requests of a pod's containers, of families that a vendor serves."""
    plan = Plan(request, inventory.rules, inventory.defaults)
    return tuple(Ask(planned) for asks in plan.asks for planned in asks)
