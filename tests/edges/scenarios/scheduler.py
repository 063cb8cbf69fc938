"""kube-scheduler: its calls to an extender, their order, and the effect of each answer."""

from __future__ import annotations

import asyncio
import copy
import time
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.edges.api import MERGE, PODS
from tests.edges.scene import HOLLOW, Scene, box, create, limits, waiting

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Seen = dict[str, Any]
ONE, TWO = HOLLOW
QUIET = 2.5
"""Seconds to wait for a retry. They exceed the longest back-off, so a pod not retried by then waits for an event."""


def _pod_of(body: Seen) -> str:
    return str(body["PodName"] if "PodName" in body else (body.get("Pod") or body["pod"])["metadata"]["name"])


def _calls(scene: Scene, name: str) -> list[Seen]:
    """The extender calls about a pod. Node names are sorted, since Kubernetes promises no order."""
    found = []
    for path, kind, body in copy.deepcopy(scene.extender.calls):
        if _pod_of(body) == name:
            if body.get("NodeNames"):
                body["NodeNames"].sort()
            found.append({"path": path, "content type": kind, "body": body})
    return found


def _paths(scene: Scene, name: str) -> list[str]:
    return [call["path"] for call in _calls(scene, name)]


async def _end(scene: Scene, name: str) -> Seen:
    """The pod's node, annotations, PodScheduled condition and scheduling events."""
    found = await scene.api.pod(name)
    conditions = [c for c in (found.get("status") or {}).get("conditions") or [] if c["type"] == "PodScheduled"]
    return {
        "node": found["spec"].get("nodeName"),
        "annotations": found["metadata"].get("annotations"),
        "condition": conditions,
        "events": await scene.api.events(name, "Scheduled", "FailedScheduling"),
    }


async def _bound(scene: Scene, name: str) -> None:
    await scene.api.pod_until(name, lambda p: p["spec"].get("nodeName"))
    await scene.api.until(f"event of {name}", lambda: scene.api.events(name, "Scheduled"))


async def _refused(scene: Scene, name: str, times: int = 1) -> None:
    """Wait until the refusal is in the pod's conditions and events."""

    async def told() -> bool:
        return len(await scene.api.events(name, "FailedScheduling")) >= times

    await scene.api.pod_until(name, lambda p: (p.get("status") or {}).get("conditions"))
    await scene.api.until(f"refusal of {name}", told)


def _filter(*names: str, failed: dict[str, str] | None = None, **more: Any) -> Seen:
    return {"NodeNames": list(names), "FailedNodes": failed or {}, "Error": "", **more}


def _binds(scene: Scene, **annotations: str) -> Callable[[Seen], Awaitable[Any]]:
    """An answer to Bind that binds the pod to the named node and adds annotations."""

    async def bind(body: Seen) -> Any:
        meta = {"name": body["PodName"], "uid": body["PodUID"], "annotations": annotations}
        target = {"apiVersion": "v1", "kind": "Node", "name": body["Node"]}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        await scene.api.must("POST", f"{PODS}/{body['PodName']}/binding", binding)
        return {"Error": ""}

    return bind


def _accepts(scene: Scene) -> None:
    """Set answers: both nodes fit, the second has the higher score, Bind succeeds."""
    scene.extender.answer("cached/filter", _filter(ONE, TWO))
    scene.extender.answer("cached/prioritize", [{"Host": ONE, "Score": 2}, {"Host": TWO, "Score": 9}])
    scene.extender.answer("cached/bind", _binds(scene, **{"edges.test/by": "extender"}))


def _wants(*resources: str, amount: str = "1") -> Seen:
    return box(**limits(**dict.fromkeys(resources, amount)))


async def placed(scene: Scene) -> Seen:
    """The three calls get node names only. The score decides. The extender's Binding carries annotations."""
    name = "placed"
    _accepts(scene)
    await create(scene, waiting(name, _wants("cached"), metadata={"annotations": {"a": "b"}, "labels": {"c": "d"}}))
    await _bound(scene, name)
    seen = {"calls": _calls(scene, name), "end": await _end(scene, name)}
    await scene.api.remove(name)
    return seen


async def one_left(scene: Scene) -> Seen:
    """With one node left, the scheduler asks for no scores. It ignores the case of keys in answers."""
    name = "one-left"
    _accepts(scene)
    scene.extender.answer("cached/filter", {"nodenames": [ONE], "failedNodes": {TWO: "too small"}, "error": ""})
    await create(scene, waiting(name, _wants("cached")))
    await _bound(scene, name)
    seen = {"paths": _paths(scene, name), "end": await _end(scene, name)}
    await scene.api.remove(name)
    return seen


async def init_containers_count(scene: Scene) -> Seen:
    """The scheduler also calls the extender if only an init container asks for the resource."""
    name = "init-only"
    _accepts(scene)
    await create(scene, waiting(name, box(), initContainers=[{**_wants("cached"), "name": "i"}]))
    await _bound(scene, name)
    seen = {"paths": _paths(scene, name)}
    await scene.api.remove(name)
    return seen


async def _asked_again(scene: Scene, name: str, do: Callable[[], Awaitable[Any]]) -> bool:
    """Whether the scheduler retries a waiting pod after `do`. Nothing else happens in that time."""
    before = len(_calls(scene, name))
    await do()
    try:
        async with asyncio.timeout(QUIET):
            while len(_calls(scene, name)) == before:
                await asyncio.sleep(0.05)
    except TimeoutError:
        return False
    await asyncio.sleep(0.5)  # let that attempt end
    return True


async def refused(scene: Scene) -> Seen:
    """Reasons in FailedNodes reach users. Also records which events make the scheduler retry."""
    name, other, api = "refused", "placeholder", scene.api
    _accepts(scene)
    await create(scene, waiting(other, _wants("cached")))
    await _bound(scene, other)
    scene.extender.answer("cached/filter", _filter(failed={ONE: "card 0: too small", TWO: "card 1: too small"}))
    await create(scene, waiting(name, _wants("cached")))
    await _refused(scene, name)
    await asyncio.sleep(QUIET)  # retries without an event are over by then
    seen = {"paths": _paths(scene, name), "end": await _end(scene, name)}

    async def nothing() -> None:
        pass

    async def pod_annotation() -> None:
        await api.must("PATCH", f"{PODS}/{name}", {"metadata": {"annotations": {"edges.test/a": "b"}}}, MERGE)

    async def pod_label() -> None:
        await api.must("PATCH", f"{PODS}/{name}", {"metadata": {"labels": {"edges.test/a": "b"}}}, MERGE)

    async def node_annotation() -> None:
        patch = {"metadata": {"annotations": {"edges.test/a": str(time.time_ns())}}}
        await api.must("PATCH", f"/api/v1/nodes/{ONE}", patch, MERGE)

    async def node_label() -> None:
        await api.must("PATCH", f"/api/v1/nodes/{ONE}", {"metadata": {"labels": {"edges.test/a": "b"}}}, MERGE)

    async def another_ends() -> None:
        await api.remove(other)

    happenings = (nothing, pod_annotation, pod_label, node_annotation, node_label, another_ends)
    seen["tried again after"] = {h.__name__: await _asked_again(scene, name, h) for h in happenings}
    await api.must("PATCH", f"/api/v1/nodes/{ONE}", {"metadata": {"labels": {"edges.test/a": None}}}, MERGE)
    await api.remove(name)
    return seen


async def refused_for_good(scene: Scene) -> Seen:
    """An answer with both FailedNodes and FailedAndUnresolvableNodes."""
    name = "for-good"
    _accepts(scene)
    answer = _filter(failed={ONE: "card 0: too small"}, FailedAndUnresolvableNodes={TWO: "no such card type"})
    scene.extender.answer("cached/filter", answer)
    await create(scene, waiting(name, _wants("cached")))
    await _refused(scene, name)
    seen = {"end": await _end(scene, name)}
    await scene.api.remove(name)
    return seen


async def silently_refused(scene: Scene) -> Seen:
    """An answer without nodes and without reasons."""
    name = "silent"
    _accepts(scene)
    scene.extender.answer("cached/filter", {"NodeNames": []})
    await create(scene, waiting(name, _wants("cached")))
    await _refused(scene, name)
    seen = {"end": await _end(scene, name)}
    await scene.api.remove(name)
    return seen


async def filter_fails(scene: Scene) -> Seen:
    """Five failures of filter: an error, a bad status, a body that is not JSON, an unknown node, a timeout."""
    api = scene.api

    async def slow(_: Seen) -> Any:
        await asyncio.sleep(3)
        return _filter(ONE)

    async def status(_: Seen) -> Any:
        return web.Response(status=500, text="out of order")

    async def nonsense(_: Seen) -> Any:
        return web.Response(text="nonsense")

    answers = {
        "error": {"NodeNames": None, "FailedNodes": None, "Error": "the books are closed"},
        "status": status,
        "nonsense": nonsense,
        "stranger": _filter("nobody"),
        "slow": slow,
    }
    asked: set[str] = set()

    async def once(body: Seen) -> Any:
        """Fail at a pod's first call in that pod's way, then answer."""
        name = _pod_of(body)
        if name in asked:
            return _filter(ONE, TWO)
        asked.add(name)
        answer = answers[name.removeprefix("filter-")]
        return await answer(body) if callable(answer) else answer

    _accepts(scene)
    scene.extender.answer("cached/filter", once)
    names = {what: f"filter-{what}" for what in answers}
    for name in names.values():
        await create(scene, waiting(name, _wants("cached")))
    seen = {}
    for what, name in names.items():
        await _bound(scene, name)  # the scheduler retries after an error without an event
        seen[what] = {"paths": _paths(scene, name), "events": (await _end(scene, name))["events"]}
    await api.remove(*names.values())
    return seen


async def bind_fails(scene: Scene) -> Seen:
    """The scheduler reports a refused bind and retries from filter on."""
    name = "bind-fails"
    _accepts(scene)
    works, failures = _binds(scene), ["node is locked"]

    async def bind(body: Seen) -> Any:
        return {"Error": failures.pop()} if failures else await works(body)

    scene.extender.answer("cached/filter", _filter(TWO))
    scene.extender.answer("cached/bind", bind)
    await create(scene, waiting(name, _wants("cached")))
    await _bound(scene, name)
    seen = {"paths": _paths(scene, name), "end": await _end(scene, name)}
    await scene.api.remove(name)
    return seen


async def prioritize_fails(scene: Scene) -> Seen:
    """If prioritize fails, the scheduler places the pod without its scores."""
    name = "no-scores"
    _accepts(scene)

    async def status(_: Seen) -> Any:
        return web.Response(status=500, text="out of order")

    scene.extender.answer("cached/prioritize", status)
    await create(scene, waiting(name, _wants("cached")))
    await _bound(scene, name)
    seen = {"paths": _paths(scene, name), "bound": True}
    await scene.api.remove(name)
    return seen


async def whole_nodes(scene: Scene) -> Seen:
    """Without `nodeCacheCapable`, calls and answers hold whole nodes. Without `bindVerb`, the scheduler binds."""
    name = "whole"

    async def first_only(body: Seen) -> Any:
        items = [n for n in body["Nodes"]["items"] if n["metadata"]["name"] == ONE]
        return {"Nodes": {**body["Nodes"], "items": items}, "FailedNodes": {TWO: "too small"}}

    scene.extender.answer("whole/filter", first_only)
    await create(scene, waiting(name, _wants("whole")))
    await _bound(scene, name)
    calls = _calls(scene, name)
    for call in calls:
        nodes = call["body"]["Nodes"]
        items = sorted(nodes["items"], key=lambda n: n["metadata"]["name"])
        nodes["items"] = [
            {"keys": sorted(n), "name": n["metadata"]["name"], "allocatable": n["status"]["allocatable"]} for n in items
        ]
        call["body"]["Pod"] = {"keys": sorted(call["body"]["Pod"])}
    seen = {"calls": calls, "end": await _end(scene, name)}
    await scene.api.remove(name)
    return seen


async def not_asked(scene: Scene) -> Seen:
    """The extender gets no call for a pod without its resource, or if the scheduler's own count already refuses it."""
    api = scene.api
    scene.extender.answer("counted/filter", _filter(ONE, TWO))
    await create(scene, waiting("plain", box()))
    await create(scene, waiting("fits", _wants("counted", amount="2")))
    await _bound(scene, "plain")
    await _bound(scene, "fits")
    await create(scene, waiting("too-much", _wants("counted", amount="3")))
    await _refused(scene, "too-much")
    seen = {n: {"paths": _paths(scene, n)} for n in ("plain", "fits", "too-much")}
    seen["too-much"]["end"] = await _end(scene, "too-much")
    await api.remove("plain", "fits", "too-much")
    return seen


async def in_turn(scene: Scene) -> Seen:
    """Each of several extenders gets the nodes that those before it left. An ignorable one is skipped if it fails."""
    name = "in-turn"
    _accepts(scene)
    scene.extender.answer("cached/filter", _filter(TWO, failed={ONE: "too small"}))

    async def status(_: Seen) -> Any:
        return web.Response(status=500, text="out of order")

    async def all_of_them(body: Seen) -> Any:
        return {"Nodes": body["Nodes"]}

    scene.extender.answer("whole/filter", all_of_them)
    scene.extender.answer("ignorable/filter", status)
    await create(scene, waiting(name, _wants("ignorable", "whole", "cached")))
    await _bound(scene, name)
    asked = [
        {
            "path": call["path"],
            "nodes": call["body"].get("NodeNames")
            or [n["metadata"]["name"] for n in (call["body"].get("Nodes") or {}).get("items") or []],
        }
        for call in _calls(scene, name)
    ]
    seen = {"asked": asked, "end": await _end(scene, name)}
    await scene.api.remove(name)
    return seen


SCENARIOS: dict[str, Callable[[Scene], Awaitable[Seen]]] = {
    f.__name__: f
    for f in (
        placed, one_left, init_containers_count, refused, refused_for_good, silently_refused, filter_fails, bind_fails,
        prioritize_fails, whole_nodes, not_asked, in_turn,
    )
}  # fmt: skip
