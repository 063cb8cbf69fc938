"""Reads how cards lie and are linked. These facts do not change, so the last answer is kept while a question fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from hami_nvidia.nvml import NvmlError

if TYPE_CHECKING:
    from hami_nvidia.nvml import Link, Nvml

log = structlog.get_logger(__name__)


class Topology:
    """The places and links of cards, as NVML last told them.

    Args:
        nvml: The driver.
    """

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._nodes: dict[str, int] = {}
        self._levels: dict[tuple[str, str], int] = {}
        self._links: dict[str, list[Link]] = {}

    def memory_node(self, uuid: str) -> int:
        """The NUMA node of a card's memory; 0 if NVML never said."""
        try:
            node = self._nvml.memory_node(uuid)
            if node is not None:
                self._nodes[uuid] = node
        except NvmlError as error:
            log.warning("can't read a card's NUMA node", error=str(error))
        return self._nodes.get(uuid, 0)

    def level(self, one: str, other: str) -> int:
        """NVML's topology level between two cards; -1 if NVML never said."""
        try:
            self._levels[one, other] = self._nvml.common_ancestor(one, other)
        except NvmlError as error:
            log.warning("can't read the topology level of two cards", error=str(error))
        return self._levels.get((one, other), -1)

    def links(self, uuid: str) -> list[Link]:
        """The active NVLinks of a card; none if NVML never said."""
        try:
            self._links[uuid] = self._nvml.links(uuid)
        except NvmlError as error:
            log.warning("can't read a card's links", error=str(error))
        return self._links.get(uuid, [])
