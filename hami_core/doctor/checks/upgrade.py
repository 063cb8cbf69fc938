"""Finds pods that run now and that this version would refuse to create, place or start again.

Run it before an upgrade. A running pod goes on, but its next replica or rollout would be refused. The installed
vendors decide (`mutate_admission`, `parse_request`, `check_type`), just as for this version's webhook and Filter.
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
    """Which existing pods would this version refuse if they were created again?"""
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
        fix = "change it in the Deployment, Job or other object that creates them; running pods go on until then"
        yield warn("pods", "spec", f"would be refused by this version: {some(pods)}: {reason}", fix)


def _admit(pod: Pod, vendors: Loaded) -> list[Request]:
    """The pod's requests, after the webhook has completed them.

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
    """Why no device of the pod's node fits the pod's type or mode; empty if one fits or the pod has no node."""
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
    """Why this version's webhook or agent would refuse to start a container; empty if neither would."""
    for container in pod.spec.all_containers:
        if container.is_privileged:
            return f"container {container.name} is privileged"
        if context.asked(container) and (path := covering_mount(container)):
            return f"container {container.name} mounts a volume at {path}, over files that limit it"
    return ""
