"""Runs a workload under several policies, each on its own copy of the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hami_core.documents import none_of, shown
from hami_core.errors import ConfigError
from hami_core.policies import DEVICE_POLICIES, NODE_POLICIES, PolicyDefaults
from hami_core.simulate.cards import Cards, candidates
from hami_core.simulate.engine import Engine
from hami_core.simulate.measures import Meter

if TYPE_CHECKING:
    from collections.abc import Callable

    from hami_core.simulate.engine import Outcome
    from hami_core.simulate.measures import Series, Summary
    from hami_core.simulate.workload import Workload
    from hami_core.simulate.world import World

POLICIES: Final = "binpack/binpack,binpack/spread,spread/binpack,spread/spread"
"""Compared if the user names none."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Policies of pods that name none: which node, and which of its devices."""

    node: str
    device: str

    def __str__(self) -> str:
        return f"{self.node}/{self.device}"


@dataclass(frozen=True, slots=True)
class Result:
    """One run."""

    policy: Policy
    outcome: Outcome
    series: Series
    summary: Summary


def policies_of(text: str) -> tuple[Policy, ...]:
    """Read a comma list of ``NODE/DEVICE``. A device policy may itself be a comma list, such as ``numa,binpack``.

    Raises:
        ConfigError: A policy is unknown, or a part has no slash.

    Example:
        >>> [str(policy) for policy in policies_of("spread/numa,binpack,binpack/spread")]
        ['spread/numa,binpack', 'binpack/spread']
    """
    found: list[Policy] = []
    for part in text.split(","):
        node, slash, device = part.strip().partition("/")
        if slash:
            found.append(Policy(node, device))
        elif found:
            found[-1] = Policy(found[-1].node, f"{found[-1].device},{node}")
        else:
            raise ConfigError("--policies", f"{shown(part)} has no device policy", "write NODE/DEVICE")
    for policy in found:
        if policy.node not in NODE_POLICIES:
            raise ConfigError("--policies", none_of(policy.node, NODE_POLICIES))
        words = policy.device.split(",")
        for word in words:
            if word not in DEVICE_POLICIES:
                raise ConfigError("--policies", none_of(word, DEVICE_POLICIES))
            if len(words) > 1 and not DEVICE_POLICIES[word].in_chains:
                raise ConfigError("--policies", f"{word} ranks in no list", "write it alone")
    return tuple(dict.fromkeys(found))


def simulate(
    world: World,
    workload: Workload,
    policy: Policy,
    *,
    clock: Callable[[], float],
    progress: Callable[[int], None] = lambda _done: None,
) -> Result:
    """Run a workload under one policy.

    Args:
        world: The cluster.
        workload: The pods.
        policy: The policy.
        clock: Seconds of a wall clock.
        progress: Called with the number of pods that have arrived.
    """
    cluster = world.open(PolicyDefaults(policy.node, policy.device))
    inventory = cluster.inventory
    names, closed = candidates(cluster)
    cards = Cards(inventory, names, closed)
    meter = Meter(cards, workload, inventory)
    outcome = Engine(inventory, names, cards, workload, clock, meter.advance).run(progress)
    return Result(policy, outcome, meter.series, meter.summary(outcome, workload))
