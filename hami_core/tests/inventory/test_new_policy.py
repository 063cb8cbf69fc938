"""A new policy is one object in its table. Filter, settings, error texts, help, chart and reference then know it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hami_core.policies import DEVICE_POLICIES, NODE_POLICIES, DevicePolicy, NodePolicy
from hami_core.scheduler.admission_warnings import on_policies
from hami_core.settings import SchedulerSettings

from . import oracle
from .test_oracle import check
from .worlds import World

ROOT = Path(__file__).parents[3]
RANKS = {
    "emptiest": lambda card: -card.used_memory,
    "fewest-cores": lambda card: -card.used_cores - card.used_slots,
    "smallest-shares": lambda card: -card.used_memory / (card.used_slots + 1),
}
"""Ranks in whole numbers, in sums of them, and in 64-bit floats."""


@pytest.fixture(params=RANKS)
def device_policy(request, monkeypatch) -> DevicePolicy:
    """A device policy that is registered for one test."""
    policy = DevicePolicy(request.param, "for a test", RANKS[request.param])
    monkeypatch.setitem(DEVICE_POLICIES, policy.word, policy)
    # The oracle knows used_slots by another name.
    monkeypatch.setitem(oracle.MORE_DEVICE_RANKS, policy.word, lambda card: policy.rank(Renamed(card)))
    return policy


class Renamed:
    """A card of the oracle under the names that a policy uses."""

    def __init__(self, card: oracle.OCard) -> None:
        self.used_slots, self.used_memory, self.used_cores = card.used, card.used_memory, card.used_cores


@pytest.fixture
def node_policy(monkeypatch) -> NodePolicy:
    """A node policy that is registered for one test: nodes that are half full come first."""
    policy = NodePolicy("half-full", "for a test", lambda score: -abs(score - 15))
    monkeypatch.setitem(NODE_POLICIES, policy.word, policy)
    monkeypatch.setitem(oracle.MORE_NODE_RANKS, policy.word, policy.rank)
    return policy


@pytest.mark.parametrize("seed", range(6))
def test_new_policies_place_as_the_oracle_does(device_policy, node_policy, seed):
    words = (device_policy.word, f"{device_policy.word},numa", f"mutex,{device_policy.word}")
    check(World(random.Random(20_000 + seed), policies=words), 25)


@pytest.mark.parametrize("seed", range(6))
def test_a_new_device_policy_is_served_in_columns(device_policy, seed, monkeypatch):
    world = World(random.Random(30_000 + seed), nodes=40, plain=True, policies=(device_policy.word,))

    def refuse(*arguments: object) -> None:
        raise AssertionError("a node was walked card by card")

    monkeypatch.setattr("hami_core.inventory.search.place", refuse)
    for _ in range(25):
        request, theirs = world.pod()
        fits, refused = oracle.filter_pod(world.cluster, theirs, list(world.cluster))
        outcome = world.inventory.filter(request, list(world.cluster), limit=1000)
        assert (outcome.best, dict(outcome.refused)) == (fits, refused)


def test_another_policy_chooses_other_cards(monkeypatch):
    """The test above would prove nothing if every policy took the same cards."""
    monkeypatch.setitem(DEVICE_POLICIES, "emptiest", DevicePolicy("emptiest", "for a test", RANKS["emptiest"]))
    world = World(random.Random(1), nodes=40, plain=True)
    taken = {}
    for policy in ("emptiest", "binpack"):
        held = []
        for number in range(40):
            request = replace(world.pod()[0], device_policy=policy, uid=f"{policy}-{number}")
            best = world.inventory.filter(request, list(world.cluster)).best
            held += [world.inventory.hold(request, best[0][0], until=1.0)] if best else []
            world.inventory.release_hold(request.uid)
        taken[policy] = [[s.device_id for c in one.containers for s in c.slices] for one in held]
    assert taken["emptiest"] != taken["binpack"]


def test_settings_and_warnings_know_a_new_policy(device_policy, node_policy):
    arguments = [f"--gpu-scheduler-policy=mutex,{device_policy.word}", "--node-scheduler-policy=half-full"]
    settings, _ = SchedulerSettings.from_arguments(arguments)
    assert settings.gpu_scheduler_policy == f"mutex,{device_policy.word}"
    assert settings.node_scheduler_policy == "half-full"
    with pytest.raises(Exception, match=f"is none of .*, {device_policy.word}; did you mean {device_policy.word}"):
        SchedulerSettings.from_arguments([f"--gpu-scheduler-policy={device_policy.word}x"])
    asked = {"hami.io/gpu-scheduler-policy": device_policy.word, "hami.io/node-scheduler-policy": "half-full"}
    assert list(on_policies(asked)) == []
    (warning,) = on_policies({"hami.io/gpu-scheduler-policy": "odd"})
    assert device_policy.word in warning


SCRIPT = """
import json, sys
from hami_core.policies import DEVICE_POLICIES, NODE_POLICIES, DevicePolicy, NodePolicy

DEVICE_POLICIES["emptiest"] = DevicePolicy("emptiest", "the least memory in use", lambda card: -card.used_memory)
NODE_POLICIES["half-full"] = NodePolicy("half-full", "the score nearest to 15", lambda score: -abs(score - 15))

sys.path.insert(0, sys.argv[1])
import generate
from hami_core.settings import SchedulerSettings
from hami_core.settings.flags import help_text
from hami_core.settings.reference import page

schema = generate.schema(generate.values())["properties"]["scheduler"]["properties"]["defaultSchedulerPolicy"]
usage = help_text(SchedulerSettings, "hami scheduler")
print(json.dumps({"help": usage, "page": page(), "chart": schema["properties"]}))
"""


def test_help_chart_and_reference_name_a_new_policy():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, ROOT / "contrib/helm"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    told = json.loads(done.stdout)
    help_text = " ".join(told["help"].split())
    assert "numa, emptiest, or a comma list" in help_text
    assert "binpack or spread or half-full" in help_text
    assert "| `emptiest` | the least memory in use |" in told["page"]
    assert "| `half-full` | the score nearest to 15 |" in told["page"]
    assert "emptiest" in told["chart"]["gpuSchedulerPolicy"]["anyOf"][0]["enum"]
    assert told["chart"]["nodeSchedulerPolicy"]["enum"] == ["binpack", "spread", "half-full"]
