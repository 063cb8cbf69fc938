"""The cluster in columns: one table of devices for each family, ``[card position, node]``, and one sort key per node.

A sum over each node's cards is then a few additions of long vectors. Columns hold copies of the sums in
`hami_core.inventory.nodes`; an event changes only one node's cells. Amounts are clamped to int32. No advertised device
exceeds that, and an overbooked device refuses new pods either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from hami_core.model import INT32_MAX
from hami_core.placement.score import node_score

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.inventory.nodes import FamilyDevices, Node
    from hami_core.model import DeviceKind, VendorRules
    from hami_core.policies import NodePolicy, Value

ABSENT: Final = 1 << 0
"""There is no card at this position. The bits are in HAMi's order of checks, so the lowest set bit is the reason."""
UNHEALTHY: Final = 1 << 1
CORDONED: Final = 1 << 2
TYPE: Final = 1 << 3
UUID: Final = 1 << 4
SLOTS: Final = 1 << 5
BUSY: Final = 1 << 6
QUOTA: Final = 1 << 7
MEMORY: Final = 1 << 8
CORES: Final = 1 << 9
EXCLUSIVE: Final = 1 << 10
SOLD_OUT: Final = 1 << 11
CUSTOM: Final = 1 << 12

_INT_COLUMNS: Final = (
    "free_memory", "used_memory", "total_memory", "usable_memory", "free_cores", "used_cores", "total_cores",
    "used", "slots", "numa",
)  # fmt: skip
_FLOAT_COLUMNS: Final = ("slots_f", "cores_f", "memory_f")


def _clamp(value: int) -> int:
    return INT32_MAX if value > INT32_MAX else max(value, -INT32_MAX)


def whole_numbers(ranks: Value) -> np.ndarray:
    """Turn a policy's ranks for a column into whole numbers of 32 bits (as int64) with the same order."""
    values = np.asarray(ranks)
    if values.dtype == np.float32:
        bits = values.view(np.int32)  # ordered like the floats, except that negative ones are in reverse order
        sign = bits >> 31
        values = (bits ^ (sign & INT32_MAX)) - sign
    if values.dtype != np.int32:
        values = np.unique(values, return_inverse=True)[1].reshape(values.shape)
    numbers: np.ndarray = values.astype(np.int64)
    return numbers


class Table:
    """One family's devices of all nodes.

    Attributes:
        rules: The family's rules.
        width: Card positions.
        kinds: Distinct kinds of devices. Column ``kind`` holds 1 + the index in this list; 0: no card.
        count: Cards per node.
        vendor_accounted: Nodes with devices that the vendor's `account` decides about. These nodes are walked.
        barred: Nodes that give no new pod devices of this family.
        numas: NUMA nodes of any device so far.
        places: Device id → its (column, position) on each node that has it.
    """

    def __init__(self, rules: VendorRules, capacity: int) -> None:
        self.rules = rules
        self.width = 0
        self.kinds: list[DeviceKind] = []
        self.numas: set[int] = {0}
        self.places: dict[str, list[tuple[int, int]]] = {}
        self._ids: dict[int, tuple[str, ...]] = {}
        self._kind_number: dict[DeviceKind, int] = {}
        self.count = np.zeros(capacity, np.int32)
        self.vendor_accounted = np.zeros(capacity, np.bool_)
        self.barred = np.zeros(capacity, np.bool_)
        self.free_memory = self.used_memory = self.total_memory = self.usable_memory = np.zeros((0, capacity), np.int32)
        self.free_cores = self.used_cores = self.total_cores = self.free_memory
        self.used = self.slots = self.numa = self.free_memory
        self.slots_f = self.cores_f = self.memory_f = np.zeros((0, capacity), np.float32)
        self.live = np.zeros((0, capacity), np.bool_)
        self.kind = self.static = np.zeros((0, capacity), np.uint16)

    def resize(self, width: int, capacity: int) -> None:
        """Make room for more cards per node or for more nodes. Existing cells stay."""
        for name in (*_INT_COLUMNS, *_FLOAT_COLUMNS, "live", "kind", "static"):
            old = getattr(self, name)
            fill = ABSENT if name == "static" else 1 if name in _FLOAT_COLUMNS else 0
            new = np.full((width, capacity), fill, old.dtype)
            new[: old.shape[0], : old.shape[1]] = old
            setattr(self, name, new)
        for name in ("count", "vendor_accounted", "barred"):
            old = getattr(self, name)
            grown = np.zeros(capacity, old.dtype)
            grown[: len(old)] = old
            setattr(self, name, grown)
        self.width = width

    def clear(self, column: int) -> None:
        """Empty a node's column."""
        for name in _INT_COLUMNS:
            getattr(self, name)[:, column] = 0
        for name in _FLOAT_COLUMNS:
            getattr(self, name)[:, column] = 1
        self.live[:, column] = False
        self.kind[:, column] = 0
        self.static[:, column] = ABSENT
        self.count[column] = 0
        self.vendor_accounted[column] = False
        self.barred[column] = False
        for at, device_id in enumerate(self._ids.pop(column, ())):
            self.places[device_id].remove((column, at))
            if not self.places[device_id]:
                del self.places[device_id]

    def fill(self, column: int, family: FamilyDevices) -> None:
        """Write a node's devices."""
        if len(family.devices) > self.width:
            self.resize(len(family.devices), self.count.shape[0])
        self.clear(column)
        modes = self.rules.family.account_modes
        self.count[column] = len(family.devices)
        self._ids[column] = tuple(device.id for device in family.devices)
        devices = family.devices
        for at, device in enumerate(devices):
            self.places.setdefault(device.id, []).append((column, at))
        if self.rules.account is not None:
            self.vendor_accounted[column] = modes is None or any(device.mode in modes for device in devices)
        self.numas.update(device.numa for device in devices)
        whole = {
            "kind": [self._number(family.kind(at)) for at in range(len(devices))],
            "total_memory": [d.memory_mib for d in devices],
            "usable_memory": [d.usable_mib for d in devices],
            "total_cores": [d.cores for d in devices],
            "slots": [d.slots for d in devices],
            "numa": [d.numa for d in devices],
            "slots_f": [d.slots or 1 for d in devices],
            "cores_f": [d.cores or 1 for d in devices],
            "memory_f": [d.memory_mib or 1 for d in devices],
            "live": [bool(d.slots and d.cores and d.memory_mib) for d in devices],
            "used": [_clamp(n) for n in family.slots],
            "used_memory": [_clamp(n) for n in family.memory],
            "used_cores": [_clamp(n) for n in family.cores],
            "free_memory": [_clamp(d.memory_mib - n) for d, n in zip(devices, family.memory, strict=True)],
            "free_cores": [_clamp(d.cores - n) for d, n in zip(devices, family.cores, strict=True)],
            "static": [self._static(family, at) for at in range(len(devices))],
        }
        for name, values in whole.items():
            getattr(self, name)[: len(devices), column] = values

    def _static(self, family: FamilyDevices, at: int) -> int:
        """The bits of failed checks that do not depend on the request."""
        device, cores = family.devices[at], family.cores[at]
        bits = 0 if family.healthy(at) else UNHEALTHY
        if device.cordoned:
            bits |= CORDONED
        if family.slots[at] >= device.slots:
            bits |= SLOTS
        if family.kept(at):
            bits |= BUSY
        if device.cores and cores == device.cores and self.rules.family.full_card_rule:
            bits |= SOLD_OUT
        return bits

    def update(self, column: int, at: int, family: FamilyDevices) -> None:
        """Write the sums of one device."""
        device, used, memory, cores = family.devices[at], family.slots[at], family.memory[at], family.cores[at]
        self.used[at, column] = _clamp(used)
        self.used_memory[at, column] = _clamp(memory)
        self.used_cores[at, column] = _clamp(cores)
        self.free_memory[at, column] = _clamp(device.memory_mib - memory)
        self.free_cores[at, column] = _clamp(device.cores - cores)
        self.static[at, column] = self._static(family, at)
        if family.slices is not None:
            self.kind[at, column] = self._number(family.kind(at))

    def _number(self, kind: DeviceKind) -> int:
        number = self._kind_number.get(kind)
        if number is None:
            self.kinds.append(kind)
            number = self._kind_number[kind] = len(self.kinds)
        return number


class Cluster:
    """All tables, and the name, state and sort keys of each node.

    Attributes:
        tables: Common word → table. A family gets its table with its first device.
        size: Number of columns, including those of removed nodes, which are empty and reused.
        names: Node name per column; empty: no node.
        columns: Column per node name.
        open: Nodes that take new pods.
        version: A number that grows when nodes come, go, open or close.
        scores: Node score per column, float32. It is up to date after `refresh_scores`.
    """

    def __init__(self, rules: Mapping[str, VendorRules]) -> None:
        self.tables: dict[str, Table] = {}
        self.size = 0
        self.names = np.empty(0, object)
        self.columns: dict[str, int] = {}
        self.open = np.zeros(0, np.bool_)
        self.version = 0
        self.scores = np.zeros(0, np.float32)
        self._rules = rules
        self._free: list[int] = []
        self._stale: dict[str, Node] = {}
        self._ranks = np.zeros(0, np.int64)
        self._ranked_version = -1

    def set_node(self, node: Node) -> None:
        """Write a node, new or changed. A new node gets a column."""
        if node.column < 0:
            node.column = self._column()
            self.columns[node.facts.name] = node.column
            self.names[node.column] = node.facts.name
            self.version += 1
        if self.open[node.column] == node.closed:
            self.open[node.column] = not node.closed
            self.version += 1
        for word, table in self.tables.items():
            if word not in node.families and table.count[node.column]:
                table.clear(node.column)
        for word, family in node.families.items():
            if word in self._rules:
                self._table(word).fill(node.column, family)
        self.bar(node)
        self._stale[node.facts.name] = node

    def bar(self, node: Node) -> None:
        """Write for which families a node is barred."""
        for word, table in self.tables.items():
            table.barred[node.column] = word in node.barred and word in node.families

    def barred(self, words: Sequence[str]) -> np.ndarray | None:
        """Per column, whether the node is barred for one of these families; None: no node is."""
        found: np.ndarray | None = None
        for word in words:
            table = self.tables.get(word)
            if table is not None and table.barred.any():
                here = table.barred[: self.size]
                found = here if found is None else found | here
        return found

    def remove_node(self, node: Node) -> None:
        """Empty a node's column."""
        column = node.column
        for table in self.tables.values():
            if table.count[column]:
                table.clear(column)
        del self.columns[node.facts.name]
        self._stale.pop(node.facts.name, None)
        self.names[column] = ""
        self.open[column] = False
        self.scores[column] = 0
        self._free.append(column)
        self.version += 1
        node.column = -1

    def refresh_card(self, node: Node, word: str, at: int) -> None:
        """Write the sums of one device. `refresh_scores` writes the node's score later."""
        if word in self.tables:
            self.tables[word].update(node.column, at, node.families[word])
        self._stale[node.facts.name] = node

    def refresh_scores(self) -> None:
        """Write the scores of the nodes that changed since the last call."""
        for node in self._stale.values():
            self.scores[node.column] = node_score(*node.totals())
        self._stale.clear()

    def keys(self, policy: NodePolicy) -> np.ndarray:
        """Unique sort keys of all nodes, by the policy's rank and then by name. The greatest key is best."""
        keys = whole_numbers(policy.rank(self.scores[: self.size]))
        keys <<= 32
        keys |= self.ranks()
        return keys

    def ranks(self) -> np.ndarray:
        """Per column, a number that is greater for smaller names."""
        if self._ranked_version != self.version:
            order = np.argsort(self.names[: self.size].astype(str), kind="stable")
            self._ranks = np.empty(self.size, np.int64)
            self._ranks[order] = np.arange(self.size - 1, -1, -1)
            self._ranked_version = self.version
        return self._ranks

    def _column(self) -> int:
        if self._free:
            return self._free.pop()
        if self.size == len(self.names):
            self._grow(max(64, self.size + self.size // 2))
        self.size += 1
        return self.size - 1

    def _grow(self, capacity: int) -> None:
        for name, fill in (("names", ""), ("open", False), ("scores", 0)):
            old = getattr(self, name)
            new = np.full(capacity, fill, old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)
        for table in self.tables.values():
            table.resize(table.width, capacity)

    def _table(self, word: str) -> Table:
        table = self.tables.get(word)
        if table is None:
            table = self.tables[word] = Table(self._rules[word], len(self.names))
        return table
