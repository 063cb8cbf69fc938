"""Checks of node agents: coverage, Leases, modes, availability labels, registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hami_core.compatibility import HAMI
from hami_core.doctor.checks.context import is_allocated, quantity, some
from hami_core.doctor.clock import age_of
from hami_core.doctor.finding import Finding, fail, ok, warn
from hami_core.doctor.install import program
from hami_core.errors import WireError
from hami_core.wire import keys
from hami_core.wire import node as wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hami_core.doctor.checks.context import Context
    from hami_core.doctor.install import Part
    from hami_core.kube.objects import Node
    from hami_core.model import Device, Family

LEASE_LATE_S: Final = 120.0


def modes_of(node: Node) -> dict[str, str]:
    """The annotations by which the agents of a node say how they give devices."""
    return {k: v for k, v in node.metadata.annotations.items() if k.startswith(keys.AGENT_MODE_PREFIX)}


def _name(node: Node) -> str:
    return f"Node {node.metadata.name}"


def coverage(context: Context) -> Iterator[Finding]:
    """Does a ready agent run on each node with devices?"""
    nodes, named = context.device_nodes, context.facts.node
    if named and not context.facts.nodes.items:
        yield fail("nodes", "", f"there is no node {named}", "kubectl get nodes lists them")
        return
    if not nodes:
        fix = f"give nodes with devices the label that the agent's DaemonSet selects (chart: {HAMI.node_selector_key})"
        yield warn("nodes", "", "no node says that it has devices", fix)
    for node in nodes:
        agents = context.agents_on(node.metadata.name)
        if node.metadata.name in context.nodes_of_hami:
            fix = "let our agent serve it (docs: migrate-from-hami); do nothing if you want HAMi to keep it"
            yield warn(_name(node), "agent", "HAMi's own device plugin serves it: one pod is bound at a time", fix)
        elif not agents:
            present = [family.word for family in context.families_on(node)]
            if present and context.agent_words.isdisjoint(present):
                yield ok(_name(node), "agent", f"none is needed: other device plugins serve {some(present)}")
            else:
                yield _missing(context, node)
        for agent in agents:
            yield _ready(node, agent)


def _missing(context: Context, node: Node) -> Finding:
    label = context.device_label(node)
    served = any(f.register_key in node.metadata.annotations for f in context.facts.families) or any(
        quantity(node.status.capacity.get(name)) for name in context.counts
    )
    selectors = [
        dict(ds.spec.template.spec.node_selector)
        for ds in context.facts.daemon_sets
        if any(program(c) == "agent" for c in ds.spec.template.spec.containers)
    ]
    lacking = [
        ", ".join(f"{k}={v}" for k, v in selector.items() if node.metadata.labels.get(k) != v) for selector in selectors
    ]
    labels = next((text for text in lacking if text), "")
    taints = ", ".join(f"{t.key}:{t.effect}" for t in node.spec.taints)
    if labels:
        fix = f"kubectl label node {node.metadata.name} {labels.replace(', ', ' ')}"
    elif taints:
        fix = f"add tolerations for {taints} to the agent (chart: devicePlugin.tolerations)"
    else:
        fix = "look at the agent's DaemonSet: kubectl describe daemonset"
    if not served and labels:  # the administrator may want no agent there
        return warn(_name(node), "agent", f"has devices ({label}), but not the labels of an agent's nodes", fix)
    why = "registered or offered" if served else label
    return fail(_name(node), "agent", f"has devices ({why}), but no agent runs there", fix)


def _ready(node: Node, agent: Part) -> Finding:
    if agent.pod.is_ready:
        return ok(_name(node), "agent", f"{agent.pod.metadata.name} is ready")
    waiting = [f"{w.reason} {w.message}".strip() for s in agent.pod.container_statuses if (w := s.state.waiting)]
    seen = f"{agent.pod.metadata.name} is not ready" + (f": {waiting[0]}" if waiting else "")
    fix = f"kubectl -n {agent.namespace} logs {agent.pod.metadata.name}; its /readyz names what is missing"
    return fail(_name(node), "agent", seen, fix)


def lease(context: Context) -> Iterator[Finding]:
    """Is each agent's Lease renewed? An agent whose command names no vendor is left out."""
    leases = {lease.key: lease for lease in context.facts.leases}
    for agent in context.install.agents:
        node, vendor = agent.pod.spec.node_name, agent.setting("vendor")
        if not vendor or (context.facts.node and node != context.facts.node):
            continue
        name = f"{agent.namespace}/{keys.agent_lease(vendor, node)}"
        found = leases.get(name)
        if found is None:
            fix = "allow the agent to write Leases in its namespace, and check that it reaches the API server"
            yield warn(f"Lease {name}", "", "does not exist", fix)
            continue
        age = age_of(context.facts, found.spec.renew_time)
        if age is None or age > LEASE_LATE_S:
            seen = "never renewed" if age is None else f"renewed {age:.0f} s ago"
            yield fail(f"Lease {name}", "spec.renewTime", seen, "look at the agent's log and at the node's network")
        elif age < -LEASE_LATE_S:
            fix = "correct the clock of the node, or of the machine that runs this command (NTP)"
            yield warn(f"Lease {name}", "spec.renewTime", f"renewed {-age:.0f} s in the future", fix)


def mode(context: Context) -> Iterator[Finding]:
    """Do agents give devices by CDI, or one pod at a time?"""
    for node in context.device_nodes:
        modes = modes_of(node)
        for key, value in sorted(modes.items()):
            if value == keys.MODE_SERIAL:
                fix = "turn CDI on in the runtime (docs: troubleshoot), then delete the file no-cdi in the state folder"
                yield warn(_name(node), key, "serial: one pod at a time, because CDI does not work there", fix)
            else:
                yield ok(_name(node), key, value)
        vendors = {agent.setting("vendor") for agent in context.agents_on(node.metadata.name)} - {""}
        for key in sorted({keys.agent_mode(vendor) for vendor in vendors} - modes.keys()):
            fix = "allow the agent to patch its node; its log says what failed"
            yield warn(_name(node), key, "not set", fix)


def availability(context: Context) -> Iterator[Finding]:
    """Does each availability label say that the kubelet knows the agent? If not, the node gets no pods."""
    for node in context.device_nodes:
        for key, word in sorted(node.metadata.labels.items()):
            if not key.startswith(keys.AGENT_LABEL_PREFIX):
                continue
            if word not in {keys.AGENT_STOPPING, keys.AGENT_UNREGISTERED}:
                yield ok(_name(node), key, word)
            elif context.agents_on(node.metadata.name):
                fix = "if this lasts, look at the agent's log and /readyz: it does not reach the kubelet or the API"
                yield warn(_name(node), key, f"{word}: the node gets no pods until the agent is registered", fix)
            else:
                label = f"kubectl label node {node.metadata.name} {key}-"
                fix = f"run an agent there; if another device plugin serves the node: {label}"
                yield fail(_name(node), key, f"{word}, and no agent has come back: the node gets no pods", fix)


def trust(context: Context) -> Iterator[Finding]:
    """Do agents require signed allocations, and do they enforce limits?"""
    seen: set[tuple[str, str, str]] = set()
    for agent in context.install.agents:
        told = agent.setting("mode", "required").partition(":")[0]
        enforcement = agent.setting("enforcement", "enforce")
        name = f"{agent.pod.owner.replace('/', f' {agent.namespace}/', 1)}"
        if (name, told, enforcement) in seen:
            continue
        seen.add((name, told, enforcement))
        if told == "adopt":
            fix = "set required when no unsigned pod is left (check pods.signatures)"
            yield warn(name, "--mode", "adopt: unsigned pods from before the migration count", fix)
        elif told == "trust":
            fix = "set required: in this mode an annotation counts as an allocation, whoever wrote it"
            yield warn(name, "--mode", agent.setting("mode"), fix)
        else:
            yield ok(name, "--mode", told)
        if enforcement != "enforce":
            yield warn(name, "--enforcement", f"{enforcement}: limits do not bind", "set enforce")


def register(context: Context) -> Iterator[Finding]:
    """Does each node's register agree with what its kubelet offers?"""
    for node in context.device_nodes:
        for family in context.facts.families:
            text = node.metadata.annotations.get(family.register_key) if family.register_key else None
            if text is None:
                continue
            if family.word in context.agent_words and context.agents_on(node.metadata.name):
                yield from _register(node, family, text)
            else:
                yield from _foreign_register(context, node, family)


def _foreign_register(context: Context, node: Node, family: Family) -> Iterator[Finding]:
    """Check a register that another device plugin writes. Only its vendor's hook knows the form."""
    found = context.registrations[node.metadata.name]
    devices = found.devices[family.word]
    if devices is None:
        errors = [str(error) for error in found.errors]
        own = [error for error in errors if family.register_key in error] or errors
        fix = (
            "restart the node's device plugin: it writes the annotation again; until then the devices take no new pods"
        )
        yield fail(_name(node), family.register_key, "; ".join(own), fix)
        return
    yield from _partitioned(node, family, devices)
    fix = "look at the node's device plugin and its log; until then the devices take no new pods"
    withheld = list(_withheld(node, family, devices, fix, fix))
    yield from withheld
    if not withheld:
        slots = sum(device.slots for device in devices)
        yield ok(_name(node), family.register_key, f"{len(devices)} {family.word} devices, {slots} slots")


def _register(node: Node, family: Family, text: str) -> Iterator[Finding]:
    try:
        devices = decode(family, text)
    except WireError as error:
        fix = "restart the node's agent: it writes the annotation again; until then the devices take no new pods"
        yield fail(_name(node), family.register_key, str(error), fix)
        return
    resource = family.resources.count
    registered = sum(device.slots for device in devices if device.healthy)
    offered = quantity(node.status.allocatable.get(resource))
    withheld = list(
        _withheld(
            node,
            family,
            devices,
            "change what the reason names; the agent then offers them again within seconds, without a restart",
            "look at the agent's log and at the node's kernel log",
        )
    )
    yield from withheld
    if registered != offered:
        fix = "restart the agent there: the kubelet lost it, or another device plugin offers this resource"
        seen = f"{registered} slots of {len(devices)} devices registered, but the kubelet offers {offered} {resource}"
        yield fail(_name(node), f"status.allocatable[{resource}]", seen, fix)
    elif not withheld:
        yield ok(_name(node), family.register_key, f"{len(devices)} {family.word} devices, {registered} slots")


def _withheld(node: Node, family: Family, devices: Iterable[Device], if_kept: str, if_sick: str) -> Iterator[Finding]:
    """Warn of devices that the node does not offer, or that are unhealthy; each kind with its fix."""
    kept: dict[str, list[str]] = {}
    for device in devices:
        if device.not_offered:
            kept.setdefault(device.not_offered, []).append(device.id)
    for reason, ids in kept.items():
        yield warn(_name(node), family.register_key, f"not offered: {some(ids)}: {reason}", if_kept)
    sick = [device.id for device in devices if not device.healthy and not device.not_offered]
    if sick:
        fix = family.doctor.unhealthy or if_sick
        yield warn(_name(node), family.register_key, f"unhealthy: {some(sick)}", fix)


def _partitioned(node: Node, family: Family, devices: Iterable[Device]) -> Iterator[Finding]:
    """Warn of devices in a partitioning mode. Our agent gives out no partition that another device plugin made."""
    for mode in sorted(family.account_modes or ()):
        found = [device.id for device in devices if device.mode == mode]
        if found:
            fix = (
                "drain the node and destroy its partitions before our agent takes over the node; or choose labels so "
                "that the node stays with the device plugin that serves it"
            )
            seen = f"{some(found)} in mode {mode}: our agent gives out no partition that another device plugin made"
            yield warn(_name(node), family.register_key, seen, fix)


def decode(family: Family, text: str) -> tuple[Device, ...]:
    """Read a register annotation in either of HAMi's forms."""
    if text.lstrip()[:1] in {"[", ""} or text == "null":
        return wire.decode_devices_json(text, key=family.register_key, family=family.word)
    return wire.decode_devices_csv(text, key=family.register_key, family=family.word)


def left_behind(context: Context) -> Iterator[Finding]:
    """Do pods with devices run on nodes without an agent?"""
    ours = {n for f in context.facts.families if f.word in context.agent_words for n in f.resources.names()}
    alone = [
        pod.key
        for pod in context.device_pods
        if pod.spec.node_name not in {"", *context.nodes_of_hami}
        and is_allocated(pod)
        and any(ours & context.asked(container) for container in pod.spec.all_containers)
        and not context.agents_on(pod.spec.node_name)
    ]
    if alone and context.install.agents:
        fix = "run the agent there, or move these pods: without it, a container that ends does not start again"
        yield warn("pods", "spec.nodeName", f"with devices on nodes without an agent: {some(alone)}", fix)
