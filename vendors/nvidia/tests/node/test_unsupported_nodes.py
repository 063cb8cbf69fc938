"""Nodes with an NVIDIA device that can't be shared: the reason is registered, and the agent goes on."""

from __future__ import annotations

import dataclasses

import pytest

from hami_core import DeviceError
from hami_core.wire.node import decode_devices_json

REGISTER = "hami.io/node-nvidia-register"


@pytest.fixture
def bare(node, tmp_path):
    """Make a node side on a host without NVML."""

    def make(**settings):
        for folder in ("sys/devices/soc0", "host/etc", "dev"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        fixed = {
            "nvml_library": str(tmp_path / "none.so"),
            "driver_root": "/",
            "agent_driver_root": tmp_path / "host",
            "sys_root": tmp_path / "sys",
            "dev_root": tmp_path / "dev",
        }
        return node(**(fixed | settings))

    return make


def tegra_by_family(root):
    (root / "sys/devices/soc0/family").write_text("Tegra\n")


def tegra_by_release(root):
    (root / "host/etc/nv_tegra_release").write_text("# R36 (release), REVISION: 4.3\n")


def wsl(root):
    (root / "dev/dxg").symlink_to("/dev/null")


@pytest.mark.parametrize(
    ("mark", "name", "words"),
    [
        (tegra_by_family, "tegra", "integrated GPU of a Tegra"),
        (tegra_by_release, "tegra", "integrated GPU of a Tegra"),
        (wsl, "wsl", "/dev/dxg, for all cards"),
    ],
)
def test_node_registers_one_device_that_says_why_it_is_not_offered(bare, tmp_path, mark, name, words):
    made = bare()
    with pytest.raises(DeviceError, match="dlopen"):
        made.discover()
    mark(tmp_path)
    (device,) = made.discover()
    assert (device.id, device.healthy) == (name, False)
    assert words in device.not_offered
    assert "use NVIDIA's own device plugin" in device.not_offered
    said = made.advertise([device])
    assert said.slots["nvidia.com/gpu"] == {f"{name}-0": (False, -1)}
    (read,) = decode_devices_json(said.annotations[REGISTER], key=REGISTER, family="NVIDIA")
    assert (read.id, read.healthy, read.not_offered) == (name, False, device.not_offered)
    assert made.health([device]) == []
    assert made.metrics({}, {}) is not None
    made.tend({}, {}, {})


def test_discovery_words(bare, tmp_path):
    made = bare(device_discovery_strategy="tegra")
    assert [device.id for device in made.discover()] == ["tegra"]
    tegra_by_family(tmp_path)
    with pytest.raises(DeviceError, match="dlopen"):
        bare(device_discovery_strategy="nvml").discover()


def test_cards_that_nvml_finds_are_offered_whatever_the_host_looks_like(node, tmp_path):
    (tmp_path / "sys/devices/soc0").mkdir(parents=True)
    tegra_by_family(tmp_path)
    assert [device.not_offered for device in node(sys_root=tmp_path / "sys").discover()] == ["", ""]


def test_integrated_gpu_that_nvml_names_is_not_offered(node, monkeypatch):
    made = node()
    cards, errors = made.nvml.cards()
    orin = [dataclasses.replace(cards[0], name="Orin (nvgpu)", memory_bytes=None)]
    monkeypatch.setattr(made.nvml, "cards", lambda: (orin, errors))
    (device,) = made.discover()
    assert (device.id, device.healthy) == (cards[0].uuid, False)
    assert "integrated GPU of a Tegra" in device.not_offered
