"""Processes of a container share its limit evenly, whatever their launches are like."""

from __future__ import annotations

import pytest

from .cells import Tenant
from .judge import faults


def shares(result):
    return [result.share_of(process) for process in range(result.tenant.processes)]


def test_processes_that_do_the_same_have_the_same(bench):
    [result] = bench.run(7, Tenant(40, "100us", 8))
    assert max(abs(share - 5) for share in shares(result)) < 1, shares(result)


@pytest.mark.parametrize(
    ("limit", "shapes"),
    [
        *((40, "10ms | 100us"), (80, "100us | 10ms"), (90, "10ms | 100us"), (90, "50ms | 5us")),
        *((40, "1ms | 100us"), (60, "4full | 10ms")),
    ],
    ids=str,
)
def test_long_launches_get_no_more_than_short_ones(bench, limit, shapes):
    """Each has a quarter of the limit at least; with a turn for each launch it would be a tenth."""
    [result] = bench.run(7, Tenant(limit, shapes, 2))
    print(shares(result))
    assert min(shares(result)) > limit / 4, f"{shares(result)}; {result}"


def test_nor_beside_others_that_take_turns(bench):
    results = bench.run(7, Tenant(40, "100us | 10ms", 2), Tenant(40, "1ms", 2))
    for result in results:
        assert min(shares(result)) > 40 / 4, f"{shares(result)}; {result}"
        assert not faults(result), str(result)


def test_one_that_seldom_launches_leaves_the_rest_to_the_other(bench):
    """It could have a fifth of the device; what it does not use is not lost."""
    [result] = bench.run(7, Tenant(40, "100us | kernels=a_100us host=400000", 2))
    assert not faults(result), str(result)


@pytest.mark.parametrize("limit", [40, 80])
def test_long_launches_do_not_wait_for_one_that_is_not_there(bench, limit):
    """Two processes with long launches let a third by, which asks for little and comes with it slowly."""
    [result] = bench.run(7, Tenant(limit, "50ms | 10ms | kernels=a_100us host=400000", 3))
    assert not faults(result), str(result)
    assert min(shares(result)) > 1, shares(result)


def test_one_that_steps_back_does_not_wait_for_the_ended(bench):
    [result] = bench.run(7, Tenant(40, "10ms | kernels=a_100us seconds=6 | 100us", 3))
    assert not faults(result), str(result)
    assert result.longest_wait < 150, str(result)


def test_who_was_away_has_no_claim_to_what_it_did_not_ask_for(bench):
    """For five seconds a process had everything; then the other comes, with long launches."""
    [result] = bench.run(7, Tenant(40, "100us | kernels=a_10ms start=5000", 2))
    early = [sum(steps[:100]) / 100 for steps in result.by_process]
    late = [sum(steps[120:160]) / 40 for steps in result.by_process]
    assert early[0] > 35, early
    assert min(late) > 40 / 4, late
