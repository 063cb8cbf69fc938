"""Runs every check on the facts. A check whose objects could not be read reports that as unknown. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hami_core.doctor.checks import (
    agents,
    certificates,
    collisions,
    kube_scheduler,
    nodes,
    pods,
    policy,
    scheduler,
    signing,
    upgrade,
    webhook,
)
from hami_core.doctor.checks.context import Context
from hami_core.doctor.finding import Finding, Report, ok, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hami_core.doctor.facts import Facts, Seen


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: Stable; scripts may rely on it.
        needs: Kinds of objects that the check reads (attributes of `Facts`).
        run: Facts → findings.
        good: Text of the ``ok`` finding when the check yields no finding of its own.
    """

    name: str
    needs: tuple[str, ...]
    run: Callable[[Context], Iterator[Finding]]
    good: str = ""


CHECKS: Final = (
    Check("cluster.version", (), nodes.kubernetes),
    Check("scheduler.pods", ("pods",), scheduler.pods),
    Check("scheduler.leader", ("pods", "leases"), scheduler.leader),
    Check("scheduler.device-config", ("pods",), scheduler.device_config, "every installed vendor accepts it"),
    Check("scheduler.role", ("pods",), scheduler.role_label),
    Check("install.versions", ("pods",), scheduler.versions),
    Check("kube-scheduler.settings", ("pods",), kube_scheduler.settings),
    Check("kube-scheduler.profiles", ("pods",), kube_scheduler.profiles, "one kube-scheduler for each schedulerName"),
    Check("webhook.present", ("webhooks",), webhook.present),
    Check("webhook.failure-policy", ("webhooks",), webhook.failure_policy),
    Check("webhook.service", ("webhooks", "services"), webhook.service),
    Check("webhook.certificates", ("webhooks",), certificates.certificates),
    Check("webhook.order", ("webhooks",), webhook.order, "no webhook changes pods after ours"),
    Check("policy.system-keys", ("policies", "policy_bindings"), policy.system_keys),
    Check("agents.coverage", ("nodes", "pods"), agents.coverage),
    Check("agents.lease", ("pods", "leases"), agents.lease, "every agent renews its Lease"),
    Check("agents.mode", ("nodes", "pods"), agents.mode),
    Check("agents.standing", ("nodes", "pods"), agents.availability, "no agent says that it is stopping"),
    Check("agents.trust", ("pods",), agents.trust),
    Check("agents.register", ("nodes", "pods"), agents.register),
    Check("agents.left-behind", ("nodes", "pods"), agents.left_behind, "every pod with devices has an agent"),
    Check("signing.keys", ("pods",), signing.agreement),
    Check("node.ready", ("nodes", "pods"), nodes.trouble, "nodes with devices are ready"),
    Check("node.kubelet", ("nodes", "pods"), nodes.kubelet, "every kubelet passes on CDI names"),
    Check("node.runtime", ("nodes", "pods"), nodes.runtime),
    Check("node.cgroups", ("nodes", "events"), nodes.cgroups, "no kubelet reports cgroup v1"),
    Check("collision.hami", ("pods",), collisions.hami, "HAMi itself does not run here"),
    Check("collision.device-plugin", ("daemon_sets", "pods"), collisions.device_plugins, "no other device plugin"),
    Check("collision.programs", ("daemon_sets", "pods"), collisions.programs, "no program that a vendor warns of runs"),
    Check("collision.nested-containers", ("pods",), collisions.nested, "no pod with devices starts containers itself"),
    Check("collision.sandbox", ("pods", "runtime_classes"), collisions.sandboxes, "no pod with devices is sandboxed"),
    Check("pods.pending", ("pods",), pods.pending, "no pod of our scheduler waits"),
    Check("pods.scheduler", ("pods",), pods.foreign, "every pod with our resources names our scheduler"),
    Check("pods.unallocated", ("pods",), pods.unallocated, "no pod is bound without an allocation"),
    Check("pods.allocations", ("nodes", "pods"), pods.unreadable, "no running pod has an allocation"),
    Check("pods.signatures", ("pods",), signing.signatures, "no running pod has an allocation"),
    Check("pods.refused", ("pods",), pods.refused, "no node refuses to start a pod with devices"),
    Check("pods.unlimited", ("pods", "events"), pods.unlimited, "no agent reports a pod without limits"),
    Check("upgrade.pods", ("pods", "nodes"), upgrade.refused, "this version would admit every pod with devices again"),
    Check("quota.names", ("quotas",), pods.quotas, "no ResourceQuota names our resources"),
)


def examine(facts: Facts, *, about: str = "") -> Report:
    """Run all checks."""
    context = Context(facts)
    found = [
        replace(finding, check=finding.check or check.name) for check in CHECKS for finding in _run(check, context)
    ]
    if not facts.families:
        seen = "no vendor package is installed here, so resource names are not known"
        missing = unknown("hami doctor", "plugins", seen, "pip install 'hami[all]', or run the doctor from our image")
        found.insert(0, replace(missing, check="doctor.vendors"))
    return Report(tuple(found), about)


def _run(check: Check, context: Context) -> Iterator[Finding]:
    said = False
    unread = False
    for need in check.needs:
        seen: Seen[object] = getattr(context.facts, need)
        if seen.problem:
            said = True
            unread |= not seen.items
            yield unknown("", need, seen.problem, "")
    if unread:
        return
    for finding in check.run(context):
        said = True
        yield finding
    if not said and check.good:
        yield ok("", "", check.good)
