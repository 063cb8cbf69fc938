"""Admission of requests: find the webhooks that match, send them an AdmissionReview, and apply their answers."""

from __future__ import annotations

import base64
import copy
import ssl
import uuid
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from hami_core.sim import expressions, patch, selection
from hami_core.sim.resources import NAMESPACES, WEBHOOKS, ApiError, Object, Resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from hami_core.sim.store import Store


class WebhookError(Exception):
    """The call itself failed, so the webhook's failurePolicy decides."""


@dataclass(frozen=True)
class Attributes:
    """A request as admission sees it.

    Args:
        resource: Kind of the object in the path.
        subresource: ``status``, ``binding`` …; empty for the object itself.
        operation: ``CREATE`` or ``UPDATE``.
        name: The object's name; empty if the server will generate it.
        namespace: Its namespace.
        obj: The object. For a binding it is the Binding.
        old: The object before an update.
        user: `userInfo` of the caller.
        options: Options of the request, such as ``fieldManager``.
        dry_run: Whether the server must not store the result.
        path: Plural in the path, if it is not the resource's own (``bindings``).
    """

    resource: Resource
    subresource: str
    operation: str
    name: str
    namespace: str
    obj: Object
    old: Object | None
    user: Object
    options: Object
    dry_run: bool
    path: str = ""

    @property
    def plural(self) -> str:
        """The resource as the path names it."""
        return self.path or self.resource.plural

    @property
    def in_rules(self) -> str:
        """The resource as rules name it: ``pods``, ``pods/status``."""
        return f"{self.plural}/{self.subresource}" if self.subresource else self.plural

    def review(self) -> Object:
        """The request in the form of an AdmissionReview and of CEL's ``request``."""
        kind = {
            "group": self.resource.group,
            "version": self.resource.version,
            "kind": str(self.obj.get("kind") or self.resource.kind),
        }
        path = {"group": self.resource.group, "version": self.resource.version, "resource": self.plural}
        sub = {"subResource": self.subresource} if self.subresource else {}
        options = "CreateOptions" if self.operation == "CREATE" else "UpdateOptions"
        return {
            "uid": str(uuid.uuid4()), "kind": kind, "resource": path, "requestKind": kind, "requestResource": path,
            **sub, **({"requestSubResource": self.subresource} if sub else {}),
            **({"name": self.name} if self.name else {}), **({"namespace": self.namespace} if self.namespace else {}),
            "operation": self.operation, "userInfo": self.user, "object": self.obj, "oldObject": self.old,
            "dryRun": self.dry_run,
            "options": {"kind": options, "apiVersion": "meta.k8s.io/v1", **self.options},
        }  # fmt: skip


def rule_matches(rule: Object, asked: Attributes) -> bool:
    """Whether a rule of a webhook or policy concerns a request."""

    def has(part: str, *values: str) -> bool:
        return bool({"*", *values} & set(rule.get(part) or []))

    every = ["*/*"] if not asked.subresource else ["*/*", f"{asked.plural}/*", f"*/{asked.subresource}"]
    resources = set(rule.get("resources") or [])
    scope = rule.get("scope") or "*"
    return (
        has("operations", asked.operation)
        and has("apiGroups", asked.resource.group)
        and has("apiVersions", asked.resource.version)
        and bool(resources & {asked.in_rules, *every} or ("*" in resources and not asked.subresource))
        and (scope == "*" or (scope == "Namespaced") == asked.resource.namespaced)
        and (not rule.get("resourceNames") or asked.name in rule["resourceNames"])
    )


def selectors_match(store: Store, match: Object, asked: Attributes) -> bool:
    """Whether `namespaceSelector` and `objectSelector` match a request. Either the new or the old object may match."""
    space = store.get(NAMESPACES, "", asked.namespace) or {"metadata": {}}
    found = [o["metadata"].get("labels") or {} for o in (asked.obj, asked.old) if o is not None]
    return selection.label_object(match.get("namespaceSelector"), space["metadata"].get("labels") or {}) and any(
        selection.label_object(match.get("objectSelector"), labels) for labels in found
    )


def known(store: Store, asked: Attributes) -> Object:
    """Values of CEL's variables for a request."""
    space = store.get(NAMESPACES, "", asked.namespace)
    return {"object": asked.obj, "oldObject": asked.old, "request": asked.review(), "namespaceObject": space}


def webhooks_for(store: Store, asked: Attributes) -> list[Object]:
    """The webhooks whose rules and selectors match, in the server's order: configurations by name, then by position."""
    return [
        webhook
        for configuration in store.all(WEBHOOKS)
        for webhook in configuration.get("webhooks") or []
        if any(rule_matches(rule, asked) for rule in webhook.get("rules") or [])
        and selectors_match(store, webhook, asked)
    ]


@cache
def _trust(bundle: str) -> ssl.SSLContext:
    """TLS settings for a CA bundle.

    They are cached: reading the machine's certificates takes 80 ms, and connections are reused only within one context.
    """
    return ssl.create_default_context(cadata=base64.b64decode(bundle).decode() if bundle else None)


async def _call(session: aiohttp.ClientSession, webhook: Object, asked: Attributes) -> Object:
    config, request = webhook.get("clientConfig") or {}, asked.review()
    address = config.get("url", "")
    if not address.startswith("https://"):
        raise WebhookError(f"clientConfig.url {address!r} is not an https:// address (services are not resolved here)")
    trust = _trust(config.get("caBundle") or "")
    limit = int(webhook.get("timeoutSeconds") or 10)
    url = f"{address}{'&' if '?' in address else '?'}timeout={limit}s"
    body = orjson.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
    try:
        headers = {"Content-Type": "application/json"}
        timeout = aiohttp.ClientTimeout(total=limit)
        async with session.post(url, data=body, headers=headers, ssl=trust, timeout=timeout) as answer:
            content = await answer.read()
    except TimeoutError as error:
        raise WebhookError(f'failed to call webhook: Post "{url}": context deadline exceeded') from error
    except aiohttp.ClientConnectorError as error:
        if not isinstance(error.os_error, ConnectionRefusedError):
            raise WebhookError(f'failed to call webhook: Post "{url}": {error}') from error
        why = f"dial tcp {error.host}:{error.port}: connect: connection refused"
        raise WebhookError(f'failed to call webhook: Post "{url}": {why}') from error
    except aiohttp.ClientError as error:
        raise WebhookError(f'failed to call webhook: Post "{url}": {type(error).__name__}: {error}') from error
    if answer.status != 200:
        why = f"an error on the server ({orjson.dumps(content[:200].decode(errors='replace')).decode()})"
        raise WebhookError(f"failed to call webhook: {why} has prevented the request from succeeding")
    return _response(content, request["uid"])


def _response(content: bytes, uid: str) -> Object:
    try:
        review = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        text = "failed to call webhook: couldn't get version/kind; json parse error"
        raise WebhookError(f"{text}: {error}") from error
    version = review.get("apiVersion", "admission.k8s.io/v1") if isinstance(review, dict) else ""
    if version != "admission.k8s.io/v1":
        given = version.rpartition("/")[2]
        why = f"converting ({given}.AdmissionReview) to (v1.AdmissionReview): unknown conversion"
        raise WebhookError(f"failed to call webhook: {why}")
    response = review.get("response")
    bad = "received invalid webhook response"
    if not isinstance(response, dict):
        raise WebhookError(f"{bad}: webhook response was absent")
    if response.get("uid") != uid:
        raise WebhookError(f'{bad}: expected response.uid="{uid}", got "{response.get("uid") or ""}"')
    if response.get("patch") and not response.get("patchType"):
        raise WebhookError(f"{bad}: webhook returned response.patch but not response.patchType")
    if response.get("patch") and response["patchType"] != "JSONPatch":
        raise WebhookError(f"{bad}: webhook returned invalid response.patchType of {response['patchType']!r}")
    return response


def internal(text: str) -> ApiError:
    """Error 500 in the server's form."""
    return ApiError(500, "InternalError", f"Internal error occurred: {text}", causes=[{"message": text}])


def _denied(name: str, response: Object) -> ApiError:
    status = response.get("status") or {}
    text = f'admission webhook "{name}" denied the request'
    why = status.get("message") or status.get("reason")
    code, reason = max(400, status.get("code") or 0), status.get("reason") or ""
    return ApiError(code, reason, f"{text}: {why}" if why else f"{text} without explanation")


async def admit(
    session: aiohttp.ClientSession, store: Store, asked: Attributes, default: Callable[[Object], None]
) -> tuple[Object, list[str]]:
    """Sends an object through the webhooks that match.

    Args:
        session: HTTP session for the calls.
        store: Store with webhooks and namespaces.
        asked: The request.
        default: Fills in defaults of a patched object, in place.

    Returns:
        The object after their patches, and their warnings.

    Raises:
        ApiError: A webhook refused, or failed and its failurePolicy is ``Fail``.
    """
    warnings: list[str] = []
    for webhook in webhooks_for(store, asked):
        name, fail = webhook.get("name", ""), webhook.get("failurePolicy", "Fail") == "Fail"
        if webhook.get("matchConditions"):
            wanted, error = expressions.conditions(webhook["matchConditions"], known(store, asked), fail=fail)
            if error:
                text = f'{asked.plural} "{asked.name}" is forbidden: {error}'
                raise ApiError(403, "Forbidden", text, name=asked.name, group=asked.resource.group, kind=asked.plural)
            if not wanted:
                continue
        try:
            response = await _call(session, webhook, asked)
            if not response.get("allowed"):
                raise _denied(name, response)
            operations = _operations(response)
        except WebhookError as failure:
            if fail:
                raise internal(f'failed calling webhook "{name}": {failure}') from failure
            continue
        if operations:
            asked = replace(asked, obj=_patched(asked.obj, operations, default))
        warnings.extend(response.get("warnings") or [])
    return asked.obj, warnings


def _operations(response: Object) -> Any:  # noqa: ANN401 - JSON
    try:
        return orjson.loads(base64.b64decode(response["patch"])) if response.get("patch") else []
    except ValueError as error:
        raise WebhookError(f"received undecodable patch in webhook response: {error}") from error


def _patched(obj: Object, operations: Any, default: Callable[[Object], None]) -> Object:  # noqa: ANN401 - JSON
    """Applies a webhook's patch. A patch that does not apply is an error under every failurePolicy."""
    try:
        patched: Object = patch.json_patch(copy.deepcopy(obj), operations)
        default(patched)
    except (ApiError, TypeError, AttributeError) as error:
        raise internal(str(error.__cause__ or error)) from error
    return patched
