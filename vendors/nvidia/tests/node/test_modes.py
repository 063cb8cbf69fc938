"""Cards are offered as their modes allow: MIG mode, compute mode, operating mode and unreadable modes."""

from __future__ import annotations

import json

import hami_gpusim as sim
import pytest
from hami_nvidia import modes

from hami_core import Reason, Request
from hami_core.wire.node import decode_devices_json

REGISTER = "hami.io/node-nvidia-register"
UNKNOWN_ERROR, NOT_SUPPORTED, NO_FUNCTION = 999, 3, 13
TELLS_MIG, TELLS_COMPUTE = "nvmlDeviceGetMigMode", "nvmlDeviceGetComputeMode"


@pytest.fixture
def card(state):
    """Card 0. The test changes its modes as nvidia-smi does, and the driver's answers by faults."""

    class Card:
        @staticmethod
        def set(**how):
            state.set_modes(0, **how)

        @staticmethod
        def answers(symbol, error):
            state.inject(sim.Fault(symbol, error, device=0))

        @staticmethod
        def restore():
            state.clear()
            state.set_modes(0, compute="default", mig=False)

    return Card


CASES = {
    "MIG on": (
        lambda c: c.set(mig=True),
        "in MIG mode, which only operatingmode mig or migStrategy serves (administrator: nvidia-smi -mig 0)",
    ),
    "MIG pending on": (lambda c: c.set(mig_after_reset=True), "changes to MIG mode when it is reset"),
    "MIG pending off": (lambda c: c.set(mig=True, mig_after_reset=False), "in MIG mode until it is reset"),
    "prohibited": (lambda c: c.set(compute="prohibited"), "compute mode PROHIBITED"),
    "MIG unreadable": (lambda c: c.answers(TELLS_MIG, UNKNOWN_ERROR), "modes can't be read: nvmlDeviceGetMigMode"),
    "compute unreadable": (
        lambda c: c.answers(TELLS_COMPUTE, UNKNOWN_ERROR),
        "modes can't be read: nvmlDeviceGetComputeMode",
    ),
    "default": (lambda c: c.set(compute="default"), ""),
    "MIG not supported": (lambda c: c.answers(TELLS_MIG, NOT_SUPPORTED), ""),
    "MIG unknown to the driver": (lambda c: c.answers(TELLS_MIG, NO_FUNCTION), ""),
    "compute not supported": (lambda c: c.answers(TELLS_COMPUTE, NOT_SUPPORTED), ""),
    "exclusive": (lambda c: c.set(compute="exclusive_process"), ""),
    "exclusive thread": (lambda c: c.set(compute="exclusive_thread"), ""),
}


@pytest.mark.parametrize("case", CASES)
def test_a_card_is_offered_only_as_its_modes_allow(node, card, case):
    change, reason = CASES[case]
    made = node(split_count=4)
    before = made.discover()
    assert not any(change.rediscover for change in made.health(before))
    change(card)
    exclusive = case.startswith("exclusive")
    assert made.health(before)[0].rediscover == (bool(reason) or exclusive)
    assert not made.health(before)[1].rediscover
    devices = made.discover()
    said = made.advertise(devices)
    first, second = json.loads(said.annotations[REGISTER])
    slots = {k: ok for k, (ok, _) in said.slots["nvidia.com/gpu"].items() if k.startswith(first["id"])}
    assert reason in devices[0].not_offered
    assert first.get("health", False) == (not reason)
    assert set(slots.values()) == {not reason}
    assert len(slots) == first["count"] == (1 if exclusive else 4)
    assert bool(first.get("custominfo")) == (bool(reason) or exclusive)
    assert (second["health"], second["count"], second.get("custominfo")) == (True, 4, None)
    assert decode_devices_json(said.annotations[REGISTER], key="k", family="NVIDIA") == tuple(devices)

    card.restore()
    assert made.health(devices)[0].rediscover == (bool(reason) or exclusive)
    assert made.discover() == before, "offered again without a restart"


@pytest.mark.parametrize("mode", ["exclusive_thread", "exclusive_process"])
@pytest.mark.parametrize(
    ("how", "whole"),
    [
        ({"memory_percent": 100, "cores": 100}, True),
        ({"memory_percent": 100}, True),
        ({"memory_mib": 81920}, True),
        ({"memory_mib": 81919}, False),
        ({"memory_percent": 99, "cores": 100}, False),
        ({"memory_percent": 100, "cores": 99}, False),
        ({"memory_mib": 1}, False),
    ],
)
def test_an_exclusive_card_takes_only_whole_requests(node, card, mode, how, whole):
    card.set(compute=mode)
    made = node()
    first, second = made.discover()
    request = Request("NVIDIA", 1, **how)
    answer = made.check_type(request, first.kind)
    assert (answer is None) == whole
    assert whole or (isinstance(answer, Reason) and f"compute mode {mode.upper()}" in answer.detail)
    assert made.check_type(request, second.kind) is None


def test_an_unknown_compute_mode_is_not_offered():
    assert "compute mode 7, which is unknown" in modes.not_offered(modes.Modes(compute=7), "hami-core")


def test_operating_mode_mig_offers_a_card_once_its_mode_is_on(node, card):
    card.set(mig=True)
    first, second = node(operating_mode="mig").discover()
    assert (first.mode, first.healthy, first.not_offered) == ("mig", True, "")
    assert (second.mode, second.healthy, second.not_offered) == ("mig", False, modes.MIG_OFF)
    card.set(mig=True, mig_after_reset=False)
    told = node(operating_mode="mig").discover()[0].not_offered
    assert told.startswith("MIG mode stays on until the card is reset")
