"""kube-apiserver: AdmissionReviews, the effect of each answer, selection of pods, and policies in CEL."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.edges.api import MERGE, PODS
from tests.edges.scene import HOLLOW, Scene, box, limits, pod

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.edges.api import Answer

Seen = dict[str, Any]
CASE = "edges.test/case"
TRUSTED = "system:serviceaccount:kube-system:edges-trusted"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_WANTS_OURS = (
    "object.spec.containers.exists(c, has(c.resources) && has(c.resources.limits) && "
    "c.resources.limits.exists(r, r.startsWith('edges.test/')))"
)


def _condition(expression: str) -> Seen:
    return {"matchConditions": [{"name": "wanted", "expression": expression}]}


def _webhooks(url: str) -> dict[str, Seen]:
    """The settings of each case. A case applies to the pods that are labelled with its name."""
    return {
        "review": {},
        "patch": {},
        "order-2": {"objectSelector": {"matchLabels": {CASE: "order"}}},
        "order-1": {"objectSelector": {"matchLabels": {CASE: "order"}}},
        "deny": {},
        "fail": {"failurePolicy": "Fail"},
        "ignore": {"failurePolicy": "Ignore"},
        "slow-fail": {"failurePolicy": "Fail", "timeoutSeconds": 1},
        "slow-ignore": {"failurePolicy": "Ignore", "timeoutSeconds": 1},
        "nobody-there": {"clientConfig": {"url": "https://127.0.0.1:9/nobody"}},
        "in-default": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}},
        "elsewhere": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}},
        "wanted": _condition(_WANTS_OURS),
        "not-me": _condition("!('edges.test/skip' in object.metadata.?labels.orValue({}))"),
        "by-user": _condition(f"request.userInfo.username != '{TRUSTED}'"),
        "broken-fail": {"failurePolicy": "Fail", **_condition("object.metadata.annotations['none'] == 'x'")},
        "broken-ignore": {"failurePolicy": "Ignore", **_condition("object.metadata.annotations['none'] == 'x'")},
    }


async def install(scene: Scene) -> None:
    """Register all webhooks and the policy, and wait until the server uses them."""
    hook = scene.webhook
    for case, more in _webhooks(hook.url).items():
        await _put(scene, "mutatingwebhookconfigurations", _configuration(hook.url, hook.bundle, case, more))
    for plural, body in (
        ("validatingadmissionpolicies", _policy()),
        ("validatingadmissionpolicybindings", _policy_binding()),
        ("mutatingwebhookconfigurations", _configuration(hook.url, hook.bundle, "last", {})),
    ):
        await _put(scene, plural, body)
    _allow(scene, "last")

    async def last_is_asked() -> bool:
        await _make(scene, "probe", "last", query="?dryRun=All")
        return bool(_reviews(scene, "last"))

    async def policy_acts() -> bool:
        probe = _marked("probe", {"edges.test/system": "x"})
        return (await scene.api.ask("POST", f"{PODS}?dryRun=All", probe)).status == 422

    await scene.api.until("the last webhook is called", last_is_asked)
    await scene.api.until("the policy acts", policy_acts)


def _configuration(url: str, bundle: str, case: str, more: Seen) -> Seen:
    client = {"url": f"{url}/{case}", "caBundle": bundle}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    webhook = {
        "name": f"{case}.edges.test",
        "clientConfig": client,
        "rules": [rule],
        "objectSelector": {"matchLabels": {CASE: case}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 10,
        **more,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": f"edges-{case}"},
        "webhooks": [webhook],
    }


def _policy() -> Seen:
    """A policy like HAMi's: only named users may add, change or remove a listed key."""
    rules = [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["pods", "pods/status", "pods/ephemeralcontainers"],
        },
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods/binding", "bindings"],
        },
    ]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "edges"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules},
            "matchConditions": [
                {"name": "not-the-system", "expression": f"request.userInfo.username != '{TRUSTED}'"},
            ],
            "variables": [
                {"name": "new", "expression": "object.metadata.?annotations.orValue({})"},
                {"name": "old", "expression": "oldObject == null ? {} : oldObject.metadata.?annotations.orValue({})"},
            ],
            "validations": [
                {
                    "expression": "variables.new[?'edges.test/system'] == variables.old[?'edges.test/system']",
                    "message": "edges.test/system is the system's",
                }
            ],
        },
    }


def _policy_binding() -> Seen:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "edges"},
        "spec": {"policyName": "edges", "validationActions": ["Deny"]},
    }


async def _put(scene: Scene, plural: str, body: Seen) -> None:
    """Create an object, and replace it if it exists."""
    path = f"{_ADMISSION}/{plural}"
    await scene.api.ask("DELETE", f"{path}/{body['metadata']['name']}")
    await scene.api.must("POST", path, body)


# ---- answers


def _response(body: Seen, **more: Any) -> Seen:
    response = {"uid": body["request"]["uid"], "allowed": True, **more}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def _allow(scene: Scene, *cases: str, **more: Any) -> None:
    async def answer(body: Seen) -> Any:
        return _response(body, **more)

    for case in cases:
        scene.webhook.answer(case, answer)


def _patch(*operations: Seen) -> Seen:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


def _reviews(scene: Scene, case: str) -> list[Seen]:
    return [body for path, _, body in scene.webhook.calls if path == case]


async def _make(scene: Scene, name: str, case: str, *boxes: Seen, query: str = "", **parts: Any) -> Answer:
    """Try to create a pod of a case, and delete it again."""
    meta = {"labels": {CASE: case}, **parts.pop("metadata", {})}
    headers = parts.pop("headers", {})
    body = pod(name, *boxes, schedulerName="nobody", metadata=meta, **parts)
    answer = await scene.api.ask("POST", PODS + query, body, **headers)
    if answer.status < 300 and not query:
        await scene.api.remove(answer.body["metadata"]["name"])
    return answer


def _refused(answer: Answer) -> Seen:
    """A refusal whole. Of a pod only its kind, since its content does not matter."""
    return answer.seen() if answer.status >= 300 else {"status": answer.status, "kind": answer.body["kind"]}


# ---- scenarios


async def review(scene: Scene) -> Seen:
    """The AdmissionReview of a new pod: defaults, requests taken from limits, names, user, options."""
    _allow(scene, "review")
    before = len(_reviews(scene, "review"))
    asked = box(**limits(x="2", cpu="500m"))
    await _make(scene, "reviewed", "review", asked, initContainers=[box("i")], headers={"User_Agent": "edges"})
    await _make(scene, "reviewed", "review", query="?dryRun=All&fieldManager=edges")
    generated = {"labels": {CASE: "review"}, "generateName": "reviewed-"}
    body = pod("", schedulerName="nobody", metadata=generated)
    del body["metadata"]["name"]
    answer = await scene.api.must("POST", f"{PODS}?dryRun=All", body)
    suffix = answer["metadata"]["name"].removeprefix("reviewed-")
    called = json.loads(json.dumps(_reviews(scene, "review")[before:]).replace(suffix, "<suffix>"))
    return dict(zip(("create", "dry run", "generated name"), called, strict=True))


async def patched(scene: Scene) -> Seen:
    """A JSON patch changes the pod. The server then applies defaults again, and passes warnings to the caller."""
    patch = _patch(
        {"op": "add", "path": "/metadata/annotations", "value": {"edges.test/webhook": "was here"}},
        {"op": "replace", "path": "/spec/schedulerName", "value": "another"},
        {"op": "add", "path": "/spec/containers/0/resources/limits", "value": {"edges.test/x": "1"}},
    )
    _allow(scene, "patch", **patch, warnings=["first thing", "second thing"])
    return (await _make(scene, "patched-by-webhook", "patch")).seen()


async def bad_patches(scene: Scene) -> Seen:
    """Patches that can't be applied, or that make the pod invalid."""
    patches = {
        "no such place": _patch({"op": "remove", "path": "/metadata/annotations/none"}),
        "no patch type": {"patch": _patch({"op": "add", "path": "/metadata/labels/a", "value": "b"})["patch"]},
        "no JSON": {"patchType": "JSONPatch", "patch": base64.b64encode(b"{").decode()},
        "not a pod": _patch({"op": "replace", "path": "/spec/containers", "value": 1}),
        "invalid": _patch({"op": "add", "path": "/metadata/labels/a", "value": "no value!"}),
    }
    seen = {}
    for what, patch in patches.items():
        _allow(scene, "patch", **patch)
        seen[what] = _refused(await _make(scene, "badly-patched", "patch"))
    return seen


async def in_order(scene: Scene) -> Seen:
    """Configurations run in the order of their names. Each gets the pod as the one before it left it."""
    _allow(scene, "order-1", **_patch({"op": "add", "path": "/metadata/labels/one", "value": "1"}))
    _allow(scene, "order-2", **_patch({"op": "add", "path": "/metadata/labels/two", "value": "2"}))
    before = len(scene.webhook.calls)
    answer = await _make(scene, "ordered", "order")
    called = [
        {"path": path, "labels": body["request"]["object"]["metadata"]["labels"]}
        for path, _, body in scene.webhook.calls[before:]
    ]
    return {"calls": called, "labels": answer.body["metadata"]["labels"]}


async def denied(scene: Scene) -> Seen:
    """Code, reason and message of a refusal, as the caller gets them."""
    statuses: dict[str, Seen | None] = {
        "message": {"message": "hami: no card of that size"},
        "code": {"code": 422, "message": "hami: no card of that size", "reason": "Invalid"},
        "small code": {"code": 200, "message": "odd"},
        "reason alone": {"reason": "QuotaExceeded"},
        "nothing": None,
    }
    seen = {}
    for what, status in statuses.items():
        _allow(scene, "deny", allowed=False, **({"status": status} if status is not None else {}))
        seen[what] = _refused(await _make(scene, "denied", "deny"))
    return seen


async def failing(scene: Scene) -> Seen:
    """A broken webhook stops the pod or is skipped, depending on its failurePolicy."""

    async def status(_: Seen) -> Any:
        return web.Response(status=500, text="out of order")

    async def nonsense(_: Seen) -> Any:
        return web.Response(text="nonsense", content_type="application/json")

    async def empty(_: Seen) -> Any:
        return {}

    async def other_uid(body: Seen) -> Any:
        return _response(body, uid="00000000-0000-0000-0000-000000000000")

    async def other_version(body: Seen) -> Any:
        return {**_response(body), "apiVersion": "admission.k8s.io/v1beta1"}

    async def no_response(body: Seen) -> Any:
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}

    seen: Seen = {}
    for answer in (status, nonsense, empty, other_uid, other_version, no_response):
        for case in ("fail", "ignore"):
            scene.webhook.answer(case, answer)
            what = answer.__name__.replace("_", " ")
            seen[f"{what}, {case}"] = _refused(await _make(scene, "failing", case))
    seen["nobody there"] = _refused(await _make(scene, "failing", "nobody-there"))
    return seen


async def slow(scene: Scene) -> Seen:
    """An answer after the timeout counts as a failure."""

    async def late(body: Seen) -> Any:
        await asyncio.sleep(1.5)
        return _response(body)

    seen = {}
    for case in ("slow-fail", "slow-ignore"):
        scene.webhook.answer(case, late)
        seen[case] = _refused(await _make(scene, "late", case))
    return seen


async def selected(scene: Scene) -> Seen:
    """Selectors, rules and conditions decide whether the webhook is called."""
    cases = ("in-default", "elsewhere", "wanted", "not-me", "by-user", "broken-fail", "broken-ignore", "review")
    _allow(scene, *cases)
    seen: Seen = {}

    async def asked(what: str, case: str, *boxes: Seen, **parts: Any) -> None:
        before = len(_reviews(scene, case))
        answer = await _make(scene, "selected", case, *boxes, **parts)
        seen[what] = {"asked": len(_reviews(scene, case)) > before, "answer": _refused(answer)}

    skip = {"labels": {CASE: "not-me", "edges.test/skip": ""}}
    await asked("no such label", "unheard-of")
    await asked("namespace selected", "in-default")
    await asked("namespace not selected", "elsewhere")
    await asked("condition holds", "wanted", box(**limits(x="1")))
    await asked("condition holds, second container", "wanted", box("a"), box("b", **limits(x="1")))
    await asked("condition does not hold", "wanted", box(**limits(cpu="1")))
    await asked("nothing wanted at all", "wanted")
    await asked("optional syntax, holds", "not-me")
    await asked("optional syntax, does not hold", "not-me", metadata=skip)
    await asked("condition on the user, holds", "by-user")
    await asked("condition fails, Fail", "broken-fail")
    await asked("condition fails, Ignore", "broken-ignore")
    before = len(_reviews(scene, "review"))
    await scene.api.must("POST", PODS, pod("updated", schedulerName="nobody", metadata={"labels": {CASE: "review"}}))
    made = len(_reviews(scene, "review")) - before
    await scene.api.must("PATCH", f"{PODS}/updated", {"metadata": {"annotations": {"a": "b"}}}, MERGE)
    seen["reviews of create"], seen["reviews of create and update"] = made, len(_reviews(scene, "review")) - before
    await scene.api.remove("updated")
    return seen


def _marked(name: str, annotations: dict[str, str] | None = None) -> Seen:
    return pod(name, schedulerName="nobody", metadata={"annotations": annotations or {}})


async def policy(scene: Scene) -> Seen:
    """A ValidatingAdmissionPolicy protects annotation keys that only the system may write."""
    api, name, key = scene.api, "guarded", "edges.test/system"
    trusted = {"Impersonate_User": TRUSTED, "Impersonate_Group": "system:masters"}
    path = f"{PODS}/{name}"

    def notes(**values: str | None) -> Seen:
        return {"metadata": {"annotations": {key if k == "key" else k: v for k, v in values.items()}}}

    def binding(**values: str) -> Seen:
        target = {"apiVersion": "v1", "kind": "Node", "name": HOLLOW[0]}
        meta = {"name": name, **notes(**values)["metadata"]}
        return {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}

    seen = {"create": _refused(await api.ask("POST", PODS, _marked(name, {key: "x"})))}
    await api.must("POST", PODS, _marked(name))
    seen["add"] = _refused(await api.ask("PATCH", path, notes(key="x"), MERGE))
    seen["add to status"] = _refused(await api.ask("PATCH", f"{path}/status", notes(key="x"), MERGE))
    seen["another key"] = _refused(await api.ask("PATCH", path, notes(other="x"), MERGE))
    seen["bind"] = _refused(await api.ask("POST", f"{path}/binding", binding(key="x")))
    seen["bind by the old path"] = _refused(
        await api.ask("POST", "/api/v1/namespaces/default/bindings", binding(key="x"))
    )
    seen["trusted bind"] = _refused(await api.ask("POST", f"{path}/binding", binding(key="x"), **trusted))
    seen["change"] = _refused(await api.ask("PATCH", path, notes(key="y"), MERGE))
    seen["remove"] = _refused(await api.ask("PATCH", path, notes(key=None), MERGE))
    seen["another key beside it"] = _refused(await api.ask("PATCH", path, notes(other="y"), MERGE))
    seen["trusted change"] = _refused(await api.ask("PATCH", path, notes(key="y"), MERGE, **trusted))
    seen["end"] = (await api.pod(name))["metadata"]["annotations"]
    await api.remove(name)
    return seen


SCENARIOS: dict[str, Callable[[Scene], Awaitable[Seen]]] = {
    f.__name__: f
    for f in (review, patched, bad_patches, in_order, denied, failing, slow, selected, policy)
}  # fmt: skip
