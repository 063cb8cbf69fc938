"""Checks of the ValidatingAdmissionPolicy that stops users from writing allocation annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hami_core.doctor.finding import Finding, fail, ok, warn
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_core.doctor.checks.context import Context
    from hami_core.doctor.objects import Policy

NEEDED: Final = (keys.SIGNATURE, keys.NODE, keys.BIND_PHASE)
"""Annotation keys that the policy must protect; the chart's policy has the whole list."""


def is_ours(policy: Policy) -> bool:
    """Whether the policy names our signature's annotation key."""
    texts = [v.expression for v in policy.spec.variables] + [v.expression for v in policy.spec.validations]
    return any(keys.SIGNATURE in text for text in texts)


def system_keys(context: Context) -> Iterator[Finding]:
    """Does a policy stop everyone but the system from setting the system's annotation keys?"""
    found = [policy for policy in context.facts.policies if is_ours(policy)]
    if not found:
        fix = "apply the chart's policy: without it, only agents in mode required refuse forged allocations"
        yield fail("ValidatingAdmissionPolicy", "spec.validations", f"none protects {keys.SIGNATURE}", fix)
        return
    for policy in found:
        yield from _policy(context, policy)


def _policy(context: Context, policy: Policy) -> Iterator[Finding]:
    name = f"ValidatingAdmissionPolicy {policy.metadata.name}"
    bindings = [b for b in context.facts.policy_bindings if b.spec.policy_name == policy.metadata.name]
    if not bindings:
        fix = "apply the chart's ValidatingAdmissionPolicyBinding: a policy without a binding does nothing"
        yield fail(name, "binding", "does not exist", fix)
    elif not any("Deny" in binding.spec.validation_actions for binding in bindings):
        actions = ", ".join(sorted({a for b in bindings for a in b.spec.validation_actions})) or "none"
        yield fail(name, "spec.validationActions", f"{actions}: nothing is refused", "set Deny in its binding")
    elif policy.spec.failure_policy != "Fail":
        yield warn(name, "spec.failurePolicy", policy.spec.failure_policy, "set Fail")
    else:
        yield from _rules(name, policy)


def _rules(name: str, policy: Policy) -> Iterator[Finding]:
    rules = policy.spec.match_constraints.resource_rules
    wanted = (("pods", "CREATE"), ("pods", "UPDATE"), ("pods/status", "UPDATE"), ("pods/binding", "CREATE"))
    missing = [f"{verb} {resource}" for resource, verb in wanted if not any(r.touches(resource, verb) for r in rules)]
    if missing:
        fix = "restore the chart's rules: annotations can be written by each of these operations"
        yield warn(name, "spec.matchConstraints", f"does not cover {', '.join(missing)}", fix)
    else:
        yield ok(name, "binding", "bound with action Deny")
