"""What an agent's metrics say of cards and slices. Nothing in the text is trusted: the agent may be of any version."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from prometheus_client.parser import text_string_to_metric_families

from hami_core.documents import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

MIB: Final = 2**20
CARD_MEMORY: Final = "hami_host_gpu_memory_used_bytes"
CARD_CORES: Final = "hami_host_gpu_utilization_ratio"
SLICE_MEMORY: Final = "hami_vgpu_memory_used_bytes"
SLICE_LIMIT: Final = "hami_vgpu_memory_limit_bytes"
SLICE_CORES: Final = "hami_container_device_utilization_ratio"
CONTAINER: Final = "hami_agent_container_info"
NAMES: Final = (CARD_MEMORY, CARD_CORES, SLICE_MEMORY, SLICE_LIMIT, SLICE_CORES, CONTAINER)
"""The metrics that an agent is asked for."""


@dataclass(slots=True)
class Measured:
    """The measured values of a card or a slice; None: not measured.

    Attributes:
        memory_bytes: Memory in use.
        limit_bytes: Memory that the container may hold; 0: no limit.
        cores: Percent of one device's time.
    """

    memory_bytes: float | None = None
    limit_bytes: float | None = None
    cores: float | None = None

    @property
    def memory_mib(self) -> int | None:
        """Memory in use, in MiB."""
        return None if self.memory_bytes is None else round(self.memory_bytes / MIB)

    @property
    def limit_mib(self) -> int | None:
        """The limit in MiB; None: there is none, or it is unknown."""
        return round(self.limit_bytes / MIB) if self.limit_bytes else None


UNKNOWN: Final = Measured()
"""Nothing was measured."""


@dataclass(slots=True)
class Sample:
    """The metrics of a node's agents.

    Attributes:
        cards: By device id.
        slices: By pod UID, container and device id.
        kinds: Index and model of each card, as the agent names them.
    """

    cards: dict[str, Measured] = field(default_factory=dict)
    slices: dict[tuple[str, str, str], Measured] = field(default_factory=dict)
    kinds: dict[str, tuple[int, str]] = field(default_factory=dict)

    def add(self, other: Sample) -> None:
        """Take over what another agent of the same node says."""
        self.cards |= other.cards
        self.slices |= other.slices
        self.kinds |= other.kinds


def read(text: str) -> Sample:
    """Read an agent's metrics. A value that is no amount is left out.

    Raises:
        ValueError: The text is no metrics text.
    """
    found = Sample()
    uids: dict[tuple[str, str, str], str] = {}
    values: list[tuple[str, Mapping[str, str], float]] = []
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == CONTAINER:
                    uids[_container(sample.labels)] = sample.labels.get("pod_uid", "")
                elif math.isfinite(sample.value) and sample.value >= 0:
                    values.append((sample.name, sample.labels, float(sample.value)))
    except Exception as error:  # the parser raises whatever its slicing meets
        raise ValueError(f"it sends no metrics text: {one_line(error)}") from error
    for name, labels, value in values:
        device = labels.get("device_uuid", "")
        if name in {CARD_MEMORY, CARD_CORES}:
            _put(found.cards.setdefault(device, Measured()), name, value)
            found.kinds[device] = _index(labels.get("device_index", "")), labels.get("device_type", "")
        elif name in {SLICE_MEMORY, SLICE_LIMIT, SLICE_CORES} and (uid := uids.get(_container(labels))):
            key = uid, labels.get("container", ""), device
            _put(found.slices.setdefault(key, Measured()), name, value)
    return found


def _put(measured: Measured, name: str, value: float) -> None:
    """Add a value. A container may have several slices of one device."""
    if name in {CARD_MEMORY, SLICE_MEMORY}:
        measured.memory_bytes = (measured.memory_bytes or 0) + value
    elif name == SLICE_LIMIT:
        measured.limit_bytes = (measured.limit_bytes or 0) + value
    else:
        measured.cores = (measured.cores or 0) + value


def _container(labels: Mapping[str, str]) -> tuple[str, str, str]:
    return labels.get("namespace", ""), labels.get("pod", ""), labels.get("container", "")


def _index(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else -1
