from __future__ import annotations

import pytest
from hami_nvidia.health import HealthWatch, XidPolicy


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
