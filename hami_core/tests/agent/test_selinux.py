"""SELinux labels of the files that containers mount, with a stand-in for the extended attributes."""

from __future__ import annotations

import asyncio
import errno
import functools
import os
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from structlog.testing import capture_logs

from hami_core.agent import process
from hami_core.agent.options import from_settings
from hami_core.agent.selinux import FileLabels, is_on
from hami_core.errors import ConfigError, DeviceError
from hami_core.model import ContainerKind
from hami_core.tests.agent.node import GPU, agent_settings

HOST = "system_u:object_r:var_lib_t:s0"
SHARED = "system_u:object_r:container_file_t:s0"


class Attributes:
    """Labels by path. A file that nobody labelled has the default, as if it were older than its folder's label."""

    def __init__(self, default: str = HOST) -> None:
        self.default = default
        self.found: dict[str, str] = {}
        self.set: list[str] = []
        self.refused = ""

    def of(self, path) -> str:
        return self.found.get(str(path), self.default)

    def getxattr(self, path, name, *, follow_symlinks) -> bytes:
        assert (name, follow_symlinks) == ("security.selinux", False)
        path.lstat()
        if not self.of(path):
            raise OSError(errno.ENODATA, "No data available")
        return self.of(path).encode() + b"\0"

    def setxattr(self, path, name, value, *, follow_symlinks) -> None:
        assert (name, follow_symlinks, value[-1:]) == ("security.selinux", False, b"\0")
        if self.refused and self.refused in str(path):
            raise PermissionError(errno.EACCES, "Permission denied")
        self.found[str(path)] = value[:-1].decode()
        self.set.append(str(path))

    def labels(self, folder, kind="container_file_t", level="s0") -> FileLabels:
        return FileLabels(folder, kind, level, self.getxattr, self.setxattr)


@pytest.fixture
def tree(tmp_path):
    """The agent's folder with the interposer, one container's files, and a link that leads out of it."""
    folder = tmp_path / "hami"
    for name in ("lib/libvgpu.so", "containers/a/record.json", "containers/a/region/vgpu.cache", "no-cdi"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    (folder / "containers/a/region/out").symlink_to("/etc/shadow")
    return folder


@pytest.mark.parametrize(
    ("text", "on"),
    [
        ("system_u:system_r:spc_t:s0\0", True),
        ("system_u:system_r:spc_t\n", True),
        ("unconfined\n", False),
        ("cri-containerd.apparmor.d (enforce)\n", False),
        ("", False),
        (None, False),
    ],
)
def test_selinux_is_told_from_other_modules(tmp_path, text, on):
    (tmp_path / "self/attr").mkdir(parents=True)
    if text is not None:
        (tmp_path / "self/attr/current").write_text(text)
    assert is_on(tmp_path) is on


def test_at_start_folders_are_labelled_and_what_lies_in_containers_is_not_searched(tree):
    attributes = Attributes()
    attributes.labels(tree).whole_folder()
    expected = ["", "/containers", "/containers/a", "/lib", "/lib/libvgpu.so"]
    assert sorted(attributes.set) == [f"{tree}{name}" for name in expected]
    assert set(attributes.found.values()) == {SHARED}
    attributes.set.clear()
    attributes.labels(tree).whole_folder()
    assert attributes.set == []


@pytest.mark.parametrize(
    ("before", "level", "after"),
    [
        ("unconfined_u:object_r:var_lib_t:s0:c1,c2", "s0", "unconfined_u:object_r:container_file_t:s0"),
        ("system_u:object_r:container_file_t:s0:c1,c2", "s0", SHARED),
        ("system_u:object_r:var_lib_t", "s0", "system_u:object_r:container_file_t"),
        ("system_u:object_r:var_lib_t:s0", "s0:c7", "system_u:object_r:container_file_t:s0:c7"),
        ("", "s0", SHARED),
    ],
)
def test_type_and_level_are_replaced_and_user_and_role_stay(tree, before, level, after):
    attributes = Attributes(before)
    attributes.labels(tree, level=level).each([tree / "lib/libvgpu.so"])
    assert attributes.found == {str(tree / "lib/libvgpu.so"): after}


def test_only_entries_of_the_agents_own_folder_are_labelled_and_no_link_is_followed(tree):
    attributes = Attributes()
    paths = [tree / "containers/a/region", "/usr/lib64/libcuda.so.1", tree, tree / "../etc", tree / "missing"]
    attributes.labels(tree).each(paths)
    region = tree / "containers/a/region"
    assert sorted(attributes.set) == [str(region), str(region / "vgpu.cache")]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_a_file_that_another_user_made_in_a_region_stays_as_it_is(tree):
    attributes = Attributes()
    attributes.refused = "theirs"
    region = tree / "containers/a/region"
    (region / "theirs").write_text("")
    os.chown(region / "theirs", 1000, 1000)
    attributes.labels(tree).each([region])
    assert str(region / "vgpu.cache") in attributes.set


def test_without_a_type_nothing_is_read_or_written(tree):
    def never(*_, **__):
        raise AssertionError

    labels = FileLabels(tree, "", "s0", never, never)
    labels.whole_folder()
    labels.each([tree / "lib/libvgpu.so"])


def test_a_label_that_cannot_be_set_names_file_type_and_fix(tree):
    attributes = Attributes()
    attributes.refused = "libvgpu"
    with pytest.raises(
        DeviceError, match=r"lib/libvgpu.so the SELinux type container_file_t: Permission denied; run the"
    ):
        attributes.labels(tree).each([tree / "lib/libvgpu.so"])


@pytest.mark.parametrize(("kind", "used"), [("container_file_t", "container_file_t"), ("", "")])
def test_a_node_with_selinux_uses_the_setting_and_warns_without_it(node, tmp_path, kind, used):
    (tmp_path / "proc/self/attr").mkdir(parents=True)
    (tmp_path / "proc/self/attr/current").write_text("system_u:system_r:spc_t:s0")
    with capture_logs() as logs:
        assert from_settings(agent_settings(node, proc_dir=tmp_path / "proc", selinux_type=kind)).selinux_type == used
    assert any("SELinux is on" in line["event"] for line in logs) is not bool(kind)


def test_a_node_without_selinux_ignores_the_setting(node):
    plain = agent_settings(node, proc_dir=node.root, selinux_type="container_file_t")
    assert from_settings(plain).selinux_type == ""


@pytest.mark.parametrize(
    "wrong", [{"selinux_type": "container file"}, {"selinux_type": "a:b"}, {"selinux_level": "top"}]
)
def test_a_type_or_level_that_is_none_is_refused(node, wrong):
    with pytest.raises(ValueError, match="pattern"):
        agent_settings(node, **wrong)


@pytest.fixture
def run(node, monkeypatch):
    """Run the whole agent on a node with SELinux."""
    node.server.objects["nodes"]["n1"] = {"metadata": {"name": "n1", "uid": "n1", "resourceVersion": "1"}}
    attributes = Attributes()
    made = functools.partial(FileLabels, getxattr=attributes.getxattr, setxattr=attributes.setxattr)
    monkeypatch.setattr(process, "FileLabels", made)

    def start():
        told = agent_settings(node, selinux_type="container_file_t")
        told = replace(from_settings(told), lease_namespace="", selinux_type=told.selinux_type)
        stop = asyncio.Event()
        return stop, asyncio.ensure_future(process.Agent(node.api, [node.vendor], told).run(stop)), attributes

    return start


async def test_an_agent_that_may_not_label_its_folder_ends_with_the_fix(node, run):
    node.state_dir.mkdir(parents=True, exist_ok=True)
    _, task, attributes = run()
    attributes.refused = str(node.state_dir)
    with pytest.raises(ConfigError, match=r"--selinux-type container_file_t: can't give .* Permission denied"):
        await task


async def test_a_container_starts_only_once_its_files_have_their_labels(node, run):
    node.state_dir.mkdir(parents=True, exist_ok=True)
    stop, task, attributes = run()
    await node.registered()
    attributes.found.clear()  # as if another program had labelled the folder anew
    attributes.refused = "vgpu.cache"
    uid = await node.pod("a", [("main", ContainerKind.APP, [("card-00000000", 300)])], signed=False)
    given = await node.kubelet.admit(uid, "main", GPU, 1)
    with pytest.raises(grpc.aio.AioRpcError, match=r"vgpu.cache the SELinux type container_file_t: Permission denied"):
        await node.kubelet.prestart(given)
    assert not list(node.cdi_dir.glob("*"))
    attributes.refused = ""
    async with asyncio.timeout(15):
        while True:  # the kubelet tries again too
            try:
                await node.kubelet.prestart(given)
                break
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.05)
    for mount in node.kubelet.create(given)["mounts"]:
        path = Path(mount["hostPath"])
        assert {attributes.of(each) for each in (path, *(path.iterdir() if path.is_dir() else ()))} == {SHARED}
    stop.set()
    await task
