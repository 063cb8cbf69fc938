"""Reads what `hami_nvidia.feature_labels` says of this node, from NVML and sysfs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from hami_nvidia.feature_labels import GFD_MARK, CardFacts, NodeFacts, changes, labels_of, models
from hami_nvidia.nvml import MIB, NvmlError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_nvidia.nvml import Card, Nvml
    from hami_nvidia.settings import NodeSettings

log = structlog.get_logger(__name__)


class FeatureLabels:
    """The feature labels of this node.

    Args:
        nvml: NVML.
        settings: The node's settings: whether labels are written, and where sysfs is.
    """

    def __init__(self, nvml: Nvml, settings: NodeSettings) -> None:
        self._nvml = nvml
        self._settings = settings
        self._last: dict[str, str] | None = None
        self._warned = ""

    def advertised(
        self,
        cards: Sequence[tuple[Card, int, str]],
        instances: Sequence[tuple[str, str]],
        mig_strategy: str,
        there: Mapping[str, str] | None,
    ) -> dict[str, str | None]:
        """Labels to keep on the node, and labels to remove (None).

        Args:
            cards: Each card that the agent serves, with its slots and its mode.
            instances: Resource and product of each MIG instance that is offered as a resource of its own.
            mig_strategy: The node's MIG strategy.
            there: The node's labels; None: not known yet, so nothing is changed.
        """
        if there is None:
            return {}
        if not self._settings.feature_labels:
            return changes(None, there)
        if GFD_MARK in there:
            self._warn("GPU feature discovery labels this node; the agent writes no labels of its own beside it")
            return changes({}, there)
        try:
            self._last = self._read(cards, instances, mig_strategy)
        except NvmlError as error:
            self._warn(f"the node's labels can't be read from NVML; they stay as they are: {error}")
            if self._last is None:
                return {}
        return changes(self._last, there)

    def _read(
        self, cards: Sequence[tuple[Card, int, str]], instances: Sequence[tuple[str, str]], mig_strategy: str
    ) -> dict[str, str]:
        found = [self._card(card, slots, mode) for card, slots, mode in cards]
        if not found:
            return {}
        several = models(found)
        text = f"the cards have several models ({', '.join(several)}); the labels describe {several[0]}"
        self._warn(text if len(several) > 1 else "")
        return labels_of(
            NodeFacts(
                found,
                self._nvml.driver_version(),
                self._nvml.cuda_version(),
                self._text("class/dmi/id/product_name"),
                mig_strategy,
                instances,
            )
        )

    def _card(self, card: Card, slots: int, mode: str) -> CardFacts:
        return CardFacts(
            product=card.name,
            memory_mib=None if card.memory_bytes is None else card.memory_bytes // MIB,
            slots=slots,
            mode=mode,
            capability=self._nvml.compute_capability(card.uuid),
            mig_capable=self._nvml.has_mig(card.uuid),
            pci_class=self._text(f"bus/pci/devices/{card.sysfs_name}/class"),
            clique=self._nvml.fabric_clique(card.uuid),
        )

    def _text(self, name: str) -> str:
        try:
            return (self._settings.sys_root / name).read_text(errors="replace").strip()
        except OSError:
            return ""

    def _warn(self, text: str) -> None:
        if text and text != self._warned:
            log.warning("feature labels", problem=text)
        self._warned = text
