"""A per-node file that was written for another card model."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import hami_gpusim as sim
import pytest

AGENT = """
import json, sys
from pathlib import Path
from hami_core import NodeContext
from hami_nvidia import NvidiaConfig
from hami_nvidia.node import NvidiaNode
from hami_nvidia.settings import NodeSettings

file, library, allowed, profile = sys.argv[1:]
sys.stdout = sys.stderr  # the log
allowance = [{"models": [allowed], "profiles": [profile]}]
config = NvidiaConfig.model_validate({"migProfileAllowlist": allowance})
node = NvidiaNode(NodeSettings(nvml_library=library))
node.families(config, NodeContext("n1", Path(file).parent / "hami", config_file=Path(file)))
node.discover()
node.tend({}, {}, {})  # turns MIG mode on, if it is to be on
found = [[d.memory_mib, d.slots, d.healthy, d.not_offered, [p.name for p in d.mig_profiles]] for d in node.discover()]
print(json.dumps(found), file=sys.__stdout__)
"""


def discover(folder, model: str, *, allowed: str = "A100", profile: str = "1g.10gb", **entry) -> tuple[list[list], str]:
    """What an agent finds on a node of this model with this entry in its file: devices, and the log."""
    sim.create(folder / "gpus", model)
    file = folder / "config.json"
    file.write_text(json.dumps({"nodeconfig": [{"name": "n1", **entry}]}))
    command = [sys.executable, "-c", AGENT, str(file), str(sim.library_dir() / "libnvidia-ml.so.1"), allowed, profile]
    env = {**os.environ, "HAMI_SIM_STATE": str(folder / "gpus")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


T4_MIB = 15360


def test_a_file_for_mig_offers_no_card_that_has_none(tmp_path):
    found, _ = discover(tmp_path, "t4x2", operatingmode="mig")
    assert [device[:3] for device in found] == [[T4_MIB, 1, False]] * 2
    assert all("has no MIG" in device[3] for device in found), found


@pytest.mark.parametrize("key", ["preconfigureddevicememory", "devicesplitcount"])
def test_a_card_that_tells_its_memory_keeps_it(tmp_path, key):
    found, _ = discover(tmp_path, "t4", **{key: 81920 if "memory" in key else 7})
    assert found == [[T4_MIB, 10 if "memory" in key else 7, True, "", []]]


def test_filters_of_another_nodes_cards_are_named(tmp_path):
    other = "GPU-00000000-1111-2222-3333-444444444444"
    found, log = discover(tmp_path, "t4", filterdevices={"uuid": [other], "index": [7]})
    assert found == [[T4_MIB, 10, True, "", []]]
    assert "filterdevices names cards that this node does not have" in log
    assert other in log


@pytest.mark.parametrize(("allowed", "profile"), [("H100", "1g.10gb"), ("A100", "9g.10gb")])
def test_an_allow_list_without_the_card_offers_nothing(tmp_path, allowed, profile):
    found, _ = discover(tmp_path, "a100", allowed=allowed, profile=profile, operatingmode="mig")
    [(_, _, healthy, reason, profiles)] = found
    assert (healthy, profiles) == (False, [])
    assert reason == "the card has no MIG profile that migProfileAllowlist names"


def test_an_allow_list_with_the_card_offers_what_it_names(tmp_path):
    [(_, slots, healthy, reason, profiles)], _ = discover(tmp_path, "a100", operatingmode="mig")
    assert (slots, healthy, reason, profiles) == (7, True, "", ["1g.10gb"])
