"""The checks of `hami_core.placement.fit` on whole columns: one word of failed checks per card, counts, keys, reasons.

For devices that do not depend on each other, each function gives exactly the result of the walk card by card. Tests
compare both with a third, naive implementation.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from hami_core.inventory import table as t
from hami_core.placement.fit import WHOLE_CARD
from hami_core.wire import reasons

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_core.inventory.table import Table
    from hami_core.placement.fit import Ask

_U16: Final = np.uint16
_F32: Final = np.float32

MAX_WIDTH: Final = 31
"""Most cards of a node whose reasons can be counted in columns: a counter has 5 bits."""
_COUNTER_BITS: Final = 5
_NO_NEGATIVE: Final = 1 << 31
"""Added to a rank of 32 bits, so that the sort keys of cards are positive."""

_WORDS: Final = (
    reasons.CARD_NOT_HEALTH,
    reasons.CARD_CORDONED,
    reasons.CARD_TYPE_MISMATCH,
    reasons.CARD_UUID_MISMATCH,
    reasons.CARD_TIME_SLICING_EXHAUSTED,
    reasons.EXCLUSIVE_CONFLICT,
    reasons.QUOTA_NOT_FIT,
    reasons.CARD_INSUFFICIENT_MEMORY,
    reasons.CARD_INSUFFICIENT_CORE,
    reasons.CARD_COMPUTE_UNITS_EXHAUSTED,
    reasons.TOO_FEW_CARDS,
    reasons.NUMA_NOT_FIT,
)
_TOO_FEW: Final = _COUNTER_BITS * _WORDS.index(reasons.TOO_FEW_CARDS)
_NUMA: Final = _COUNTER_BITS * _WORDS.index(reasons.NUMA_NOT_FIT)
_WORD_OF_BIT: Final = {
    t.UNHEALTHY: 0, t.CORDONED: 1, t.TYPE: 2, t.UUID: 3, t.SLOTS: 4, t.BUSY: 5, t.QUOTA: 6, t.MEMORY: 7, t.CORES: 8,
    t.EXCLUSIVE: 5, t.SOLD_OUT: 9,
}  # fmt: skip

NOT_ENOUGH_CARDS: Final = -1
"""Histogram key of a node with fewer cards than the request needs."""


def _counter_of_bits() -> np.ndarray:
    """Word of failed checks → one count for the reason of its lowest bit. Word 0 counts as one of too few cards."""
    counters = np.zeros(1 << 13, np.int64)
    for word in range(len(counters)):
        lowest = word & -word
        if word == 0:
            counters[word] = 1 << _TOO_FEW
        elif lowest in _WORD_OF_BIT:
            counters[word] = 1 << (_COUNTER_BITS * _WORD_OF_BIT[lowest])
    return counters


_COUNTERS: Final = _counter_of_bits()


class Columns:
    """Columns of a table: views of all nodes, or copies of chosen nodes. Only copies may be changed."""

    _SHARED: ClassVar = (
        "count", "free_cores", "free_memory", "kind", "live", "numa", "slots", "static", "total_cores", "total_memory",
        "usable_memory", "used", "used_cores", "used_memory",
    )  # fmt: skip
    __slots__ = ("table", "where", *_SHARED)

    count: np.ndarray
    free_cores: np.ndarray
    free_memory: np.ndarray
    kind: np.ndarray
    live: np.ndarray
    numa: np.ndarray
    slots: np.ndarray
    static: np.ndarray
    total_cores: np.ndarray
    total_memory: np.ndarray
    usable_memory: np.ndarray
    used: np.ndarray
    used_cores: np.ndarray
    used_memory: np.ndarray

    def __init__(self, table: Table, size: int, where: np.ndarray | None = None) -> None:
        """Take the first ``size`` nodes, or a copy of the nodes at ``where``."""
        self.table = table
        self.where = where
        for name in self._SHARED:
            full = getattr(table, name)[..., :size]
            setattr(self, name, full if where is None else full[..., where])

    def floats(self, name: str) -> np.ndarray:
        """A column of totals as float32, with 1 in place of 0."""
        full: np.ndarray = getattr(self.table, name)
        return full[:, : self.used.shape[1]] if self.where is None else full[:, self.where]

    def need(self, ask: Ask) -> np.ndarray | int:
        """MiB that the request takes on each card."""
        request = ask.request
        if request.memory_mib > 0 or request.memory_percent is None:
            return request.memory_mib
        share: np.ndarray = self.usable_memory.astype(np.int64) * request.memory_percent // 100
        return share.astype(np.int32)

    def failed_checks(self, ask: Ask, need: np.ndarray | int) -> np.ndarray:
        """One word per card, with a bit for each failed check. A card with 0 may serve the request."""
        failed: np.ndarray = self.static & _U16(0xFFFF ^ t.SOLD_OUT) if ask.cores else self.static.copy()
        for number, kind in enumerate(self.table.kinds, 1):
            if ask.type_refusal(kind) is not None:
                failed |= (self.kind == number) * _U16(t.TYPE)
        if ask.names_ids:
            failed |= self._by_id(ask)
        failed |= (self.free_memory < need) * _U16(t.MEMORY)
        failed |= (self.free_cores < ask.cores) * _U16(t.CORES)
        exclusive = ask.cores == WHOLE_CARD and ask.rules.family.full_card_rule
        if ask.idle_only or exclusive:
            busy = self.used > 0
            if ask.idle_only:
                failed |= busy * _U16(t.BUSY)
            if exclusive:
                failed |= (busy & (self.total_cores == WHOLE_CARD)) * _U16(t.EXCLUSIVE)
        if ask.custom is not None:
            failed |= self._by_vendor(ask)
        return failed

    def _by_id(self, ask: Ask) -> np.ndarray:
        named = ask.named_ids
        ids = self.table.places if named is None else named
        unnamed = False
        if named is not None:
            # One real device that no list names stands for all of these. An empty id would match empty list entries.
            stranger = next((device_id for device_id in self.table.places if device_id not in named), None)
            unnamed = stranger is not None and ask.uuid_refusal(stranger) is not None
        whole = np.full((self.table.width, self.table.count.shape[0]), t.UUID if unnamed else 0, np.uint16)
        for device_id in ids:
            refused = ask.uuid_refusal(device_id) is not None
            for column, at in self.table.places.get(device_id, ()):
                whole[at, column] = t.UUID if refused else 0
        return whole[:, : self.used.shape[1]] if self.where is None else whole[:, self.where]

    def _by_vendor(self, ask: Ask) -> np.ndarray:
        """Bits by the vendor's vectorised rule. Without such a rule there are none, and the nodes are walked."""
        columns = {
            "total_memory": self.total_memory,
            "free_memory": self.free_memory,
            "total_cores": self.total_cores,
            "free_cores": self.free_cores,
            "slots": self.slots,
            "used_slots": self.used,
            "numa": self.numa,
        }
        mask = None if ask.rules.fit_mask is None else ask.rules.fit_mask(ask.request, columns)
        if mask is None:
            return np.zeros(self.used.shape, np.uint16)
        refused: np.ndarray = (~np.asarray(mask, np.bool_)) * _U16(t.CUSTOM)
        return refused

    def groups(self, ask: Ask) -> Iterator[np.ndarray]:
        """Cards of each NUMA node, in the order of the walk."""
        for numa in sorted(self.table.numas, reverse=not ask.policy.lowest_numa_first):
            yield self.numa == numa

    def fits(self, ask: Ask, fitting: np.ndarray, more: int = 0) -> np.ndarray:
        """Nodes with enough fitting cards and ``more`` to spare; with NUMA binding, all on one NUMA node."""
        count = ask.request.count + more
        if not ask.numa_bind:
            return counted(fitting) >= count
        answer = np.zeros(self.used.shape[1], np.bool_)
        for group in self.groups(ask):
            answer |= counted(fitting & group) >= count
        return answer

    def beyond_quota(self, ask: Ask, failed: np.ndarray, admitted: int) -> np.ndarray:
        """Failed checks if the quota admits only so many cards. As in the walk, the other cards fail at the quota."""
        if admitted == 0:
            everywhere: np.ndarray = failed | _U16(t.QUOTA)
            return everywhere
        fitting = failed == 0
        key = self.order(ask, np.ones_like(fitting))
        if len(key) < admitted:
            return failed
        enough = counted(fitting) >= admitted
        last = np.partition(np.where(fitting, key, -1), -admitted, axis=0)[-admitted]
        refused: np.ndarray = failed | ((key < last) & enough) * _U16(t.QUOTA)
        return refused

    def order(self, ask: Ask, fitting: np.ndarray) -> np.ndarray:
        """Sort key per card: the greatest is taken first. Cards that do not fit have -1."""
        place = (self.numa.astype(np.int64) << 8) | np.arange(self.used.shape[0])[:, None]
        key = t.whole_numbers(ask.policy.keys[0].rank(_Rated(self, ask)))
        key += _NO_NEGATIVE
        key <<= 16
        key |= place
        key |= fitting.view(np.int8) - np.int8(1)
        return key

    def rank_together(self, ask: Ask, taken: np.ndarray) -> np.ndarray:
        """Per node, the sum of the policy's ranks of the taken cards. It is exact for scores, which are float32."""
        ranks = np.asarray(ask.policy.keys[0].rank(_Rated(self, ask)))
        total: np.ndarray = np.add.reduce(np.where(taken, ranks, 0), axis=0, dtype=np.float64)
        return total

    def _scored(self, ask: Ask) -> np.ndarray | int:
        """MiB of the request in each card's score, as by `Request.scored_memory_on`."""
        request = ask.request
        if not request.memory_percent:
            return request.memory_mib
        scored: np.ndarray = self.total_memory.astype(np.int64) * request.memory_percent // 100
        return scored

    def score(self, ask: Ask) -> np.ndarray:
        """Device scores, in float32 and in HAMi's order of operations."""
        weights = ask.weights
        parts = (
            (self.used, 1, "slots_f", weights.slot if weights else None),
            (self.used_cores, ask.request.cores, "cores_f", weights.core if weights else None),
            (self.used_memory, self._scored(ask), "memory_f", weights.memory if weights else None),
        )
        score: np.ndarray | None = None
        for used, more, total, weight in parts:
            part = (used.astype(np.int64) + more).astype(_F32)
            part /= self.floats(total)
            if weight is not None:
                part *= _F32(weight)
            score = part if score is None else score + part
        assert score is not None  # noqa: S101 - there are three parts
        score *= _F32(10)
        score *= self.live
        return score

    def take(self, ask: Ask, taken: np.ndarray, need: np.ndarray | int) -> None:
        """Book the request on the taken cards. Only copies may be changed."""
        self.used += taken
        self.used_cores += taken * np.int32(ask.cores)
        self.free_cores -= taken * np.int32(ask.cores)
        memory = (taken * need).astype(np.int32)
        self.used_memory += memory
        self.free_memory -= memory
        self.static &= _U16(0xFFFF ^ (t.SLOTS | t.SOLD_OUT))
        self.static |= (self.used >= self.slots) * _U16(t.SLOTS)
        if ask.rules.family.full_card_rule:
            sold = (self.used_cores == self.total_cores) & (self.total_cores != 0)
            self.static |= sold * _U16(t.SOLD_OUT)

    def histogram(self, ask: Ask, failed: np.ndarray) -> np.ndarray:
        """Per node, the counts of all reasons in one number. `histogram_text` decodes it."""
        counters = _COUNTERS.take(failed.astype(np.intp))
        key: np.ndarray = np.add.reduce(counters, axis=0)
        if ask.numa_bind:
            moved = self._left_behind(ask, failed).astype(np.int64)
            key += moved * ((1 << _NUMA) - (1 << _TOO_FEW))
        key[self.count < ask.request.count] = NOT_ENOUGH_CARDS
        return key

    def _left_behind(self, ask: Ask, failed: np.ndarray) -> np.ndarray:
        """Number of cards that the walk took on a NUMA node and gave up when it went to the next NUMA node."""
        fitting = failed == 0
        usable = (failed & _U16(t.ABSENT | t.UNHEALTHY | t.CORDONED | t.TYPE)) == 0
        behind = np.zeros(failed.shape[1], np.int32)
        last = np.zeros(failed.shape[1], np.int32)
        for group in self.groups(ask):
            reached = (usable & group).any(axis=0)
            behind += np.where(reached, last, 0)
            last = np.where(reached, counted(fitting & group), last)
        return behind


class _Rated:
    """All cards of the columns, as a device policy sees them (`hami_core.policies.Rated`)."""

    __slots__ = ("_ask", "_columns", "numa", "used_cores", "used_memory", "used_slots")

    def __init__(self, columns: Columns, ask: Ask) -> None:
        self._columns, self._ask = columns, ask
        self.numa = columns.numa
        self.used_slots = columns.used
        self.used_memory = columns.used_memory
        self.used_cores = columns.used_cores

    @property
    def score(self) -> np.ndarray:
        return self._columns.score(self._ask)


def counted(cards: np.ndarray) -> np.ndarray:
    """Number of marked cards of each node."""
    total: np.ndarray = np.add.reduce(cards.view(np.uint8), axis=0, dtype=np.uint16)
    return total


def greatest(key: np.ndarray, count: int) -> np.ndarray:
    """Mark, per node, the ``count`` cards with the greatest keys. A node with too few cards gets fewer marks."""
    place = key.shape[0] - count
    threshold = key.max(axis=0) if count == 1 else np.partition(key, place, axis=0)[place]
    marked: np.ndarray = (key >= threshold) & (key >= 0)
    return marked


@lru_cache(maxsize=4096)
def histogram_text(key: int) -> str:
    """The reasons in one number of `Columns.histogram`, in HAMi's words."""
    if key == NOT_ENOUGH_CARDS:
        return reasons.NODE_INSUFFICIENT_DEVICE
    mask = (1 << _COUNTER_BITS) - 1
    counts = {word: key >> (_COUNTER_BITS * i) & mask for i, word in enumerate(_WORDS)}
    present = {word: count for word, count in counts.items() if count}
    return reasons.encode_histogram(present, sum(present.values()))
