"""Where the driver is found: a fixed root, and ``auto`` beside the GPU Operator."""

from __future__ import annotations

from pathlib import Path

import pytest
from hami_nvidia.driver_places import find
from hami_nvidia.settings import NodeSettings

from hami_core import ConfigError, DeviceError

OPERATOR = Path("/run/nvidia/driver")
DRIVER_IN_CONTAINER = """IS_HOST_DRIVER=false
NVIDIA_DRIVER_ROOT=/run/nvidia/driver
DRIVER_ROOT_CTR_PATH=/driver-root
NVIDIA_DEV_ROOT=/run/nvidia/driver
DEV_ROOT_CTR_PATH=/driver-root
"""
DRIVER_ON_HOST = DRIVER_IN_CONTAINER.replace("false", "true").replace("/run/nvidia/driver", "/")


class Host:
    """A host's root, as an agent sees it at another path."""

    def __init__(self, seen):
        self.seen = seen

    def put(self, path, content=""):
        file = self.seen / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def says(self, content):
        self.put("/run/nvidia/validations/driver-ready", content)

    def has_driver(self, root=""):
        self.put(f"{root}/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")

    def find(self, **settings):
        return find(NodeSettings(driver_root="auto", agent_driver_root=self.seen, **settings))


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path / "host")


def test_auto_follows_the_file_of_the_gpu_operator(host):
    host.has_driver()
    host.has_driver(OPERATOR.as_posix())
    host.says(DRIVER_IN_CONTAINER)
    places = host.find()
    assert (places.root.host, places.root.here) == (OPERATOR, host.seen / "run/nvidia/driver")
    assert (places.dev.host, places.dev.seen) == (OPERATOR / "dev", (host.seen / "run/nvidia/driver/dev",))
    assert places.host_dev.host == Path("/dev")
    host.says(DRIVER_ON_HOST)
    places = host.find()
    assert (places.root.host, places.root.here, places.dev.host) == (Path("/"), host.seen, Path("/dev"))


def test_auto_follows_a_root_that_only_the_operator_knows(host):
    host.says("NVIDIA_DRIVER_ROOT=/opt/driver\nNVIDIA_DEV_ROOT=/\n")
    places = host.find()
    assert (places.root.host, places.root.here) == (Path("/opt/driver"), host.seen / "opt/driver")
    assert places.dev.host == Path("/dev")


@pytest.mark.parametrize("content", [None, "", "IS_HOST_DRIVER=false\n"], ids=["no file", "empty", "no root"])
def test_auto_without_a_root_in_the_file_looks_for_the_driver(host, content):
    if content is not None:
        host.says(content)
    assert host.find().root.host == Path("/"), "nothing is installed yet"
    host.has_driver(OPERATOR.as_posix())
    host.put("/run/nvidia/driver/dev/nvidiactl")
    assert (host.find().root.host, host.find().dev.host) == (OPERATOR, OPERATOR / "dev")
    host.has_driver()
    assert (host.find().root.host, host.find().dev.host) == (Path("/"), Path("/dev"))


@pytest.mark.parametrize("text", ["run/nvidia/driver", "", "/run/../etc"])
def test_file_of_the_operator_with_a_wrong_root_is_an_error_that_names_it(host, text):
    host.says(f"NVIDIA_DRIVER_ROOT={text}\n")
    with pytest.raises(DeviceError, match=r"driver-ready of the GPU Operator: NVIDIA_DRIVER_ROOT=.* absolute path"):
        host.find()


def test_file_of_the_operator_that_cannot_be_read_is_an_error(host):
    (host.seen / "run/nvidia/validations/driver-ready").mkdir(parents=True)
    with pytest.raises(DeviceError, match="driver-ready of the GPU Operator can't be read"):
        host.find()


def test_node_is_seen_if_it_was_made_after_the_agent_started(host):
    host.put("/dev/nvidia-uvm")
    assert host.find().dev.exists("nvidia-uvm")
    assert not host.find().dev.exists("nvidia-of-no-kind")


def test_fixed_root_of_a_driver_container_with_its_own_device_nodes(host):
    fixed = {"driver_root": OPERATOR, "agent_driver_root": host.seen}
    assert find(NodeSettings(**fixed)).dev.host == Path("/dev")
    host.put("/dev/nvidiactl")
    places = find(NodeSettings(**fixed))
    assert (places.dev.host, places.dev.exists("nvidiactl")) == (OPERATOR / "dev", True)
    assert find(NodeSettings(**fixed, nvidia_dev_root="/")).dev.host == Path("/dev")
    assert find(NodeSettings(**fixed, dev_root="/other/dev")).dev.host == Path("/other/dev")


def test_hamis_variables_name_the_roots(monkeypatch):
    monkeypatch.setenv("NVIDIA_DRIVER_ROOT", "/run/nvidia/driver")
    monkeypatch.setenv("CONTAINER_DRIVER_ROOT", "/ignored")
    monkeypatch.setenv("DRIVER_ROOT_CTR_PATH", "/driver-root")
    monkeypatch.setenv("NVIDIA_DEV_ROOT", "/run/nvidia/driver")
    places = find(NodeSettings.from_environment())
    assert (places.root.host, places.root.here) == (OPERATOR, Path("/driver-root"))
    assert (places.dev.host, places.dev.seen) == (OPERATOR / "dev", (Path("/driver-root/dev"),))
    monkeypatch.setenv("HAMI_NVIDIA_DRIVER_ROOT", "/opt/driver")
    assert find(NodeSettings.from_environment()).root.host == Path("/opt/driver")


def test_relative_root_is_refused_with_its_variable(monkeypatch):
    monkeypatch.setenv("NVIDIA_DRIVER_ROOT", "Auto")
    with pytest.raises(ConfigError, match="NVIDIA_DRIVER_ROOT: 'Auto' is neither an absolute path nor auto"):
        NodeSettings.from_environment()


def test_containers_get_the_driver_that_was_installed_late(host, node, monkeypatch):
    made = node(
        driver_libraries=(), cdi_dirs=(), container_library_dir="", driver_root="auto", agent_driver_root=host.seen
    )
    host.says(DRIVER_ON_HOST)
    made.discover()
    with pytest.raises(DeviceError, match="no libcuda"):
        made._driver_files()
    host.says(DRIVER_IN_CONTAINER)
    made.nvml.close()
    made.discover()
    version = made.nvml.driver_version()
    host.put(f"/run/nvidia/driver/usr/lib64/libcuda.so.{version}")
    mounts = {mount.container_path: mount.host_path for mount in made._driver_files().mounts}
    assert mounts[f"/usr/lib64/libcuda.so.{version}"] == f"/run/nvidia/driver/usr/lib64/libcuda.so.{version}"
