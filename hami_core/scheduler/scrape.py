"""The scheduler's state as metrics text. The text is cached by node, so a scrape rewrites only nodes that changed.

A cluster of 5,000 nodes has about 400,000 samples. All work here is done in pieces of about a millisecond, between
which other tasks run. So a Filter never waits for a scrape.
"""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import TYPE_CHECKING, Final

from hami_core.observe import metrics as tables
from hami_core.observe.exposition import spelling
from hami_core.scheduler import state
from hami_core.scheduler.pace import PIECE_S, Pace
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from hami_core.inventory import Inventory
    from hami_core.kube.informer import Informer
    from hami_core.kube.objects import Pod
    from hami_core.observe.exposition import Encoder, Lines
    from hami_core.observe.metrics import Row

NODES_A_PIECE: Final = 128
"""Nodes whose text is joined at once, about 200 KiB."""
ROUNDS: Final = 3
"""Most rounds of rewriting. Nodes that change during the last round are rewritten in the next scrape."""


class StateText:
    """HAMi's gauges of a cluster as text. It is the only user of `Inventory.watch_changes`.

    Args:
        inventory: Nodes, bookings and quotas.
        pods: All pods; agents write the MIG instances that they made into annotations.
        legacy: Also serve the gauges under HAMi's old names.
        piece_s: How long to work before other tasks run.
    """

    def __init__(
        self, inventory: Inventory, pods: Informer[Pod], *, legacy: bool = False, piece_s: float = PIECE_S
    ) -> None:
        self._inventory = inventory
        self._legacy = legacy
        self._piece_s = piece_s
        self._specs = (*tables.HAMI_SCHEDULER, *(tables.HAMI_SCHEDULER_LEGACY if legacy else ()))
        self._index = {spec.name: index for index, spec in enumerate(self._specs)}
        self._changed = inventory.watch_changes()
        self._partitioned: dict[str, dict[str, Pod]] = {}
        self._lines: tuple[Lines, ...] = ()
        self._texts: dict[str, tuple[bytes, ...]] = {}
        self._order: list[str] | None = None
        self._one_at_a_time = asyncio.Lock()
        pods.on_change(self._pod)

    async def scrape(self, encode: Encoder, wanted: Callable[[str], bool] = lambda _: True) -> AsyncIterator[bytes]:
        """The text of the wanted families in pieces, in the encoder's format and without an end mark.

        Later changes are not in it.
        """
        headers, lines = spelling(self._specs, encode)
        async with self._one_at_a_time:
            pace = Pace(self._piece_s)
            if lines != self._lines:
                self._changed.update(self._texts)
                self._lines, self._texts, self._order = lines, {}, None
            await self._refresh(pace)
            quotas = await self._quotas(pace)
            if self._order is None:
                self._order = sorted(self._texts)
            nodes = [self._texts[name] for name in self._order]
        return _pieces([i for i, spec in enumerate(self._specs) if wanted(spec.name)], headers, nodes, quotas)

    async def _refresh(self, pace: Pace) -> None:
        for _ in range(ROUNDS):
            for name in tuple(self._changed):
                if name in self._changed:
                    self._write(name)
                    self._changed.discard(name)
                    await pace.pause()

    def _write(self, name: str) -> None:
        """Write a node's lines again."""
        texts = tuple(map(str.encode, self._text(state.node_rows(self._inventory, name, self._pods(name)))))
        if (name in self._texts) != any(texts):
            self._order = None
        if any(texts):
            self._texts[name] = texts
        else:
            self._texts.pop(name, None)

    async def _quotas(self, pace: Pace) -> list[bytes]:
        found = [""] * len(self._specs)
        for row in state.quota_rows(self._inventory):
            for index, text in enumerate(self._text([row])):
                found[index] += text
            await pace.pause()
        return list(map(str.encode, found))

    def _text(self, rows: Iterable[Row]) -> list[str]:
        """The rows' lines, one text for each metric family."""
        found: list[list[str]] = [[] for _ in self._specs]
        rows = list(rows)
        for metric, labels, value in chain(rows, state.legacy(rows) if self._legacy else ()):
            index = self._index[metric]
            found[index].append(self._lines[index].line(labels, value))
        return ["".join(lines) for lines in found]

    def _pods(self, node: str) -> Iterable[Pod]:
        return self._partitioned.get(node, {}).values()

    def _pod(self, old: Pod | None, new: Pod | None) -> None:
        """Remember, by node, the pods whose annotations name MIG instances."""
        if old is not None and keys.MIG_ALLOCATIONS in old.metadata.annotations:
            here = self._partitioned.get(old.spec.node_name, {})
            here.pop(old.uid, None)
            if not here:
                self._partitioned.pop(old.spec.node_name, None)
            self._changed.add(old.spec.node_name)
        if new is None or new.is_terminal or not new.spec.node_name:
            return
        if keys.MIG_ALLOCATIONS in new.metadata.annotations:
            self._partitioned.setdefault(new.spec.node_name, {})[new.uid] = new
            self._changed.add(new.spec.node_name)


async def _pieces(
    wanted: Iterable[int], headers: Sequence[bytes], nodes: Sequence[tuple[bytes, ...]], quotas: Sequence[bytes]
) -> AsyncIterator[bytes]:
    for index in wanted:
        yield headers[index]
        for start in range(0, len(nodes), NODES_A_PIECE):
            piece = b"".join([texts[index] for texts in nodes[start : start + NODES_A_PIECE]])
            if piece:
                yield piece
                await asyncio.sleep(0)
        if quotas[index]:
            yield quotas[index]
