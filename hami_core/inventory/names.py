"""The nodes a Filter is asked about, as names or as the raw JSON of the extender's request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from hami_core.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hami_core.inventory.table import Cluster

_DECODER = msgspec.json.Decoder(frozenset[str])


@dataclass(frozen=True, slots=True)
class RawNames:
    """``NodeNames`` as the bytes kube-scheduler sent."""

    data: bytes

    def decode(self) -> frozenset[str]:
        """The names, each once.

        Raises:
            WireError: It is no JSON array of strings.
        """
        try:
            return _DECODER.decode(self.data)
        except msgspec.DecodeError as error:
            raise WireError("NodeNames", -1, str(error)) from None


@dataclass(frozen=True, slots=True)
class Candidates:
    """The nodes asked about.

    Attributes:
        mask: Per column, whether the node is asked about and takes new pods.
        unknown: Names nobody has registered.
        closed: Names of nodes that take no new pods.
    """

    mask: np.ndarray
    unknown: list[str]
    closed: list[str]


class NameIndex:
    """Names → columns; remembers the last ones, since kube-scheduler mostly asks about the same nodes.

    It hardly ever names them in the same order: its workers append them as they find them.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._version = -1
        self._names: frozenset[str] = frozenset()
        self._found: Candidates | None = None

    def find(self, names: Sequence[str] | RawNames) -> Candidates:
        """The columns of names; names given twice count once.

        Raises:
            WireError: Raw names are no JSON array of strings.
        """
        asked = names.decode() if isinstance(names, RawNames) else frozenset(names)
        if self._found is None or self._version != self._cluster.version or self._names != asked:
            self._found = self._look_up(asked)
            self._names = asked
            self._version = self._cluster.version
        return self._found

    def _look_up(self, names: frozenset[str]) -> Candidates:
        cluster = self._cluster
        mask = np.zeros(cluster.size, np.bool_)
        known = cluster.columns
        columns = [known.get(name, -1) for name in names]
        places = np.fromiter(columns, np.int64, len(columns))
        mask[places[places >= 0]] = True
        unknown = sorted(name for name in names if name not in known) if len(places) and places.min() < 0 else []
        closed: list[str] = cluster.names[: cluster.size][mask & ~cluster.open[: cluster.size]].tolist()
        return Candidates(mask & cluster.open[: cluster.size], unknown, closed)
