"""Cards as the agent sees them: discovery, modes, register, device nodes, health, metrics."""

from __future__ import annotations

import json

import pytest
from hami_cambricon import sim
from hami_cambricon.node import CambriconNode, NodeSettings

from hami_core import ConfigError, DeviceError, NodeContext, NodeFacts
from hami_core.plugins import load
from hami_core.testing import build_library
from vendors.cambricon.tests.node.machine import container, part

BAD, NOT_SUPPORTED, IN_PROBLEM = 7, 10, 18


# --- discovery -------------------------------------------------------------------------------------------------------


def test_cards_have_uuid_model_memory_and_numa(make_machine):
    machine = make_machine(model="MLU590", memory_mib=81920)
    first, second = machine.agent().discover()
    assert (first.id, first.index, first.type, first.memory_mib) == (machine.uuid(0), 0, "MLU590", 81920)
    assert (first.slots, first.cores, first.numa, first.healthy) == (64, 100, 0, True)
    assert (second.id, second.numa) == (machine.uuid(1), 1)
    assert first.id.startswith("MLU-")


def test_scheduler_reads_the_register_before_the_capacity(machine):
    node = machine.agent()
    said = node.advertise(node.discover())
    assert json.loads(said.annotations["hami.io/node-mlu-register"])[0]["type"] == "MLU370-X8"
    assert list(said.slots) == ["cambricon.com/vmlu"]
    assert said.slots["cambricon.com/vmlu"][f"{machine.uuid()}-63"] == (True, 0)
    found = load({}, only=["cambricon"]).register(
        NodeFacts("n1", said.annotations, {}, {"cambricon.com/mlu.smlu.vcore": "100"})
    )
    assert [device.id for device in found.devices["MLU"]] == [machine.uuid(0), machine.uuid(1)]


def test_a_card_that_does_not_answer_hides_no_other(machine):
    machine.write("card0/error", IN_PROBLEM)
    assert [device.index for device in machine.agent().discover()] == [1]


def test_a_known_card_that_stops_answering_is_unhealthy(machine):
    node = machine.agent()
    machine.write("card0/error", IN_PROBLEM)
    assert [(d.index, d.healthy) for d in node.discover()] == [(0, False), (1, True)]


@pytest.mark.parametrize("fact", ["uuid", "memory_mib"])
def test_a_card_with_an_empty_fact_is_left_out(machine, fact):
    machine.write("card0/" + fact, "")
    assert [device.index for device in machine.agent().discover()] == [1]


@pytest.mark.parametrize(("mode", "reason"), [(0, "cnmon set -c 0 -smlu on"), (-1, "has no sMLU mode")])
def test_a_card_without_smlu_mode_is_given_whole_only(machine, mode, reason):
    machine.write("card0/smlu", mode)
    first, second = machine.agent().discover()
    assert (first.slots, first.healthy) == (1, True)
    assert reason in first.whole_only
    assert (second.slots, second.whole_only) == (64, "")


@pytest.mark.parametrize(("fact", "value", "reason"), [("mim", 1, "MIM mode"), ("compute", 2, "PROHIBITED")])
def test_a_card_that_pods_cannot_use_is_not_offered(machine, fact, value, reason):
    machine.write("card0/" + fact, value)
    first, second = machine.agent().discover()
    assert reason in first.not_offered
    assert (first.healthy, second.healthy) == (False, True)


def test_a_card_without_mim_mode_is_offered(machine):
    (machine.folder / "card0" / "mim").unlink()
    assert machine.agent().discover()[0].healthy


@pytest.mark.parametrize("missing", ["library", "driver"])
def test_discovery_fails_while_cndev_does_not_work(machine, monkeypatch, missing):
    if missing == "library":
        monkeypatch.setenv("HAMI_CAMBRICON_LIBRARY", "/nonexistent/libcndev.so")
    else:
        machine.write("init", 1)
    node = CambriconNode()
    with pytest.raises(DeviceError, match="HAMI_CAMBRICON_LIBRARY" if missing == "library" else "cndevInit"):
        node.discover()
    if missing == "driver":
        machine.write("init", 0)
        assert len(node.discover()) == 2


def test_a_library_without_smlu_functions_gives_whole_cards(machine, monkeypatch, tmp_path):
    source = tmp_path / "older.c"
    source.write_text(f'#define cndevGetSMLUMode renamed\n#include "{sim.SOURCE}"\n')
    monkeypatch.setenv("HAMI_CAMBRICON_LIBRARY", str(build_library(source, tmp_path / "libcndev.so")))
    assert [device.whole_only for device in machine.agent().discover()] == [
        "the card or its driver has no sMLU mode"
    ] * 2


# --- health ----------------------------------------------------------------------------------------------------------


def states(node, devices):
    return [(change.healthy, change.rediscover) for change in node.health(devices)]


def test_health_follows_cndev_in_both_directions(machine):
    node = machine.agent()
    devices = node.discover()
    machine.write("card1/health", 0)
    machine.write("card1/driver", 6)
    assert states(node, devices) == [(True, False), (False, False)]
    assert "driver state 6" in node.health(devices)[1].reason
    machine.write("card1/health", 1)
    assert states(node, devices) == [(True, False), (True, False)]


def test_a_card_that_vanishes_is_unhealthy_until_it_is_back(machine):
    node = machine.agent()
    devices = node.discover()
    (machine.folder / "card1").rename(machine.folder / "away")
    assert states(node, devices) == [(True, False), (False, False)]
    assert [device.healthy for device in node.discover()] == [True, False]
    (machine.folder / "away").rename(machine.folder / "card1")
    assert states(node, devices) == [(True, False), (True, False)]


def test_a_card_that_moves_to_another_index_is_found_again(machine):
    node = machine.agent()
    devices = node.discover()
    (machine.folder / "card0").rename(machine.folder / "away")
    (machine.folder / "card1").rename(machine.folder / "card0")
    assert states(node, devices)[0] == (False, True)
    assert sorted((d.id, d.index, d.healthy) for d in node.discover()) == sorted(
        [(devices[0].id, 0, False), (devices[1].id, 0, True)]
    )
    edits = node.allocate((part(devices[1].id),), container())
    assert "/dev/cambricon_dev0" in [entry.path for entry in edits.device_nodes]
    with pytest.raises(DeviceError, match="not on this node"):
        node.allocate((part(devices[0].id),), container())


def test_a_changed_mode_is_discovered_again(machine):
    node = machine.agent()
    devices = node.discover()
    machine.write("card0/smlu", 0)
    assert states(node, devices) == [(True, True), (True, False)]
    assert node.discover()[0].whole_only


# --- device nodes ----------------------------------------------------------------------------------------------------


def paths(edits):
    return [entry.path for entry in edits.device_nodes]


def test_a_part_gets_card_ipcm_and_capability_node(machine):
    edits = machine.agent().allocate((part(machine.uuid(1)),), container())
    assert paths(edits) == [
        "/dev/cambricon_ctl",
        "/dev/cambricon_dev1",
        "/dev/cambricon_ipcm1",
        "/dev/cambricon-caps/cap_dev1_mi1",
    ]
    assert edits.device_nodes[-1].host_path == str(machine.folder / "dev/cambricon-caps/cap_dev1_mi1")
    (made,) = machine.instances(1).values()
    assert made.startswith(f"3 25 {4096 << 20} hami-3f1c1b5e-0000-4000-8000-000000000001-")
    assert machine.instances(0) == {}


def test_parts_of_two_cards_come_in_the_order_of_the_cards(machine):
    pieces = (part(machine.uuid(1)), part(machine.uuid(0), 512, 1))
    found = paths(machine.agent().allocate(pieces, container()))
    assert [name for name in found if "dev" in name.rsplit("/", 1)[1]] == [
        "/dev/cambricon_dev0",
        "/dev/cambricon-caps/cap_dev0_mi1",
        "/dev/cambricon_dev1",
        "/dev/cambricon-caps/cap_dev1_mi1",
    ]


def test_a_whole_card_in_smlu_mode_gets_an_instance_of_all(machine):
    whole = container(whole_devices=True)
    edits = machine.agent().allocate((part(machine.uuid(), 49152, 100),), whole)
    assert "/dev/cambricon-caps/cap_dev0_mi1" in paths(edits)
    assert machine.instances()["1"].startswith(f"0 100 {49152 << 20} ")  # the driver's own profile


def test_a_whole_card_without_smlu_mode_gets_all_its_nodes(make_machine):
    machine = make_machine(smlu=False)
    for name in ("cambricon_gdr", "cambr-msgq:0", "cambr-rpc:0", "cmsg_ctrl0", "commu0"):
        (machine.folder / "dev" / name).touch()
    edits = machine.agent().allocate((part(machine.uuid(), 49152, 100),), container(whole_devices=True))
    assert paths(edits) == [
        "/dev/cambricon_ctl",
        "/dev/cambricon_gdr",
        "/dev/cambricon_dev0",
        "/dev/cambr-msgq:0",
        "/dev/cambr-rpc:0",
        "/dev/cmsg_ctrl0",
        "/dev/commu0",
        "/dev/cambricon_ipcm0",
    ]


def test_a_part_of_a_card_without_smlu_mode_is_refused(make_machine):
    machine = make_machine(smlu=False)
    with pytest.raises(DeviceError, match="can only be given whole: sMLU mode is off"):
        machine.agent().allocate((part(machine.uuid()),), container())


def test_two_slices_of_one_card_are_one_instance(machine):
    machine.agent().allocate((part(machine.uuid()), part(machine.uuid(), 1024, 5)), container())
    (made,) = machine.instances().values()
    assert made.split()[1:3] == ["30", str(5120 << 20)]


def test_a_missing_device_node_is_named(machine):
    (machine.folder / "dev" / "cambricon_dev0").unlink()
    with pytest.raises(DeviceError, match=r"cambricon_dev0 does not exist; is /dev of the node mounted"):
        machine.agent().allocate((part(machine.uuid()),), container())


def test_cnmon_is_mounted_if_the_setting_names_it(machine, monkeypatch):
    monkeypatch.setenv("HAMI_CAMBRICON_CNMON", "/usr/bin/cnmon")
    (mount,) = machine.agent().allocate((part(machine.uuid()),), container()).mounts
    assert (mount.host_path, mount.container_path, mount.read_only) == ("/usr/bin/cnmon", "/usr/bin/cnmon", True)


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("CNMON", "usr/bin/cnmon", "HAMI_CAMBRICON_CNMON: .* is not an absolute path"),
        ("DEV_ROOT", "dev", "HAMI_CAMBRICON_DEV_ROOT: .* is not an absolute path"),
    ],
)
def test_a_wrong_setting_ends_the_agent(monkeypatch, name, value, problem):
    monkeypatch.setenv("HAMI_CAMBRICON_" + name, value)
    with pytest.raises(ConfigError, match=problem):
        NodeSettings.from_environment()


def test_a_missing_boot_id_ends_the_agent(machine, monkeypatch):
    monkeypatch.setenv("HAMI_CAMBRICON_PROC_ROOT", "/nonexistent")
    with pytest.raises(ConfigError, match="set HAMI_CAMBRICON_PROC_ROOT"):
        CambriconNode().families(None, NodeContext("n", machine.state_dir))


# --- metrics ---------------------------------------------------------------------------------------------------------


def test_metrics_tell_of_cards_and_instances(machine):
    node, ref = machine.agent(), container()
    node.allocate((part(machine.uuid(1)),), ref)
    machine.write("card1/used_mib", 3000)
    machine.write("card1/percent", 41)
    machine.write("card1/usage/1", f"17 {2048 << 20}")
    machine.write("card0/error", BAD)
    node.tend({"r": ref}, {"r": (part(machine.uuid(1)),)})
    found = {sample.name: sample for sample in node.metrics({"r": ref})}
    assert {name: sample.value for name, sample in found.items()} == {
        "hami_host_gpu_memory_used_bytes": 3000 << 20,
        "hami_host_gpu_utilization_ratio": 41,
        "hami_vgpu_memory_used_bytes": 2048 << 20,
        "hami_vgpu_memory_limit_bytes": 4096 << 20,
        "hami_container_device_utilization_ratio": 17,
    }
    assert found["hami_host_gpu_memory_used_bytes"].labels == {
        "node": "mlu-1",
        "device_index": "1",
        "device_uuid": machine.uuid(1),
        "device_type": "MLU370-X8",
    }
    assert found["hami_vgpu_memory_used_bytes"].labels == {
        "namespace": "default",
        "pod": "pod",
        "container": "main",
        "vdevice_index": "0",
        "device_uuid": machine.uuid(1),
    }
