from __future__ import annotations

import pytest

from hami_core.demo.manifests import Ask, asks, folder, load
from hami_core.demo.verdict import MIB, fits_nowhere, judge_container, judge_refused

CARD = {"GPU-a": 80_000 * MIB}
ASK = Ask("main", 1, 3000, 30)


def report(**changes):
    device = {
        "index": 0,
        "uuid": "GPU-a",
        "total_bytes": 3000 * MIB,
        "allocated_bytes": 2500 * MIB,
        "refusal": 2,
    } | changes
    return {"program": "test", "devices": [device], "again": True}


def test_a_container_that_got_what_it_asked_for_is_ok():
    verdict = judge_container(ASK, report(), CARD, {"GPU-a": 2999 * MIB})
    assert verdict.ok
    assert verdict.devices[0].overshoot == 0


@pytest.mark.parametrize(
    ("changes", "driver", "words"),
    [
        ({"total_bytes": 80_000 * MIB}, 2999, "saw 80000 MiB"),
        ({"refusal": 999}, 2999, "not CUDA_ERROR_OUT_OF_MEMORY"),
        ({}, 3001, "more than its limit"),
        ({"allocated_bytes": 3001 * MIB}, 2999, "more than its limit"),
        ({}, 2998, "with 2 MiB left"),
        ({"uuid": "GPU-b"}, 2999, "no card of this node"),
    ],
)
def test_each_way_of_being_wrong_is_named(changes, driver, words):
    verdict = judge_container(ASK, report(**changes), CARD, {"GPU-a": driver * MIB})
    assert not verdict.ok
    assert words in " ".join(p for d in verdict.devices for p in d.problems)


def test_a_silent_program_is_not_ok():
    assert not judge_container(ASK, None, CARD, {}).ok


def test_a_missing_card_is_not_ok():
    assert not judge_container(Ask("main", 2, 3000, 0), report(), CARD, {}).ok


def test_a_refused_pod_must_be_pending_and_say_why():
    assert judge_refused("carol", "Pending", "needs 200000 MiB").ok
    assert not judge_refused("carol", "Running", "needs 200000 MiB").ok
    assert not judge_refused("carol", "Pending", "").ok


def test_the_examples_are_read_in_order_and_one_of_them_fits_nowhere():
    pods = load(folder())
    assert [pod["metadata"]["name"] for pod in pods] == ["alice", "bob", "carol", "dave", "erin"]
    assert [fits_nowhere(asks(pod), [80_000 * MIB]) for pod in pods] == [False, False, True, False, False]
    assert asks(pods[3]) == [Ask("look", 1, 1000, 0), Ask("main", 2, 10_000, 0)]
    assert asks(pods[4]) == [Ask("main", 1, None, 0)]
