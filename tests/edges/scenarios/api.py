"""kube-apiserver: Binding, patches, preconditions, watches, deletion, and the texts of refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.edges.api import JSON_PATCH, MERGE, PODS, STRATEGIC
from tests.edges.scene import HOLLOW, Scene, box, create, limits, pod

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
Seen = dict[str, Any]


def _parked(name: str, *containers: Seen, **parts: Any) -> Seen:
    """A pod that no scheduler handles."""
    return pod(name, *containers, schedulerName="nobody", **parts)


def _binding(name: str, node: str = HOLLOW[0], **meta: Any) -> Seen:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **meta}, "target": target}


async def binding(scene: Scene) -> Seen:
    """A Binding sets node, annotations and, from Kubernetes 1.35 on, labels in one write."""
    api, name = scene.api, "binding"
    made = await create(
        scene, _parked(name, metadata={"annotations": {"edges.test/old": "kept", "edges.test/both": "a"}})
    )
    meta = {
        "uid": made["metadata"]["uid"],
        "annotations": {"edges.test/new": "v", "edges.test/both": "b"},
        "labels": {"edges.test/label": "l"},
    }
    answer = await api.ask("POST", f"{PODS}/{name}/binding", _binding(name, **meta))
    found = await api.pod(name)
    await api.remove(name)
    return {"answer": answer.seen(), "pod": found}


async def binding_by_the_old_path(scene: Scene) -> Seen:
    """A POST to `bindings` does the same as one to `pods/NAME/binding`."""
    api, name = scene.api, "old-path"
    await create(scene, _parked(name))
    answer = await api.ask("POST", "/api/v1/namespaces/default/bindings", _binding(name))
    node = (await api.pod(name))["spec"].get("nodeName")
    await api.remove(name)
    return {"answer": answer.seen(), "node": node}


async def binding_refused(scene: Scene) -> Seen:
    """The server's answers to Bindings that it refuses."""
    api, name = scene.api, "refused"
    path = f"{PODS}/{name}/binding"
    made = await create(scene, _parked(name, metadata={"finalizers": ["edges.test/hold"]}))
    version = made["metadata"]["resourceVersion"]
    other = "00000000-0000-0000-0000-000000000000"
    seen = {"other uid": (await api.ask("POST", path, _binding(name, uid=other))).seen()}
    await api.must("PATCH", f"{PODS}/{name}", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    seen["old version"] = (await api.ask("POST", path, _binding(name, resourceVersion=version))).seen()
    no_node = {**_binding(name), "target": {"apiVersion": "v1", "kind": "Node"}}
    seen["no node's name"] = (await api.ask("POST", path, no_node)).seen()
    other_kind = {**_binding(name), "target": {"apiVersion": "v1", "kind": "Pod", "name": "x"}}
    seen["another kind"] = (await api.ask("POST", path, other_kind)).seen()
    seen["another name"] = (await api.ask("POST", path, _binding("somebody-else"))).seen()
    seen["no such pod"] = (await api.ask("POST", f"{PODS}/nobody-here/binding", _binding("nobody-here"))).seen()
    seen["dry run"] = (await api.ask("POST", f"{path}?dryRun=All", _binding(name))).seen()
    seen["node after dry run"] = (await api.pod(name))["spec"].get("nodeName")
    seen["first"] = (await api.ask("POST", path, _binding(name))).seen()
    seen["second"] = (await api.ask("POST", path, _binding(name, HOLLOW[1]))).seen()
    seen["second to the same"] = (await api.ask("POST", path, _binding(name))).seen()
    await api.remove_finalizers(name)
    await api.remove(name)
    await create(scene, _parked("going", metadata={"finalizers": ["edges.test/hold"]}))
    await api.must("DELETE", f"{PODS}/going")
    seen["a pod that goes"] = (await api.ask("POST", f"{PODS}/going/binding", _binding("going"))).seen()
    await api.remove_finalizers("going")
    await create(scene, _parked("gated", schedulingGates=[{"name": "edges.test/gate"}]))
    seen["a gated pod"] = (await api.ask("POST", f"{PODS}/gated/binding", _binding("gated"))).seen()
    await api.remove("going", "gated")
    return seen


async def binding_poison(scene: Scene) -> Seen:
    """The server does not validate annotation keys of a Binding. A bad key makes every later write of the pod fail."""
    api, name = scene.api, "poison"
    await create(scene, _parked(name))
    bad = _binding(name, annotations={"no/valid/key": "x"})
    seen = {"answer": (await api.ask("POST", f"{PODS}/{name}/binding", bad)).seen()}
    found = await api.pod(name)
    seen["pod"] = {"node": found["spec"].get("nodeName"), "annotations": found["metadata"].get("annotations")}
    patch = {"metadata": {"annotations": {"edges.test/a": "b"}}}
    seen["patch"] = (await api.ask("PATCH", f"{PODS}/{name}", patch, MERGE)).seen()
    status = {"status": {"phase": "Running"}}
    seen["status"] = (await api.ask("PATCH", f"{PODS}/{name}/status", status, STRATEGIC)).seen()
    await api.remove(name)
    return seen


def _told(answer: Any) -> Seen:
    """A refusal whole. Of an object only the status code and the fields that the patches here change."""
    if answer.status >= 300:
        return answer.seen()
    meta = answer.body["metadata"]
    kept = {k: meta.get(k) for k in ("annotations", "labels")}
    conditions = (answer.body.get("status") or {}).get("conditions")
    return {"status": answer.status, **kept, **({"conditions": conditions} if conditions else {})}


def _bare(seen: Seen) -> Seen:
    """A refusal without its text, which repeats the whole object here."""
    body = seen["body"]
    fields = [c["field"] for c in (body.get("details") or {}).get("causes") or []]
    return {"status": seen["status"], "reason": body.get("reason"), "fields": fields}


async def patches(scene: Scene) -> Seen:
    """The three kinds of patch, and the refusals of each."""
    api, name = scene.api, "patched"
    made = await create(scene, _parked(name, metadata={"annotations": {"a": "1", "b": "2"}}))
    path, version = f"{PODS}/{name}", made["metadata"]["resourceVersion"]

    async def do(body: Any, kind: str, where: str = path) -> Seen:
        return _told(await api.ask("PATCH", where, body, kind))

    def notes(**values: str | None) -> Seen:
        return {"metadata": {"annotations": values}}

    condition = {"type": "edges.test/ready", "status": "True"}
    bad = [{"op": "test", "path": "/metadata/annotations/a", "value": "no"}]
    seen = {
        "merge": await do(notes(a=None, c="3"), MERGE),
        "strategic": await do(notes(b=None, d="4"), STRATEGIC),
        "json": await do([{"op": "add", "path": "/metadata/annotations/e~1f", "value": "5"}], JSON_PATCH),
        "json, test fails": await do(bad, JSON_PATCH),
        "json, no such place": await do([{"op": "remove", "path": "/metadata/annotations/none"}], JSON_PATCH),
        "json, unknown operation": await do([{"op": "tweak", "path": "/metadata"}], JSON_PATCH),
        "json, no list": await do({"op": "add"}, JSON_PATCH),
        "another type": await do(notes(x="y"), "application/json"),
        "no JSON": await do(b"{", MERGE),
        "old version": await do({"metadata": {"resourceVersion": version, "annotations": {"x": "y"}}}, MERGE),
        "other uid": await do(
            {"metadata": {"uid": "00000000-0000-0000-0000-000000000000", "annotations": {"x": "y"}}}, MERGE
        ),
        "other name": await do({"metadata": {"name": "another"}}, MERGE),
        "bad key": await do({"metadata": {"annotations": {"no/valid/key": "x"}}}, MERGE),
        "a value that is no text": _bare(await do({"metadata": {"annotations": {"x": 1}}}, MERGE)),
        "fixed field": await do({"spec": {"nodeName": "x"}}, MERGE),
        "no such pod": await do(notes(x="y"), MERGE, f"{PODS}/nobody-here"),
        "status, condition": await do({"status": {"conditions": [condition]}}, STRATEGIC, f"{path}/status"),
        "status, other condition": await do(
            {"status": {"conditions": [{"type": "edges.test/second", "status": "False"}]}}, STRATEGIC, f"{path}/status"
        ),
        "status, annotation": await do(notes(f="6"), MERGE, f"{path}/status"),
        "status, uid as precondition": await do(
            {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}, "status": {"message": "x"}},
            STRATEGIC,
            f"{path}/status",
        ),
    }
    await api.remove(name)
    return seen


async def conflicts(scene: Scene) -> Seen:
    """Optimistic locking of the objects that HAMi writes: pods, Leases, ConfigMaps."""
    api = scene.api
    seen: Seen = {}
    lease = {"metadata": {"name": "conflict"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
    config = {"metadata": {"name": "conflict"}, "data": {"a": "1"}}
    for kind, path, body in (("lease", LEASES, lease), ("config map", CONFIG_MAPS, config)):
        first = await api.must("POST", path, body)
        one = f"{path}/conflict"
        seen[f"{kind}, made twice"] = (await api.ask("POST", path, body)).seen()
        await api.must("PUT", one, {**first, "metadata": {**first["metadata"], "labels": {"a": "b"}}})
        seen[f"{kind}, old version"] = (await api.ask("PUT", one, first)).seen()
        seen[f"{kind}, no version"] = (await api.ask("PUT", one, body)).seen()
        other = {**body, "metadata": {"name": "conflict", "uid": "00000000-0000-0000-0000-000000000000"}}
        seen[f"{kind}, other uid"] = (await api.ask("PUT", one, other)).seen()
        gone = {**body, "metadata": {"name": "nobody-here"}}
        seen[f"{kind}, not there"] = (await api.ask("PUT", f"{path}/nobody-here", gone)).seen()
        await api.ask("DELETE", f"{path}/nobody-here")
        wrong = {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}
        seen[f"{kind}, deleted with another uid"] = (await api.ask("DELETE", one, wrong)).seen()
        seen[f"{kind}, deleted"] = (await api.ask("DELETE", one)).seen()
        seen[f"{kind}, deleted twice"] = (await api.ask("DELETE", one)).seen()
    made = await create(scene, _parked("conflict"))
    await api.must("PATCH", f"{PODS}/conflict", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    seen["pod, made twice"] = (await api.ask("POST", PODS, _parked("conflict"))).seen()
    seen["pod, old version"] = (await api.ask("PUT", f"{PODS}/conflict", made)).seen()
    seen["pod, status with old version"] = (await api.ask("PUT", f"{PODS}/conflict/status", made)).seen()
    await api.remove("conflict")
    return seen


async def refusals(scene: Scene) -> Seen:
    """Answers to bad paths, bodies and objects."""
    api = scene.api

    async def do(method: str, path: str, body: Any = None) -> Seen:
        return (await api.ask(method, path, body)).seen()

    twice = _parked("bad-twice", box("a"), box("a"))
    quantity = _parked("bad-quantity", box(**limits(x="many")))
    fraction = _parked("bad-half", box(**limits(x="0.5")))
    unequal = box(resources={"limits": {"edges.test/x": "1"}, "requests": {"edges.test/x": "2"}})
    return {
        "no such pod": await do("GET", f"{PODS}/nobody-here"),
        "no such resource": await do("GET", "/api/v1/namespaces/default/unheard"),
        "no such group": await do("GET", "/apis/none.test/v1/things"),
        "no such namespace": await do("POST", "/api/v1/namespaces/none/configmaps", {"metadata": {"name": "a"}}),
        "list in no namespace": await do("GET", "/api/v1/namespaces/none/configmaps?limit=1"),
        "no JSON": await do("POST", PODS, b"{"),
        "another kind": await do("POST", PODS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
        "another namespace": await do("POST", PODS, _parked("a", metadata={"namespace": "kube-system"})),
        "no name": await do("POST", CONFIG_MAPS, {"data": {}}),
        "bad name": await do("POST", CONFIG_MAPS, {"metadata": {"name": "A_b"}}),
        "bad annotation": await do("POST", PODS, _parked("bad-note", metadata={"annotations": {"no/valid/key": "x"}})),
        "bad label": await do("POST", PODS, _parked("bad-label", metadata={"labels": {"a": "no value!"}})),
        "no containers": await do("POST", PODS, _parked("bad-empty", containers=[])),
        "same name twice": await do("POST", PODS, twice),
        "no quantity": await do("POST", PODS, quantity),
        "half a device": await do("POST", PODS, fraction),
        "unequal request": await do("POST", PODS, _parked("bad-unequal", unequal)),
        "request without limit": await do(
            "POST", PODS, _parked("bad-limit", box(resources={"requests": {"edges.test/x": "1"}}))
        ),
        "bad field selector": await do("GET", f"{PODS}?fieldSelector=spec.none%3Da"),
        "bad label selector": await do("GET", f"{PODS}?labelSelector=a%20b"),
        "wrong method": await do("PATCH", PODS, {}),
    }


async def pod_defaults(scene: Scene) -> Seen:
    """The defaults that the server writes into a new pod."""
    asked = box(**limits(x="2", cpu="500m"))
    answer = await scene.api.ask("POST", PODS, {**_parked("plain", asked, initContainers=[box("i")])})
    await scene.api.remove("plain")
    return answer.seen()


async def deletion(scene: Scene) -> Seen:
    """Preconditions, grace, finalizers."""
    api, name = scene.api, "deleted"

    def told(answer: Any) -> Seen:
        meta = answer.body.get("metadata") or {}
        marks = {k: meta.get(k) for k in ("deletionTimestamp", "deletionGracePeriodSeconds", "finalizers")}
        return (
            answer.seen() if answer.status >= 300 else {"status": answer.status, "kind": answer.body["kind"], **marks}
        )

    await create(scene, _parked(name))
    wrong = {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}
    seen = {"another uid": (await api.ask("DELETE", f"{PODS}/{name}", wrong)).seen()}
    seen["not bound"] = told(await api.ask("DELETE", f"{PODS}/{name}"))
    seen["again"] = told(await api.ask("DELETE", f"{PODS}/{name}"))
    await create(scene, _parked(name))
    await api.must("POST", f"{PODS}/{name}/binding", _binding(name))
    seen["bound"] = told(await api.ask("DELETE", f"{PODS}/{name}"))
    seen["bound, again"] = told(await api.ask("DELETE", f"{PODS}/{name}"))
    seen["bound, sooner"] = told(await api.ask("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 5}))
    seen["bound, now"] = told(await api.ask("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0}))
    await create(scene, _parked(name, metadata={"finalizers": ["edges.test/hold"]}))
    seen["held"] = told(await api.ask("DELETE", f"{PODS}/{name}"))
    seen["held, new finalizer"] = told(
        await api.ask(
            "PATCH", f"{PODS}/{name}", {"metadata": {"finalizers": ["edges.test/hold", "edges.test/b"]}}, MERGE
        )
    )
    seen["released"] = told(await api.ask("PATCH", f"{PODS}/{name}", {"metadata": {"finalizers": None}}, MERGE))
    seen["after"] = told(await api.ask("GET", f"{PODS}/{name}"))
    return seen


async def eviction(scene: Scene) -> Seen:
    """An eviction deletes the pod, by a request to a path of its own."""
    api, name = scene.api, "evicted"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    await create(scene, _parked(name))
    seen = {"answer": (await api.ask("POST", f"{PODS}/{name}/eviction", body)).seen()}
    seen["gone"] = (await api.ask("POST", f"{PODS}/{name}/eviction", body)).seen()
    await api.remove(name)
    return seen


def _event(event: Seen) -> Seen:
    """Type of an event, and the fields that identify its object."""
    if event["type"] in {"BOOKMARK", "ERROR", "END", "REFUSED"}:
        return event
    meta = event["object"]["metadata"]
    return {
        "type": event["type"],
        "name": meta["name"],
        "labels": meta.get("labels"),
        "data": event["object"].get("data"),
    }


async def watches(scene: Scene) -> Seen:
    """Events of a watch with a selector, the ways to start a watch, and the error if it can't resume."""
    api, name = scene.api, "watched"
    select = {"labelSelector": "edges.test/watch=yes"}
    body = {"metadata": {"name": name, "labels": {"edges.test/watch": "yes"}}, "data": {"step": "1"}}
    one, seen = f"{CONFIG_MAPS}/{name}", dict[str, Any]()
    start = (await api.get(CONFIG_MAPS))["metadata"]["resourceVersion"]
    await api.must("POST", CONFIG_MAPS, body)
    async with api.watch(CONFIG_MAPS, **select) as watch:
        seen["from nowhere"] = [_event(e) for e in await watch.take(1)]
    async with api.watch(CONFIG_MAPS, **select, resourceVersion=start) as watch:
        await api.must("PATCH", one, {"data": {"step": "2"}}, MERGE)
        await api.must("PATCH", one, {"metadata": {"labels": {"edges.test/watch": "no"}}}, MERGE)
        await api.must("PATCH", one, {"data": {"step": "unseen"}}, MERGE)
        await api.must("PATCH", one, {"metadata": {"labels": {"edges.test/watch": "yes"}}}, MERGE)
        await api.must("PATCH", one, {}, MERGE)  # changes nothing, so it causes no event
        await api.must("DELETE", one)
        seen["from a version"] = [_event(e) for e in await watch.take(5)]
    await api.must("POST", CONFIG_MAPS, body)
    streaming = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with api.watch(CONFIG_MAPS, **select, **streaming) as watch:
        seen["streamed list"] = [_event(e) for e in await watch.take(2 if watch.status == 200 else 1)]
    await api.must("DELETE", one)
    seen["no version"] = (await api.ask("GET", f"{CONFIG_MAPS}?watch=true&resourceVersion=abc")).seen()
    return seen


async def expired_watch(scene: Scene) -> Seen:
    """A watch from a version that the server no longer has."""
    version = (await scene.api.get(PODS))["metadata"]["resourceVersion"]
    await create(scene, _parked("unwatched"))
    await scene.api.remove("unwatched")
    await scene.subject.forget()
    async with scene.api.watch(PODS, resourceVersion=version) as watch:
        return {"status": watch.status, "events": [_event(e) for e in await watch.take(2)]}


async def lists(scene: Scene) -> Seen:
    """A list in pages."""
    api = scene.api
    for number in range(3):
        meta = {"name": f"page-{number}", "labels": {"edges.test/list": "yes"}}
        await api.must("POST", CONFIG_MAPS, {"metadata": meta})
    path = f"{CONFIG_MAPS}?labelSelector=edges.test/list%3Dyes&limit=2"
    first = await api.get(path)
    token = first["metadata"].get("continue", "")
    second = await api.get(f"{path}&continue={token}")
    seen = [
        {
            "kind": page["kind"],
            "apiVersion": page["apiVersion"],
            "meta": sorted(page["metadata"]),
            "items": [{"name": i["metadata"]["name"], "keys": sorted(i)} for i in page["items"]],
        }
        for page in (first, second)
    ]
    bad = (await api.ask("GET", f"{path}&continue=nonsense")).seen()
    for number in range(3):
        await api.must("DELETE", f"{CONFIG_MAPS}/page-{number}")
    return {"pages": seen, "bad token": bad}


SCENARIOS: dict[str, Callable[[Scene], Awaitable[Seen]]] = {
    f.__name__: f
    for f in (
        binding, binding_by_the_old_path, binding_refused, binding_poison, patches, conflicts, refusals, pod_defaults,
        deletion, eviction, watches, lists, expired_watch,
    )
}  # fmt: skip
