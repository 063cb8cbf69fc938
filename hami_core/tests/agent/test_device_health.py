from __future__ import annotations

from hami_core.agent.health import DeviceHealth, HealthTracker, State
from hami_core.model import Device, HealthChange


def states(*readings):
    health, found = DeviceHealth(), []
    for good in readings:
        health = health.read(healthy=good, reason="" if good else "broken")
        found.append(health.state.value)
    return found


def test_a_card_is_unhealthy_after_two_bad_readings():
    assert states(False, True) == ["suspect", "healthy"]
    assert states(False, False) == ["suspect", "unhealthy"]


def test_recovery_takes_three_good_readings_in_a_row():
    assert states(False, False, True, True, True)[2:] == ["recovering", "recovering", "healthy"]
    assert states(False, False, True, True, False, True)[2:] == ["recovering", "recovering", "unhealthy", "recovering"]


def test_unhealthy_and_recovering_cards_are_not_offered():
    offered = {State.HEALTHY, State.SUSPECT, State.CORDONED}
    assert {s for s in State if DeviceHealth(s).offered} == offered


def test_each_card_has_its_own_state():
    tracker = HealthTracker()
    devices = [Device(i, n, 1, 1, 100, "T", "F") for n, i in enumerate(["a", "b", "c"])]
    for _ in range(2):
        tracker.update([HealthChange("a", healthy=False, reason="x"), HealthChange("b", healthy=True)])
    assert [d.healthy for d in tracker.apply(devices)] == [False, True, True]
    assert tracker.states_shown(devices, frozenset({"b", "a"})) == {"a": "unhealthy", "b": "cordoned", "c": "healthy"}
    assert tracker.states["a"].reason == "x"
