"""Pods are placed, wait, are retried and are given up as in the scheduler."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hami_core.model import Allocation
from hami_core.policies import PolicyDefaults
from hami_core.simulate import engine
from hami_core.simulate.cards import Cards
from hami_core.simulate.engine import REFUSALS, Engine
from hami_core.tests.simulate.cases import job, run, starts, workload, world

if TYPE_CHECKING:
    from hami_core.inventory import Inventory


def test_pod_without_room_waits_until_another_ends():
    result = run(world(), job(memory=6000), job(arrival=10, memory=6000, duration=5))
    assert starts(result) == [0, 100]
    assert result.summary.wait_s == pytest.approx((45, 81, 89.1, 90))


def test_small_pod_passes_a_large_one_that_waits():
    result = run(world(), job(memory=6000), job(arrival=1, memory=9000), job(arrival=2, memory=3000))
    assert starts(result) == [0, 102, 2]


def test_waiting_pods_start_in_the_order_of_arrival():
    waiting = [job(arrival=arrival, memory=8000, duration=50, cores=arrival) for arrival in (3, 1, 2)]
    assert starts(run(world(), job(memory=8000), *waiting)) == [0, 100, 150, 200]


def test_pod_that_ends_makes_room_for_one_that_arrives_then():
    assert starts(run(world(), job(memory=9000), job(arrival=100, memory=9000))) == [0, 100]


def test_pod_without_a_duration_keeps_its_devices():
    result = run(world(), job(memory=6000, duration=None), job(arrival=5, memory=6000))
    assert starts(result) == [0, None]
    assert result.summary.never == 1
    assert "has 4000 MiB free" in result.outcome.why[0]


def test_pod_that_fits_nowhere_is_explained_and_ends_no_run():
    result = run(world({}, {}), job(name="big", memory=20000, count=7), job(memory=1000))
    assert result.outcome.never == {0: 7}
    assert result.outcome.why[0].startswith("container main needs 20000 MiB on one card")
    assert "10000 MiB free" in result.outcome.why[0]
    assert result.summary.placed == 1


def test_pod_beyond_the_quota_of_its_namespace_is_refused_at_admission():
    quota = {"namespace": "team", "hard": {"limits.nvidia.com/gpumem": 5000}}
    result = run(world(quotas=[quota]), job(memory=6000, namespace="team", name="greedy"), job(memory=6000))
    assert starts(result) == [None, 0]
    assert result.outcome.why[0].startswith("exceeding resource quota")


def test_end_frees_quota_for_a_pod_on_another_node():
    quota = {"namespace": "team", "hard": {"limits.nvidia.com/gpumem": 5000}}
    cluster = world({"memoryMiB": 5000}, {"memoryMiB": 9000}, quotas=[quota])
    large = {"memory": 5000, "namespace": "team", "nvidia.com/nouse-gpuuuid": "NVIDIA-0-0"}
    first = job(memory=5000, namespace="team", **{"nvidia.com/use-gpuuuid": "NVIDIA-0-0"})
    assert starts(run(cluster, first, job(arrival=1, **large))) == [0, 100]


def test_policies_of_a_pod_win_over_the_defaults():
    spread = {"hami.io/node-scheduler-policy": "spread", "hami.io/gpu-scheduler-policy": "spread"}
    cluster = world({"count": 2, "cards": 2})
    by_default = run(cluster, job(count=4, memory=1000), job(arrival=1, memory=1, duration=1))
    by_pod = run(cluster, job(count=4, memory=1000, **spread), job(arrival=1, memory=1, duration=1))
    assert by_default.series.cards[0] == 0.25
    assert by_pod.series.cards[0] == 1.0


def test_ten_thousand_waiting_pods_cost_one_question_for_each_shape_and_end():
    long = [job(count=200, every=1.0, duration=500, memory=5000)]
    waiting = [job(arrival=0.5, count=5000, memory=10000, cores=cores) for cores in (10, 20)]
    cluster = world()
    pods = workload(cluster, *long, *waiting)
    inventory = cluster.open(PolicyDefaults()).inventory
    asked = []
    ask = inventory.filter
    inventory.filter = lambda request, names, **more: asked.append(request.uid) or ask(request, names, **more)
    names = inventory.node_names()
    outcome = Engine(inventory, names, Cards(inventory, names), pods, lambda: 0.0).run()
    placed = sum(not math.isnan(start) for start in outcome.start_s)
    assert placed == 10_200
    assert len(asked) <= 2 * placed


def test_run_leaves_nothing_booked_and_no_drift():
    cluster = world({"count": 3, "cards": 4, "numaNodes": 2})
    pods = workload(cluster, job(count=50, every=3.0, memory=3000, cores=30, duration=77.0), job(cards=3, count=9))
    inventory = cluster.open(PolicyDefaults("spread", "spread")).inventory
    cards = Cards(inventory, inventory.node_names())
    Engine(inventory, inventory.node_names(), cards, pods, lambda: 0.0).run()
    assert inventory.booking_count == inventory.hold_count == inventory.drift() == 0
    assert cards.booked_memory_mib == cards.booked_cores == cards.used_cards == 0
    assert not cards.used_memory.any()


def naive(inventory: Inventory, pods) -> list[float | None]:
    """Asks Filter about every waiting pod, in order, after every end."""
    names, started, waiting, ends = inventory.node_names(), [None] * len(pods), [], []
    events = [(arrival, 1, number) for number, arrival in enumerate(pods.arrival_s)]

    def place(number, now):
        node = inventory.filter(pods.request(number), names).hold_node
        if node is None or not isinstance(inventory.book(pods.request(number), node), Allocation):
            return False
        started[number] = now
        heappush(ends, (now + pods.duration_s[number], number))
        return True

    while events or ends:
        now = min([one[0] for one in (events[:1] + ends[:1])])
        gone = False
        while ends and ends[0][0] <= now:
            inventory.release(pods.uid(heappop(ends)[1]))
            gone = True
        if gone:
            waiting = [number for number in waiting if not place(number, now)]
        while events and events[0][0] <= now:
            number = events.pop(0)[2]
            if not place(number, now):
                waiting.append(number)
    return started


JOBS = st.builds(
    job,
    arrival=st.integers(0, 30),
    duration=st.integers(0, 40).map(float),
    memory=st.sampled_from([1000, 2500, 4000, 10000]),
    cores=st.sampled_from([0, 30, 60, 100, 150]),
    cards=st.integers(1, 3),
    namespace=st.sampled_from(["default", "team"]),
    count=st.integers(1, 4),
    every=st.sampled_from([0.0, 3.0]),
)


def test_thousands_of_waiting_shapes_are_not_asked_about_one_by_one(monkeypatch):
    """Each end frees room for one pod, and most of 500 shapes are larger. Few of them are compared card by card."""
    asked = []
    compare = Cards.may_take
    monkeypatch.setattr(Cards, "may_take", lambda *given: asked.append(1) or compare(*given))
    shapes = [job(arrival=1, memory=6000 + n, cores=10, duration=50) for n in range(500)]
    result = run(world(), job(memory=5000, duration=10), job(memory=5000, duration=60_000), *shapes)
    assert result.summary.placed == 502
    assert len(asked) <= 502 * (REFUSALS + 1)


@pytest.mark.parametrize("refusals", [1, REFUSALS])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(jobs=st.lists(JOBS, min_size=1, max_size=8), node=st.sampled_from(["binpack", "spread"]))
def test_shortcuts_change_no_start(jobs, node, refusals, monkeypatch):
    monkeypatch.setattr(engine, "REFUSALS", refusals)
    quota = {"namespace": "team", "hard": {"limits.nvidia.com/gpumem": 12000}}
    cluster = world({"count": 2, "cards": 2, "slots": 3}, {"cards": 3, "numaNodes": 2}, quotas=[quota])
    pods = workload(cluster, *(one for one in jobs))
    refused = {shape for shape, one in enumerate(pods.shapes) if one.refusal}
    inventory = cluster.open(PolicyDefaults(node, "spread")).inventory
    names = inventory.node_names()
    outcome = Engine(inventory, names, Cards(inventory, names), pods, lambda: 0.0).run()
    expected = naive(cluster.open(PolicyDefaults(node, "spread")).inventory, pods)
    wanted = [None if pods.shape[n] in refused else start for n, start in enumerate(expected)]
    assert [None if math.isnan(start) else start for start in outcome.start_s] == wanted
