from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hami_nvidia import NvidiaConfig, node_config
from hami_nvidia.settings import NodeSettings, options

from hami_core import ConfigError, NodeContext, Preference


def at(file):
    """The node's context, with this per-node file."""
    return NodeContext("n1", Path("/var/lib/hami"), config_file=file)


def test_settings_win_over_the_nodes_file_over_the_device_config(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(
        json.dumps(
            {
                "nodeconfig": [
                    {"name": "other", "devicesplitcount": 99},
                    {
                        "name": "n1",
                        "OperatingMode": "mps",
                        "deviceSplitCount": 4,
                        "devicememoryscaling": 1.5,
                        "devicecorescaling": 0,
                        "filterdevices": {"uuid": ["GPU-x"], "index": [3]},
                    },
                ]
            }
        )
    )
    config = {"deviceSplitCount": 2, "deviceMemoryScaling": 1.0, "deviceCoreScaling": 2.0, "libCudaLogLevel": 3}
    found = options(NodeSettings(memory_scaling=3.0), config, at(file))
    assert (found.mode, found.split_count, found.memory_scaling, found.core_scaling) == ("mps", 4, 3.0, 2.0)
    assert (found.hidden_uuids, found.hidden_indices) == ({"GPU-x"}, {3})
    assert found.log_level == 3


def test_without_a_file_the_mode_is_hami_core(tmp_path):
    assert options(NodeSettings(), {}, at(tmp_path / "none")).mode == "hami-core"


def test_disable_core_limit_overrides_the_core_policy():
    assert options(NodeSettings(), {"disableCoreLimit": True, "gpuCorePolicy": "force"}, None).core_policy == "disable"


@pytest.mark.parametrize("text", ["{", "[]", '{"nodeconfig": 3}'])
def test_a_broken_file_is_an_error_that_names_it(tmp_path, text):
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"config\.json"):
        options(NodeSettings(), {}, at(file))


def test_from_the_environment(monkeypatch):
    monkeypatch.setenv("HAMI_NVIDIA_DRIVER_LIBRARIES", "/a/libcuda.so.1, /a/libnvidia-ml.so.1")
    monkeypatch.setenv("HAMI_NVIDIA_SPLIT_COUNT", "7")
    monkeypatch.setenv("ENABLE_TOPOLOGY_SCORE", "true")
    found = NodeSettings()
    assert found.driver_libraries == (Path("/a/libcuda.so.1"), Path("/a/libnvidia-ml.so.1"))
    assert (found.split_count, found.topology_score) == (7, True)


OWN = {"name": "n1", "devicesplitcount": 4}
WRONG = [
    ({"operatingmode": "mixed"}, r"operatingmode: 'mixed' is none of hami-core, mig, mps"),
    ({"operatingmode": "mgi"}, r"operatingmode: 'mgi' is none of hami-core, mig, mps \(did you mean mig\?\)"),
    ({"filterdevice": {"index": ["0"]}}, r"filterdevice: there is no such key \(did you mean filterdevices\?\)"),
    ({"filterdevices": {"indexes": [0]}}, r"filterdevices.indexes: there is no such key \(did you mean index\?\)"),
    ({"filterdevices": [0]}, r"filterdevices: expected a mapping .*got \[0\]"),
    ({"filterdevices": {"index": [-1]}}, r"filterdevices.index\[0\]: must be at least 0, got -1"),
    ({"filterdevices": {"index": [True]}}, r"filterdevices.index\[0\]: expected a number"),
    ({"filterdevices": {"uuid": "GPU-x"}}, r"filterdevices.uuid: expected a list, got 'GPU-x'"),
    ({"filterdevices": {"UUID": ["a"], "uuid": ["b"]}}, r"filterdevices: key 'uuid' stands twice"),
    ({"devicesplitcount": -1}, r"devicesplitcount: must be at least 0, got -1"),
    ({"devicesplitcount": True}, r"devicesplitcount: expected a number, got true"),
    ({"devicesplitcount": 1e400}, r"devicesplitcount: "),
    ({"deviceSplitCount": 1, "devicesplitcount": 2}, r"key 'devicesplitcount' stands twice"),
    ({"devicememoryscaling": "much"}, r"devicememoryscaling: expected a number, got 'much'"),
    ({"libcudaloglevel": "debug"}, r"libcudaloglevel: 'debug' is none of 0, 1, 2, 3, 4"),
    ({"migstrategy": "mixd"}, r"migstrategy: 'mixd' is none of none, single, mixed \(did you mean mixed\?\)"),
    ({"enablenumatopology": 7}, r"enablenumatopology: expected true or false, got 7"),
]


def node_file(tmp_path, *entries):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"nodeconfig": entries}).replace("Infinity", "1e999"))
    return file


@pytest.mark.parametrize(("fault", "message"), WRONG)
def test_a_fault_in_the_own_entry_names_file_entry_and_key(tmp_path, fault, message):
    file = node_file(tmp_path, {"name": "gpu-03"}, {"name": "n1", **fault})
    with pytest.raises(ConfigError, match=rf"config\.json: nodeconfig\[1\] \(n1\): {message}") as refused:
        node_config.read(file, "n1")
    assert "pydantic" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("fault", "message"), WRONG)
def test_a_fault_in_anothers_entry_is_only_a_warning(tmp_path, fault, message):
    file = node_file(tmp_path, {"name": "gpu-03", **fault}, OWN)
    found = node_config.read(file, "n1")
    assert [entry.devicesplitcount for _, entry in found.entries] == [4]
    [warning] = found.warnings
    assert re.search(rf"config\.json: nodeconfig\[0\] \(gpu-03\): {message}", warning)
    assert options(NodeSettings(), {}, at(file)).split_count == 4


@pytest.mark.parametrize("entry", [None, 3, "gpu-03", [], {}, {"name": 5}, {"name": None}, {"name": ""}])
def test_an_entry_that_names_no_node_is_only_a_warning(tmp_path, entry):
    found = node_config.read(node_file(tmp_path, entry, OWN), "n1")
    assert len(found.entries) == 1
    assert all("nodeconfig[0]" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    "entry", ["n1", {"nmae": "n1"}, {"nodename": "n1"}, {"name": "N1"}, {"name": "n1 "}, {"name": ["n1"]}]
)
def test_an_entry_that_means_this_node_is_never_ignored(tmp_path, entry):
    with pytest.raises(ConfigError, match=r"config\.json: nodeconfig\[0\] \(n1\)"):
        node_config.read(node_file(tmp_path, entry), "n1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("nodeconfig:\n- name: n1\n", "it looks like YAML; write it as JSON"),
        ("[]", "holds a list, expected a mapping"),
        ('{"nodeconfig": {"name": "n1"}}', "nodeconfig: holds a mapping, expected a list"),
        ('{"nodeconfg": []}', r"nodeconfg: there is no such key \(did you mean nodeconfig\?\)"),
        ('{"nodeconfig": [], "nodeconfig": []}', "key 'nodeconfig' stands twice"),
        ('{"nodeconfig": [], "NodeConfig": []}', "key 'NodeConfig' stands twice"),
        ('{"nodeconfig": [{"name": "n1", "name": "n1"}]}', r"nodeconfig\[0\] \(n1\): key 'name' stands twice"),
        ("\x00", "is not JSON"),
    ],
)
def test_a_file_of_another_form_is_refused_with_what_to_write(tmp_path, text, message):
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=rf"config\.json.*{message}"):
        node_config.read(file, "n1")


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ('{"nodeconfig": [{"name": "n1", "split": 3}]}', "nodeconfig[0] (n1): split: there is no such key"),
        ('{"comment": "x", "nodeconfig": []}', "comment: there is no such key"),
        ("{}", "holds no list nodeconfig"),
        ('{"nodeconfig": null}', "holds no list nodeconfig"),
        ('{"nodeconfig": [{"name": "n1"}, {"name": "n1"}]}', "are about one node"),
        ('\ufeff{"nodeconfig": [], "x": 1}', "x: there is no such key"),
    ],
)
def test_ignored_keys_are_named_in_warnings(tmp_path, text, warning):
    file = tmp_path / "config.json"
    file.write_text(text)
    assert any(warning in each for each in node_config.read(file, "n1").warnings)


@pytest.mark.parametrize(
    ("variables", "entry", "section", "strategy"),
    [
        ({}, {}, {}, "none"),
        ({}, {}, {"migStrategy": "mixed"}, "mixed"),
        ({}, {"migstrategy": "single"}, {"migStrategy": "mixed"}, "single"),
        ({}, {"MigStrategy": "none"}, {"migStrategy": "mixed"}, "none"),
        ({}, {"migstrategy": ""}, {"migStrategy": "mixed"}, "mixed"),
        ({"MIG_STRATEGY": "mixed"}, {"migstrategy": "single"}, {}, "mixed"),
        ({"HAMI_NVIDIA_MIG_STRATEGY": "single", "MIG_STRATEGY": "mixed"}, {}, {}, "single"),
    ],
)
def test_the_mig_strategy_comes_from_environment_node_file_and_device_config(
    tmp_path, monkeypatch, variables, entry, section, strategy
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    config = NvidiaConfig(**section).model_dump(by_alias=True)
    file = node_file(tmp_path, {"name": "n1", **entry})
    assert options(NodeSettings(), config, at(file)).mig_strategy == strategy
    assert not node_config.read(file, "n1").warnings


@pytest.mark.parametrize(
    ("entry", "section"),
    [
        ({"operatingmode": "mig", "migstrategy": "single"}, {}),
        ({"operatingmode": "mig"}, {"migStrategy": "single"}),
    ],
)
def test_a_node_can_not_both_make_and_only_offer_instances(tmp_path, entry, section):
    file = node_file(tmp_path, {"name": "n1", **entry})
    with pytest.raises(ConfigError, match="operatingmode mig makes MIG instances, and migStrategy single only offers"):
        options(NodeSettings(), section, at(file))
    for other in ({"operatingmode": "mig", "migstrategy": "mixed"}, {"operatingmode": "mps", "migstrategy": "single"}):
        assert options(NodeSettings(), section, at(node_file(tmp_path, {"name": "n1", **other})))


@pytest.mark.parametrize(
    ("variable", "entries", "wanted"),
    [
        ("", [{}], Preference.DISTRIBUTED),
        ("", [{"enablegetpreferredallocation": True}], Preference.DISTRIBUTED),
        ("", [{"enablegetpreferredallocation": False}], Preference.NONE),
        ("", [{"enablegetpreferredallocation": False}, {"enablegetpreferredallocation": True}], Preference.DISTRIBUTED),
        ("packed", [{"enablegetpreferredallocation": False}], Preference.PACKED),
        ("none", [{}], Preference.NONE),
    ],
)
def test_the_preferred_allocation_is_set_by_nvidias_words_or_hamis_switch(
    tmp_path, monkeypatch, variable, entries, wanted
):
    if variable:
        monkeypatch.setenv("SHARED_DEVICES_ALLOCATION_POLICY", variable)
    file = node_file(tmp_path, *({"name": "n1", **entry} for entry in entries))
    assert options(NodeSettings(), {}, at(file)).preferred_allocation is wanted


def test_filters_of_two_entries_add_up(tmp_path):
    file = node_file(
        tmp_path,
        {"name": "n1", "filterdevices": {"index": ["0"]}, "devicesplitcount": 2},
        {"name": "n1", "filterdevices": {"uuid": ["GPU-x"]}, "devicesplitcount": 3},
    )
    found = options(NodeSettings(), {}, at(file))
    assert (found.hidden_indices, found.hidden_uuids, found.split_count) == ({0}, {"GPU-x"}, 3)


def test_a_named_but_missing_file_is_a_warning(tmp_path):
    assert "there is no such file" in node_config.read(tmp_path / "none.json", "n1").warnings[0]
    assert not node_config.read(node_config.DEFAULT_PATH, "n1").warnings


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("HAMI_NVIDIA_OPERATING_MODE", "mgi", r"'mgi' is none of hami-core, mig, mps \(did you mean mig\?\)"),
        ("HAMI_NVIDIA_CORE_POLICY", "froce", r"'froce' is none of default, force, disable \(did you mean force\?\)"),
        ("HAMI_NVIDIA_SPLIT_COUNT", "ten", "expected a whole number, got 'ten'"),
        ("HAMI_NVIDIA_DISABLE_HEALTH_CHECKS", "al", r"'al' is none of all, xids; did you mean all\?, nor the number"),
        ("DP_DISABLE_HEALTHCHECKS", "13,x31", "'x31' is none of all, xids, nor the number of an XID"),
        ("DP_ENABLE_HEALTHCHECKS", "none", "'none' is none of all, xids"),
        ("MIG_STRATEGY", "mixd", r"'mixd' is none of none, single, mixed \(did you mean mixed\?\)"),
        ("HAMI_NVIDIA_PREFERRED_ALLOCATION", "pack", r"'pack' is none of distributed, packed, none"),
        ("SHARED_DEVICES_ALLOCATION_POLICY", "spread", "'spread' is none of distributed, packed, none"),
    ],
)
def test_an_invalid_variable_is_named_with_the_valid_words(monkeypatch, variable, value, message):
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=f"environment variable {variable}: {message}"):
        NodeSettings.from_environment()


@pytest.mark.parametrize("value", ["", "all", "XIDS", "13, 31", "all,48"])
def test_hamis_health_check_words_are_accepted(monkeypatch, value):
    monkeypatch.setenv("DP_DISABLE_HEALTHCHECKS", value)
    assert NodeSettings.from_environment().disable_health_checks == value


def test_an_unknown_variable_with_our_prefix_is_logged(monkeypatch, caplog):
    monkeypatch.setenv("HAMI_NVIDIA_OPERATING_MOD", "mig")
    NodeSettings.from_environment()
    assert "HAMI_NVIDIA_OPERATING_MOD" in caplog.text
    assert "did you mean OPERATING_MODE?" in caplog.text
