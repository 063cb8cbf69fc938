"""Mutating webhooks: which are called for a new pod, the AdmissionReview, and what their answers do."""

from __future__ import annotations

import base64
import copy
import ssl
import uuid
from functools import cache
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from hami_core.sim import patch, selection
from hami_core.sim.resources import NAMESPACES, WEBHOOKS, ApiError, Object, Resource

if TYPE_CHECKING:
    from hami_core.sim.store import Store


class WebhookError(Exception):
    """The call itself failed, so the webhook's failurePolicy decides."""


def _rule_matches(rule: Object, resource: Resource, operation: str) -> bool:
    def has(part: str, *values: str) -> bool:
        return bool({"*", *values} & set(rule.get(part) or []))

    scope = rule.get("scope") or "*"
    return (
        has("operations", operation)
        and has("apiGroups", resource.group)
        and has("apiVersions", resource.version)
        and has("resources", resource.plural, "*/*")
        and (scope == "*" or (scope == "Namespaced") == resource.namespaced)
    )


def _conditions_allow(webhook: Object) -> bool:
    """CEL is not evaluated: only a condition that reads ``false`` keeps the webhook from being called."""
    return all(c.get("expression", "").strip() != "false" for c in webhook.get("matchConditions") or [])


def webhooks_for(store: Store, resource: Resource, operation: str, obj: Object) -> list[Object]:
    """The webhooks to call, in the server's order: configurations by name, then as listed."""
    space = store.get(NAMESPACES, "", obj["metadata"].get("namespace", "")) or {"metadata": {}}
    space_labels, labels = space["metadata"].get("labels") or {}, obj["metadata"].get("labels") or {}
    return [
        webhook
        for configuration in store.all(WEBHOOKS)
        for webhook in configuration.get("webhooks") or []
        if any(_rule_matches(rule, resource, operation) for rule in webhook.get("rules") or [])
        and selection.label_object(webhook.get("namespaceSelector"), space_labels)
        and selection.label_object(webhook.get("objectSelector"), labels)
        and _conditions_allow(webhook)
    ]


def _review(resource: Resource, operation: str, obj: Object) -> Object:
    meta = obj["metadata"]
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    path = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    request = {
        "uid": str(uuid.uuid4()), "kind": kind, "resource": path, "requestKind": kind, "requestResource": path,
        "name": meta.get("name", ""), "namespace": meta.get("namespace", ""), "operation": operation,
        "userInfo": {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]},
        "object": obj, "oldObject": None, "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }  # fmt: skip
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


@cache
def _trust(bundle: str) -> ssl.SSLContext:
    """Kept by bundle: reading the machine's own certificates takes 80 ms, and a kept context keeps connections."""
    return ssl.create_default_context(cadata=base64.b64decode(bundle).decode() if bundle else None)


async def _call(session: aiohttp.ClientSession, webhook: Object, review: Object) -> Object:
    config = webhook.get("clientConfig") or {}
    url = config.get("url", "")
    if not url.startswith("https://"):
        raise WebhookError(f"clientConfig.url {url!r} is not an https:// address (services are not resolved here)")
    trust = _trust(config.get("caBundle") or "")
    timeout = aiohttp.ClientTimeout(total=float(webhook.get("timeoutSeconds") or 10))
    try:
        headers = {"Content-Type": "application/json"}
        async with session.post(url, data=orjson.dumps(review), headers=headers, ssl=trust, timeout=timeout) as answer:
            body = await answer.read()
            if answer.status != 200:
                raise WebhookError(f"an error on the server ({body[:200].decode(errors='replace')!r}): {answer.status}")
            response: Object = orjson.loads(body)["response"]
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as error:
        raise WebhookError(f'Post "{url}": {type(error).__name__}: {error}') from error
    if response.get("uid") != review["request"]["uid"]:
        raise WebhookError(f"expected response.uid={review['request']['uid']!r}, got {response.get('uid')!r}")
    return response


def _denied(name: str, response: Object) -> ApiError:
    status = response.get("status") or {}
    text = f'admission webhook "{name}" denied the request'
    message = status.get("message") or status.get("reason") or "without explanation"
    return ApiError(max(400, status.get("code") or 0), status.get("reason") or "", f"{text}: {message}")


async def admit(
    session: aiohttp.ClientSession, store: Store, resource: Resource, operation: str, obj: Object
) -> tuple[Object, list[str]]:
    """Sends an object through the webhooks that want it.

    Returns:
        The object after their patches, and their warnings.

    Raises:
        ApiError: A webhook refused, or failed and its failurePolicy is ``Fail``.
    """
    warnings: list[str] = []
    for webhook in webhooks_for(store, resource, operation, obj):
        name, review = webhook.get("name", ""), _review(resource, operation, obj)
        try:
            response = await _call(session, webhook, review)
            if not response.get("allowed"):
                raise _denied(name, response)
            obj = _patched(obj, response)
        except WebhookError as failure:
            if webhook.get("failurePolicy", "Fail") == "Fail":
                text = f'Internal error occurred: failed calling webhook "{name}": failed to call webhook: {failure}'
                raise ApiError(500, "InternalError", text) from failure
            continue
        warnings.extend(response.get("warnings") or [])
    return obj, warnings


def _patched(obj: Object, response: Object) -> Object:
    if not response.get("patch"):
        return obj
    if response.get("patchType") != "JSONPatch":
        raise WebhookError(f"response.patchType: {response.get('patchType')!r} is not JSONPatch")
    try:
        operations: Any = orjson.loads(base64.b64decode(response["patch"]))
        patched: Object = patch.json_patch(copy.deepcopy(obj), operations)
    except (ValueError, ApiError) as error:
        raise WebhookError(f"response.patch: {error}") from error
    return patched
