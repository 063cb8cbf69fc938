"""Utilisation, fragmentation, stranded amounts and waiting times have the values that their definitions give."""

from __future__ import annotations

from itertools import pairwise

import pytest

from hami_core.simulate.measures import SAMPLES
from hami_core.simulate.run import Policy
from hami_core.tests.simulate.cases import job, run, workload, world


def test_utilisation_is_the_mean_while_pods_arrive():
    """40 % of one of two cards for 50 s, then nothing until the last pod arrives at 100 s."""
    result = run(world({"cards": 2}), job(memory=4000, cores=60, duration=50), job(arrival=100, memory=1))
    assert result.summary.memory == pytest.approx(0.1)
    assert result.summary.cores == pytest.approx(0.15)
    assert result.summary.cards == pytest.approx(0.25)


def test_pods_that_arrive_at_once_are_measured_until_the_last_ends():
    result = run(world(), job(memory=5000, duration=30), job(memory=5000, duration=90))
    assert result.summary.memory == pytest.approx((30 * 1 + 60 * 0.5) / 90)


def test_fragmentation_is_the_free_memory_that_the_workloads_pods_cant_use():
    """Two cards with 4,000 MiB free each: enough for the pods of 6,000 MiB nowhere, for those of 4,000 everywhere."""
    jobs = [job(memory=6000, duration=None, count=2), job(arrival=1, memory=4000, count=2, duration=None)]
    result = run(world({"cards": 2}), *jobs, policy=Policy("binpack", "spread"))
    assert result.series.fragmentation[1] == pytest.approx(0.5)


def test_free_cards_on_nodes_with_too_few_of_them_are_fragments():
    jobs = [job(cards=2, memory=9000, duration=None), job(cards=2, memory=9000, arrival=1, duration=None)]
    result = run(world({"count": 3}), *jobs)
    assert result.series.fragmentation[0] == 1.0
    assert result.summary.never == 2


def test_memory_beside_spent_cores_or_slots_is_stranded():
    by_cores = run(world({"cards": 2}), job(memory=4000, cores=100, duration=None), job(arrival=1, cores=50))
    assert by_cores.series.stranded_memory[-1] == pytest.approx(6000 / 20000)
    assert by_cores.series.stranded_cores[-1] == 0
    by_slots = run(world({"slots": 1}), job(memory=4000, cores=10, duration=None), job(arrival=1, memory=1))
    assert by_slots.series.stranded_memory[-1] == pytest.approx(0.6)
    assert by_slots.series.stranded_cores[-1] == pytest.approx(0.9)


def test_cores_beside_spent_memory_are_stranded():
    result = run(world(), job(memory=9000, cores=30, duration=None), job(arrival=1, memory=2000, cores=1))
    assert result.series.stranded_cores[-1] == pytest.approx(0.7)
    assert result.series.stranded_memory[-1] == 0


def test_series_keeps_its_distances_and_its_length():
    result = run(world({"count": 4}), job(count=500, every=7.0, memory=1000, duration=33.0))
    times = result.series.time_s
    assert SAMPLES // 2 <= len(times) <= SAMPLES + 1
    assert all(b - a == pytest.approx(times[1] - times[0]) for a, b in pairwise(times))
    assert all(len(column) == len(times) for column in result.series.rows())


def test_filter_is_timed_by_the_clock_that_is_passed():
    assert run(world(), job(), job(arrival=1)).summary.filter_ms == (1000.0, 1000.0)


def test_equal_pods_of_many_jobs_are_one_shape():
    assert len(workload(world(), *(job(arrival=n, name=f"job-{n}") for n in range(50))).shapes) == 1


def test_workload_is_in_the_order_of_arrival():
    pods = workload(world(), job(arrival=5, count=2, every=10.0), job(arrival=7, memory=1, duration="2m"))
    assert list(pods.arrival_s) == [5, 7, 15]
    assert list(pods.duration_s) == [100, 120, 100]
    assert list(pods.shape) == [0, 1, 0]
