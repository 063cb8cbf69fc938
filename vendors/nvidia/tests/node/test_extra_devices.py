"""GPUDirect Storage, MOFED, GDRCopy and IMEX channels in containers, on simulated cards and a simulated /dev."""

from __future__ import annotations

from pathlib import Path

import pytest
from hami_nvidia.settings import NodeSettings
from structlog.testing import capture_logs

from hami_core import ConfigError, ContainerKind, ContainerRef, DeviceError, Slice

REF = ContainerRef("uid-1", "default", "pod", "main", ContainerKind.APP)
CHANNEL = "nvidia-caps-imex-channels/channel0"


@pytest.fixture
def dev(gpus):
    """Make character devices in the simulated /dev; they are removed after the test."""
    made = []

    def make(*names):
        for name in names:
            path = gpus / "dev" / name
            path.parent.mkdir(exist_ok=True)
            path.symlink_to("/dev/null")  # a character device to everyone who opens it
            made.append(path)

    yield make
    for path in made:
        path.unlink(missing_ok=True)


def edits_of(node):
    first = node.discover()[0]
    return node.allocate((Slice(first.id, "NVIDIA", 1000, 0, type="NVIDIA"),), REF)


def paths(edits):
    return {entry.path: entry.host_path for entry in edits.device_nodes}


def missing(logs):
    return [entry["missing"] for entry in logs if "missing" in entry]


def test_containers_get_the_devices_that_are_asked_for(node, dev):
    names = ["nvidia-fs0", "nvidia-fs1", "infiniband/uverbs0", "infiniband/rdma_cm", "gdrdrv", CHANNEL]
    dev(*names, "infiniband/umad0")
    made = node(gds=True, mofed=True, gdrcopy=True, imex_channel_ids=(0,))
    found = paths(edits_of(made))
    assert {f"/dev/{name}": str(made.folder / "dev" / name) for name in names}.items() <= found.items()
    assert "/dev/infiniband/umad0" not in found


def test_without_the_settings_containers_get_none(node, dev):
    dev("nvidia-fs0", "infiniband/uverbs0", "gdrdrv", CHANNEL)
    found = paths(edits_of(node()))
    assert not [path for path in found if "fs0" in path or "infiniband" in path or "gdr" in path or "imex" in path]


def test_gds_brings_udev_and_its_configuration(node, dev, tmp_path):
    dev("nvidia-fs0")
    seen = tmp_path / "host"
    (seen / "run/udev").mkdir(parents=True)
    (seen / "etc").mkdir()
    (seen / "usr").mkdir()
    (seen / "usr/cufile.json").write_text("{}")
    (seen / "etc/cufile.json").symlink_to("/usr/cufile.json")
    edits = edits_of(node(gds=True, driver_root="/", agent_driver_root=seen))
    mounts = {mount.container_path: (mount.host_path, mount.read_only) for mount in edits.mounts}
    assert mounts["/run/udev"] == ("/run/udev", True)
    assert mounts["/etc/cufile.json"] == ("/usr/cufile.json", True)


def test_gds_finds_its_configuration_on_the_host_beside_a_driver_container(node, dev, tmp_path):
    dev("nvidia-fs0")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/cufile.json").write_text("{}")
    (tmp_path / "run/nvidia/validations").mkdir(parents=True)
    (tmp_path / "run/nvidia/validations/driver-ready").write_text("NVIDIA_DRIVER_ROOT=/run/nvidia/driver\n")
    (tmp_path / "run/nvidia/driver/run/udev").mkdir(parents=True)
    edits = edits_of(node(gds=True, driver_root="auto", agent_driver_root=tmp_path))
    mounts = {mount.container_path: mount.host_path for mount in edits.mounts}
    assert mounts["/run/udev"] == "/run/nvidia/driver/run/udev"
    assert mounts["/etc/cufile.json"] == "/etc/cufile.json"


def test_missing_kind_is_left_out_with_one_warning_until_it_is_there(node, dev):
    made = node(gds=True, gdrcopy=True, imex_channel_ids=(0,))
    (made.folder / "dev/gdrdrv").write_text("not a character device")
    try:
        with capture_logs() as logs:
            before = paths(edits_of(made))
            assert paths(edits_of(made)) == before
        assert missing(logs) == [
            "GDRCopy: no device /dev/gdrdrv",
            "GPUDirect Storage (GDS): no device /dev/nvidia-fs*",
            f"IMEX channel 0 is missing: no device /dev/{CHANNEL}",
        ]
        assert not [path for path in before if "gdr" in path or "imex" in path]
    finally:
        (made.folder / "dev/gdrdrv").unlink()
    dev("gdrdrv")
    with capture_logs() as logs:
        assert "/dev/gdrdrv" in paths(edits_of(made))
    assert missing(logs) == []


def test_required_channel_that_is_missing_withholds_every_card_until_it_is_there(node, dev):
    made = node(imex_channel_ids=(0,), imex_required=True)
    reason = f"IMEX_REQUIRED is set and IMEX channel 0 is missing: no device /dev/{CHANNEL}"
    found = made.discover()
    assert [(d.not_offered, d.healthy) for d in found] == [(reason, False)] * 2
    assert {healthy for healthy, _ in made.advertise(found).slots["nvidia.com/gpu"].values()} == {False}
    with pytest.raises(DeviceError, match="IMEX_REQUIRED is set"):
        edits_of(made)
    dev(CHANNEL)
    assert [d.not_offered for d in made.discover()] == ["", ""]
    assert f"/dev/{CHANNEL}" in paths(edits_of(made))


@pytest.mark.parametrize(("text", "channels"), [("[]", ()), ("", ()), ("[0]", (0,)), ("0", (0,)), (" [ 0 ] ", (0,))])
def test_channels_from_hamis_variable(monkeypatch, text, channels):
    monkeypatch.setenv("IMEX_CHANNEL_IDS", text)
    assert NodeSettings.from_environment().imex_channel_ids == channels


@pytest.mark.parametrize("text", ["[1]", "0,1", "all", "[[0]]"])
def test_other_channels_are_refused_with_the_variable(monkeypatch, text):
    monkeypatch.setenv("IMEX_CHANNEL_IDS", text)
    with pytest.raises(ConfigError, match=r"IMEX_CHANNEL_IDS: .* is neither \[\] nor \[0\]"):
        NodeSettings.from_environment()


def test_hamis_variables_switch_the_kinds_on(monkeypatch):
    for name in ("GDS_ENABLED", "MOFED_ENABLED", "GDRCOPY_ENABLED", "IMEX_REQUIRED"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("HAMI_NVIDIA_MOFED", "false")
    found = NodeSettings.from_environment()
    assert (found.gds, found.mofed, found.gdrcopy, found.imex_required) == (True, False, True, True)
    with capture_logs() as logs:
        from hami_nvidia.extra_devices import ExtraDevices

        ExtraDevices(found)
    assert [entry["event"] for entry in logs] == ["IMEX_REQUIRED has no effect without IMEX_CHANNEL_IDS=[0]"]


def test_devices_of_the_host_are_seen_below_its_mounted_root(tmp_path, node, monkeypatch):
    """A runtime gives the agent only the cards' nodes. Those of other drivers are seen below the mounted root."""
    from hami_nvidia.driver_places import find

    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/gdrdrv").symlink_to("/dev/null")
    places = find(NodeSettings(driver_root="/", agent_driver_root=tmp_path))
    assert places.host_dev.character_devices("gdrdrv") == ["gdrdrv"]
    assert places.host_dev.node("gdrdrv").host_path == ""
    assert places.host_dev.seen == (Path("/dev"), tmp_path / "dev")
