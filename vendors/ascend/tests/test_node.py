"""The node side on simulated NPUs: what it finds, tells the scheduler and gives to containers."""

from __future__ import annotations

import json
import struct
import time
from dataclasses import replace

import pytest
from hami_ascend import AscendConfig
from hami_ascend.node import DRIVER_FILES, network_id, slots_of

from hami_core import ConfigError, HamiError
from vendors.ascend.tests.conftest import container

SOFT = {"huawei.com/vnpu-mode": "hami-core"}
REGISTER = "hami.io/node-register-Ascend910B3"


def register(agent, word="Ascend910B3"):
    return json.loads(agent.advertise(agent.discover()).annotations[f"hami.io/node-register-{word}"])


# --- discovery -----------------------------------------------------------------------------------------------------


def test_register_has_hamis_form(npus):
    node = npus(cards=8)
    entries = register(node.agent())
    assert entries[0] == {
        "id": node.die(0),
        "count": 4,
        "devmem": 65536,
        "devcore": 20,
        "type": "Ascend910B3",
        "health": True,
        "custominfo": {"NetworkID": 0},
    }
    assert [entry.get("index", 0) for entry in entries] == list(range(8))
    assert [entry["custominfo"]["NetworkID"] for entry in entries] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_310p_has_no_network_id_and_910c_has_one_group(npus):
    assert all("custominfo" not in entry for entry in register(npus(model="310P3").agent(), "Ascend310P"))


def test_chips_of_the_910c_are_in_one_network_group(npus):
    entries = register(npus(cards=8, model="Ascend910", devices_in_card=2).agent(), "Ascend910C")
    assert len(entries) == 16
    assert {entry["custominfo"]["NetworkID"] for entry in entries} == {0}
    assert [network_id("Ascend910C", 9), network_id("Ascend910B3", 3), network_id("Ascend910A", 4)] == [0, 0, 1]


def test_node_says_whether_it_splits_softly(npus):
    node = npus()
    hard, soft = node.agent(), node.agent(soft_split="true")
    assert hard.advertise(hard.discover()).annotations["hami-vnpu-core"] == "false"
    assert soft.advertise(soft.discover()).annotations["hami-vnpu-core"] == "true"
    assert {entry["devcore"] for entry in register(soft)} == {100}
    assert all("mode" not in entry for entry in register(soft))


def test_slots_are_as_many_as_the_smallest_vnpus():
    counts = {chip.common_word: slots_of(chip) for chip in AscendConfig().configs}
    assert counts["Ascend910A"] == 15
    assert counts["Ascend910B2"] == 8
    assert counts["Ascend310P"] == 7


def test_number_of_slots_can_be_set(npus, tmp_path):
    node, file = npus(cards=1), tmp_path / "nodes.yaml"
    file.write_text("nodes:\n- {name: other, vDeviceCount: 2}\n- {name: npu-1, vDeviceCount: 3}\n")
    assert register(node.agent(file))[0]["count"] == 3
    assert register(node.agent(file, slots="9"))[0]["count"] == 9


def test_broken_chip_does_not_hide_the_others(npus):
    node = npus(cards=3)
    agent = node.agent()
    node.set(card=1, error=-8012)
    assert [device.index for device in agent.discover()] == [0, 2]


def test_chip_that_stops_answering_stays_listed_unhealthy(npus):
    node = npus(cards=2)
    agent = node.agent()
    agent.discover()
    node.set(card=0, error=-8008)
    assert [device.healthy for device in agent.discover()] == [False, True]
    node.set(card=0, error=0)
    assert [device.healthy for device in agent.discover()] == [True, True]


def test_unknown_chip_beside_known_ones_is_left_out(npus, capsys):
    node = npus(cards=2)
    node.set(card=0, chip_name="910X9")
    assert [device.index for device in node.agent().discover()] == [1]


def test_node_with_unknown_chips_only_names_the_known_ones(npus):
    with pytest.raises(
        HamiError, match=r"chip 950 is not configured in vnpus\.configs; chipName is one of 910A, .*310P3"
    ):
        npus(model="950").agent().discover()


def test_hidden_chips_are_not_offered(npus, tmp_path):
    node, file = npus(cards=3), tmp_path / "nodes.yaml"
    file.write_text(f"nodes:\n- name: npu-1\n  filterDevices: {{uuid: ['{node.die(0)}'], index: [2]}}\n")
    assert [device.index for device in node.agent(file).discover()] == [1]


def test_nodes_own_entry_decides_soft_split_even_without_the_key(npus, tmp_path):
    node, file = npus(), tmp_path / "nodes.yaml"
    node.config = {"vnpus": {"hamiVnpuCore": True}}
    file.write_text("nodes: [{name: npu-1}]\n")
    assert node.agent(file).advertise(()).annotations["hami-vnpu-core"] == "false"
    assert node.agent().advertise(()).annotations["hami-vnpu-core"] == "true"


@pytest.mark.parametrize("text", ["nodes: 3\n", "nodes: [{name: npu-1, vDeviceCount: many}]\n"])
def test_wrong_entry_of_this_node_ends_the_agent(npus, tmp_path, text):
    file = tmp_path / "nodes.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"nodes\.yaml: nodes"):
        npus().agent(file)


def test_wrong_setting_is_named_by_its_variable(npus):
    with pytest.raises(ConfigError, match="HAMI_ASCEND_VNPU_CREATOR"):
        npus().agent(vnpu_creator="nobody")


# --- health --------------------------------------------------------------------------------------------------------


def test_health_follows_the_driver_both_ways(npus):
    node = npus(cards=2)
    agent = node.agent()
    devices = agent.discover()

    def states():
        return [change.healthy for change in agent.health(devices)]

    assert states() == [True, True]
    node.set(card=0, health=3)
    assert states() == [False, True]
    assert agent.health(devices)[0].reason == "DCMI health code 3"
    node.set(card=0, health=0)
    assert states() == [True, True]


def test_replaced_chip_is_discovered_again(npus):
    node = npus(cards=1)
    agent = node.agent()
    devices = agent.discover()
    node.set(die_id="7-7-7-7-7")
    (change,) = agent.health(devices)
    assert (change.healthy, change.rediscover) == (False, True)
    assert {device.id[:8]: device.healthy for device in agent.discover()} == {"00000001": False, "00000007": True}


def test_driver_that_vanishes_and_comes_back_is_loaded_again(npus):
    node = npus(cards=1)
    agent = node.agent()
    devices = agent.discover()
    away = node.folder.with_name("away")
    node.folder.rename(away)
    assert [change.healthy for change in agent.health(devices)] == [False]
    with pytest.raises(HamiError, match="dcmi_init"):
        agent.discover()
    away.rename(node.folder)
    assert [change.healthy for change in agent.health(devices)] == [True]


# --- hard split ----------------------------------------------------------------------------------------------------


def test_template_is_named_for_ascends_runtime(npus):
    node = npus()
    edits = node.agent().allocate((node.slice(16384, card=1),), container())
    assert edits.env == {"ASCEND_VISIBLE_DEVICES": "1", "ASCEND_VNPU_SPECS": "vir05_1c_16g"}
    assert (edits.mounts, edits.device_nodes) == ((), ())


def test_whole_chips_are_named_by_physical_id(npus):
    node = npus(cards=4)
    node.set(card=3, phy_id=7)
    pieces = tuple(node.slice(65536, card) for card in (3, 0))
    assert node.agent().allocate(pieces, container()).env == {"ASCEND_VISIBLE_DEVICES": "7,0"}


@pytest.mark.parametrize("mib", [0, 20000])
def test_slice_of_no_size_is_refused_with_the_sizes(npus, mib):
    node = npus()
    with pytest.raises(HamiError, match=f"{mib} MiB of Ascend910B3 is no vNPU size; the sizes are 16384, 32768 MiB"):
        node.agent().allocate((node.slice(mib),), container())


def test_vnpu_beside_another_npu_is_refused(npus):
    node = npus()
    with pytest.raises(HamiError, match="can't have another NPU"):
        node.agent().allocate((node.slice(16384), node.slice(65536, card=1)), container())


def test_slice_of_an_unknown_chip_is_refused(npus):
    node = npus()
    with pytest.raises(HamiError, match="NPU gone is not on this node"):
        node.agent().allocate((replace(node.slice(16384), device_id="gone"),), container())


# --- soft split ----------------------------------------------------------------------------------------------------


@pytest.fixture
def host(tmp_path):
    root = tmp_path / "host"
    for path in (*DRIVER_FILES, "/usr/local/hami-vnpu-core/libvnpu.so", "/usr/local/hami-vnpu-core/ld.so.preload"):
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (root / path[1:]).write_text("")
    return root


def test_soft_split_gets_hamis_mounts_and_variables(npus, host):
    node = npus()
    agent = node.agent(soft_split="true", host_root=str(host))
    edits = agent.allocate((node.slice(4096, card=1, cores=25),), container(**SOFT))
    assert edits.env == {
        "ASCEND_VISIBLE_DEVICES": "1",
        "NPU_MEM_QUOTA": "4096",
        "NPU_PRIORITY": "25",
        "NPU_GLOBAL_SHM_PATH": "/hami-shared-region/1_global_registry",
        "NPU_LOCAL_SHM_PATH": "/hami-vnpu-shmem/vnpu_local_shmem",
    }
    mounts = {mount.container_path: (mount.host_path, mount.read_only) for mount in edits.mounts}
    local = node.state / "ascend/shmem/uid-1_main"
    assert mounts == {
        **{path: (path, True) for path in DRIVER_FILES},
        "/hami-vnpu-core": ("/usr/local/hami-vnpu-core", True),
        "/etc/ld.so.preload": ("/usr/local/hami-vnpu-core/ld.so.preload", True),
        "/hami-shared-region": ("/usr/local/hami-shared-region", False),
        "/hami-vnpu-shmem": (str(local), False),
    }
    assert local.stat().st_mode & 0o777 == 0o777
    assert (host / "usr/local/hami-shared-region").stat().st_mode & 0o777 == 0o777


def test_counters_survive_a_repeated_allocate(npus, host):
    node = npus()
    agent = node.agent(soft_split="true", host_root=str(host))
    asked = ((node.slice(4096),), container(**SOFT))
    first = agent.allocate(*asked)
    counters = node.state / "ascend/shmem/uid-1_main/vnpu_local_shmem"
    counters.write_bytes(b"counted")
    assert node.agent().allocate(*asked) == first
    assert counters.read_bytes() == b"counted"
    agent.release(container(**SOFT))
    assert not counters.parent.exists()


def test_soft_split_without_the_library_names_what_is_missing(npus, host):
    node = npus()
    (host / "usr/local/hami-vnpu-core/libvnpu.so").unlink()
    agent = node.agent(soft_split="true", host_root=str(host))
    with pytest.raises(HamiError, match=r"soft split needs /usr/local/hami-vnpu-core/libvnpu\.so on the node"):
        agent.allocate((node.slice(4096),), container(**SOFT))


def test_soft_split_without_memory_is_refused(npus, host):
    node = npus()
    with pytest.raises(HamiError, match="would have no memory limit"):
        node.agent(soft_split="true", host_root=str(host)).allocate((node.slice(0),), container(**SOFT))


def test_soft_pod_on_a_hard_node_is_refused(npus):
    node = npus()
    with pytest.raises(HamiError, match="this node does not share NPUs in software"):
        node.agent().allocate((node.slice(4096),), container(**SOFT))


def test_signed_mode_wins_over_the_users_annotation(npus, host):
    node = npus()
    agent = node.agent(soft_split="true", host_root=str(host))
    hard, soft = (replace(node.slice(16384), mode=mode) for mode in ("vnpu", "hami-core"))
    assert agent.allocate((hard,), container(**SOFT)).env["ASCEND_VNPU_SPECS"] == "vir05_1c_16g"
    assert agent.allocate((soft,), container()).env["NPU_MEM_QUOTA"] == "16384"


# --- metrics -------------------------------------------------------------------------------------------------------


def samples(agent, records=None):
    return {(s.name, s.labels.get("device_uuid", "")): s.value for s in agent.metrics(records or {}, {})}


def counters(*processes: tuple[int, ...]) -> bytes:
    head = struct.pack("<QQI", 4096 << 20, 0, 25).ljust(1080, b"\0")
    return head + b"".join(struct.pack("<I4x8QI4x", 7, *held, active) for *held, active in processes)


@pytest.fixture
def soft(npus, host):
    """A soft node with one container of 4096 MiB: node, agent, records, the container's folder."""
    node = npus()
    agent = node.agent(soft_split="true", host_root=str(host))
    ref, pieces = container(**SOFT), (node.slice(4096),)
    agent.allocate(pieces, ref)
    agent.tend({"r": ref}, {"r": pieces}, {})
    return node, agent, {"r": ref}, node.state / "ascend/shmem/uid-1_main/vnpu_local_shmem"


def test_cards_have_hamis_metrics(npus):
    node = npus(cards=1)
    agent = node.agent()
    agent.discover()
    node.set(memory_used_mib=5000, utilization=42)
    memory, busy = agent.metrics({}, {})
    assert (memory.name, memory.value) == ("hami_host_gpu_memory_used_bytes", 5000 << 20)
    assert (busy.name, busy.value) == ("hami_host_gpu_utilization_ratio", 42)
    card = {"device_index": "0", "device_uuid": node.die(), "device_type": "Ascend-Atlas 910B3"}
    assert memory.labels == {"node": "npu-1", **card}


def test_chip_that_does_not_answer_has_no_samples(npus):
    node = npus(cards=2)
    agent = node.agent()
    agent.discover()
    node.set(card=0, error=-8006)
    assert {device for _, device in samples(agent)} == {node.die(1)}


def test_container_counters_are_the_sum_of_active_processes(soft):
    node, agent, records, file = soft
    file.write_bytes(counters((100, 0, 0, 0, 0, 0, 0, 0, 1), (50, *[0] * 7, 0), (25, *[0] * 7, 1)))
    found = samples(agent, records)
    assert found["hami_vgpu_memory_used_bytes", node.die()] == 125
    assert found["hami_vgpu_memory_limit_bytes", node.die()] == 4096 << 20


def test_container_without_counters_has_only_its_limit(soft):
    node, agent, records, _ = soft
    found = samples(agent, records)
    assert found["hami_vgpu_memory_limit_bytes", node.die()] == 4096 << 20
    assert ("hami_vgpu_memory_used_bytes", node.die()) not in found


@pytest.mark.parametrize("damage", ["short", "huge", "link", "pipe", "folder"])
def test_damaged_counters_are_reported_and_not_believed(soft, damage, tmp_path):
    import os

    node, agent, records, file = soft
    match damage:
        case "short":
            file.write_bytes(b"x" * 1159)
        case "huge":
            file.write_bytes(counters((2**64 - 1, *[0] * 7, 1)))
        case "link":
            (tmp_path / "real").write_bytes(counters((1, *[0] * 7, 1)))
            file.symlink_to(tmp_path / "real")
        case "pipe":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
    begun = time.monotonic()
    found = samples(agent, records)
    assert time.monotonic() - begun < 2
    assert found["hami_vgpu_region_unreadable", ""] == 1
    assert ("hami_vgpu_memory_used_bytes", node.die()) not in found
    assert found["hami_vgpu_memory_limit_bytes", node.die()] == 4096 << 20


def test_file_with_a_huge_tail_is_read_in_part(soft):
    node, agent, records, file = soft
    file.write_bytes(counters((100, *[0] * 7, 1)))
    with file.open("r+b") as open_file:
        open_file.truncate(1 << 40)
    assert samples(agent, records)["hami_vgpu_memory_used_bytes", node.die()] == 100
