"""Checks of the kube-scheduler settings that our extender needs (docs/reference/scheduler.md)."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from hami_core.doctor.checks.context import pod_name
from hami_core.doctor.finding import Finding, fail, ok, unknown, warn
from hami_core.doctor.install import config_source, extenders, managed_resources, served_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hami_core.doctor.checks.context import Context
    from hami_core.doctor.install import Part

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
DEFAULT_TIMEOUT_S: Final = 30.0
"""Default of our scheduler's setting ``extender_timeout``, which must not exceed kube-scheduler's httpTimeout."""
LONGEST_BACKOFF_S: Final = 10
"""kube-scheduler's default podMaxBackoffSeconds. With this or more, a freed slice stays unused too long."""


def settings(context: Context) -> Iterator[Finding]:
    """Is kube-scheduler configured as our extender needs it?"""
    parts = context.placers
    if not parts and context.install.schedulers:
        fix = "check its percentageOfNodesToScore, podMaxBackoffSeconds and extender by hand (docs: scheduler)"
        names = ", ".join(sorted(context.install.scheduler_names))
        none = f"none was found in our scheduler's pods, and no other pod's kube-scheduler was seen to serve {names}"
        yield unknown("kube-scheduler", "--config", none, fix)
    seen: set[str] = set()
    for part in parts:
        name = context.config_object(part)
        if name in seen:
            continue
        seen.add(name)
        config = context.config_of(part)
        if isinstance(config, str):
            level = unknown if config.startswith("not allowed") else fail
            fix = "store the configuration with our extender there (docs: scheduler)"
            yield level(name, "KubeSchedulerConfiguration", config, fix)
            continue
        yield from _settings(context, name, config, part)


def _settings(context: Context, name: str, config: Mapping[str, Any], part: Part) -> Iterator[Finding]:
    found = [*_scoring(name, config), *_backoff(name, config), *_profile(context, name, config, part)]
    ours = extenders(config)
    if not ours:
        fix = "add the extender: urlPrefix, filterVerb, prioritizeVerb, bindVerb, managedResources (docs: scheduler)"
        found.append(fail(name, "extenders", "no extender manages our resources", fix))
    for index, extender in enumerate(ours):
        found += _extender(context, name, f"extenders[{index}]", extender)
    yield from found or [ok(name, "", "as our extender needs it")]


def _scoring(name: str, config: Mapping[str, Any]) -> Iterator[Finding]:
    value = config.get("percentageOfNodesToScore")
    if value != 100:
        seen = "not set" if value in {None, 0} else str(value)
        fix = "set 100: kube-scheduler samples nodes before it asks the extender, and may skip the nodes that fit"
        yield warn(name, "percentageOfNodesToScore", seen, fix)


def _backoff(name: str, config: Mapping[str, Any]) -> Iterator[Finding]:
    value = config.get("podMaxBackoffSeconds", LONGEST_BACKOFF_S)
    if isinstance(value, int) and value >= LONGEST_BACKOFF_S:
        fix = "set 3: kube-scheduler then retries pods that wait for a slice sooner"
        yield warn(name, "podMaxBackoffSeconds", str(config.get("podMaxBackoffSeconds", "not set (10)")), fix)


def _profile(context: Context, name: str, config: Mapping[str, Any], part: Part) -> Iterator[Finding]:
    profiles = served_names(config)
    missing = context.install.scheduler_names - profiles
    if missing:
        seen = f"{', '.join(sorted(profiles))}, but the webhook writes {', '.join(sorted(missing))}"
        yield fail(name, "profiles[].schedulerName", seen, "use one name in both: else pods stay Pending")
    election = config.get("leaderElection")
    replicas = len([p for p in context.install.companions if p.namespace == part.namespace])
    if replicas > 1 and isinstance(election, dict) and election.get("leaderElect") is False:
        fix = "set true: two kube-schedulers would place the same pods"
        yield fail(name, "leaderElection.leaderElect", f"false, with {replicas} replicas", fix)


def _extender(context: Context, name: str, path: str, extender: Mapping[str, Any]) -> Iterator[Finding]:
    for verb in ("filterVerb", "bindVerb"):
        if not extender.get(verb):
            alone = "places pods" if verb == "filterVerb" else "binds pods, without an allocation,"
            yield fail(name, f"{path}.{verb}", "not set", f"set {verb[:-4]}: without it kube-scheduler {alone} alone")
    if not extender.get("prioritizeVerb") and not _one_node(context):
        fix = "set prioritize, or --filter-return=1 on our scheduler: else kube-scheduler ignores our order of nodes"
        yield warn(name, f"{path}.prioritizeVerb", "not set", fix)
    if extender.get("nodeCacheCapable") is not True:
        fix = "set true: else it sends whole node objects, and our Filter takes the nodes as empty (dry run)"
        yield fail(name, f"{path}.nodeCacheCapable", str(extender.get("nodeCacheCapable", "not set")), fix)
    if extender.get("ignorable") is True:
        fix = "set false: else kube-scheduler binds pods without an allocation while our scheduler is away"
        yield fail(name, f"{path}.ignorable", "true", fix)
    yield from _timeout(context, name, path, extender)
    yield from _managed(context, name, path, extender)


def _one_node(context: Context) -> bool:
    return all(part.setting("filter_return", "16") == "1" for part in context.install.schedulers)


def _timeout(context: Context, name: str, path: str, extender: Mapping[str, Any]) -> Iterator[Finding]:
    told = seconds(str(extender.get("httpTimeout", "")) or "5s")
    ours = {part.setting("extender_timeout", "30") for part in context.install.schedulers}
    expected = max((seconds(text) or DEFAULT_TIMEOUT_S for text in ours), default=DEFAULT_TIMEOUT_S)
    if told is None or told < expected:
        seen = str(extender.get("httpTimeout", "not set (5s)"))
        fix = f"set {expected:.0f}s, or set --extender-timeout of our scheduler to this value"
        yield warn(name, f"{path}.httpTimeout", f"{seen}; our scheduler counts on {expected:.0f} s", fix)


def seconds(text: str) -> float | None:
    """Parse a Go duration or plain seconds; None if the text is neither."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _managed(context: Context, name: str, path: str, extender: Mapping[str, Any]) -> Iterator[Finding]:
    listed = managed_resources({"extenders": [extender]})
    if not listed:
        fix = "list our resources, so that other pods do not go through the extender"
        yield warn(name, f"{path}.managedResources", "not set: every pod is sent to our scheduler", fix)
        return
    for resource in (resource for resource, ignored in listed.items() if not ignored):
        field, seen = f"{path}.managedResources[{resource}]", "ignoredByScheduler is not true"
        if resource in context.counts:  # kubelets offer slots, so kube-scheduler can count them
            fix = "set ignoredByScheduler: true; else pods that find no slot while an agent restarts wait 5 minutes"
            yield warn(name, field, seen, fix)
        else:
            yield fail(name, field, seen, "set ignoredByScheduler: true: no kubelet offers it, so no node would fit")
    served = {
        r for family in context.facts.families if family.resources.count in listed for r in family.resources.names()
    }
    missing = sorted(served - set(listed))
    if missing:
        fix = "add them with ignoredByScheduler: true; else pods that name them stay Pending: no kubelet offers them"
        yield fail(name, f"{path}.managedResources", f"missing: {', '.join(missing)}", fix)
    known = {r for family in context.facts.families for r in family.resources.names()}
    told = {r for part in context.install.schedulers for r in part.setting("managed_resources").split(",")}
    unserved = sorted(set(listed) - known - told) if known else []
    if unserved:
        seen = f"{', '.join(unserved)}: no vendor known here serves it, and --managed-resources does not list it"
        fix = "add it to --managed-resources of our scheduler: else a pod that requests it may run anywhere, without it"
        yield warn(name, f"{path}.managedResources", seen, fix)


def profiles(context: Context) -> Iterator[Finding]:
    """Do two kube-schedulers serve one schedulerName?"""
    claims: dict[str, set[str]] = defaultdict(set)
    names: dict[str, str] = {}
    for part in context.install.kube_schedulers:
        config = context.config_of(part)
        source = config_source(part)
        if isinstance(config, str) and source is not None and source[0] == "ConfigMap":
            yield unknown(pod_name(part.pod), "--config", config)
            continue
        told = config if isinstance(config, dict) else {}
        lease = _lease(part, told)
        for name in served_names(told):
            claims[name].add(lease)
            names[lease] = part.pod.key
    for name, leases in sorted(claims.items()):
        if len(leases) > 1:
            who = ", ".join(names[lease] for lease in sorted(leases))
            fix = "give each its own schedulerName, or one Lease to both: else they bind the same pods independently"
            yield fail("kube-scheduler", "profiles[].schedulerName", f"{name} is served by {who}", fix)


def _lease(part: Part, config: Mapping[str, Any]) -> str:
    """The Lease of a kube-scheduler; replicas that share a Lease are one scheduler."""
    election = config.get("leaderElection")
    election = election if isinstance(election, dict) else {}
    if election.get("leaderElect") is False:
        return f"pod {part.pod.key}"
    namespace = election.get("resourceNamespace") or part.setting("leader_elect_resource_namespace", "kube-system")
    name = election.get("resourceName") or part.setting("leader_elect_resource_name", "kube-scheduler")
    return f"lease {namespace}/{name}"
