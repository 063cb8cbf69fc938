"""kube-scheduler: what an extender is asked, in which order, and what its answers lead to."""

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
"""Seconds in which a pod that nothing happened for is not tried again; longer than the longest back-off."""


def _pod_of(body: Seen) -> str:
    return str(body["PodName"] if "PodName" in body else (body.get("Pod") or body["pod"])["metadata"]["name"])


def _calls(scene: Scene, name: str) -> list[Seen]:
    """What was asked about a pod; node names sorted, since their order is not promised."""
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
    """Where the pod is, what its condition says, which events tell of it."""
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
    """Returns once the refusal is to be read in condition and event."""

    async def told() -> bool:
        return len(await scene.api.events(name, "FailedScheduling")) >= times

    await scene.api.pod_until(name, lambda p: (p.get("status") or {}).get("conditions"))
    await scene.api.until(f"refusal of {name}", told)


def _filter(*names: str, failed: dict[str, str] | None = None, **more: Any) -> Seen:
    return {"NodeNames": list(names), "FailedNodes": failed or {}, "Error": "", **more}


def _binds(scene: Scene, **annotations: str) -> Callable[[Seen], Awaitable[Any]]:
    """An extender that binds as it is told, with annotations."""

    async def bind(body: Seen) -> Any:
        meta = {"name": body["PodName"], "uid": body["PodUID"], "annotations": annotations}
        target = {"apiVersion": "v1", "kind": "Node", "name": body["Node"]}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        await scene.api.must("POST", f"{PODS}/{body['PodName']}/binding", binding)
        return {"Error": ""}

    return bind


def _accepts(scene: Scene) -> None:
    """Both nodes fit, the second is better, binding works."""
    scene.extender.answer("cached/filter", _filter(ONE, TWO))
    scene.extender.answer("cached/prioritize", [{"Host": ONE, "Score": 2}, {"Host": TWO, "Score": 9}])
    scene.extender.answer("cached/bind", _binds(scene, **{"edges.test/by": "extender"}))


def _wants(*resources: str, amount: str = "1") -> Seen:
    return box(**limits(**dict.fromkeys(resources, amount)))


async def placed(scene: Scene) -> Seen:
    """Filter, prioritize, bind with names only; the score decides, the extender's Binding carries annotations."""
    name = "placed"
    _accepts(scene)
    await create(scene, waiting(name, _wants("cached"), metadata={"annotations": {"a": "b"}, "labels": {"c": "d"}}))
    await _bound(scene, name)
    seen = {"calls": _calls(scene, name), "end": await _end(scene, name)}
    await scene.api.remove(name)
    return seen


async def one_left(scene: Scene) -> Seen:
    """With one node left nobody is asked for scores; keys of answers are read in any case."""
    name = "one-left"
    _accepts(scene)
    scene.extender.answer("cached/filter", {"nodenames": [ONE], "failedNodes": {TWO: "too small"}, "error": ""})
    await create(scene, waiting(name, _wants("cached")))
    await _bound(scene, name)
    seen = {"paths": _paths(scene, name), "end": await _end(scene, name)}
    await scene.api.remove(name)
    return seen


async def init_containers_count(scene: Scene) -> Seen:
    """A resource that only an init container names concerns the extender too."""
    name = "init-only"
    _accepts(scene)
    await create(scene, waiting(name, box(), initContainers=[{**_wants("cached"), "name": "i"}]))
    await _bound(scene, name)
    seen = {"paths": _paths(scene, name)}
    await scene.api.remove(name)
    return seen


async def _asked_again(scene: Scene, name: str, do: Callable[[], Awaitable[Any]]) -> bool:
    """Whether a pod that waits is tried again because of something; nothing else happens meanwhile."""
    before = len(_calls(scene, name))
    await do()
    try:
        async with asyncio.timeout(QUIET):
            while len(_calls(scene, name)) == before:
                await asyncio.sleep(0.05)
    except TimeoutError:
        return False
    await asyncio.sleep(0.5)  # that attempt ends
    return True


async def refused(scene: Scene) -> Seen:
    """FailedNodes' reasons are what people read; what makes the scheduler try again."""
    name, other, api = "refused", "placeholder", scene.api
    _accepts(scene)
    await create(scene, waiting(other, _wants("cached")))
    await _bound(scene, other)
    scene.extender.answer("cached/filter", _filter(failed={ONE: "card 0: too small", TWO: "card 1: too small"}))
    await create(scene, waiting(name, _wants("cached")))
    await _refused(scene, name)
    await asyncio.sleep(QUIET)  # what follows by itself is over then
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
    """FailedAndUnresolvableNodes beside FailedNodes."""
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
    """No node left and no reason given."""
    name = "silent"
    _accepts(scene)
    scene.extender.answer("cached/filter", {"NodeNames": []})
    await create(scene, waiting(name, _wants("cached")))
    await _refused(scene, name)
    seen = {"end": await _end(scene, name)}
    await scene.api.remove(name)
    return seen


async def filter_fails(scene: Scene) -> Seen:
    """An error in the answer, a bad status, a body that is none, a node nobody asked about, no answer in time."""
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
        """Each pod's own failure the first time, then an answer."""
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
        await _bound(scene, name)  # an error is tried again without anything happening
        seen[what] = {"paths": _paths(scene, name), "events": (await _end(scene, name))["events"]}
    await api.remove(*names.values())
    return seen


async def bind_fails(scene: Scene) -> Seen:
    """A refused bind is told and tried again from filter on."""
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
    """Scores that cannot be had are done without."""
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
    """Without `nodeCacheCapable` whole nodes go both ways; without `bindVerb` the scheduler binds."""
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
    """No managed resource, no question; a resource the scheduler counts itself comes after its own count."""
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
    """Two extenders: each sees what the ones before it have left; an ignorable one that fails is left out."""
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
