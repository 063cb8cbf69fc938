"""What one vendor serves, and the part of a pod that its hooks may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_core.model import EMPTY, PodFacts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.model import Family, MetricSpec


class Served:
    """The families and metrics of one vendor.

    Attributes:
        families: The vendor's families.
        metric_specs: The vendor's metrics by name.
        words: Common words of the families.
    """

    def __init__(self, families: Sequence[Family], metric_specs: Mapping[str, MetricSpec] = EMPTY) -> None:
        self.families = tuple(families)
        self.metric_specs = metric_specs
        self.words = frozenset(family.word for family in families)
        self._keys = {"": declared_keys(families), **{family.word: declared_keys([family]) for family in families}}

    def shown(self, pod: PodFacts, word: str = "") -> PodFacts:
        """Return the pod with only the annotations that hooks may see.

        Args:
            pod: The pod.
            word: The family that declares the annotations; empty: all families of the vendor.
        """
        keys = self._keys[word]
        annotations = pod.annotations
        if not annotations or keys.issuperset(annotations):
            return pod
        kept = {key: annotations[key] for key in keys if key in annotations}
        # Not dataclasses.replace: it takes twice as long, and Filter does this for each container and family.
        return PodFacts(pod.namespace, pod.name, pod.uid, kept, pod.runtime_class, pod.decided_at_ns)


def declared_keys(families: Sequence[Family]) -> frozenset[str]:
    """Return the keys of pod annotations that the hooks of these families may see."""
    keys = {key for family in families for key in family.pod_keys}
    for family in families:
        for pair in (*family.uuid_selectors, *family.type_selectors):
            keys |= {pair.use, pair.nouse}
    return frozenset(key for key in keys if key)
