"""Checks of the admission webhook: registration, failure policy, Service, order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hami_core.doctor.checks.context import some
from hami_core.doctor.finding import Finding, fail, ok, unknown, warn
from hami_core.doctor.install import managed_resources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_core.doctor.checks.context import Context
    from hami_core.doctor.objects import Webhook, WebhookConfiguration

NAME: Final = "vgpu.hami.io"
"""The webhook's name, as in HAMi."""
PATH: Final = "/webhook"
EPHEMERAL: Final = "pods/ephemeralcontainers"


def is_ours(hook: Webhook) -> bool:
    """Whether it is a webhook of our scheduler or of HAMi's, which have the same name."""
    service = hook.client_config.service
    return (
        hook.name == NAME
        or hook.name.endswith(f".{NAME}")
        or bool(service and service.path == PATH and "hami" in hook.name)
    )


def fails_open_by_design(hook: Webhook) -> bool:
    """Whether it is the second webhook, for pods that name none of our resources (``overwriteEnv``, core policy)."""
    return hook.name != NAME and hook.failure_policy == "Ignore"


def hooks(context: Context) -> list[tuple[WebhookConfiguration, Webhook]]:
    """Our webhooks with their configurations; with several installations, those of the one under examination."""
    found = [(c, hook) for c in context.facts.webhooks for hook in c.webhooks if is_ours(hook)]
    spaces = context.install.namespaces
    mine = [(c, h) for c, h in found if not (s := h.client_config.service) or s.namespace in spaces]
    return mine or found


def name_of(configuration: WebhookConfiguration) -> str:
    """``MutatingWebhookConfiguration name``."""
    return f"MutatingWebhookConfiguration {configuration.metadata.name}"


def present(context: Context) -> Iterator[Finding]:
    """Is the webhook registered for new pods and ephemeral containers?"""
    found = hooks(context)
    if not found:
        fix = "apply the chart's MutatingWebhookConfiguration: without it nothing checks requests before Filter"
        yield fail("MutatingWebhookConfiguration", "webhooks", f"no webhook is named {NAME}", fix)
    for configuration in context.facts.webhooks:
        others = [h for h in configuration.webhooks if is_ours(h) and (configuration, h) not in found]
        if others:
            service = others[0].client_config.service
            where = f"{service.namespace}/{service.name}" if service else others[0].client_config.url
            fix = f"kubectl delete mutatingwebhookconfiguration {configuration.metadata.name}, if nothing serves it"
            yield warn(name_of(configuration), "webhooks[].clientConfig", f"a second webhook, served by {where}", fix)
    for configuration, hook in found:
        field = f"webhooks[{hook.name}].rules"
        if any(rule.touches("pods", "CREATE") for rule in hook.rules):
            yield ok(name_of(configuration), field, "covers CREATE of pods")
        else:
            yield fail(name_of(configuration), field, "does not cover CREATE of pods", "restore the chart's rules")
        if not any(rule.touches(EPHEMERAL, "UPDATE") for rule in hook.rules):
            fix = "restore the chart's rules: else containers of kubectl debug lack the variables that vendors impose"
            yield warn(name_of(configuration), field, f"does not cover UPDATE of {EPHEMERAL}", fix)


def failure_policy(context: Context) -> Iterator[Finding]:
    """Does the webhook fail closed, and only for pods that name our resources?"""
    for configuration, hook in hooks(context):
        name, field = name_of(configuration), f"webhooks[{hook.name}]"
        if fails_open_by_design(hook):
            fix = "nothing to do, if you accept that such pods see the node's devices while the webhook is away"
            yield warn(name, f"{field}.failurePolicy", "Ignore, for pods that name none of our resources", fix)
            continue
        if hook.failure_policy != "Fail":
            fix = "set Fail: while the webhook is away pods reach default-scheduler unchecked"
            yield fail(name, f"{field}.failurePolicy", hook.failure_policy, fix)
        elif not hook.match_conditions:
            fix = "add matchConditions for our resources: else no pod can be created while the webhook is away"
            yield warn(name, f"{field}.matchConditions", "none, with failurePolicy Fail", fix)
        else:
            yield from _conditions(context, name, field, hook)


def _conditions(context: Context, name: str, field: str, hook: Webhook) -> Iterator[Finding]:
    text = " ".join(condition.expression for condition in hook.match_conditions)
    served = sorted({r for f in context.facts.families for r in f.resources.names() if r in context.resources})
    managed = [r for r in served if _serves(context, r)]
    missing = [r for r in managed if r not in text]
    if missing and "matches(" not in text and "startsWith(" not in text:
        fix = "add them to the expression: the webhook does not see pods that name only these"
        yield warn(name, f"{field}.matchConditions", f"do not name {some(missing)}", fix)
    else:
        yield ok(name, f"{field}.failurePolicy", f"Fail, with {len(hook.match_conditions)} matchConditions")


def _serves(context: Context, resource: str) -> bool:
    """Whether our extender manages a resource there; more vendors may be installed here than in the cluster."""
    return any(resource in managed_resources(config) for _, config in context.configs())


def service(context: Context) -> Iterator[Finding]:
    """Does the Service exist, with ready endpoints?"""
    for configuration, hook in hooks(context):
        reference = hook.client_config.service
        if reference is None:
            continue
        name = f"Service {reference.namespace}/{reference.name}"
        found = [s for s in context.facts.services if s.key == f"{reference.namespace}/{reference.name}"]
        if not found:
            fix = f"create it, or correct clientConfig.service of {name_of(configuration)}"
            yield fail(name, "", "does not exist", fix)
            continue
        if reference.port not in {port.port for port in found[0].spec.ports}:
            fix = f"add the port, or correct {name_of(configuration)}"
            yield fail(name, "spec.ports", f"has no port {reference.port}", fix)
        yield from _endpoints(context, name, reference.namespace, reference.name)


def _endpoints(context: Context, name: str, namespace: str, service_name: str) -> Iterator[Finding]:
    if context.facts.endpoint_slices.problem and not context.facts.endpoint_slices.items:
        yield unknown(name, "endpoints", context.facts.endpoint_slices.problem)
        return
    slices = [
        s
        for s in context.facts.endpoint_slices
        if s.metadata.namespace == namespace and s.metadata.labels.get("kubernetes.io/service-name") == service_name
    ]
    endpoints = [e for s in slices for e in s.endpoints or ()]
    ready = sum(e.conditions.ready is not False for e in endpoints)
    if ready:
        yield ok(name, "endpoints", f"{ready} ready")
    else:
        seen = f"{len(endpoints)}, none ready" if endpoints else "none"
        fix = "compare its selector with the labels of the scheduler's pods, and check that they are ready"
        yield fail(name, "endpoints", seen, fix)


# --- other webhooks --------------------------------------------------------------------------------------------------


def order(context: Context) -> Iterator[Finding]:
    """Which webhooks change pods after ours?

    The API server calls mutating webhooks in the order of their configurations' names.
    """
    found = hooks(context)
    if not found:
        return
    last = max(configuration.metadata.name for configuration, _ in found)
    again = all(hook.reinvocation_policy == "IfNeeded" for _, hook in found)
    later = sorted(
        configuration.metadata.name
        for configuration in context.facts.webhooks
        if configuration.metadata.name > last
        and any(r.touches("pods", "CREATE") for hook in configuration.webhooks for r in hook.rules)
    )
    name = f"MutatingWebhookConfiguration {last}"
    if later and not again:
        fix = "set reinvocationPolicy IfNeeded: ours does not see containers or resources that they add"
        yield warn(name, "webhooks[].reinvocationPolicy", f"Never, and {some(later)} change pods after ours", fix)
    elif later:
        yield ok(name, "webhooks[].reinvocationPolicy", f"IfNeeded; {some(later)} change pods after ours")
