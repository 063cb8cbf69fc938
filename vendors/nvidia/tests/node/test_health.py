from __future__ import annotations

import threading

import hami_gpusim as sim
import pytest
from hami_nvidia.health import LOG_EVERY_S, REMAP_FAILED, HealthWatch, XidPolicy
from structlog.testing import capture_logs


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", set()),
        (",", set()),
        ("not-an-int", set()),
        ("68", {68}),
        ("-68", set()),
        ("68  ", {68}),
        ("68,", {68}),
        (",68", {68}),
        ("68,67", {67, 68}),
        ("68,not-an-int,67", {67, 68}),
    ],
)
def test_xid_lists(text, numbers):
    assert XidPolicy.parse("", text).enabled == numbers


@pytest.mark.parametrize(
    ("disabled", "enabled", "d11", "d13", "d555"),
    [
        ("", "", True, False, True),
        ("all", "", False, False, False),
        ("xids", "", False, False, False),
        ("", "all", True, True, True),
        ("11", "11", True, False, True),
        ("all", "13", False, True, False),
        ("ALL", "", False, False, False),
    ],
)
def test_the_policy_decides_which_xids_are_critical(disabled, enabled, d11, d13, d555):
    policy = XidPolicy.parse(disabled, enabled)
    assert (policy.is_critical(11), policy.is_critical(13), policy.is_critical(555)) == (d11, d13, d555)


def test_a_lost_card_is_unhealthy_and_the_others_stay_healthy(nvml, state):
    uuids = [c.uuid for c in nvml.cards()[0]]
    watch = HealthWatch(nvml, XidPolicy(), 0, lambda: 0.0)
    assert [c.healthy for c in watch.look(uuids)] == [True, True]
    state.lose(1)
    found = watch.look(uuids)
    assert [c.healthy for c in found] == [True, False]
    assert found[1].reason


def test_a_critical_error_counts_until_the_recovery_time_is_over(nvml, state):
    uuids = [c.uuid for c in nvml.cards()[0]]
    now = [0.0]
    watch = HealthWatch(nvml, XidPolicy(), 60, lambda: now[0])
    watch.look(uuids)
    state.xid(0, 31)
    assert [c.healthy for c in watch.look(uuids)] == [True, True], "applications cause this XID"
    state.xid(0, 48)
    found = watch.look(uuids)
    assert [c.healthy for c in found] == [False, True]
    assert "XID 48" in found[0].reason
    now[0] = 61.0
    assert [c.healthy for c in watch.look(uuids)] == [True, True]


def healthy(watch, uuids):
    return [change.healthy for change in watch.look(uuids)]


@pytest.fixture
def watched(nvml):
    """Make a watch of both cards with a clock that a test moves. Returns it with the clock and the cards' UUIDs."""

    def make(policy=XidPolicy(), recovery_s=0.0):  # noqa: B008 - immutable
        now, uuids = [0.0], [c.uuid for c in nvml.cards()[0]]
        watch = HealthWatch(nvml, policy, recovery_s, lambda: now[0])
        watch.look(uuids)
        return watch, now, uuids

    return make


def test_a_double_bit_error_counts_as_xid_48(watched, state):
    watch, _, uuids = watched()
    state.double_bit_error(1)
    assert [c.reason for c in watch.look(uuids)] == ["", "critical error XID 48"]
    assert watch.counts == {(uuids[1], 48): 1}


def test_a_double_bit_error_is_ignored_with_xid_48(watched, state):
    watch, _, uuids = watched(XidPolicy.parse("48", ""))
    state.double_bit_error(1)
    assert healthy(watch, uuids) == [True, True]


def test_a_failed_remapping_makes_a_card_unhealthy_until_it_is_gone(watched, state):
    watch, _, uuids = watched()
    state.set_memory_repair(1, failed=True)
    assert [c.reason for c in watch.look(uuids)] == ["", REMAP_FAILED]
    state.set_memory_repair(1)
    assert healthy(watch, uuids) == [True, True]


def test_a_pending_repair_is_shown_and_the_card_stays_healthy(node, state):
    made = node()
    state.set_memory_repair(1, pending=True)
    assert all(change.healthy for change in made.health(made.discover()))
    found = [s for s in made.metrics({}, {}) if s.name == "hami_host_gpu_memory_repair_pending"]
    assert [(s.labels["device_index"], s.value) for s in found] == [("0", 0.0), ("1", 1.0)]


def test_a_card_that_was_lost_is_not_trusted_without_recovery_time(watched, state):
    """NVML may report the loss as an error of the card and never as XID 79."""
    watch, now, uuids = watched(recovery_s=60)
    state.inject(sim.Fault("nvmlDeviceGetMemoryInfo", 15, device=0, count=1))
    assert healthy(watch, uuids) == [False, True]
    assert [c.reason for c in watch.look(uuids)] == ["critical error XID 79", ""]
    now[0] = 60.0
    assert healthy(watch, uuids) == [True, True]


def test_an_error_of_an_instance_is_its_cards_and_no_other_instances(watched, state):
    watch, _, uuids = watched()
    state.xid(0, 94, gpu_instance=3, compute_instance=1)
    assert [c.reason for c in watch.look(uuids)] == ["critical error XID 94 in GPU instance 3", ""]
    assert watch.error_of(uuids[0], 3)
    assert watch.error_of(uuids[0], 3, 1)
    assert not watch.error_of(uuids[0], 3, 0)
    assert not watch.error_of(uuids[0], 4)
    assert not watch.error_of(uuids[1], 3)
    state.xid(0, 95, gpu_instance=4)
    watch.look(uuids)
    assert watch.error_of(uuids[0], 4, 0) == "critical error XID 95 in GPU instance 4"
    assert watch.error_of(uuids[0], 3, 1) == "critical error XID 94 in GPU instance 3", "each instance by itself"
    state.xid(0, 64)
    watch.look(uuids)
    assert watch.error_of(uuids[0], 5, 0) == "critical error XID 64", "an error of the card is one of all instances"


def test_each_card_recovers_by_its_own_clock(watched, state):
    watch, now, uuids = watched(recovery_s=60)
    state.xid(0, 48)
    assert healthy(watch, uuids) == [False, True]
    now[0] = 30.0
    state.xid(1, 48)
    assert healthy(watch, uuids) == [False, False]
    now[0] = 60.0
    assert healthy(watch, uuids) == [True, False]
    state.xid(0, 48)
    assert healthy(watch, uuids) == [False, False], "the time begins anew"
    now[0] = 90.0
    assert healthy(watch, uuids) == [False, True]


def test_a_storm_of_events_hides_no_event_of_another_card(watched, state):
    """A program can make its card raise XID 31 as often as it likes."""
    watch, now, uuids = watched()
    done = threading.Event()

    def storm():
        for _ in range(2_000):
            state.xid(0, 31, count=50)
        done.set()

    with capture_logs() as logs:
        thread = threading.Thread(target=storm)
        thread.start()
        while not done.is_set():
            assert healthy(watch, uuids) == [True, True]
            now[0] += 1.0
        thread.join()
        state.xid(0, 79)
        state.xid(1, 48)
        assert healthy(watch, uuids) == [False, False]
    told = [entry for entry in logs if entry["event"] == "XID of a card"]
    assert {entry["xid"] for entry in told} == {31, 48, 79}
    assert len(told) <= 2 + 1 + now[0] / LOG_EVERY_S
    assert set(watch.counts) == {(uuids[0], 31), (uuids[0], 79), (uuids[1], 48)}
    assert sum(entry["new"] for entry in told if entry["xid"] == 31) <= watch.counts[uuids[0], 31]


def test_one_reading_takes_a_bounded_number_of_events(nvml, state):
    (first, _), _ = nvml.cards()
    assert nvml.events(first.uuid, 10) == []
    state.xid(0, 31, count=25)
    assert [len(nvml.events(first.uuid, 10)) for _ in range(4)] == [10, 10, 5, 0]
