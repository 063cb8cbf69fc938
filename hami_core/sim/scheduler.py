"""The kube-scheduler loop: it filters nodes for one pod after the other, and binds in separate tasks.

A cluster has its own scheduler beside one that calls extenders. So this loop also places the pods of
``default-scheduler`` if its configuration does not name it, and asks no extender about them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import Counter, defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hami_core.sim.client import CallError, Client
from hami_core.sim.extender import Extender, ExtenderError, seconds
from hami_core.sim.quantity import amounts, requests
from hami_core.sim.resources import Object, now
from hami_core.sim.waiting import Queue, Waiting

if TYPE_CHECKING:
    import aiohttp

_LOG = logging.getLogger(__name__)
_NAME = "default-scheduler"
_POD_PARTS = ("spec", "metadata.labels", "metadata.annotations")
_NODE_PARTS = ("spec", "metadata.labels", "metadata.annotations", "status.allocatable", "status.conditions")


class UnschedulableError(Exception):
    """No node fits. Users read the text."""


class Scheduler:
    """State and loop.

    Args:
        client: The API.
        config: A `KubeSchedulerConfiguration`. Only the profiles' names, the extenders and the back-off are read.
        session: HTTP session for extenders.
    """

    def __init__(self, client: Client, config: Object, session: aiohttp.ClientSession) -> None:
        self._client = client
        self._names = {p.get("schedulerName") or _NAME for p in config.get("profiles") or [{}]}
        self._served = {*self._names, _NAME}
        self._extenders = [Extender(e, session) for e in config.get("extenders") or []]
        initial = seconds(config.get("podInitialBackoffSeconds"), 1.0)
        self._queue = Queue(initial, seconds(config.get("podMaxBackoffSeconds"), 10.0))
        self._nodes: dict[str, Object] = {}
        self._pods: dict[str, Object] = {}
        self._assumed: dict[str, Object] = {}
        self._synced = {"nodes": asyncio.Event(), "pods": asyncio.Event()}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Schedules until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._client.follow("/api/v1/nodes", "", self._node_changed))
            group.create_task(self._client.follow("/api/v1/pods", "", self._pod_changed))
            group.create_task(self._loop())

    # ---- changes of nodes and pods

    def _node_changed(self, kind: str, node: Object) -> None:
        if kind == "SYNCED":
            self._synced["nodes"].set()
            return
        name = node["metadata"]["name"]
        old = self._nodes.pop(name, None)
        if kind != "DELETED":
            self._nodes[name] = node
        if old is None or kind == "DELETED" or _differs(old, node, _NODE_PARTS):
            self._queue.move_all()

    def _pod_changed(self, kind: str, pod: Object) -> None:
        if kind == "SYNCED":
            self._synced["pods"].set()
            return
        uid = pod["metadata"]["uid"]
        old = self._pods.pop(uid, None)
        ended = (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
        if kind == "DELETED" or ended:
            self._assumed.pop(uid, None)
            self._queue.drop(uid)
            if old is None or (old["spec"].get("nodeName")):
                self._queue.move_all()
            return
        self._pods[uid] = pod
        if pod["spec"].get("nodeName"):
            self._assumed.pop(uid, None)
            self._queue.drop(uid)
            if old is not None and _differs(old, pod, ("metadata.labels",)) and old["spec"].get("nodeName"):
                self._queue.move_all()
        elif self._wanted(pod) and uid not in self._assumed and (old is None or _differs(old, pod, _POD_PARTS)):
            self._queue.put(pod)

    def _wanted(self, pod: Object) -> bool:
        meta, spec = pod["metadata"], pod["spec"]
        return (
            spec.get("schedulerName") in self._served
            and not meta.get("deletionTimestamp")
            and not spec.get("schedulingGates")
        )

    def _extenders_for(self, pod: Object) -> list[Extender]:
        """The extenders that may be asked about a pod: none if it names the cluster's own scheduler."""
        return self._extenders if pod["spec"]["schedulerName"] in self._names else []

    # ---- one pod after the other

    async def _loop(self) -> None:
        for synced in self._synced.values():
            await synced.wait()
        while True:
            waiting = await self._queue.pop()
            uid, moves = waiting.pod["metadata"]["uid"], self._queue.moves
            pod = waiting.pod = self._pods.get(uid, waiting.pod)
            if uid not in self._pods or not self._wanted(pod) or pod["spec"].get("nodeName") or uid in self._assumed:
                continue
            try:
                node = await self._place(pod)
            except UnschedulableError as reason:
                await self._give_back(waiting, moves, "Unschedulable", str(reason))
            except ExtenderError as error:
                await self._give_back(waiting, moves, "SchedulerError", str(error))
            else:
                self._assumed[uid] = {**pod, "spec": {**pod["spec"], "nodeName": node}}
                task = asyncio.create_task(self._bind(waiting, moves, node))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _place(self, pod: Object) -> str:
        """The node for a pod.

        Raises:
            UnschedulableError: No node fits.
            ExtenderError: An extender that is not ignorable failed.
        """
        if not self._nodes:
            raise UnschedulableError("no nodes available to schedule pods")
        nodes, why, there = dict(self._nodes), dict[str, list[str]](), self._by_node()
        hopeful: set[str] = set()  # nodes that may fit once other pods end
        for name, node in nodes.items():
            if reasons := self._in_tree(pod, node, there[name]):
                why[name] = reasons
                if self._fits_when_empty(pod, node, reasons):
                    hopeful.add(name)
        left = sorted(nodes.keys() - why.keys())
        for extender in self._extenders_for(pod):
            if not left or not extender.does("filter") or not extender.interested(pod):
                continue
            try:
                answer = await extender.filter(pod, nodes, left)
            except ExtenderError as error:
                if extender.ignorable:
                    _LOG.warning("ignorable extender: %s", error)
                    continue
                raise
            why.update({n: [reason] for n, reason in answer.failed.items() if n in nodes})
            hopeful |= (answer.failed.keys() - answer.unresolvable) & nodes.keys()
            left = answer.nodes
        if not left:
            raise UnschedulableError(_fit_message(len(nodes), why, len(hopeful)))
        return left[0] if len(left) == 1 else await self._best(pod, nodes, left)

    def _by_node(self) -> defaultdict[str, list[Object]]:
        """Node → the pods that are on it or are being bound to it."""
        found: defaultdict[str, list[Object]] = defaultdict(list)
        for pod in {**self._pods, **self._assumed}.values():
            if pod["spec"].get("nodeName"):
                found[pod["spec"]["nodeName"]].append(pod)
        return found

    def _in_tree(self, pod: Object, node: Object, there: list[Object]) -> list[str]:
        spec, meta, node_spec = pod["spec"], node["metadata"], node.get("spec") or {}
        reasons = []
        tolerated = spec.get("tolerations") or []
        if node_spec.get("unschedulable") and not any(
            _tolerates(t, "node.kubernetes.io/unschedulable", "", "NoSchedule") for t in tolerated
        ):
            reasons.append("node(s) were unschedulable")
        for taint in node_spec.get("taints") or []:
            known = (taint["key"], taint.get("value") or "", taint["effect"])
            if taint["effect"] != "PreferNoSchedule" and not any(_tolerates(t, *known) for t in tolerated):
                reasons.append("node(s) had untolerated taint(s)")
                break
        labels = meta.get("labels") or {}
        if any(labels.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items()):
            reasons.append("node(s) didn't match Pod's node affinity/selector")
        return reasons or self._resources(pod, node, there)

    def _fits_when_empty(self, pod: Object, node: Object, reasons: list[str]) -> bool:
        """Whether a node was refused only because its pods take up the room."""
        lacks_room = all(r.startswith(("Insufficient ", "Too many pods")) for r in reasons)
        return lacks_room and not self._resources(pod, node, [])

    def _resources(self, pod: Object, node: Object, there: list[Object]) -> list[str]:
        free = amounts((node.get("status") or {}).get("allocatable"))
        if len(there) + 1 > free.get("pods", Fraction(110)):
            return ["Too many pods"]
        ignored = {name for e in self._extenders_for(pod) for name in e.ignored}
        needs = {k: v for k, v in requests(pod).items() if v and k not in ignored}
        if not needs:
            return []
        used: Counter[str] = Counter()
        for other in there:
            used.update(requests(other))
        return [f"Insufficient {k}" for k, v in sorted(needs.items()) if v + used[k] > free.get(k, Fraction(0))]

    async def _best(self, pod: Object, nodes: dict[str, Object], left: list[str]) -> str:
        asked = [e for e in self._extenders_for(pod) if e.does("prioritize") and e.interested(pod)]
        answers = await asyncio.gather(*(e.prioritize(pod, nodes, left) for e in asked), return_exceptions=True)
        total = dict.fromkeys(left, 0)
        for extender, answer in zip(asked, answers, strict=True):
            if isinstance(answer, BaseException):
                _LOG.warning("prioritize failed, score ignored: %s", answer)
                continue
            for name, score in answer.items():
                if name in total:
                    total[name] += score * extender.weight * 10
        top = max(total.values())
        return random.choice([n for n, score in total.items() if score == top])  # noqa: S311 - a tie

    # ---- after a node was found

    async def _bind(self, waiting: Waiting, moves: int, node: str) -> None:
        pod = waiting.pod
        meta = pod["metadata"]
        binder = next((e for e in self._extenders_for(pod) if e.does("bind") and e.interested(pod)), None)
        try:
            if binder:
                await binder.bind(pod, node)
            else:
                target = {"kind": "Node", "apiVersion": "v1", "name": node}
                names = {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}
                body = {"kind": "Binding", "apiVersion": "v1", "metadata": names, "target": target}
                await self._client.call("POST", f"{_path(pod)}/binding", body)
        except (ExtenderError, CallError) as error:
            if self._assumed.pop(meta["uid"], None) is None:
                return  # the pod has been bound, or is gone
            self._queue.move_all()
            await self._give_back(waiting, moves, "SchedulerError", str(error))
            return
        text = f"Successfully assigned {meta['namespace']}/{meta['name']} to {node}"
        await self._client.event(pod["spec"]["schedulerName"], pod, "Normal", "Scheduled", text)

    async def _give_back(self, waiting: Waiting, moves: int, reason: str, message: str) -> None:
        pod = waiting.pod
        uid = pod["metadata"]["uid"]
        if uid not in self._pods or self._pods[uid]["spec"].get("nodeName"):
            return
        self._queue.failed(waiting, moves, unschedulable=reason == "Unschedulable")
        await self._client.event(pod["spec"]["schedulerName"], pod, "Warning", "FailedScheduling", message)
        condition: Object = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        condition["observedGeneration"] = pod["metadata"].get("generation", 1)
        found: list[Object] = (self._pods.get(uid, pod).get("status") or {}).get("conditions") or []
        old = next((c for c in found if c["type"] == "PodScheduled"), None)
        if old is not None and all(old.get(k) == v for k, v in condition.items()):
            return
        body = {"status": {"conditions": [{**condition, "lastProbeTime": None, "lastTransitionTime": now()}]}}
        with contextlib.suppress(CallError):
            await self._client.call("PATCH", f"{_path(pod)}/status", body, patch="strategic-merge")


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _differs(old: Object, new: Object, parts: tuple[str, ...]) -> bool:
    def at(obj: Any, path: str) -> Any:  # noqa: ANN401 - JSON
        for key in path.split("."):
            obj = (obj or {}).get(key)
        return obj

    return any(at(old, part) != at(new, part) for part in parts)


def _tolerates(toleration: Object, key: str, value: str, effect: str) -> bool:
    if toleration.get("effect") and toleration["effect"] != effect:
        return False
    if toleration.get("operator") == "Exists":
        return not toleration.get("key") or bool(toleration["key"] == key)
    return bool(toleration.get("key") == key and (toleration.get("value") or "") == value)


def _fit_message(total: int, why: dict[str, list[str]], hopeful: int) -> str:
    """kube-scheduler's message: counted reasons, sorted as text, then why preemption does not help."""
    counted = Counter(reason for reasons in why.values() for reason in reasons)
    texts = sorted(f"{count} {reason}" for reason, count in counted.items())
    head = f"0/{total} nodes are available"
    outcomes = {"No preemption victims found for incoming pod": hopeful}
    outcomes["Preemption is not helpful for scheduling"] = total - hopeful
    preemption = ", ".join(sorted(f"{count} {text}" for text, count in outcomes.items() if count))
    first = f"{head}: {', '.join(texts)}." if texts else f"{head}."
    return f"{first} no new claims to deallocate, preemption: {head}: {preemption}."
