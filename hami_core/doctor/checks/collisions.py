"""Checks for other programs that give out the same devices, and for runtimes that our limits do not reach."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hami_core.doctor.checks.context import some
from hami_core.doctor.finding import Finding, fail, ok, warn
from hami_core.doctor.install import is_hami, program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hami_core.doctor.checks.context import Context
    from hami_core.doctor.objects import Container, DaemonSet, PodSpec
    from hami_core.model import Caution, DoctorNotes
    from hami_core.plugins import LoadedVendor

NESTED: Final = ("docker:dind", "docker/dind", "-dind", "podman/stable", "moby/buildkit")
SANDBOXES: Final = ("kata", "gvisor", "runsc", "firecracker")


@dataclass(frozen=True, slots=True)
class _Foreign:
    """A DaemonSet with another device plugin for devices that a vendor serves."""

    daemon_set: DaemonSet
    whose: str
    vendor: LoadedVendor
    notes: DoctorNotes


def device_plugins(context: Context) -> Iterator[Finding]:
    """Does another device plugin offer the same resources to the kubelet?"""
    for foreign in _foreign_plugins(context):
        if context.agent_words.isdisjoint(family.word for family in foreign.vendor.families):
            continue  # our vendor has no agent: that plugin serves these devices
        nodes = _nodes_of(context, foreign.daemon_set)
        both = sorted(n for n in nodes if context.agents_on(n))
        name = f"DaemonSet {foreign.daemon_set.key}"
        if both:
            how = f" ({foreign.notes.take_off})" if foreign.notes.take_off else ""
            fix = f"remove it from these nodes{how}, then restart our agent there: a node takes one plugin"
            yield fail(name, "spec.template", f"{foreign.whose} runs beside our agent on {some(both)}", fix)
        elif nodes:
            fix = "separate its nodes from our agent's by labels: a pod for one kind fails on the other"
            yield warn(name, "spec.template", f"{foreign.whose} runs on {some(sorted(nodes))}", fix)


def _foreign_plugins(context: Context) -> Iterator[_Foreign]:
    for vendor, notes in _notes(context):
        for daemon_set in context.facts.daemon_sets:
            whose = next(filter(None, (_whose(c, notes) for c in daemon_set.spec.template.spec.containers)), "")
            if whose:
                yield _Foreign(daemon_set, whose, vendor, notes)


def _notes(context: Context) -> Iterator[tuple[LoadedVendor, DoctorNotes]]:
    """The vendors' notes for the doctor; notes that several families of a vendor share come once."""
    for vendor in context.facts.vendors.vendors if context.facts.vendors else ():
        for notes in dict.fromkeys(family.doctor for family in vendor.families):
            yield vendor, notes


def _whose(container: Container, notes: DoctorNotes) -> str:
    """The owner of the device plugin that the container runs; empty if it runs none that the vendor knows."""
    words = " ".join([container.image, container.name, *container.command]).lower()
    if program(container) or is_hami(container) or any(mark in words for mark in notes.not_plugins):
        return ""
    return next((n.whose for n in notes.neighbours if any(mark in words for mark in n.marks)), "")


def _nodes_of(context: Context, daemon_set: DaemonSet) -> set[str]:
    owner = f"DaemonSet/{daemon_set.metadata.name}"
    return {
        pod.spec.node_name
        for pod in context.facts.pods
        if pod.metadata.namespace == daemon_set.metadata.namespace and pod.owner == owner and not pod.is_over
    } - {""}


def programs(context: Context) -> Iterator[Finding]:
    """Do programs run that a vendor warns of?"""
    plugins: dict[str, str] = {}
    for foreign in _foreign_plugins(context):
        if _nodes_of(context, foreign.daemon_set):
            plugins.setdefault(foreign.whose, foreign.daemon_set.key)
    for caution in dict.fromkeys(caution for _, notes in _notes(context) for caution in notes.cautions):
        running = sorted(pod.key for pod in context.facts.pods if not pod.is_over and _runs(pod.spec, caution.marks))
        if running:
            yield replace(_warned(caution, running, plugins), check=f"collision.{caution.check}")


def _warned(caution: Caution, running: list[str], plugins: Mapping[str, str]) -> Finding:
    where = caution.where or f"Pod {running[0]}"
    if not caution.brings:
        return warn(where, caution.field, f"{caution.seen} ({len(running)} pods)", caution.fix)
    if caution.brings in plugins:
        return fail(where, caution.field, f"{caution.seen}: {plugins[caution.brings]}", caution.fix)
    return ok(where, caution.field, f"{caution.brings} does not run beside it ({running[0]})")


def _runs(spec: PodSpec, marks: tuple[str, ...]) -> bool:
    return any(mark in f"{c.image} {c.name}" for c in spec.all_containers for mark in marks)


def hami(context: Context) -> Iterator[Finding]:
    """Is HAMi itself still installed?"""
    workloads: dict[tuple[bool, str], set[str]] = defaultdict(set)
    for part in context.install.originals:
        apart = part.pod.spec.node_name in context.nodes_of_hami and part.pod.owner.startswith("DaemonSet/")
        workloads[apart, part.namespace].add(part.pod.owner)
    for (apart, namespace), owners in sorted(workloads.items()):
        listed = ", ".join(sorted(owners))
        if apart:
            fix = "one pod is bound at a time: finish the migration if you do not want that (docs: migrate-from-hami)"
            seen = f"serves nodes without our agent ({some(sorted(context.nodes_of_hami))}): {listed}"
            yield warn(f"namespace {namespace}", "HAMi", seen, fix)
            continue
        fix = (
            "finish the migration (docs: migrate-from-hami): two schedulers book the same cards independently, "
            "and two agents write the same node annotations"
        )
        yield fail(f"namespace {namespace}", "HAMi", f"still runs: {listed}", fix)


def nested(context: Context) -> Iterator[Finding]:
    """Which pods with devices start containers of their own?"""
    found = [pod.key for pod in context.device_pods if _is_nested(pod.spec)]
    if found:
        fix = "mount the limits folder in the containers that such a pod starts; else limits bind only in its own"
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
        fix = "use the default runtime for them: device nodes, mounts and the interposer do not reach a sandbox"
        yield fail(f"RuntimeClass {name}", "runtimeClassName", f"used by pods with devices: {some(pods)}", fix)
