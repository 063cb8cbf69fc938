from __future__ import annotations

import json
from pathlib import Path

import pytest
from hami_nvidia.settings import NodeSettings, options

from hami_core import ConfigError


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
    found = options(NodeSettings(node_name="n1", node_config=file, memory_scaling=3.0), config)
    assert (found.mode, found.split_count, found.memory_scaling, found.core_scaling) == ("mps", 4, 3.0, 2.0)
    assert (found.hidden_uuids, found.hidden_indices) == ({"GPU-x"}, {3})
    assert found.log_level == 3


def test_without_a_file_the_mode_is_hami_core(tmp_path):
    assert options(NodeSettings(node_name="n1", node_config=tmp_path / "none"), {}).mode == "hami-core"


def test_disable_core_limit_disables():
    assert options(NodeSettings(), {"disableCoreLimit": True, "gpuCorePolicy": "force"}).core_policy == "disable"


@pytest.mark.parametrize("text", ["{", "[]", '{"nodeconfig": 3}', '{"nodeconfig": [{"devicesplitcount": -1}]}'])
def test_a_broken_file_is_an_error_that_names_it(tmp_path, text):
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"config\.json"):
        options(NodeSettings(node_name="n1", node_config=file), {})


def test_from_the_environment(monkeypatch):
    monkeypatch.setenv("HAMI_NVIDIA_DRIVER_LIBRARIES", "/a/libcuda.so.1, /a/libnvidia-ml.so.1")
    monkeypatch.setenv("HAMI_NVIDIA_SPLIT_COUNT", "7")
    monkeypatch.setenv("NODE_NAME", "n7")
    monkeypatch.setenv("ENABLE_TOPOLOGY_SCORE", "true")
    found = NodeSettings()
    assert found.driver_libraries == (Path("/a/libcuda.so.1"), Path("/a/libnvidia-ml.so.1"))
    assert (found.split_count, found.node_name, found.topology_score) == (7, "n7", True)
