"""The generator draws what its sources say, and the same for the same seed."""

from __future__ import annotations

import random
import statistics
from collections import Counter

import pytest

from hami_core.errors import ConfigError
from hami_core.plugins import load
from hami_core.policies import PolicyDefaults
from hami_core.simulate.clusterfile import described_world
from hami_core.simulate.generator import (
    CARDS,
    DURATIONS_S,
    PARTS,
    Generate,
    duration_s,
    jobs,
    mean_cards,
    mean_duration_s,
    size,
)
from hami_core.simulate.workload import Job, admitted, generated
from hami_core.tests.simulate.cases import world

LOADED = load({})


def drawn(cluster, **wanted):
    asked = Generate(**wanted)
    return list(jobs(asked, cluster.open(PolicyDefaults()), random.Random(asked.seed), "g"))


def test_sizes_have_the_published_shares():
    rng = random.Random(1)
    sizes = [size(rng) for _ in range(20_000)]
    cards = Counter(0 if one.compute < 100 else one.cards for one in sizes)
    for number, share in CARDS.items():
        assert cards[number] / len(sizes) == pytest.approx(share / sum(CARDS.values()), abs=0.01)
    assert {one.compute for one in sizes if one.compute < 100} == set(PARTS)
    assert statistics.fmean(one.cards * one.compute / 100 for one in sizes) == pytest.approx(mean_cards(), rel=0.02)


def test_durations_have_the_quantiles_and_the_mean():
    assert [duration_s(at) for at, _ in DURATIONS_S] == pytest.approx([seconds for _, seconds in DURATIONS_S])
    evenly = [duration_s((n + 0.5) / 100_000) for n in range(100_000)]
    assert evenly == sorted(evenly)
    assert statistics.fmean(evenly) == pytest.approx(mean_duration_s(), rel=0.01)


def test_load_is_what_the_pods_ask_for_over_what_there_is():
    cluster = world({"count": 50, "cards": 8})
    rows = drawn(cluster, pods=20_000, load=0.5)
    asked = 0.0
    for row in rows:
        limits = row["pod"]["spec"]["containers"][0]["resources"]["limits"]
        asked += row["duration"] * int(limits["nvidia.com/gpu"]) * int(limits["nvidia.com/gpucores"]) / 100
    assert asked / (rows[-1]["arrival"] * 400) == pytest.approx(0.5, rel=0.1)


def test_part_counts_as_a_whole_card_where_pods_get_no_parts():
    row = {"name": "n-{}", "count": 50, "family": "Biren", "cards": 8, "memoryMiB": 65536}
    rows = drawn(described_world({"nodes": [row]}, LOADED, "c.yaml"), pods=20_000, load=0.5)
    asked = 0.0
    for row in rows:
        limits = row["pod"]["spec"]["containers"][0]["resources"]["limits"]
        asked += row["duration"] * int(limits["birentech.com/gpu"])
    assert asked / (rows[-1]["arrival"] * 400) == pytest.approx(0.5, rel=0.1)


def test_same_seed_gives_the_same_pods():
    assert drawn(world(), pods=100, seed=3) == drawn(world(), pods=100, seed=3)
    assert drawn(world(), pods=100, seed=3) != drawn(world(), pods=100, seed=4)


def test_family_without_cards_is_refused():
    with pytest.raises(ConfigError, match=r"g\.family: 'NVIDA' is none of"):
        drawn(world(), pods=1, family="NVIDA")


ASCEND = ("310P", "910A", "910B2", "910B3", "910B4", "910B4-1", "910C")
REFUSED = {
    "Enflame": "Enflame has fixed sizes",
    "AWSNeuron": "admission refuses it: container main: aws.amazon.com/neuroncore: is written beside",
    "Mthreads": "admission refuses it: container main: mthreads.com/sgpu-memory: sGPU memory request value is invalid",
    **{f"Ascend{model}": "core is only supported in hami-core" for model in ASCEND},
}
"""Families that the generator has no pods for, and what the error says."""


@pytest.mark.parametrize("word", sorted(LOADED.families))
def test_every_family_gets_pods_that_admission_takes_or_says_why_not(word):
    """Families with fixed sizes, or rules about memory and cores, need jobs that their users write; each says so."""
    row = {"name": "n-{}", "count": 4, "family": word, "cards": 8, "memoryMiB": 65536}
    opened = described_world({"nodes": [row]}, LOADED, "c.yaml").open(PolicyDefaults())
    draw = generated(Generate(pods=60), opened, random.Random(1), "g")
    if word in REFUSED:
        with pytest.raises(ConfigError, match=rf"{REFUSED[word]}.*\(write a workload file with jobs\)$"):
            list(draw)
    else:
        pods = admitted(opened, [(Job(**one), "g") for one in draw])
        assert len(pods) == 60
        assert not any(shape.refusal for shape in pods.shapes)
