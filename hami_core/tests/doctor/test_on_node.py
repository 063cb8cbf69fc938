"""`hami doctor --on-node`: checks of a node's facts, and reading them from real files."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pty
import socket
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.doctor.on_node.checks import CHECKS, examine
from hami_core.doctor.on_node.facts import Folder, NodeFacts, Process
from hami_core.doctor.on_node.gather import Places, gather
from hami_core.tests.doctor.conftest import said, words

SOUND = NodeFacts(
    node="n1",
    agent_pid=7,
    plugin_dir=Folder("/var/lib/kubelet/device-plugins", filesystem="ext4", free_bytes=1 << 30),
    socket="",
    checkpoint="",
    entries=3,
    registered={"nvidia.com/gpu": 20},
    cdi_dir=Folder("/var/run/cdi", filesystem="tmpfs", free_bytes=1 << 30),
    state_dir=Folder("/var/lib/hami", filesystem="ext4", free_bytes=1 << 30),
    library=("libvgpu.so.1",),
    driver="NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86",
    devices={"nvidia": 2},
    lsm=("capability", "apparmor"),
    cgroup_version=2,
    boot_id="b",
    processes=(Process(9, "python", preloaded=True),),
)
STATE = SOUND.state_dir

BROKEN = [
    ("on-node.agent", "warn", "hostPID", {"agent_pid": 0}),
    ("on-node.kubelet", "fail", "does not exist", {"plugin_dir": Folder("/k", problem="does not exist")}),
    ("on-node.kubelet", "fail", "connection refused", {"socket": "connection refused"}),
    ("on-node.checkpoint", "warn", "does not exist", {"checkpoint": "does not exist"}),
    ("on-node.checkpoint", "fail", "unknown field", {"checkpoint": "unknown field"}),
    ("on-node.cdi", "fail", "not writable", {"cdi_dir": Folder("/var/run/cdi", problem="not writable")}),
    ("on-node.cdi", "fail", "containerd looks in /etc/cdi only", {"runtime_dirs": ("/etc/cdi",)}),
    ("on-node.cdi", "warn", "/opt/cdi", {"cdi_dir": Folder("/opt/cdi")}),
    ("on-node.cdi", "fail", "enable_cdi = true", {"cdi_enabled": False}),
    ("on-node.cdi", "warn", "serial mode", {"learnt_serial": True}),
    ("on-node.cdi", "fail", "/etc/cdi/a.yaml", {"broken_specs": ("/etc/cdi/a.yaml",)}),
    ("on-node.state", "fail", "read-only", {"state_dir": replace(STATE, problem="read-only file system")}),
    ("on-node.state", "fail", "tmpfs", {"state_dir": replace(STATE, filesystem="tmpfs")}),
    ("on-node.state", "fail", "1 MiB left", {"state_dir": replace(STATE, free_bytes=1 << 20)}),
    ("on-node.state", "warn", "boot_id", {"boot_id": ""}),
    ("on-node.driver", "fail", "none found", {"devices": {"nvidia": 0}}),
    ("on-node.driver", "fail", "no libnvidia-ml", {"vendor_problems": {"nvidia": "no libnvidia-ml"}}),
    ("on-node.driver", "unknown", "no vendor", {"devices": {}}),
    ("on-node.security", "warn", "container_file_t", {"selinux_enforcing": True}),
    ("on-node.cgroups", "warn", "version 1", {"cgroup_version": 1}),
    ("on-node.preload", "warn", "libvgpu.so", {"library": ()}),
    ("on-node.preload", "unknown", "hostPID", {"processes": None}),
    ("on-node.preload", "warn", "sh (12)", {"processes": (Process(12, "sh", preloaded=False, musl=True),)}),
    ("on-node.preload", "warn", "still (13)", {"processes": (Process(13, "still", preloaded=False),)}),
]


def test_sound_node_has_only_ok_findings():
    report = examine(SOUND)
    assert [f for f in report.findings if f.level != "ok"] == []
    assert {f.check for f in report.findings} == {name for name, _ in CHECKS}


@pytest.mark.parametrize(("check", "level", "expected", "changes"), BROKEN)
def test_problem_of_a_node_is_named_with_its_fix(check, level, expected, changes):
    report = examine(replace(SOUND, **changes))
    found = said(report, check, level)
    assert expected in words(found), words(report.findings)
    assert all(f.fix for f in found)


def test_selinux_is_no_problem_if_the_agent_labels_files():
    report = examine(replace(SOUND, selinux_enforcing=True, selinux_type="container_file_t"))
    assert "the type container_file_t" in words(said(report, "on-node.security", "ok"))


def test_every_node_check_has_a_case_that_breaks_it():
    assert {name for name, _ in CHECKS} == {check for check, *_ in BROKEN}


# --- real files ------------------------------------------------------------------------------------------------------


@pytest.fixture
def node():
    """A node's folders, with a kubelet's socket and checkpoint."""
    with tempfile.TemporaryDirectory(prefix="node-") as name, socket.socket(socket.AF_UNIX) as kubelet:
        root = Path(name)
        for folder in ("plugins", "cdi", "state/lib", "etc/containerd", "etc/cdi"):
            (root / folder).mkdir(parents=True)
        kubelet.bind(str(root / "plugins/kubelet.sock"))
        kubelet.listen()
        answer = base64.b64encode(api.ContainerAllocateResponse().SerializeToString()).decode()
        entry = {
            "PodUID": "u",
            "ContainerName": "c",
            "ResourceName": "nvidia.com/gpu",
            "DeviceIDs": {"-1": ["GPU-0-1"]},
        }
        data = {
            "PodDeviceEntries": [entry | {"AllocResp": answer}],
            "RegisteredDevices": {"nvidia.com/gpu": ["GPU-0-1"]},
        }
        (root / "plugins/kubelet_internal_checkpoint").write_text(json.dumps({"Data": data, "Checksum": 1}))
        (root / "state/lib/libvgpu.so.abc").write_text("")
        yield root


def facts_of(root: Path, **more) -> NodeFacts:
    places = Places(root / "plugins", root / "cdi", root / "state", root=root, **more)
    return gather(places, lambda _: ({"nvidia": 1}, {}))


def test_files_sockets_and_checkpoint_are_read(node):
    facts = facts_of(node)
    assert (facts.socket, facts.checkpoint, facts.entries) == ("", "", 1)
    assert facts.registered == {"nvidia.com/gpu": 1}
    assert facts.state_dir.problem == facts.cdi_dir.problem == ""
    assert facts.state_dir.filesystem
    assert facts.library == ("libvgpu.so.abc",)
    assert not list((node / "state").glob(".hami-doctor*"))


def test_the_runtimes_own_settings_are_seen(node):
    config = 'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = false\ncdi_spec_dirs = ["/etc/cdi"]\n'
    (node / "etc/containerd/config.toml").write_text(config)
    (node / "etc/cdi/broken.yaml").write_text("{ no")
    facts = facts_of(node)
    assert (facts.cdi_enabled, facts.runtime_dirs) == (False, ("/etc/cdi",))
    assert facts.broken_specs == (str(node / "etc/cdi/broken.yaml"),)


@pytest.mark.parametrize(
    ("spoil", "check"),
    [
        (lambda root: (root / "plugins/kubelet.sock").unlink(), "on-node.kubelet"),
        (
            lambda root: (root / "plugins/kubelet_internal_checkpoint").write_text('{"Data": {"New": 1}}'),
            "on-node.checkpoint",
        ),
        (lambda root: (root / "cdi").rmdir(), "on-node.cdi"),
        (
            lambda root: (root / "state/no-cdi").write_text(Path("/proc/sys/kernel/random/boot_id").read_text()),
            "on-node.cdi",
        ),
    ],
)
def test_missing_file_or_folder_is_reported(node, spoil, check):
    spoil(node)
    assert said(examine(facts_of(node)), check)


def test_paths_come_from_the_running_agents_flags(node):
    proc = node / "proc/41"
    proc.mkdir(parents=True)
    flags = ["agent", f"--state-dir={node}/state", "--kubelet-plugin-dir", f"{node}/plugins", f"--cdi-dir={node}/cdi"]
    (proc / "cmdline").write_bytes("\0".join(["/usr/bin/python3", "/usr/bin/hami", *flags, ""]).encode())
    facts = gather(Places(proc=node / "proc", root=node), lambda _: ({}, {}))
    assert facts.agent_pid == 41
    assert (facts.state_dir.path, facts.plugin_dir.path, facts.cdi_dir.path) == (
        f"{node}/state", f"{node}/plugins", f"{node}/cdi",
    )  # fmt: skip


def test_processes_without_the_interposer_are_found(node):
    mounts = "30 20 0:1 /x /usr/local/vgpu/limits ro - ext4 /dev/sda rw\n"
    for pid, maps, mountinfo in (
        (1, "x", ""),
        (2, "x", ""),
        (50, "7f /usr/local/vgpu/libvgpu.so", mounts),
        (51, "7f /lib/ld-musl-x86_64.so.1", mounts),
        (52, "7f /bin/static", mounts),
        (53, "7f /bin/other", ""),
    ):
        folder = node / f"proc/{pid}"
        folder.mkdir(parents=True)
        for name, text in (
            ("maps", maps),
            ("mountinfo", mountinfo),
            ("comm", "kubelet" if pid == 2 else f"p{pid}"),
            ("cmdline", ""),
            ("cgroup", "0::/"),
        ):
            (folder / name).write_text(text)
    facts = gather(Places(proc=node / "proc", root=node), lambda _: ({}, {}))
    assert facts.processes == (
        Process(50, "p50", preloaded=True), Process(51, "p51", preloaded=False, musl=True),
        Process(52, "p52", preloaded=False),
    )  # fmt: skip


def test_command_line_examines_a_node(node):
    proc = node / "proc"  # without the processes of this machine: other tests run agents
    proc.mkdir()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            (proc / entry.name).symlink_to(entry)
    argv = [sys.executable, "-m", "hami_core", "doctor", "--on-node", "--output", "json", "--proc-dir", str(proc)]
    argv += ["--kubelet-plugin-dir", f"{node}/plugins", "--cdi-dir", f"{node}/cdi", "--state-dir", f"{node}/state"]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=90, env={**os.environ, "NODE_NAME": "n1"}
    )
    shown = json.loads(done.stdout)
    assert shown["about"] == "node n1"
    levels = {f["check"]: f["level"] for f in shown["findings"]}
    assert levels["on-node.kubelet"] == levels["on-node.checkpoint"] == "ok"
    assert done.returncode == int("fail" in levels.values())


def test_terminal_output_is_a_table(node):
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "hami_core", "doctor", "--on-node", "--state-dir", f"{node}/state"]
    environment = {**os.environ, "NODE_NAME": "n1", "TERM": "xterm-256color", "COLUMNS": "200"}
    with subprocess.Popen(argv, stdout=theirs, env=environment) as running:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the terminal is gone when the program has ended
            while part := os.read(ours, 65536):
                shown += part
        running.wait(90)
    os.close(ours)
    text = shown.decode()
    assert "what to do" in text
    assert "✔ ok" in text
    assert "\x1b[" in text
