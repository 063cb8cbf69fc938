"""Draws a workload at random: Poisson arrivals, and sizes and durations by published statistics of a GPU cluster.

The sources are the trace `cluster-trace-gpu-v2023` of Alibaba (github.com/alibaba/clusterdata) and the paper about it:
Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX
ATC 2023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from hami_core.documents import none_of
from hami_core.errors import ConfigError
from hami_core.simulate.cards import Cards, candidates

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping

    from hami_core.model import Family
    from hami_core.scheduler.cluster import Cluster

CARDS: Final = {0: 37.8, 1: 48.0, 2: 0.2, 4: 0.2, 8: 0.5}
"""Cards of a task → share of all tasks in percent (Weng et al., table 1); 0: a part of one card.

The other 13.3 % of the tasks ask for no card, and are left out here.
"""
PARTS: Final = {11: 1, 16: 3, 22: 4, 32: 12, 46: 7, 47: 23, 48: 1, 59: 1, 65: 11, 81: 25}
"""Percent of a card's compute → number of tasks, of the 88 tasks with a part of a card in the sample.

The sample is 171 scheduled tasks with GPUs, one after the other from ``openb-pod-4255`` on, in
``openb_pod_list_default.csv``: about two days of the trace.
"""
DURATIONS_S: Final = (
    (0.0, 12.0), (0.05, 43.0), (0.10, 67.0), (0.25, 589.0), (0.50, 1447.0), (0.75, 4342.0), (0.90, 18958.0),
    (0.95, 25008.0), (0.98, 187120.0), (0.99, 209987.0), (1.0, 395935.0),
)  # fmt: skip
"""Quantiles of the time from start to end, in seconds, of the 171 tasks of the sample."""
WRITE_JOBS: Final = "write a workload file with jobs"
"""What a user can do for devices that the generator has no pods for."""
MEMORY_PER_COMPUTE: Final = (0.5, 1.0, 1.5)
"""A part's share of the card's memory, as a multiple of its share of the compute. Each is equally likely.

This is our choice: the trace has no GPU memory.
"""


class Generate(BaseModel):
    """What to generate.

    Attributes:
        pods: How many pods.
        load: Card-seconds that the pods ask for, over those that the cluster has while they arrive.
        seed: Seed of the random numbers.
        family: The devices to ask for; empty: the family with the most cards in the cluster.
        namespace: The pods' namespace.
        durationScale: Factor of every duration.
    """

    model_config = ConfigDict(strict=True)

    pods: Annotated[int, Field(ge=1, le=5_000_000)]
    load: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] = 0.9
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 1
    family: str = ""
    namespace: Annotated[str, Field(min_length=1, max_length=200)] = "default"
    durationScale: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = 1.0  # noqa: N815 - a key of the file


@dataclass(frozen=True, slots=True)
class Size:
    """What a pod asks for: cards, and the percent of the compute and memory of each."""

    cards: int
    compute: int
    memory: int

    @property
    def name(self) -> str:
        """For people, such as ``part-47-24`` or ``cards-4``."""
        return f"part-{self.compute}-{self.memory}" if self.compute < 100 else f"cards-{self.cards}"


def duration_s(draw: float) -> float:
    """The duration at a quantile from 0 to 1. Between two known quantiles, its logarithm is interpolated."""
    for (low, shortest), (high, longest) in pairwise(DURATIONS_S):
        if draw <= high:
            at = (draw - low) / (high - low)
            return math.exp(math.log(shortest) * (1 - at) + math.log(longest) * at)
    return DURATIONS_S[-1][1]


def mean_duration_s() -> float:
    """The mean of the durations."""
    total = 0.0
    for (low, shortest), (high, longest) in pairwise(DURATIONS_S):
        total += (high - low) * (longest - shortest) / (math.log(longest) - math.log(shortest))
    return total


def mean_cards(*, has_parts: bool = True) -> float:
    """The mean of the cards a pod asks for. A part counts by its share of the compute.

    Args:
        has_parts: Whether pods can ask for a part of a card. If not, each part is a whole card.
    """
    part = sum(percent * count for percent, count in PARTS.items()) / sum(PARTS.values()) / 100 if has_parts else 1
    return sum(share * (cards or part) for cards, share in CARDS.items()) / sum(CARDS.values())


def size(rng: random.Random) -> Size:
    """Draw a pod's size."""
    cards = rng.choices(tuple(CARDS), tuple(CARDS.values()))[0]
    if cards:
        return Size(cards, 100, 100)
    compute = rng.choices(tuple(PARTS), tuple(PARTS.values()))[0]
    return Size(1, compute, max(1, min(100, round(compute * rng.choice(MEMORY_PER_COMPUTE)))))


def jobs(wanted: Generate, cluster: Cluster, rng: random.Random, place: str) -> Iterator[dict[str, Any]]:
    """Draw the pods, each as a job of a workload file.

    Args:
        wanted: What to generate.
        cluster: The cluster. The cards that pods can get set the rate of arrivals.
        rng: Source of random numbers, seeded by the caller.
        place: Where ``wanted`` stands, for messages.

    Raises:
        ConfigError: The family is unknown, has fixed sizes, or has no cards that pods can get.
    """
    cards = Cards(cluster.inventory, *candidates(cluster))
    family = _family(wanted, cards, cluster.families, place)
    theirs = cards.of_family(family.word)
    memory_mib = int(cards.total_memory[theirs].max())
    mean = mean_cards(has_parts=_has_parts(family))
    rate = wanted.load * int(theirs.sum()) / (mean_duration_s() * wanted.durationScale * mean)
    pods: dict[Size, dict[str, Any]] = {}
    now = 0.0
    for _ in range(wanted.pods):
        now += rng.expovariate(rate)
        drawn = size(rng)
        pod = pods.get(drawn)
        if pod is None:
            pod = pods[drawn] = _pod(drawn, family, memory_mib)
        seconds = round(duration_s(rng.random()) * wanted.durationScale, 3)
        yield {
            "name": drawn.name,
            "namespace": wanted.namespace,
            "arrival": round(now, 3),
            "duration": seconds,
            "pod": pod,
        }


def _family(wanted: Generate, cards: Cards, families: Mapping[str, Family], place: str) -> Family:
    counts = {word: int(cards.of_family(word).sum()) for word in families}
    word = wanted.family or max(counts, key=counts.__getitem__)
    if word not in families:
        raise ConfigError(f"{place}.family", none_of(word, sorted(families)))
    if not counts[word]:
        raise ConfigError(f"{place}.family", f"the cluster has no {word} card that pods can get", "name another family")
    if families[word].count_is_size:
        raise ConfigError(f"{place}.family", f"{word} has fixed sizes", WRITE_JOBS)
    return families[word]


def _has_parts(family: Family) -> bool:
    """Whether pods can ask for a part of a card."""
    names = family.resources
    return bool(names.cores or names.memory or names.memory_percentage)


def _pod(drawn: Size, family: Family, memory_mib: int) -> dict[str, Any]:
    """A pod of a size. A family without amounts of memory or cores gets whole cards."""
    names = family.resources
    limits = {names.count: str(drawn.cards)}
    if names.cores:
        limits[names.cores] = str(drawn.compute)
    if names.memory_percentage:
        limits[names.memory_percentage] = str(drawn.memory)
    elif names.memory and drawn.compute < 100:
        limits[names.memory] = str(max(1, memory_mib * drawn.memory // 100 // family.memory_factor))
    return {"spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}
