"""The candidate nodes of a Filter, as names or as the raw JSON of the extender's request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from hami_core.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Collection

    from hami_core.inventory.table import Cluster

_DECODER = msgspec.json.Decoder(frozenset[str])


@dataclass(frozen=True, slots=True)
class RawNames:
    """``NodeNames`` as kube-scheduler sent them, undecoded."""

    data: bytes

    def decode(self) -> frozenset[str]:
        """The names, each once.

        Raises:
            WireError: The text is not a JSON array of strings.
        """
        try:
            return _DECODER.decode(self.data)
        except msgspec.DecodeError as error:
            raise WireError("NodeNames", -1, str(error)) from None


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidate nodes.

    Attributes:
        mask: Per column, whether the node is a candidate and takes new pods.
        unknown: Names of candidates that are not registered.
        closed: Names of candidates that take no new pods.
    """

    mask: np.ndarray
    unknown: list[str]
    closed: list[str]


class NameIndex:
    """Finds the columns of names. It caches the last result, since kube-scheduler mostly asks about the same nodes.

    The cache compares sets, because kube-scheduler's workers append the names in any order.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._version = -1
        self._names: frozenset[str] = frozenset()
        self._found: Candidates | None = None

    def find(self, names: Collection[str] | RawNames) -> Candidates:
        """The columns of names. Repeated names count once.

        Raises:
            WireError: Raw names are not a JSON array of strings.
        """
        asked = names.decode() if isinstance(names, RawNames) else frozenset(names)
        is_same = asked is self._names or asked == self._names  # a caller that keeps its set saves the comparison
        if self._found is None or self._version != self._cluster.version or not is_same:
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
