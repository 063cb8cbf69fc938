"""Profiles and state directories."""

from __future__ import annotations

import json
import subprocess
import sys

import hami_gpusim as sim
import pytest


@pytest.mark.parametrize("name", ["a100x1", "a100-40gx2", "b200x4", "h100x8", "h200x16", "l40sx1", "t4x2"])
def test_every_built_in_profile_makes_a_state(tmp_path, name):
    sim.create(tmp_path / "s", name)
    count = int(name.rpartition("x")[2])
    with sim.State(tmp_path / "s") as state:
        devices = state.devices
    assert len(devices) == count == len({d.uuid for d in devices})
    assert all(d.memory_used == 0 and d.memory_total > 0 and not d.processes for d in devices)
    nodes = {p.name for p in (tmp_path / "s" / "dev").iterdir()}
    assert nodes == {"nvidiactl", "nvidia-uvm", *(f"nvidia{i}" for i in range(count))}
    described = json.loads((tmp_path / "s" / "profile.json").read_text())
    assert [f"GPU-{d['uuid']}" for d in described["devices"]] == [d.uuid for d in devices]


def test_a_yaml_profile_overrides_and_mixes_models(tmp_path):
    text = "devices:\n- {model: t4, count: 2, memory_mib: 1024, context_reserve_mib: 10}\n- {model: l40s}\n"
    (tmp_path / "p.yaml").write_text(text)
    sim.create(tmp_path / "s", tmp_path / "p.yaml")
    with sim.State(tmp_path / "s") as state:
        assert [d.memory_total >> 20 for d in state.devices] == [1024, 1024, 46068]
        assert [d.context_reserve >> 20 for d in state.devices] == [10, 10, 298]


def test_a_profile_sets_the_modes_that_nvml_tells(tmp_path):
    modes = "- {model: a100, mig_mode: true}\n- {model: t4, compute_mode: prohibited}\n- {model: t4}\n"
    (tmp_path / "p.yaml").write_text(f"devices:\n{modes}")
    sim.create(tmp_path / "s", tmp_path / "p.yaml")
    with sim.State(tmp_path / "s") as state:
        state.set_modes(2, compute="exclusive_process")
    code = (
        "import pynvml as n\nn.nvmlInit()\ncards = [n.nvmlDeviceGetHandleByIndex(i) for i in range(3)]\n"
        "print(n.nvmlDeviceGetMigMode(cards[0]), [n.nvmlDeviceGetComputeMode(c) for c in cards])"
    )
    env = sim.environment(tmp_path / "s")
    told = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True).stdout
    assert told == "[1, 1] [0, 2, 3]\n"


def test_uuids_differ_by_directory_and_agree_by_seed(tmp_path):
    sim.create(tmp_path / "a", "t4")
    sim.create(tmp_path / "b", "t4")
    sim.create(tmp_path / "c", "t4", seed="x")
    sim.create(tmp_path / "d", "t4", seed="x")
    uuids = []
    for name in "abcd":
        with sim.State(tmp_path / name) as state:
            uuids.append(state.devices[0].uuid)
    assert uuids[0] != uuids[1]
    assert uuids[2] == uuids[3]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "must be a mapping with a list `devices`"),
        ('{"devices": [{"model": "h1000"}]}', "unknown GPU model 'h1000'; known: a100"),
        ('{"devices": [{"model": "t4", "count": 0}]}', "whole number from 1 to 16"),
        ('{"devices": [{"model": "t4", "count": 17}]}', "whole number from 1 to 16"),
        ('{"devices": [{"model": "t4", "count": 9}, {"model": "t4", "count": 8}]}', "17 devices, at most 16"),
        ('{"devices": [{"model": "t4", "memory": 4}]}', "devices[0]: unknown key 'memory'"),
        (
            '{"devices": [{"model": "t4", "memory_mib": -1}]}',
            "devices[0].memory_mib: -1 is not a whole number from 1 to 16777216",
        ),
        ('{"devices": [{"model": "t4", "numa_nodes": 0}]}', "devices[0].numa_nodes: 0 is not"),
        (
            '{"devices": [{"model": "t4", "mig_profiles": []}]}',
            "unknown key 'mig_profiles', or one that cannot be changed",
        ),
        (
            '{"devices": [{"model": "t4", "pci_device_id": "zz"}]}',
            "pci_device_id: 'zz' is not a number like 0x20b210de",
        ),
        (
            '{"devices": [{"model": "t4", "compute_mode": "shared"}]}',
            "compute_mode: 'shared' is not one of default, excl",
        ),
        ('{"devices": [{"model": "t4", "compute_mode": [0]}]}', "compute_mode: [0] is not one of default, exclusive"),
        (
            '{"devices": [{"model": "t4", "mig_mode": true}]}',
            "mig_mode: True is not false, or true for a model with MIG",
        ),
        ('{"devices": [{"model": "a100", "mig_mode": 1}]}', "mig_mode: 1 is not false, or true for a model with MIG"),
        ('{"devices": [{"model": "t4", "ecc": 1}]}', "ecc: 1 is not true or false"),
        ('{"cuda_version": "new", "devices": [{"model": "t4"}]}', "cuda_version: 'new' is not <major>.<minor>"),
        ('{"launch_us": -1, "devices": [{"model": "t4"}]}', "launch_us: -1 is not a number"),
        ('{"driver_version": 5, "devices": [{"model": "t4"}]}', "driver_version: must be a text"),
        ('{"devices": [{"model": "t4", "sms": "many"}]}', "sms: 'many' is not a whole number"),
        ("[", "not JSON"),
    ],
)
def test_bad_profiles_name_the_place(tmp_path, content, message):
    (tmp_path / "p.json").write_text(content)
    with pytest.raises(sim.ProfileError) as caught:
        sim.create(tmp_path / "s", tmp_path / "p.json")
    assert message in str(caught.value)
    assert not (tmp_path / "s" / "books").exists()


def test_a_state_is_not_overwritten_and_a_missing_or_foreign_one_is_named(tmp_path):
    sim.create(tmp_path / "s", "t4")
    with pytest.raises(sim.StateError, match="already holds"):
        sim.create(tmp_path / "s", "t4")
    with pytest.raises(sim.StateError, match="no simulated driver's state here"):
        sim.State(tmp_path / "none")
    (tmp_path / "s" / "books").write_bytes(b"x" * 100)
    with pytest.raises(sim.StateError, match="wrong size"):
        sim.State(tmp_path / "s")
