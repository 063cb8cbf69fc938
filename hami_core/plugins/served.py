"""What one vendor serves, and what its hooks are shown of a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_core.model import EMPTY, PodFacts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.model import Family, MetricSpec


class Served:
    """The families and metrics of one vendor.

    Attributes:
        families: What it serves.
        metric_specs: What it measures, by metric name.
        words: Their common words.
    """

    def __init__(self, families: Sequence[Family], metric_specs: Mapping[str, MetricSpec] = EMPTY) -> None:
        self.families = tuple(families)
        self.metric_specs = metric_specs
        self.words = frozenset(family.word for family in families)
        self._keys = {"": declared_keys(families), **{family.word: declared_keys([family]) for family in families}}

    def shown(self, pod: PodFacts, word: str = "") -> PodFacts:
        """The pod as hooks may see it: only the annotations the family, or any family, declared."""
        keys = self._keys[word]
        annotations = pod.annotations
        if not annotations or keys.issuperset(annotations):
            return pod
        kept = {key: annotations[key] for key in keys if key in annotations}
        return PodFacts(pod.namespace, pod.name, pod.uid, kept, pod.runtime_class)


def declared_keys(families: Sequence[Family]) -> frozenset[str]:
    """Pod annotations the hooks of these families are shown."""
    keys = {key for family in families for key in family.pod_keys}
    for family in families:
        for pair in (*family.uuid_selectors, *family.type_selectors):
            keys |= {pair.use, pair.nouse}
    return frozenset(key for key in keys if key)
