"""What this version refuses and an earlier one took: pods that run now and could not be created or placed again.

Run before an upgrade: a pod that runs goes on, but its next replica, restart from scratch or rollout would be refused.
The verdict is the installed vendors' own (`mutate_admission`, `parse_request`, `check_type`), as the webhook and the
Filter of this version ask them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from hami_core.agent.judge import covering_mount
from hami_core.doctor.checks.context import some
from hami_core.doctor.finding import Finding, warn
from hami_core.errors import HamiError
from hami_core.kube.objects import in_start_order
from hami_core.model import PodFacts
from hami_core.scheduler.pods import container_spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_core.doctor.checks.context import Context
    from hami_core.doctor.objects import Pod
    from hami_core.model import Request
    from hami_core.plugins.loaded import Loaded


def refused(context: Context) -> Iterator[Finding]:
    """Which pods that exist would this version refuse if they were created again?"""
    vendors = context.facts.vendors
    if vendors is None:
        return
    by_reason: dict[str, list[str]] = defaultdict(list)
    for pod in context.device_pods:
        try:
            requests = _admit(pod, vendors)
        except HamiError as error:
            by_reason[str(error)].append(pod.key)
            continue
        if reason := _unplaceable(context, pod, requests, vendors) or _unstartable(context, pod):
            by_reason[reason].append(pod.key)
    for reason, pods in sorted(by_reason.items()):
        fix = "change it in what creates them (Deployment, Job, …); what runs goes on until it is created anew"
        yield warn("pods", "spec", f"would be refused by this version: {some(pods)}: {reason}", fix)


def _admit(pod: Pod, vendors: Loaded) -> list[Request]:
    """What the pod asks for, as the webhook completes and reads it.

    Raises:
        HamiError: The webhook would refuse it.
    """
    meta = pod.metadata
    facts = PodFacts(meta.namespace, meta.name, meta.uid, meta.annotations, pod.spec.runtime_class_name or "")
    requests: list[Request] = []
    for kind, container in in_start_order(pod.spec.init_containers, pod.spec.containers):
        spec = container_spec(container, kind)
        mutation = vendors.mutate(spec, facts)
        if mutation is not None:
            limits, asked = {**spec.limits, **mutation.limits}, {**spec.requests, **mutation.requests}
            spec = replace(spec, limits=limits, requests=asked)
        requests += vendors.parse(spec, facts)
    return requests


def _unplaceable(context: Context, pod: Pod, requests: list[Request], vendors: Loaded) -> str:
    """Why no device of the pod's own node would be given to it again; empty: one would, or it is on none."""
    devices = context.devices.get(pod.spec.node_name, {})
    checks = {rules.family.word: rules.check_type for rules in vendors.rules()}
    for request in requests:
        found = devices.get(request.family) or ()
        reasons = [why for device in found if (why := checks[request.family](request, device.kind)) is not None]
        if reasons and len(reasons) == len(found):
            detail = reasons[0].detail or "no device of its node is of a type or mode that it takes"
            return f"{reasons[0].code}: {detail}"
    return ""


def _unstartable(context: Context, pod: Pod) -> str:
    """Why the webhook or the agent of this version would not let a container with devices start; empty: both would."""
    for container in pod.spec.all_containers:
        if container.is_privileged:
            return f"container {container.name} is privileged"
        if context.asked(container) and (path := covering_mount(container)):
            return f"container {container.name} mounts a volume at {path}, over files that limit it"
    return ""
