"""Samples as lines of text, in the very spelling of prometheus_client's encoders but one at a time.

How a family's header and lines look (names, their escaping, the order of labels) is read off the encoder itself, by
having it write one probe a family. So text can be kept and joined, where an encoder writes everything each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_core.model import MetricSpec

Encoder = Callable[[Collector], bytes]
"""What `prometheus_client.exposition.choose_encoder` gives."""

_VALUE: Final = "1.0\n"
_END: Final = "# EOF\n"


@dataclass(frozen=True, slots=True)
class Lines:
    """How samples of one gauge are written: a pattern for label values and value, and the labels in its order."""

    name: str
    pattern: str
    order: tuple[str, ...]
    labels: frozenset[str]

    def line(self, labels: Mapping[str, str], value: float) -> str:
        """One sample's line; labels other than the table's are an error."""
        if labels.keys() != self.labels:
            raise ValueError(f"{self.name} has labels {sorted(labels)}, its table says {sorted(self.labels)}")
        number: str = floatToGoString(value)  # type: ignore[no-untyped-call]
        return self.pattern % (*[_escaped(labels[name]) for name in self.order], number)


def spelling(specs: Sequence[MetricSpec], encode: Encoder) -> tuple[tuple[bytes, ...], tuple[Lines, ...]]:
    """Each gauge's header (HELP and TYPE) and lines, as the encoder writes them."""
    read = [_read(spec, encode) for spec in specs]
    return tuple(header for header, _ in read), tuple(lines for _, lines in read)


class _One(Collector):
    def __init__(self, family: GaugeMetricFamily) -> None:
        self._family = family

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield self._family


def _read(spec: MetricSpec, encode: Encoder) -> tuple[bytes, Lines]:
    labels = [*spec.labels, *(["zone"] if spec.zoned else [])]
    family = GaugeMetricFamily(spec.name, spec.help, labels=labels)
    probes = [f"\x01{number}\x01" for number in range(len(spec.labels))]
    family.add_metric([*probes, *(["vGPU"] if spec.zoned else [])], 1.0)
    text = encode(_One(family)).decode().removesuffix(_END)
    start = text.rindex("\n", 0, -1) + 1
    parts = re.split("\x01([0-9]+)\x01", text[start:].removesuffix(_VALUE))
    order = tuple(spec.labels[int(number)] for number in parts[1::2])
    pattern = "%s".join(part.replace("%", "%%") for part in parts[::2]) + "%s\n"
    return text[:start].encode(), Lines(spec.name, pattern, order, frozenset(spec.labels))


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
