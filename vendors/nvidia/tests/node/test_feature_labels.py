"""Node labels as GPU feature discovery writes them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hami_nvidia.feature_labels import CardFacts, NodeFacts, changes, label_value, labels_of
from hami_nvidia.nvml import NvmlError
from hami_nvidia.nvml_mig import NvmlMig
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

A100 = CardFacts("NVIDIA A100-SXM4-80GB", 81920, 10, "hami-core", (8, 0), mig_capable=True, pci_class="0x030200")
T4 = CardFacts("Tesla T4", 15360, 10, "hami-core", (7, 5))
NODE = NodeFacts((A100, A100), "550.54.15", (12, 4), "NVIDIA DGX-2H")
GFD = "nvidia.com/gfd.timestamp"
MARK = "hami.io/nvidia-feature-labels"


def test_labels_are_those_of_gpu_feature_discovery():
    assert labels_of(NODE) == {
        "nvidia.com/cuda.driver-version.full": "550.54.15",
        "nvidia.com/cuda.driver-version.major": "550",
        "nvidia.com/cuda.driver-version.minor": "54",
        "nvidia.com/cuda.driver-version.revision": "15",
        "nvidia.com/cuda.driver.major": "550",
        "nvidia.com/cuda.driver.minor": "54",
        "nvidia.com/cuda.driver.rev": "15",
        "nvidia.com/cuda.runtime-version.full": "12.4",
        "nvidia.com/cuda.runtime-version.major": "12",
        "nvidia.com/cuda.runtime-version.minor": "4",
        "nvidia.com/cuda.runtime.major": "12",
        "nvidia.com/cuda.runtime.minor": "4",
        "nvidia.com/gpu.compute.major": "8",
        "nvidia.com/gpu.compute.minor": "0",
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.family": "ampere",
        "nvidia.com/gpu.machine": "NVIDIA-DGX-2H",
        "nvidia.com/gpu.memory": "81920",
        "nvidia.com/gpu.mode": "compute",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "nvidia.com/gpu.replicas": "10",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mps.capable": "false",
    }


def test_a_node_without_cards_has_no_labels():
    assert labels_of(replace(NODE, cards=())) == {}


def test_what_nvml_does_not_say_has_no_label():
    unified = replace(A100, memory_mib=None, capability=None, pci_class="")
    found = labels_of(replace(NODE, cards=[unified], driver_version="580.20", machine=""))
    assert not {"nvidia.com/gpu.memory", "nvidia.com/gpu.family", "nvidia.com/gpu.clique"} & found.keys()
    assert found["nvidia.com/gpu.mode"] == found["nvidia.com/gpu.machine"] == "unknown"
    assert found["nvidia.com/cuda.driver-version.revision"] == ""


@pytest.mark.parametrize(
    ("mode", "slots", "strategy", "mps"),
    [
        ("hami-core", 10, "time-slicing", "false"),
        ("hami-core", 1, "none", "false"),
        ("mps", 10, "mps", "true"),
        ("mig", 7, "none", "false"),
    ],
)
def test_sharing_follows_the_operating_mode(mode, slots, strategy, mps):
    found = labels_of(replace(NODE, cards=[replace(A100, slots=slots, mode=mode)]))
    assert found["nvidia.com/gpu.sharing-strategy"] == strategy
    assert found["nvidia.com/gpu.replicas"] == str(slots)
    assert found["nvidia.com/mps.capable"] == mps


@pytest.mark.parametrize(
    ("cards", "product", "count"),
    [
        ((T4, A100, A100), "NVIDIA-A100-SXM4-80GB", "2"),
        ((T4, A100), "Tesla-T4", "1"),
        ((A100, T4, T4, A100), "NVIDIA-A100-SXM4-80GB", "2"),
    ],
)
def test_of_several_models_the_most_frequent_is_described(cards, product, count):
    found = labels_of(replace(NODE, cards=cards))
    assert (found["nvidia.com/gpu.product"], found["nvidia.com/gpu.count"]) == (product, count)
    assert found["nvidia.com/mig.capable"] == "true"


@pytest.mark.parametrize(
    ("capability", "family"),
    [
        ((6, 1), "pascal"),
        ((7, 0), "volta"),
        ((7, 5), "turing"),
        ((8, 6), "ampere"),
        ((8, 9), "ada-lovelace"),
        ((9, 0), "hopper"),
        ((10, 3), "blackwell"),
        ((12, 0), "blackwell"),
        ((13, 0), "rubin"),
        ((99, 0), "undefined"),
    ],
)
def test_family_follows_the_compute_capability(capability, family):
    assert labels_of(replace(NODE, cards=[replace(A100, capability=capability)]))["nvidia.com/gpu.family"] == family


def test_a_clique_is_written_only_if_all_cards_of_the_fabric_agree():
    one, other = (replace(A100, clique=("7b968a6d-c8aa-45e1-9e07-e1e51be99c31", number)) for number in (1, 2))
    found = labels_of(replace(NODE, cards=[one, one, A100]))
    assert found["nvidia.com/gpu.clique"] == "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1"
    assert "nvidia.com/gpu.clique" not in labels_of(replace(NODE, cards=[one, other]))


def test_instances_that_are_resources_of_their_own_have_labels_by_profile():
    native = replace(A100, slots=0, mode="native")
    made = [("nvidia.com/mig-1g.10gb", A100.product)] * 2 + [("nvidia.com/mig-1g.10gb.me", A100.product)]
    found = labels_of(replace(NODE, cards=[native, native], mig_strategy="mixed", instances=made))
    assert found["nvidia.com/mig.strategy"] == "mixed"
    assert found["nvidia.com/gpu.replicas"] == "0"
    assert {key: value for key, value in found.items() if "/mig-" in key} == {
        "nvidia.com/mig-1g.10gb.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
        "nvidia.com/mig-1g.10gb.count": "2",
        "nvidia.com/mig-1g.10gb.replicas": "1",
        "nvidia.com/mig-1g.10gb.sharing-strategy": "none",
        "nvidia.com/mig-1g.10gb.me.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb.me",
        "nvidia.com/mig-1g.10gb.me.count": "1",
        "nvidia.com/mig-1g.10gb.me.replicas": "1",
        "nvidia.com/mig-1g.10gb.me.sharing-strategy": "none",
    }
    gone = changes(labels_of(NODE), {MARK: "true", **found})
    assert {key for key, value in gone.items() if value is None} == {k for k in found if "/mig-" in k} | {
        "nvidia.com/mig.strategy"
    }


@given(st.text())
def test_any_name_becomes_a_value_that_kubernetes_accepts(text):
    assert re.fullmatch(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", label_value(text))
    assert len(label_value(text)) <= 63


WANTED = {"nvidia.com/gpu.count": "2"}


@pytest.mark.parametrize(
    ("wanted", "there", "changed"),
    [
        (WANTED, {}, {**WANTED, MARK: "true"}),
        (WANTED, {MARK: "true", "nvidia.com/gpu.clique": "a.1", "nvidia.com/gpu.deploy.driver": "true"},
         {**WANTED, MARK: "true", "nvidia.com/gpu.clique": None}),
        (WANTED, {"nvidia.com/gpu.clique": "somebody's"}, {**WANTED, MARK: "true"}),
        ({}, {MARK: "true", **WANTED, "pool": "a"}, {MARK: None, "nvidia.com/gpu.count": None}),
        (None, {MARK: "true", **WANTED, "pool": "a"}, {MARK: None, "nvidia.com/gpu.count": None}),
        (None, WANTED, {}),
        (WANTED, {GFD: "1594644571", **WANTED}, {}),
        (WANTED, {GFD: "1594644571", MARK: "true", **WANTED}, {MARK: None}),
        (None, {GFD: "1594644571", MARK: "true", **WANTED}, {MARK: None}),
    ],
)  # fmt: skip
def test_labels_are_removed_only_if_the_agent_wrote_them(wanted, there, changed):
    assert changes(wanted, there) == changed


def advertised(made):
    return made.advertise(made.discover()).labels


def test_the_agent_reads_labels_from_nvml_and_sysfs(node, nvml, tmp_path):
    sys_root = tmp_path / "sys"
    name = nvml.cards()[0][0].sysfs_name
    files = {"class/dmi/id/product_name": "PowerEdge R760xa\n", f"bus/pci/devices/{name}/class": "0x030200\n"}
    for name, text in files.items():
        (sys_root / name).parent.mkdir(parents=True)
        (sys_root / name).write_text(text)
    made = node(labels=dict, feature_labels=True, sys_root=sys_root, split_count=4)
    found = advertised(made)
    assert found["nvidia.com/gpu.product"] == made.nvml.cards()[0][0].name.replace(" ", "-")
    assert found["nvidia.com/gpu.count"] == "2"
    assert found["nvidia.com/gpu.replicas"] == "4"
    assert found["nvidia.com/gpu.machine"] == "PowerEdge-R760xa"
    assert found["nvidia.com/gpu.mode"] == "compute"
    assert found["nvidia.com/gpu.family"] == "ampere"
    assert found["nvidia.com/mig.capable"] == "true"
    assert re.fullmatch(r"\d+\.\d+", found["nvidia.com/cuda.runtime-version.full"])
    assert found["nvidia.com/cuda.driver-version.full"] == made.nvml.driver_version()
    assert found[MARK] == "true"
    assert {"nvidia.com/gpu.clique"}.isdisjoint(found)


def test_instances_that_an_administrator_made_are_labelled(node, state):
    state.set_modes(0, mig=True)
    made = node(labels=dict, feature_labels=True, mig_strategy="mixed")
    card = made.nvml.cards()[0][0]
    driver = NvmlMig(made.nvml)
    small = min(driver.profiles(card.uuid), key=lambda profile: profile.slices)
    instances = [driver.create(card.uuid, small.id, at) for at in small.placements[:2]]
    parts = [(instance, driver.create_compute(card.uuid, instance, small.slices)) for instance in instances]
    try:
        found = advertised(made)
        resource = f"nvidia.com/mig-{small.name.replace('+', '.')}"
        assert found[f"{resource}.count"] == "2"
        assert found[f"{resource}.product"].endswith(f"-MIG-{small.name}")
        assert (found["nvidia.com/mig.strategy"], found["nvidia.com/gpu.count"]) == ("mixed", "2")
    finally:
        for instance, compute in parts:
            driver.destroy_compute(card.uuid, instance, compute)
            driver.destroy(card.uuid, instance)


def test_without_the_setting_or_the_nodes_labels_nothing_is_written(node):
    assert advertised(node(labels=dict)) == {}
    assert advertised(node(feature_labels=True)) == {}


def test_beside_gpu_feature_discovery_the_agent_writes_no_labels(node):
    with capture_logs() as logs:
        assert advertised(node(labels=lambda: {GFD: "1594644571"}, feature_labels=True)) == {}
    assert "GPU feature discovery labels this node" in logs[-1]["problem"]


def test_labels_stay_while_a_card_does_not_answer(node, monkeypatch):
    made = node(labels=dict, feature_labels=True)
    before = advertised(made)

    def lost(uuid):
        raise NvmlError("nvmlDeviceGetGpuFabricInfo", 15, "GPU is lost", uuid)

    monkeypatch.setattr(made.nvml, "fabric_clique", lost)
    with capture_logs() as logs:
        assert advertised(made) == before
        assert advertised(made) == before
    assert len([line for line in logs if "GPU is lost" in line.get("problem", "")]) == 1


def test_a_fabric_that_is_registered_gives_its_clique(nvml, monkeypatch):
    uuid = nvml.cards()[0][0].uuid
    assert nvml.fabric_clique(uuid) is None
    module = nvml._open()
    answer = {"state": module.NVML_GPU_FABRIC_STATE_COMPLETED, "status": 0, "cliqueId": 7, "clusterUuid": range(1, 17)}

    def fill(handle, info):
        for key, value in answer.items():
            kind = type(getattr(info._obj, key))
            setattr(info._obj, key, kind(*value) if key == "clusterUuid" else value)

    monkeypatch.setattr(module, "nvmlDeviceGetGpuFabricInfo", fill)
    assert nvml.fabric_clique(uuid) == ("01020304-0506-0708-090a-0b0c0d0e0f10", 7)
    for wrong in ({"state": module.NVML_GPU_FABRIC_STATE_IN_PROGRESS}, {"status": 3}, {"clusterUuid": [0] * 16}):
        monkeypatch.setattr(module, "nvmlDeviceGetGpuFabricInfo", fill)
        kept = dict(answer)
        answer.update(wrong)
        assert nvml.fabric_clique(uuid) is None
        answer.update(kept)
