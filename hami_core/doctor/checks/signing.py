"""Checks of signatures: the scheduler's signing key, the agents' public keys, the allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_core.doctor.checks.context import is_allocated, pod_name, some
from hami_core.doctor.finding import Finding, fail, ok, unknown, warn
from hami_core.errors import ConfigError, WireError
from hami_core.wire import keys
from hami_core.wire.signature import key_id, load_public_keys, statement_of, verify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_core.doctor.checks.context import Context
    from hami_core.doctor.install import Part
    from hami_core.doctor.objects import Pod
    from hami_core.wire.signature import PublicKey


def agreement(context: Context) -> Iterator[Finding]:
    """Do the agents have the public half of the scheduler's signing key?"""
    sources = _agent_sources(context)
    for name in sorted({"/".join(source) for source in sources}):
        yield from _config_map(context, name)
    for agent in context.install.agents:
        if agent.setting("mode", "required") == "trust" or agent.setting("signing_keys"):
            continue
        fix = "mount the ConfigMap with the scheduler's public keys, and set the flag to its folder"
        yield fail(pod_name(agent.pod), "--signing-keys", "not set: the agent refuses every allocation", fix)
        break
    for scheduler in context.install.schedulers:
        if not scheduler.setting("signing_key") and not scheduler.setting("signing_secret"):
            fix = "set --signing-secret, as the chart does: agents in mode required refuse unsigned allocations"
            yield fail(pod_name(scheduler.pod), "--signing-secret", "not set: allocations are not signed", fix)
            break


def _agent_sources(context: Context) -> set[tuple[str, str]]:
    """ConfigMaps with public keys as (namespace, name): those agents mount, and those the scheduler publishes."""
    found = set()
    for part in context.install.agents:
        source = part.volume_of(part.setting("signing_keys"))
        if source is not None and source[0] == "ConfigMap":
            found.add((part.namespace, source[1]))
    for part in context.install.schedulers:
        name = part.setting("signing_keys_configmap")
        if name:
            found.add((part.namespace, name))
    return found


def public_keys(context: Context) -> tuple[PublicKey, ...]:
    """All public keys that agents verify with, as far as they could be read."""
    found: list[PublicKey] = []
    for namespace, name in sorted(_agent_sources(context)):
        config_map = context.facts.config_maps.get(namespace, name)
        for key, text in sorted(config_map.data.items()) if config_map else ():
            try:
                found += load_public_keys(text.encode(), where=key)
            except ConfigError:
                continue
    return tuple(found)


def _config_map(context: Context, name: str) -> Iterator[Finding]:
    where, (namespace, _, short) = f"ConfigMap {name}", name.partition("/")
    config_map = context.facts.config_maps.get(namespace, short)
    if config_map is None:
        problem = context.facts.config_maps.problem(namespace, short)
        fix = "look at the log and the rights of the scheduler, which publishes it (--signing-keys-configmap)"
        yield unknown(where, "data", problem) if problem else fail(where, "", "does not exist", fix)
        return
    for key, text in sorted(config_map.data.items()):
        try:
            load_public_keys(text.encode(), where=key)
        except ConfigError as error:
            if key.endswith((".pem", ".pub")):
                yield fail(where, f"data[{key}]", error.problem, "correct or remove the entry: agents skip it")
    have = {key_id(key) for key in public_keys(context)}
    for scheduler in context.install.schedulers[:1]:
        yield from _private(context, scheduler, where, have)


def _private(context: Context, scheduler: Part, where: str, have: set[str]) -> Iterator[Finding]:
    source = scheduler.volume_of(scheduler.setting("signing_key"))
    mounted = source[1] if source is not None and source[0] == "Secret" else ""
    name = scheduler.setting("signing_secret") or mounted
    if not name:
        return
    problem = context.facts.signing_keys.problem(scheduler.namespace, name)
    signing = context.facts.signing_keys.get(scheduler.namespace, name)
    secret = f"Secret {scheduler.namespace}/{name}"
    if problem:
        yield unknown(secret, "data", problem, "see pods.signatures, which verifies the signatures themselves")
    elif signing is None:
        yield fail(secret, "", "does not exist", "look at the scheduler's log: it makes the Secret at start")
    elif not signing:
        yield fail(secret, "data", "holds no Ed25519 key", "delete it: the scheduler makes a new one")
    else:
        ids = [key_id(key) for key in signing]
        missing = [i for i in ids if i not in have]
        if missing:
            fix = "look at the log of the scheduler, which publishes its key before use; stop others from writing these"
            seen = f"lacks the scheduler's key {', '.join(missing)} (has: {', '.join(sorted(have)) or 'none'})"
            yield fail(where, "data", seen, fix)
        else:
            yield ok(where, "data", f"has the scheduler's key {', '.join(ids)}")


def signatures(context: Context) -> Iterator[Finding]:
    """Is every allocation signed for its pod by a key that the agents have?"""
    known = public_keys(context)
    unsigned: list[str] = []
    good = unchecked = 0
    for pod in context.facts.pods:
        if pod.is_over or not pod.spec.node_name or not is_allocated(pod):
            continue
        if keys.SIGNATURE not in pod.metadata.annotations:
            unsigned.append(pod.key)
        elif known:
            problem = _problem(context, pod, known)
            good += not problem
            if problem:
                fix = "find out who wrote it, and delete the pod: its agent refuses the next start of a container"
                yield fail(pod_name(pod), keys.SIGNATURE, problem, fix)
        else:
            unchecked += 1
    if unchecked:
        seen = f"{unchecked} signed allocations, but no public key to verify them"
        yield unknown("pods", keys.SIGNATURE, seen, "see signing.keys, which says where the keys should be")
    if unsigned:
        yield warn("pods", keys.SIGNATURE, f"{len(unsigned)} unsigned: {some(unsigned)}", _ADOPT)
    if good:
        yield ok("pods", keys.SIGNATURE, f"{good} allocations are signed by a key the agents have")


_ADOPT = (
    "if HAMi placed them, run agents with --mode=adopt until they end (docs: migrate-from-hami); "
    "if HAMi never ran here, make the scheduler sign (see signing.keys)"
)


def _problem(context: Context, pod: Pod, known: tuple[PublicKey, ...]) -> str:
    annotations = pod.metadata.annotations
    try:
        verify(known, annotations[keys.SIGNATURE], statement_of(pod.metadata.uid, annotations, context.facts.families))
    except WireError as error:
        return error.problem
    return ""
