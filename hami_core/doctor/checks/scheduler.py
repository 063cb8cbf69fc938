"""Checks of our scheduler's pods, leader election, versions and device-config."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from hami_core.doctor.checks.context import pod_name, some
from hami_core.doctor.clock import age_of
from hami_core.doctor.finding import Finding, fail, ok, unknown, warn
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_core.doctor.checks.context import Context
    from hami_core.doctor.install import Part
    from hami_core.kube.objects import Lease

INSTALL: Final = "install it: helm install hami, or kubectl apply the output of `hami manifests`"
_TRUE: Final = frozenset({"true", "1", "t", "yes", "on"})


def pods(context: Context) -> Iterator[Finding]:
    """Are there scheduler pods, all in one namespace and ready?"""
    found = context.install.schedulers
    if not found:
        where = f"namespace {context.facts.namespace}" if context.facts.namespace else "cluster"
        yield fail(where, "", "no pod runs `hami scheduler`", INSTALL)
        return
    spaces = context.install.namespaces
    if len(spaces) > 1:
        fix = "keep one installation: two give out the same devices; --namespace makes the doctor check one of them"
        yield fail("cluster", "", f"schedulers in {len(spaces)} namespaces: {', '.join(spaces)}", fix)
    for part in found:
        yield from _pod(part)


def _pod(part: Part) -> Iterator[Finding]:
    name = pod_name(part.pod)
    if part.pod.is_ready:
        yield ok(name, "status.conditions[Ready]", "ready")
        return
    why = [f"{s.name}: {w.reason} {w.message}".strip() for s in part.pod.container_statuses if (w := s.state.waiting)]
    reason = "; ".join(why) or next((c.message for c in part.pod.status.conditions if c.status != "True"), "")
    log = f"kubectl -n {part.namespace} logs {part.pod.metadata.name} -c {part.container.name}"
    fix = f"{log}; its /readyz names what is missing"
    seen = f"not ready ({part.pod.status.phase or 'no phase'})" + (f": {reason}" if reason else "")
    yield fail(name, "status.conditions[Ready]", seen, fix)


def leader(context: Context) -> Iterator[Finding]:
    """Does exactly one replica bind pods, and does it renew its Lease?"""
    schedulers = context.install.schedulers
    if not schedulers:
        return
    electing = [part for part in schedulers if part.setting("leader_elect", "false").lower() in _TRUE]
    if not electing:
        yield from _without_election(schedulers)
        return
    part = electing[0]
    name = part.setting("leader_elect_resource_name") or part.setting("scheduler_name", "hami-scheduler")
    # The namespace may come from the downward API; the pod's specification does not hold its value.
    namespace = part.setting("leader_elect_resource_namespace") or part.namespace
    lease = next((e for e in context.facts.leases if e.key == f"{namespace}/{name}"), None)
    if lease is None:
        fix = "check leaderElection in kube-scheduler's configuration, and its right to write Leases"
        yield fail(f"Lease {namespace}/{name}", "", "does not exist, so no replica binds", fix)
        return
    yield from _lease(context, lease, part)


def _without_election(schedulers: tuple[Part, ...]) -> Iterator[Finding]:
    if len(schedulers) == 1:
        yield ok(pod_name(schedulers[0].pod), "--leader-elect", "off; the only replica always binds")
        return
    names = some([part.pod.key for part in schedulers])
    fix = "set scheduler.leaderElect: true in the chart, or run one replica"
    yield fail("scheduler", "--leader-elect", f"off, and {len(schedulers)} replicas bind at once: {names}", fix)


def _lease(context: Context, lease: Lease, part: Part) -> Iterator[Finding]:
    name, holder = f"Lease {lease.key}", lease.spec.holder_identity or ""
    if not holder:
        seen = "no replica holds it, so none binds"
        yield fail(name, "spec.holderIdentity", seen, "look at kube-scheduler's log")
        return
    age = age_of(context.facts, lease.spec.renew_time)
    duration = lease.spec.lease_duration_seconds or 15
    if age is not None and age > 2 * duration:
        fix = "look at kube-scheduler's log: its holder is gone or does not reach the API server"
        yield fail(name, "spec.renewTime", f"renewed {age:.0f} s ago, but lasts {duration} s", fix)
        return
    leading = [p for p in context.install.schedulers if _holds(p, holder)]
    if leading:
        state = "ready" if leading[0].pod.is_ready else "not ready"
        seen = f"{holder} (pod {leading[0].pod.metadata.name}, {state})"
        yield ok(name, "spec.holderIdentity", seen)
    elif part.setting("lease", "follow") == "follow":
        fix = "give the kube-scheduler that holds it another Lease, or run kube-scheduler in our scheduler's pod"
        yield fail(name, "spec.holderIdentity", f"{holder} is none of our scheduler's pods, so none binds", fix)
    else:
        yield unknown(name, "spec.holderIdentity", f"{holder} is none of the scheduler pods found")


def _holds(part: Part, holder: str) -> bool:
    identity = part.setting("identity") or part.pod.metadata.name
    if part.setting("lease", "follow") == "own":
        return holder.startswith(identity)
    # With hostNetwork, the host name is the node's, and kube-scheduler's identity begins with it.
    names = {identity, part.pod.spec.node_name} if part.pod.spec.host_network else {identity}
    return any(name and holder.startswith(f"{name}_") for name in names)


def versions(context: Context) -> Iterator[Finding]:
    """Do scheduler and agents have the same image tag?"""
    parts = [*context.install.schedulers, *context.install.agents]
    tags = Counter(part.container.image.partition("@")[0].rpartition("/")[2].partition(":")[2] for part in parts)
    if len(tags) > 1:
        listed = ", ".join(f"{tag or 'no tag'} ({count})" for tag, count in sorted(tags.items()))
        yield warn("images", "tag", f"parts of several releases run: {listed}", "finish the upgrade: helm upgrade")
    elif parts:
        yield ok("images", "tag", next(iter(tags)) or "no tag")


def device_config(context: Context) -> Iterator[Finding]:
    """Would a scheduler of this version start with the cluster's device-config?"""
    if context.facts.config_problem:
        fix = "correct it: a scheduler of this version does not start with it; further checks assume default settings"
        yield fail("device-config", "", context.facts.config_problem, fix)


def role_label(context: Context) -> Iterator[Finding]:
    """If scheduler pods have the role label, does exactly one say leader?"""
    labelled = [p for p in context.install.schedulers if keys.SCHEDULER_ROLE_LABEL in p.pod.metadata.labels]
    leaders = [p for p in labelled if p.pod.metadata.labels[keys.SCHEDULER_ROLE_LABEL] == keys.ROLE_LEADER]
    if labelled and len(leaders) != 1:
        names = some([p.pod.key for p in leaders]) or "none"
        fix = "if this lasts longer than a Lease, allow the scheduler to patch its own pod"
        yield warn("scheduler", f"label {keys.SCHEDULER_ROLE_LABEL}", f"pods labelled leader: {names}", fix)
