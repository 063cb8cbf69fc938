"""Utilisation, fragmentation, stranded amounts and waiting times have the values that their definitions give."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_core.plugins import load
from hami_core.policies import PolicyDefaults
from hami_core.simulate.cards import Cards, Free, asks_of
from hami_core.simulate.clusterfile import described_world
from hami_core.simulate.engine import Engine
from hami_core.simulate.measures import SAMPLES, Meter
from hami_core.simulate.run import Policy
from hami_core.simulate.workload import Job
from hami_core.tests.simulate.cases import PACK, job, run, workload, world

MUTEX = Policy("binpack", "mutex")


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


# --- cards that refuse every pod ---------------------------------------------------------------------------------


def test_percentages_and_whole_cards_count_as_memory():
    """9,000 of 10,000 MiB are booked. The other pods take half a card or a whole one, so none gets the cores."""
    half, whole = job(arrival=1, memory=None, share=50), job(arrival=1, memory=None, cores=30)
    result = run(world(), job(memory=9000, cores=30, duration=None), half, whole)
    assert result.series.stranded_cores[-1] == pytest.approx(0.7)


def test_pods_that_admission_refuses_have_no_use_for_a_card():
    quota = {"namespace": "team", "hard": {"limits.nvidia.com/gpumem": 1}}
    refused = job(arrival=1, memory=100, cores=1, namespace="team", count=5)
    result = run(world(quotas=[quota]), job(memory=9000, cores=90, duration=None), refused, job(arrival=2, cores=20))
    assert result.summary.never == 6
    assert result.series.stranded_cores[-1] == pytest.approx(0.1)
    assert result.series.stranded_memory[-1] == pytest.approx(0.1)
    assert result.series.fragmentation[-1] == 1.0


def test_small_pods_of_one_family_have_no_use_for_cards_of_another():
    loaded = load({}, only=["nvidia", "hygon"])
    rows = [
        {"name": name, "family": family, "cards": 1, "memoryMiB": 10000}
        for name, family in (("a", "NVIDIA"), ("b", "DCU"))
    ]
    limits = {"hygon.com/dcunum": 1, "hygon.com/dcumem": 100, "hygon.com/dcucores": 1}
    small = {"spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}
    jobs = [job(memory=8000, cores=60, duration=None), Job(arrival=1.0, pod=small), job(arrival=2, cores=50)]
    result = run(described_world({"nodes": rows}, loaded, "c.yaml"), *jobs)
    assert result.series.stranded_memory[-1] == pytest.approx(0.1)  # 2,000 of 20,000 MiB, beside 40 % of the cores
    assert result.series.stranded_cores[-1] == pytest.approx(0.2)  # 40 of 200 %, beside 2,000 MiB


def test_card_with_all_cores_sold_takes_no_pod_without_cores():
    result = run(world(), job(memory=4000, cores=100, duration=None), job(arrival=1, memory=1000))
    assert result.summary.never == 1
    assert result.series.fragmentation[-1] == 1.0
    assert result.series.stranded_memory[-1] == pytest.approx(0.6)


def test_shared_card_takes_no_pod_that_wants_it_for_itself():
    """Half of the pods ask for all cores, and the card has a pod. The other half may share it."""
    result = run(world(), job(memory=4000, duration=None), job(arrival=1, memory=1000, cores=100))
    assert result.summary.never == 1
    assert result.series.fragmentation[-1] == pytest.approx(0.5)
    assert result.series.stranded_cores[-1] == 0


def test_mutex_pods_leave_the_rest_of_a_card_stranded():
    result = run(world(), job(count=2, memory=4000, cores=30, duration=None), job(arrival=1), policy=MUTEX)
    assert result.summary.never == 2
    assert result.series.fragmentation[-1] == 1.0
    assert result.series.stranded_memory[-1] == pytest.approx(0.6)
    assert result.series.stranded_cores[-1] == pytest.approx(0.7)


ASKED = st.fixed_dictionaries(
    {
        "cores": st.sampled_from([0, 30, 50, 100]),
        "count": st.integers(1, 3),
        "duration": st.sampled_from([None, 40.0]),
        "arrival": st.integers(0, 50),
    },
    optional={"memory": st.sampled_from([1000, 4000, 10000, None]), "share": st.sampled_from([20, 50])},
).map(lambda one: job(**({"memory": None} if "share" in one else {}) | one))


@settings(max_examples=60, deadline=None)
@given(
    jobs=st.lists(ASKED, min_size=1, max_size=6),
    policy=st.sampled_from([PACK, Policy("spread", "spread"), MUTEX]),
    size=st.sampled_from([{"cores": 100}, {"cores": 200}, {"cores": 100, "slots": 2}]),
)
def test_cards_are_counted_as_filter_sees_them(jobs, policy, size):
    """At every change, a node of one card is open to a pod if and only if Filter takes it; what is stranded is lost."""
    cluster = world({"count": 3, **size})
    pods = workload(cluster, *jobs)
    inventory = cluster.open(PolicyDefaults(policy.node, policy.device)).inventory
    names = inventory.node_names()
    cards = Cards(inventory, names)
    meter = Meter(cards, pods, inventory)
    asks = [asks_of(shape.request, inventory) for shape in pods.shapes]

    def check(now):
        meter.advance(now)
        for shape, (ask,) in zip(pods.shapes, asks, strict=True):
            open_ = {name for name, row in zip(names, ask.open_cards(Free(cards)), strict=True) if row.any()}
            taken = {name for name in names if inventory.filter(shape.request, [name]).best}
            inventory.release_hold("")
            assert open_ == taken

    Engine(inventory, names, cards, pods, lambda: 0.0, check).run()
    series = meter.series
    for memory, lost, stranded in zip(series.memory, series.fragmentation, series.stranded_memory, strict=True):
        assert stranded <= lost * (1 - memory) + 1e-9
