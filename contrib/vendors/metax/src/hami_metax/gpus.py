"""Whole GPUs: the family, and the score of a node by the links that an allocation uses or breaks."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hami_core import Capability, DoctorNotes, Family, Grade, Neighbour, Resources, Support

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core import Allocation, NodeFacts

WORD: Final = "Metax-GPU"
CARD_MIB: Final = 65536
LOSSES: Final = "metax-tech.com/gpu.topology.losses"
"""Node annotation ``{"<GPUs>": <loss>}``: what the node's best group of so many GPUs costs the GPUs that are left."""
SCORES: Final = "metax-tech.com/gpu.topology.scores"
"""Node annotation ``{"<GPUs>": <score>}``: how well the node's best group of so many GPUs is connected."""
BASE: Final = 2000
MOST: Final = 10**6
"""Largest loss or score that is accepted."""
DOCTOR: Final = DoctorNotes(
    neighbours=(Neighbour(("metax-gpu-device", "/gpu-device:", "/gpu-device@"), "MetaX's device plugin"),)
)


def family(count: str) -> Family:
    """The family of whole GPUs with this resource name."""
    return Family(
        word=WORD,
        resources=Resources(count),
        allocated_key="hami.io/metax-gpu-devices-allocated",
        to_allocate_key="hami.io/metax-gpu-devices-to-allocate",
        offered_resource=count,
        choose_policies=frozenset(),
        score_bound=MOST,
        doctor=DOCTOR,
        capabilities={
            Capability.TOPOLOGY: Grade(Support.PARTIAL, "nodes are scored by links; MetaX's plugin picks the GPUs"),
            Capability.UUID_SELECTORS: Grade(Support.UNSUPPORTED, "the node's capacity names no ids"),
        },
    )


def score(node: NodeFacts, allocation: Allocation, policy: str) -> float:
    """Rate a node by HAMi's formula: 2000 minus the loss under ``binpack``, minus the score under ``spread``.

    Under ``spread`` the node with the smallest sum wins, which is the node with the highest score.
    """
    key = {"binpack": LOSSES, "spread": SCORES}.get(policy, "")
    text = node.annotations.get(key)
    gpus = {piece.device_id for pieces in allocation.of(WORD) for piece in pieces}
    if text is None or not gpus:
        return 0.0
    return float(BASE - _rates(text).get(str(len(gpus)), 0))


@lru_cache(maxsize=4096)
def _rates(text: str) -> Mapping[str, int]:
    """Number of GPUs → loss or score. As in HAMi, entries that can't be read count as 0."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {gpus: rate for gpus, rate in found.items() if type(rate) is int and 0 <= rate <= MOST}
