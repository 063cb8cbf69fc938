"""Moore Threads: the legal sizes of a part of a card, and what admission makes of counts."""

from __future__ import annotations

import pytest
from hami_mthreads import MthreadsConfig

from hami_core.errors import RequestError
from hami_core.model import ContainerKind, ContainerSpec, PodFacts

from .cases import value
from .test_vendors import vendor

pytestmark = pytest.mark.vectors

COUNT, MEMORY, CORES = "mthreads.com/vgpu", "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core"


def admitted(**amounts: int) -> tuple[dict[str, str], dict[str, str]]:
    """The limits and the pod annotations that admission writes."""
    plugin, _ = vendor("Mthreads")
    names = {"count": COUNT, "memory": MEMORY}
    spec = ContainerSpec("c", ContainerKind.APP, {names[key]: str(amount) for key, amount in amounts.items()})
    mutation = plugin.mutate_admission(spec, PodFacts("ns", "p", "u"))
    assert mutation is not None
    return dict(mutation.limits), dict(mutation.pod_annotations)


def test_legal_sizes_of_a_part_match_hami() -> None:
    legal = value("vendors/mthreadsLegalMemory")
    assert MthreadsConfig().legal_units == legal
    for units in range(1, 200):
        if units in legal:
            assert admitted(count=1, memory=units) == ({}, {})
        else:
            with pytest.raises(RequestError, match="valid values are"):
                admitted(count=1, memory=units)


def test_several_cards_become_whole_cards_as_in_hami() -> None:
    assert admitted(count=2) == ({CORES: "32", MEMORY: "192"}, {"mthreads.com/request-gpu-num": "2"})


@pytest.mark.parametrize("count", [0, -1])
def test_counts_below_one_are_refused_as_in_hami(count: int) -> None:
    with pytest.raises(RequestError, match=r"mthreads\.com/vgpu must be greater than 0"):
        admitted(count=count)
