"""Checks of pods that request devices: waiting, bypassing our scheduler, refused, without limits."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from hami_core.doctor.checks.context import some
from hami_core.doctor.clock import age_of
from hami_core.doctor.finding import Finding, fail, ok, warn
from hami_core.model import ContainerKind
from hami_core.placement.quota_spec import LIMITS, Fault, findings, limited, read_limits
from hami_core.wire import keys
from hami_core.wire.pod import read_allocation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hami_core.doctor.checks.context import Context
    from hami_core.doctor.objects import Pod
    from hami_core.model import Device
    from hami_core.wire.pod import Reading

PATIENCE_S: Final = 30.0
"""A pod that has waited less than this is not reported."""


def pending(context: Context) -> Iterator[Finding]:
    """Which pods of our scheduler wait, and why?"""
    names = context.install.scheduler_names or frozenset({"hami-scheduler"})
    waiting: dict[str, list[str]] = defaultdict(list)
    for pod in context.facts.pods:
        if pod.is_over or pod.spec.node_name or pod.spec.scheduler_name not in names:
            continue
        condition = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        if condition is not None and condition.reason == "SchedulingGated":
            continue
        if (age_of(context.facts, pod.metadata.creation_timestamp) or 0) > PATIENCE_S:
            text = (
                condition.message if condition is not None and condition.message else "kube-scheduler has not tried it"
            )
            waiting[text].append(pod.key)
    for why, pods in sorted(waiting.items()):
        untried = why.startswith("kube-scheduler has not")
        up = "check that a kube-scheduler with this schedulerName runs"
        fix = up if untried else "hami explain pod NAME: it says what would have to change"
        yield (fail if untried else warn)("pods", "status.conditions[PodScheduled]", f"{some(pods)}: {why}", fix)


def foreign(context: Context) -> Iterator[Finding]:
    """Which pods with our resources name another scheduler?"""
    names = context.install.scheduler_names
    if not names:
        return
    foreign_pods: dict[str, list[str]] = defaultdict(list)
    for pod in context.device_pods:
        if pod.spec.scheduler_name not in names:
            foreign_pods[pod.spec.scheduler_name].append(pod.key)
    for scheduler, pods in sorted(foreign_pods.items()):
        fix = f"set schedulerName {min(names)}, or leave it out: without an allocation the agent does not start them"
        if keys.WEBHOOK_LABEL in {k for p in context.device_pods for k in p.metadata.labels}:
            fix += f"; the webhook skips pods with label {keys.WEBHOOK_LABEL}=ignore"
        yield warn("pods", "spec.schedulerName", f"{scheduler}: {some(pods)}", fix)


def refused(context: Context) -> Iterator[Finding]:
    """Which pods with devices does the node not start?"""
    for pod in context.facts.pods:
        if not context.uses_devices(pod):
            continue
        if pod.status.phase == "Failed" and pod.status.reason == "UnexpectedAdmissionError":
            fix = "delete it: the kubelet never retries it; no agent was registered on the node when it came"
            yield warn(f"Pod {pod.key}", "status.reason", f"UnexpectedAdmissionError: {pod.status.message}", fix)
        elif not pod.is_over:
            yield from _waiting(pod)


_REFUSALS: Final = ("PreStartContainer", "CDI device injection", "unresolvable CDI")
"""Parts of the kubelet's message when our agent, or the runtime for lack of a CDI spec, refuses a start."""


def _waiting(pod: Pod) -> Iterator[Finding]:
    for status in pod.container_statuses:
        waiting = status.state.waiting
        if waiting is not None and any(word in waiting.message for word in _REFUSALS):
            seen = f"{waiting.reason}: {waiting.message}"
            fix = "correct what the message names; the log of the agent on that node has more"
            yield fail(f"Pod {pod.key}", f"status of container {status.name}", seen, fix)


def unlimited(context: Context) -> Iterator[Finding]:
    """Which pods did agents report as running without their limits?"""
    alive = {pod.key for pod in context.facts.pods if not pod.is_over}
    seen: dict[str, str] = {}
    for event in context.facts.events:
        about = event.involved_object
        if event.reason == "DevicesUnlimited" and f"{about.namespace}/{about.name}" in alive:
            seen[f"{about.namespace}/{about.name}"] = event.message
    for pod, message in sorted(seen.items()):
        fix = "check CDI on that node (node.runtime, hami doctor --on-node), then delete the pod"
        yield fail(f"Pod {pod}", "event DevicesUnlimited", message, fix)


def quotas(context: Context) -> Iterator[Finding]:
    """Which ResourceQuota entries about our resources count, and which do not?"""
    families = context.facts.families
    resources = limited(families)
    offered = {name for node in context.facts.nodes for name in node.status.capacity}
    for quota in context.facts.quotas:
        name = f"ResourceQuota {quota.key}"
        for resource, limit in sorted(read_limits(quota.key, quota.spec.hard, resources).items()):
            if not limit.problem:
                unit = resources[resource][0].value
                yield ok(name, f"spec.hard[{LIMITS}{resource}]", f"{limit.amount} {unit}, summed by our scheduler")
        for wrong in findings(quota.key, quota.spec.hard, families, offered.__contains__):
            tell = fail if wrong.fault is Fault.UNREADABLE else warn
            yield tell(name, f"spec.hard[{wrong.entry}]", wrong.problem, wrong.fix)


def unallocated(context: Context) -> Iterator[Finding]:
    """Which pods of our scheduler are bound to a node and have no allocation?"""
    names = context.install.scheduler_names
    found = [
        pod.key
        for pod in context.device_pods
        if pod.spec.node_name
        and pod.spec.scheduler_name in names
        and not any(keys.is_allocated_key(k) for k in pod.metadata.annotations)
        and not any(pod.metadata.annotations.get(f.allocated_key) for f in context.facts.families)
    ]
    if found:
        fix = (
            "delete them: they bypassed our Bind (spec.nodeName by hand, another binder), or it was removed;"
            " once a container of theirs with devices has started, the node takes no new pods with such devices"
        )
        yield fail("pods", "metadata.annotations", f"bound without an allocation: {some(found)}", fix)


def unreadable(context: Context) -> Iterator[Finding]:
    """Which running pods have an allocation that can't be read? Their nodes take no new pods of that family."""
    families = {family.word: family for family in context.facts.families}
    good = 0
    for pod in context.facts.pods:
        if pod.is_over or not pod.spec.node_name:
            continue
        init = len(pod.spec.all_containers) - len(pod.spec.containers)
        kinds = [ContainerKind.INIT] * init + [ContainerKind.APP] * len(pod.spec.containers)
        containers = [(c.name, kind) for c, kind in zip(pod.spec.all_containers, kinds, strict=True)]
        limits = [c.resources.limits for c in pod.spec.all_containers]
        reading = read_allocation(pod.metadata.annotations, families, containers, limits)
        devices = context.devices.get(pod.spec.node_name, {})
        problems = {**_unknown_devices(reading, devices), **reading.unread}
        good += reading.allocation is not None and not problems
        for word, problem in problems.items():
            fix = f"delete the pod or restore the annotation: until then {pod.spec.node_name} takes no new {word} pods"
            yield fail(f"Pod {pod.key}", families[word].allocated_key, f"can't be read: {problem}", fix)
    if good:
        yield ok("pods", "metadata.annotations", f"{good} allocations can be read")


def _unknown_devices(reading: Reading, devices: Mapping[str, tuple[Device, ...] | None]) -> dict[str, str]:
    """Common word → a device of the allocation that is missing from the node's register of that family.

    A node without any device of the family is skipped.
    """
    found: dict[str, str] = {}
    for container in reading.allocation.containers if reading.allocation is not None else ():
        for piece in container.slices:
            there = devices.get(piece.family)
            if there and all(device.id != piece.device_id for device in there):
                found.setdefault(piece.family, f"the node has no device {piece.device_id!r}")
    return found
