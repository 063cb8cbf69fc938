"""Checks of Kubernetes versions and of nodes: kubelet, container runtime, cgroups."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from hami_core.doctor.checks.agents import modes_of
from hami_core.doctor.checks.context import some
from hami_core.doctor.clock import age_of
from hami_core.doctor.finding import Finding, fail, ok, unknown, warn
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_core.doctor.checks.context import Context
    from hami_core.kube.objects import Node

OLDEST: Final = (1, 30)
NEWEST: Final = (1, 36)
"""Oldest and newest Kubernetes minor on which this release is tested."""
CDI_KUBELET: Final = (1, 29)
"""First kubelet that passes on CDI names without a feature gate."""
PROOF_S: Final = 120.0
"""By this age of a pod, its node's agent has checked the mounts of its containers."""
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")


def version_of(text: str) -> tuple[int, int] | None:
    """Major and minor of a version such as ``v1.36.3`` or ``2.1.0``; None if the text is no version."""
    match = _VERSION.match(text)
    return (int(match[1]), int(match[2])) if match else None


def kubernetes(context: Context) -> Iterator[Finding]:
    """Is this Kubernetes version supported?"""
    found = version_of(context.facts.version)
    if found is None:
        yield unknown("API server", "version", context.facts.version or "not told")
        return
    supported = f"{_dotted(OLDEST)} to {_dotted(NEWEST)}"
    if found < OLDEST:
        fix = f"upgrade to a supported version: {supported}"
        yield fail("API server", "version", context.facts.version, fix)
    elif found > NEWEST:
        seen, fix = f"{context.facts.version} is newer than tested ({supported})", "see the release notes"
        yield warn("API server", "version", seen, fix)
    else:
        yield ok("API server", "version", context.facts.version)


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def kubelet(context: Context) -> Iterator[Finding]:
    """Does each kubelet pass on CDI names?"""
    for node in context.device_nodes:
        name, text = f"Node {node.metadata.name}", node.status.node_info.kubelet_version
        found = version_of(text)
        if found is None:
            continue
        if found < CDI_KUBELET:
            fix = "upgrade it: before 1.29 the kubelet drops a device plugin's CDI names, and containers get no device"
            yield fail(name, "nodeInfo.kubeletVersion", text, fix)
        elif not OLDEST <= found <= NEWEST:
            fix = "use a tested version: if its device checkpoint has an unknown form, containers do not start"
            yield warn(name, "nodeInfo.kubeletVersion", f"{text} is not tested", fix)


def runtime(context: Context) -> Iterator[Finding]:
    """Does each container runtime support CDI?"""
    for node in context.device_nodes:
        finding = _runtime(node, serves=_serves(context, node))
        if finding is not None:
            yield finding


def _serves(context: Context, node: Node) -> bool:
    """Whether a pod with devices runs there for so long that the agent has found its mounts in place."""
    return any(
        pod.spec.node_name == node.metadata.name
        and keys.SIGNATURE in pod.metadata.annotations
        and pod.is_ready
        and (age_of(context.facts, pod.metadata.creation_timestamp) or 0) > PROOF_S
        for pod in context.device_pods
    )


def _runtime(node: Node, *, serves: bool) -> Finding | None:
    text = node.status.node_info.container_runtime_version
    name, field = f"Node {node.metadata.name}", "nodeInfo.containerRuntimeVersion"
    kind, _, rest = text.partition("://")
    found = version_of(rest)
    proven = modes_of(node).values()
    how = _advice(kind, found)
    if not how:
        return (
            ok(name, field, text) if kind in {"containerd", "cri-o"} and found else _unknown_runtime(name, field, text)
        )
    if keys.MODE_SERIAL in proven:
        return warn(name, field, f"{text}, and the agent is in serial mode", how)
    if kind == "containerd" and found and found[0] == 1 and found[1] == 7:
        if serves and keys.MODE_CDI in proven:
            return ok(name, field, f"{text}, with CDI on: containers there have their mounts")
        return warn(name, field, f"{text}: CDI is off by default", how)
    return fail(name, field, f"{text} has no CDI", how)


def _unknown_runtime(name: str, field: str, text: str) -> Finding:
    return unknown(name, field, text or "not told", "turn CDI on there; the agent's --serial=auto notices if it is off")


def _advice(kind: str, version: tuple[int, int] | None) -> str:
    """What to do about a runtime; empty if it needs nothing or is not known."""
    if kind in {"docker", "cri-dockerd"}:
        return "use containerd or cri-o: docker's shim silently drops CDI names; --serial=always as a stopgap"
    if version is None:
        return ""
    if kind == "containerd" and version < (1, 7):
        return "upgrade to containerd 1.7 (with enable_cdi) or 2.x; --serial=always as a stopgap"
    if kind == "containerd" and version < (2, 0):
        return "set enable_cdi = true in the CRI section of its config.toml and restart it, or upgrade to 2.x"
    if kind == "cri-o" and version < (1, 23):
        return "upgrade to cri-o 1.23 or later; --serial=always as a stopgap"
    return ""


def cgroups(context: Context) -> Iterator[Finding]:
    """Which kubelets report cgroup v1?"""
    nodes = {e.involved_object.name for e in context.facts.events if e.reason == "CgroupV1"}
    names = sorted(nodes & {node.metadata.name for node in context.facts.nodes})
    if names:
        fix = "move to cgroup v2: from 1.35 on, kubelets refuse v1 by default (failCgroupV1)"
        yield warn("nodes", "cgroups", f"version 1 on {some(names)}", fix)


def trouble(context: Context) -> Iterator[Finding]:
    """Which nodes with devices are not ready or take no pods?"""
    for node in context.device_nodes:
        name = f"Node {node.metadata.name}"
        ready = next((c for c in node.status.conditions if c.type == "Ready"), None)
        if ready is not None and ready.status != "True":
            seen = f"{ready.status}: {ready.reason} {ready.message}".strip()
            yield fail(name, "status.conditions[Ready]", seen, "repair the node: it takes no pods until it is ready")
        elif node.spec.unschedulable:
            yield warn(name, "spec.unschedulable", "cordoned", f"kubectl uncordon {node.metadata.name}")
        pressure = [c.type for c in node.status.conditions if c.type.endswith("Pressure") and c.status == "True"]
        if pressure:
            fix = "free what is short: the kubelet evicts pods until then"
            yield warn(name, "status.conditions", ", ".join(pressure), fix)
