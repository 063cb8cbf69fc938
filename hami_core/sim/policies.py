"""ValidatingAdmissionPolicy: rules in CEL that refuse requests without calling a webhook.

Parameters (`paramKind`), audit annotations and Kubernetes' own CEL libraries are not supported. Of the
`validationActions`, only ``Deny`` has an effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_core.sim import admission, expressions
from hami_core.sim.resources import BY_PATH, ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_core.sim.admission import Attributes
    from hami_core.sim.resources import Object
    from hami_core.sim.store import Store

_GROUP = ("admissionregistration.k8s.io", "v1")
POLICIES = BY_PATH[*_GROUP, "validatingadmissionpolicies"]
BINDINGS = BY_PATH[*_GROUP, "validatingadmissionpolicybindings"]
_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}


def validate(store: Store, asked: Attributes) -> None:
    """Evaluates every bound policy.

    Raises:
        ApiError: A policy refused the request; 422 unless the policy's reason has another code.
    """
    for binding in store.all(BINDINGS):
        spec = binding.get("spec") or {}
        policy = store.get(POLICIES, "", spec.get("policyName", ""))
        if policy is None or "Deny" not in (spec.get("validationActions") or []):
            continue
        rules = policy["spec"].get("matchConstraints") or {}
        if not _matches(store, rules, asked) or not _matches(store, spec.get("matchResources") or {}, asked):
            continue
        for reason, text in _refusals(store, policy["spec"], asked):
            names = f"'{policy['metadata']['name']}' with binding '{binding['metadata']['name']}'"
            told = f"ValidatingAdmissionPolicy {names} denied request: {text}"
            raise _refused(asked, reason, told)


def _matches(store: Store, match: Object, asked: Attributes) -> bool:
    listed, excluded = match.get("resourceRules") or [], match.get("excludeResourceRules") or []
    return (
        (not listed or any(admission.rule_matches(rule, asked) for rule in listed))
        and not any(admission.rule_matches(rule, asked) for rule in excluded)
        and admission.selectors_match(store, match, asked)
    )


def _refusals(store: Store, spec: Object, asked: Attributes) -> Iterator[tuple[str, str]]:
    """Reason and text of each validation that fails."""
    fail, known = spec.get("failurePolicy", "Fail") == "Fail", admission.known(store, asked)
    wanted, error = expressions.conditions(spec.get("matchConditions"), known, fail=fail)
    if error:
        yield "Invalid", error
    if not wanted:
        return
    variables: Object = {}
    known["variables"] = variables
    for validation in spec.get("validations") or []:
        try:
            for variable in spec.get("variables") or []:
                if variable["name"] not in variables:
                    variables[variable["name"]] = expressions.evaluate(variable["expression"], known)
            if expressions.evaluate(validation["expression"], known) is not True:
                yield validation.get("reason") or "Invalid", _message(validation, known)
        except expressions.ExpressionError as failure:
            if fail:
                yield "Invalid", f"expression '{validation['expression']}' resulted in error: {failure}"


def _message(validation: Object, known: Object) -> str:
    fixed = validation.get("message") or f"failed expression: {validation['expression'].strip()}"
    if not validation.get("messageExpression"):
        return str(fixed)
    try:
        return str(expressions.evaluate(validation["messageExpression"], known) or fixed)
    except expressions.ExpressionError:
        return str(fixed)


def _refused(asked: Attributes, reason: str, text: str) -> ApiError:
    what = f"{asked.plural}.{asked.resource.group}" if asked.resource.group else asked.plural
    return ApiError(
        _CODES.get(reason, 422), reason, f'{what} "{asked.name}" is forbidden: {text}',
        name=asked.name, group=asked.resource.group, kind=asked.plural, causes=[{"message": text}],
    )  # fmt: skip
