"""Facts of a node → findings. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hami_core.compatibility import HAMI
from hami_core.doctor.checks.context import some
from hami_core.doctor.finding import Finding, Report, fail, ok, unknown, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hami_core.doctor.on_node.facts import NodeFacts

VOLATILE: Final = frozenset({"tmpfs", "ramfs", "overlay"})
"""File systems that lose their content when the node reboots or the container ends."""
ROOM_BYTES: Final = 64 << 20
WATCHED: Final = ("/etc/cdi", "/var/run/cdi", "/run/cdi")
"""Folders in which container runtimes look for CDI specs by default."""


def agent(facts: NodeFacts) -> Iterator[Finding]:
    """Does an agent run here?"""
    if facts.agent_pid:
        yield ok("agent", "process", f"process {facts.agent_pid}")
    else:
        fix = "start it (its DaemonSet selects nodes by label), or give this command the node's /proc (hostPID)"
        yield warn("agent", "process", "no `hami agent` was found", fix)


def kubelet(facts: NodeFacts) -> Iterator[Finding]:
    """Can plugins register?"""
    folder = facts.plugin_dir
    if folder.problem:
        fix = "mount the kubelet's folder there, writable; the kubelet's --root-dir does not change its path"
        yield fail(folder.path, "", folder.problem, fix)
        return
    if facts.socket:
        fix = "start the kubelet; if the agent's pod is older than the kubelet's folder, restart the pod"
        yield fail(f"{folder.path}/kubelet.sock", "", facts.socket, fix)
    else:
        yield ok(f"{folder.path}/kubelet.sock", "", "answers")


def checkpoint(facts: NodeFacts) -> Iterator[Finding]:
    """Has the kubelet's device checkpoint a form that the agent can read?"""
    name = f"{facts.plugin_dir.path}/kubelet_internal_checkpoint"
    if not facts.checkpoint:
        slots = ", ".join(f"{count} {resource}" for resource, count in sorted(facts.registered.items()))
        yield ok(name, "", f"{facts.entries} containers with devices; {slots or 'no resource'} registered")
    elif facts.checkpoint == "does not exist":
        yield warn(name, "", facts.checkpoint, "start the agent: the kubelet writes it when the first plugin registers")
    else:
        fix = "use a supported kubelet (docs: doctor, cluster.version): until then no container gets devices"
        yield fail(name, "", facts.checkpoint, fix)


def cdi(facts: NodeFacts) -> Iterator[Finding]:
    """Can the agent write CDI specs where the runtime looks for them?"""
    folder = facts.cdi_dir
    if folder.problem:
        yield fail(folder.path, "", folder.problem, "mount it writable (--cdi-dir)")
    elif facts.runtime_dirs and not _same(folder.path, facts.runtime_dirs):
        fix = f"add it to cdi_spec_dirs of containerd's CRI section, or set --cdi-dir to {facts.runtime_dirs[-1]}"
        yield fail(folder.path, "cdi_spec_dirs", f"containerd looks in {', '.join(facts.runtime_dirs)} only", fix)
    elif not facts.runtime_dirs and not _same(folder.path, WATCHED):
        fix = "add it to the runtime's cdi_spec_dirs, or use /var/run/cdi"
        yield warn(folder.path, "--cdi-dir", "by default runtimes look in /etc/cdi and /var/run/cdi", fix)
    else:
        yield ok(folder.path, "", f"writable, {len(folder.files)} specs")
    if facts.cdi_enabled is False:
        fix = "set enable_cdi = true in the CRI section of /etc/containerd/config.toml, and restart containerd"
        yield fail("containerd", "enable_cdi", "false: containerd silently drops CDI names", fix)
    if facts.learnt_serial:
        fix = f"turn CDI on in the runtime, then remove {facts.state_dir.path}/no-cdi and restart the agent"
        seen = "the agent saw a container without its mounts: serial mode until the next boot"
        yield warn("agent", "no-cdi", seen, fix)
    for path in facts.broken_specs:
        yield fail(path, "", "is no CDI spec: runtimes may refuse every container", "repair or remove it")


def _same(path: str, folders: tuple[str, ...]) -> bool:
    """Whether a folder is one of several; ``/var/run`` and ``/run`` are the same."""
    plain = {folder.rstrip("/").replace("/var/run/", "/run/", 1) for folder in folders}
    return path.rstrip("/").replace("/var/run/", "/run/", 1) in plain


def state(facts: NodeFacts) -> Iterator[Finding]:
    """Can the agent write its records, and do they survive a reboot?"""
    folder = facts.state_dir
    if folder.problem:
        yield fail(folder.path, "--state-dir", folder.problem, "mount a folder of the node's disk there, writable")
    elif folder.filesystem in VOLATILE:
        fix = "use a folder on the node's disk: the agent's records of running containers must survive"
        yield fail(folder.path, "--state-dir", f"lies on {folder.filesystem}, which a reboot or restart empties", fix)
    elif folder.free_bytes < ROOM_BYTES:
        fix = "free disk space: without it no further container starts"
        yield fail(folder.path, "--state-dir", f"{folder.free_bytes >> 20} MiB left", fix)
    else:
        yield ok(folder.path, "--state-dir", f"writable, on {folder.filesystem or 'a disk'}")
    if not facts.boot_id:
        fix = "give the agent the node's /proc (--proc-dir): else it takes each restart for a reboot"
        yield warn("sys/kernel/random/boot_id", "--proc-dir", "can't be read", fix)


def driver(facts: NodeFacts) -> Iterator[Finding]:
    """Do the vendors installed here find devices?"""
    for vendor, problem in sorted(facts.vendor_problems.items()):
        fix = f"install the driver, and mount it in the agent (chart: {HAMI.driver_root_key}, runtimeClassName)"
        yield fail(f"vendor {vendor}", "devices", problem, fix)
    for vendor, count in sorted(facts.devices.items()):
        if count:
            yield ok(f"vendor {vendor}", "devices", f"{count} found; {facts.driver or 'driver version not told'}")
        else:
            fix = "repair the driver, or remove the node's label that the agent's DaemonSet selects"
            yield fail(f"vendor {vendor}", "devices", f"none found; {facts.driver or 'no driver version file'}", fix)
    if not facts.devices and not facts.vendor_problems:
        yield unknown("vendors", "", "no vendor's node side is installed here", "pip install 'hami[all]'")


def security(facts: NodeFacts) -> Iterator[Finding]:
    """Do Linux security modules keep containers from our mounts?"""
    if facts.selinux_enforcing and facts.selinux_type:
        yield ok("SELinux", "enforce", f"1; the agent gives the files of containers the type {facts.selinux_type}")
    elif facts.selinux_enforcing:
        fix = "let the agent label what containers mount: --selinux-type=container_file_t (chart: selinux.enabled)"
        yield warn("SELinux", "enforce", "1", fix)
    elif "apparmor" in facts.lsm:
        yield ok("AppArmor", "lsm", "on; the runtime's default profile allows our mounts")
    else:
        yield ok("LSM", "lsm", ", ".join(facts.lsm) or "none found")


def cgroups(facts: NodeFacts) -> Iterator[Finding]:
    """Which cgroup version does the node have?"""
    if facts.cgroup_version == 1:
        fix = "move to v2: from 1.35 on, kubelets refuse v1 by default"
        yield warn("cgroups", "", "version 1", fix)
    elif facts.cgroup_version:
        yield ok("cgroups", "", f"version {facts.cgroup_version}")


def preload(facts: NodeFacts) -> Iterator[Finding]:
    """Do programs in containers with limits load the interposer?"""
    if facts.entries and not facts.library:
        fix = "pip install hami-interpose where the agent runs: it copies libvgpu.so there with the first slice"
        yield warn(f"{facts.state_dir.path}/lib", "", "holds no libvgpu.so", fix)
    if facts.processes is None:
        seen = "the node's processes cannot be seen from this container"
        yield unknown("processes", "", seen, "run the agent with hostPID")
        return
    without = [p for p in facts.processes if p.preloaded is False]
    musl = [f"{p.name} ({p.pid})" for p in without if p.musl]
    static = [f"{p.name} ({p.pid})" for p in without if not p.musl]
    if musl:
        fix = "use an image with glibc: musl does not load the interposer, so limits do not bind these programs"
        yield warn("processes", "musl", some(musl), fix)
    if static:
        fix = "link them dynamically and keep /etc/ld.so.preload, or use MIG: without the interposer limits do not bind"
        yield warn("processes", "without libvgpu.so", some(static), fix)
    if not without:
        yield ok("processes", "", f"{len(facts.processes)} run with limits and load the interposer")


CHECKS: Final[tuple[tuple[str, Callable[[NodeFacts], Iterator[Finding]]], ...]] = (
    ("on-node.agent", agent),
    ("on-node.kubelet", kubelet),
    ("on-node.checkpoint", checkpoint),
    ("on-node.cdi", cdi),
    ("on-node.state", state),
    ("on-node.driver", driver),
    ("on-node.security", security),
    ("on-node.cgroups", cgroups),
    ("on-node.preload", preload),
)


def examine(facts: NodeFacts) -> Report:
    """Run all checks of a node."""
    found = [replace(finding, check=name) for name, run in CHECKS for finding in run(facts)]
    return Report(tuple(found), f"node {facts.node}")
