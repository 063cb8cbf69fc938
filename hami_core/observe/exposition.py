"""Writes samples as lines of text, exactly as prometheus_client's encoders do, but one sample at a time.

An encoder writes everything at each scrape; single lines can be cached and joined. To learn how a family looks (names,
escaping, order of labels), this module lets the encoder write one probe sample of each family.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from hami_core.observe.metrics import family

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_core.model import MetricSpec
    from hami_core.observe.metrics import Family

Encoder = Callable[[Collector], bytes]
"""An encoder, as `prometheus_client.exposition.choose_encoder` returns it."""

_VALUE: Final = "1.0\n"
_END: Final = "# EOF\n"


@dataclass(frozen=True, slots=True)
class Lines:
    """Writes samples of one gauge or counter.

    Attributes:
        name: The metric's name.
        pattern: A line with ``%s`` for each label's value and for the sample's value.
        order: The labels in the order of the pattern.
        labels: The labels as a set.
    """

    name: str
    pattern: str
    order: tuple[str, ...]
    labels: frozenset[str]

    def line(self, labels: Mapping[str, str], value: float) -> str:
        """One sample's line.

        Raises:
            ValueError: The labels are not those of the metric's table.
        """
        if labels.keys() != self.labels:
            raise ValueError(f"{self.name} has labels {sorted(labels)}, its table says {sorted(self.labels)}")
        number: str = floatToGoString(value)  # type: ignore[no-untyped-call]
        return self.pattern % (*[_escaped(labels[name]) for name in self.order], number)


def spelling(specs: Sequence[MetricSpec], encode: Encoder) -> tuple[tuple[bytes, ...], tuple[Lines, ...]]:
    """Headers (HELP and TYPE) and line writers of gauges and counters, in the encoder's form."""
    read = [_read(spec, encode) for spec in specs]
    return tuple(header for header, _ in read), tuple(lines for _, lines in read)


class _One(Collector):
    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterator[Family]:
        yield self._family


def _read(spec: MetricSpec, encode: Encoder) -> tuple[bytes, Lines]:
    probe = family(spec)
    values = [f"\x01{number}\x01" for number in range(len(spec.labels))]
    probe.add_metric([*values, *(["vGPU"] if spec.zoned else [])], 1.0)
    text = encode(_One(probe)).decode().removesuffix(_END)
    start = text.rindex("\n", 0, -1) + 1
    parts = re.split("\x01([0-9]+)\x01", text[start:].removesuffix(_VALUE))
    order = tuple(spec.labels[int(number)] for number in parts[1::2])
    pattern = "%s".join(part.replace("%", "%%") for part in parts[::2]) + "%s\n"
    return text[:start].encode(), Lines(spec.name, pattern, order, frozenset(spec.labels))


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
