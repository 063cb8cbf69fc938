"""What else on the cluster wants the same devices, or looks at them in its own way."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from hami_core.doctor.checks.context import some
from hami_core.doctor.finding import Finding, fail, ok, warn
from hami_core.doctor.install import is_hami, program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hami_core.doctor.checks.context import Context
    from hami_core.doctor.objects import Container, DaemonSet, PodSpec

DEVICE_PLUGINS: Final[Mapping[str, str]] = {
    "nvidia/k8s-device-plugin": "NVIDIA's device plugin",
    "nvidia-device-plugin": "NVIDIA's device plugin",
    "volcano-vgpu-device-plugin": "Volcano's vGPU device plugin",
    "ascend-k8sdeviceplugin": "Ascend's device plugin",
    "ascend-device-plugin": "HAMi's Ascend device plugin",
    "cambricon-k8s-device-plugin": "Cambricon's device plugin",
    "gpushare-device-plugin": "Aliyun's GPU-share device plugin",
    "gpu-manager": "TKE's GPU manager",
    "nvidia-gpu-device-plugin": "GKE's device plugin",
}
"""Part of an image's name → whose device plugin it is."""
NO_PLUGINS: Final = ("gpu-feature-discovery", "mps-control-daemon", "config-manager")
"""Other programs out of a device plugin's image."""
SIDE_PLUGIN_VENDORS: Final = ("ascend", "cambricon")
"""Vendors whose own node plugin HAMi works with rather than replaces."""
OPERATOR_PARTS: Final = ("gpu-operator", "nvidia-operator-validator", "nvidia-container-toolkit-daemonset")
DCGM: Final = "dcgm-exporter"
NESTED: Final = ("docker:dind", "docker/dind", "-dind", "podman/stable", "moby/buildkit")
SANDBOXES: Final = ("kata", "gvisor", "runsc", "firecracker")


def _containers(daemon_set: DaemonSet) -> list[Container]:
    return daemon_set.spec.template.spec.containers


def device_plugins(context: Context) -> Iterator[Finding]:
    """Does another device plugin offer the same resources to the kubelet?"""
    served = {family.word.lower() for family in context.facts.families}
    agents = {agent.setting("vendor") for agent in context.install.agents} - {""}
    for daemon_set, whose in _foreign_plugins(context):
        vendor = next((v for v in SIDE_PLUGIN_VENDORS if v in whose.lower()), "nvidia")
        if vendor in SIDE_PLUGIN_VENDORS and vendor not in agents:
            continue
        if vendor == "nvidia" and not any("nvidia" in word for word in served):
            continue
        nodes = _nodes_of(context, daemon_set)
        both = sorted(n for n in nodes if context.agents_on(n))
        name = f"DaemonSet {daemon_set.key}"
        if both:
            fix = (
                "one plugin a node: take it off these nodes (GPU Operator: devicePlugin.enabled=false, or label them "
                "nvidia.com/gpu.deploy.device-plugin=false), then restart our agent there"
            )
            yield fail(name, "spec.template", f"{whose} runs beside our agent on {some(both)}", fix)
        elif nodes:
            fix = "keep the two sets of nodes apart by labels: pods meant for one kind fail on the other"
            yield warn(name, "spec.template", f"{whose} runs on {some(sorted(nodes))}", fix)


def _foreign_plugins(context: Context) -> Iterator[tuple[DaemonSet, str]]:
    for daemon_set in context.facts.daemon_sets:
        for container in _containers(daemon_set):
            if program(container) or is_hami(container):
                continue
            words = " ".join([container.image, container.name, *container.command]).lower()
            if any(part in words for part in NO_PLUGINS):
                continue
            whose = next((who for part, who in DEVICE_PLUGINS.items() if part in words), "")
            if whose:
                yield daemon_set, whose
                break


def _nodes_of(context: Context, daemon_set: DaemonSet) -> set[str]:
    owner = f"DaemonSet/{daemon_set.metadata.name}"
    return {
        pod.spec.node_name
        for pod in context.facts.pods
        if pod.metadata.namespace == daemon_set.metadata.namespace and pod.owner == owner and not pod.is_over
    } - {""}


def operator(context: Context) -> Iterator[Finding]:
    """Is NVIDIA's GPU Operator there, and does it leave the device plugin to us?"""
    parts = sorted({p.key for p in context.facts.pods if not p.is_over and _runs(p.spec, OPERATOR_PARTS)})
    if not parts:
        return
    plugins = [ds for ds, whose in _foreign_plugins(context) if "NVIDIA" in whose and _nodes_of(context, ds)]
    if plugins:
        fix = "helm upgrade gpu-operator --set devicePlugin.enabled=false (docs: install); driver and toolkit may stay"
        yield fail("GPU Operator", "devicePlugin.enabled", f"its device plugin runs: {plugins[0].key}", fix)
    else:
        yield ok("GPU Operator", "devicePlugin.enabled", f"it leaves the device plugin to us ({parts[0]})")
    if _runs_in(context, ("mig-manager",)):
        fix = "set migManager.enabled=false where our agent's operating mode is mig: both would change the geometry"
        yield warn("GPU Operator", "migManager.enabled", "its MIG manager runs", fix)


def _runs(spec: PodSpec, parts: tuple[str, ...]) -> bool:
    return any(part in f"{c.image} {c.name}" for c in spec.all_containers for part in parts)


def _runs_in(context: Context, parts: tuple[str, ...]) -> bool:
    return any(_runs(pod.spec, parts) for pod in context.facts.pods if not pod.is_over)


def dcgm(context: Context) -> Iterator[Finding]:
    """Does DCGM exporter attribute cards to pods by the kubelet's word?"""
    pods = [p for p in context.facts.pods if not p.is_over and _runs(p.spec, (DCGM,))]
    if pods:
        fix = (
            "use its figures by device only (DCGM_EXPORTER_KUBERNETES=false); by pod and container our agent's "
            "metrics are right: slot ids the kubelet picked may be another card's than booked"
        )
        yield warn(f"Pod {pods[0].key}", "metrics by pod", f"DCGM exporter runs ({len(pods)} pods)", fix)


def hami(context: Context) -> Iterator[Finding]:
    """Is HAMi itself still installed?"""
    workloads: dict[tuple[bool, str], set[str]] = defaultdict(set)
    for part in context.install.originals:
        apart = part.pod.spec.node_name in context.nodes_of_hami and part.pod.owner.startswith("DaemonSet/")
        workloads[apart, part.namespace].add(part.pod.owner)
    for (apart, namespace), owners in sorted(workloads.items()):
        listed = ", ".join(sorted(owners))
        if apart:
            fix = "its nodes get one pod at a time; finish the migration if that is not meant (docs: migrate-from-hami)"
            seen = f"serves nodes without our agent ({some(sorted(context.nodes_of_hami))}): {listed}"
            yield warn(f"namespace {namespace}", "HAMi", seen, fix)
            continue
        fix = (
            "finish the migration (docs: migrate-from-hami): two schedulers book the same cards past each other, "
            "two agents write the same node annotations"
        )
        yield fail(f"namespace {namespace}", "HAMi", f"still runs: {listed}", fix)


def nested(context: Context) -> Iterator[Finding]:
    """Which pods with devices start containers of their own?"""
    found = [pod.key for pod in context.device_pods if _is_nested(pod.spec)]
    if found:
        fix = "limits bind in this pod's own containers; those it starts itself need the limits folder mounted by hand"
        yield warn("pods", "spec.containers", f"run containers inside containers: {some(found)}", fix)


def _is_nested(spec: PodSpec) -> bool:
    sockets = ("docker.sock", "containerd.sock")
    if any(v.host_path is not None and v.host_path.path.endswith(sockets) for v in spec.volumes):
        return True
    return any(part in container.image for container in spec.all_containers for part in NESTED)


def sandboxes(context: Context) -> Iterator[Finding]:
    """Which pods with devices run in a virtual machine or a sandbox?"""
    handlers = {c.metadata.name: c.handler for c in context.facts.runtime_classes}
    found: dict[str, list[str]] = defaultdict(list)
    for pod in context.device_pods:
        name = pod.spec.runtime_class_name or ""
        handler = handlers.get(name, name)
        if any(word in f"{name} {handler}".lower() for word in SANDBOXES):
            found[f"{name} (handler {handler})"].append(pod.key)
    for name, pods in sorted(found.items()):
        fix = "use the default runtime for them: device nodes, mounts and the interposer do not reach the inside"
        yield fail(f"RuntimeClass {name}", "runtimeClassName", f"used by pods with devices: {some(pods)}", fix)
