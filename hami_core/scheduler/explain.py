"""``/explain``: why a pod is pending, where it would fit, and why it is where it is.

The answer names nodes and cards, but never another pod: those appear by UID. Whoever asks may look up the names of the
pods that the API server lets them read.
"""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
import orjson

from hami_core.documents import did_you_mean, one_line
from hami_core.errors import HamiError
from hami_core.http.serve import Request, Response, Route, text
from hami_core.http.token import guarded
from hami_core.kube.objects import Pod
from hami_core.model import Allocation
from hami_core.placement import explain as explaining
from hami_core.placement.nearest import Change, in_order, is_never, search
from hami_core.scheduler.filter import wait_synced
from hami_core.scheduler.misses import miss_of
from hami_core.scheduler.pace import Pace
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from hami_core.inventory import FilterOutcome
    from hami_core.model import Booking, PodRequest
    from hami_core.scheduler.cluster import Cluster

FORMAT: Final = 1
"""Version of the answer. Within one version, fields are only added."""
DEFAULT_NODES: Final = 10
MAX_NODES: Final = 200
"""Most nodes that one answer describes. The others are counted by reason."""
MAX_GROUPS: Final = 20
"""Most reasons by which the other nodes are counted."""
EXAMPLES: Final = 5
"""Most names in a group of nodes."""
MAX_BODY: Final = 2 * 2**20
"""Most bytes of a pod; an object in etcd has at most 1.5 MiB."""
HINTED: Final = 200
"""Nodes up to which a misspelt name gets a hint: a search among many would delay other requests."""

_pod = msgspec.json.Decoder(Pod)


class Explain:
    """Answers ``/explain``.

    Args:
        cluster: The local copy of the cluster.
        scheduler_name: ``schedulerName`` of the pods that we place.
    """

    def __init__(self, cluster: Cluster, scheduler_name: str) -> None:
        self._cluster = cluster
        self._scheduler_name = scheduler_name
        self._one_at_a_time = asyncio.Lock()

    def routes(self, token: Callable[[], str]) -> list[Route]:
        """``GET /explain?namespace=…&pod=…`` for a pod of the cluster, ``POST /explain`` for one in the body."""
        return [Route(method, "/explain", guarded(self._answer, token)) for method in ("GET", "POST")]

    async def _answer(self, request: Request) -> Response:
        try:
            limit = _number(request.query.get("nodes", ""))
            await wait_synced(self._cluster)
            only = self._existing(request.query.get("node", ""))
            pod = self._decoded(request.body) if request.method == "POST" else self._named(request)
        except ValueError as error:
            return text(400, f"{error}\n")
        except LookupError as error:
            return text(404, f"{error.args[0]}\n")
        except HamiError as error:
            return text(503, f"{error}\n")
        async with self._one_at_a_time:
            return Response(200, orjson.dumps(await self._explained(pod, limit, only), option=orjson.OPT_INDENT_2))

    def _existing(self, given: str) -> list[str]:
        names = list(dict.fromkeys(name for name in given.split(",") if name))
        if len(names) > MAX_NODES:
            raise ValueError(f"node: {len(names)} names, at most {MAX_NODES} are described")
        known = self._cluster.nodes.store
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known if len(known) <= HINTED else ()) or "see kubectl get nodes"
                raise LookupError(f"there is no node {one_line(name, 80)} ({hint})")
        return names

    def _named(self, request: Request) -> Pod:
        name = request.query.get("pod", "")
        if not name:
            raise ValueError("name a pod: /explain?namespace=default&pod=NAME")
        key = f"{request.query.get('namespace') or 'default'}/{name}"
        pod = self._cluster.pods.store.get(key)
        if pod is None:
            raise LookupError(f"there is no pod {one_line(key, 200)} (check its namespace and name)")
        return pod

    @staticmethod
    def _decoded(body: bytes) -> Pod:
        if len(body) > MAX_BODY:
            raise ValueError(f"the body has {len(body)} bytes, a pod has at most {MAX_BODY}")
        try:
            return _pod.decode(body)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"the body is no pod: {error}") from None

    async def _explained(self, pod: Pod, limit: int, only: list[str]) -> dict[str, Any]:
        meta = pod.metadata
        answer: dict[str, Any] = {
            "version": FORMAT,
            "pod": {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
        }
        try:
            wanted = self._cluster.request_of(pod)
        except HamiError as error:
            return answer | {"state": "invalid", "why": str(error)}
        state, why = self._state(pod, wanted)
        answer |= {"state": state, "why": why, "asks": self._asks(wanted), "policy": self._policy(pod)}
        if state in {"no-devices", "ended", "unknown-devices"}:
            return answer
        if placed := self._placed(wanted, state):
            answer["placed"] = placed
        twin = self._twin(pod, wanted) if state in {"bound", "held"} else (pod, wanted)
        return answer | await self._nodes(*twin, limit, only)

    # --- the pod itself

    def _state(self, pod: Pod, wanted: PodRequest) -> tuple[str, str]:
        """The pod's state in a word, and what it means."""
        cluster, ours = self._cluster, self._scheduler_name
        if pod.is_terminal:
            return "ended", f"its phase is {pod.status.phase}; it holds no devices"
        if not wanted.families:
            return "no-devices", "it asks for no devices that this scheduler serves, so it may run on any node"
        booking = self._own(cluster.inventory.booking(wanted.uid), pod)
        if booking is not None:
            return "bound", f"it is bound to node {booking.allocation.node}"
        if pod.spec.node_name and (found := cluster.unreadable.get(wanted.uid)) is not None:
            return "unknown-devices", "; ".join(found.problems.values())
        if pod.spec.node_name:
            return "unknown-devices", f"it is on node {pod.spec.node_name}, but no devices are booked for it"
        if gates := [gate.name for gate in pod.spec.scheduling_gates]:
            return "gated", f"kube-scheduler waits for its scheduling gates: {', '.join(gates)}"
        if pod.spec.scheduler_name not in {"", ours}:
            why = f"its schedulerName is {pod.spec.scheduler_name}, so {ours} never sees it: it was created past the"
            return "foreign", f"{why} webhook (label hami.io/webhook: ignore, or before the webhook was installed)"
        if not wanted.uid:
            return "hypothetical", "this is what would happen if it were created now"
        if held := self._own(cluster.inventory.held(wanted.uid), pod):
            return "held", f"node {held.allocation.node} is held for it until its Bind"
        return "pending", "it is not bound to a node"

    @staticmethod
    def _own(booking: Booking | None, pod: Pod) -> Booking | None:
        """The booking, if it is this pod's: the UID in a body may be another pod's."""
        is_own = booking is not None and pod.key == f"{booking.namespace}/{booking.name}"
        return booking if is_own else None

    @staticmethod
    def _twin(pod: Pod, wanted: PodRequest) -> tuple[Pod, PodRequest]:
        """A second pod like this one, which holds nothing."""
        meta = msgspec.structs.replace(pod.metadata, uid="")
        return msgspec.structs.replace(pod, metadata=meta), replace(wanted, uid="")

    def _asks(self, wanted: PodRequest) -> list[dict[str, Any]]:
        plan = self._cluster.inventory.plan(wanted)
        return [
            {"container": container.name, "family": ask.rules.family.word, "needs": explaining.needs(ask)}
            for container, asks in zip(plan.request.containers, plan.asks, strict=True)
            for ask in asks
        ]

    def _policy(self, pod: Pod) -> dict[str, dict[str, str]]:
        defaults, annotations = self._cluster.defaults, pod.metadata.annotations
        return {
            what: {"word": annotations.get(key) or default, "from": key if annotations.get(key) else "the settings"}
            for what, key, default in (
                ("node", keys.NODE_POLICY, defaults.node_policy),
                ("device", keys.DEVICE_POLICY, defaults.device_policy),
            )
        }

    def _placed(self, wanted: PodRequest, state: str) -> dict[str, Any] | None:
        inventory = self._cluster.inventory
        booking = inventory.booking(wanted.uid) if state == "bound" else None
        booking = inventory.held(wanted.uid) if state == "held" else booking
        return None if booking is None else self._allocation(booking.allocation)

    def _allocation(self, allocation: Allocation) -> dict[str, Any]:
        usage = {used.device.id: used for used in self._cluster.inventory.usage(allocation.node)}
        return {
            "node": allocation.node,
            "containers": [
                {
                    "name": container.name,
                    "cards": [
                        {
                            "index": usage[piece.device_id].device.index if piece.device_id in usage else None,
                            "id": piece.device_id,
                            "type": usage[piece.device_id].device.type if piece.device_id in usage else "",
                            "memory_mib": piece.memory_mib,
                            "cores": piece.cores,
                        }
                        for piece in container.slices
                    ],
                }
                for container in allocation.containers
                if container.slices
            ],
        }

    # --- nodes

    async def _nodes(self, pod: Pod, wanted: PodRequest, limit: int, only: list[str]) -> dict[str, Any]:
        """The nodes that fit, best first, and the nearest misses among the others.

        Args:
            pod: The pod.
            wanted: Its request.
            limit: Most nodes of each kind that are described.
            only: Describe these nodes; empty: the best and the nearest.
        """
        inventory = self._cluster.inventory
        outcome = inventory.rank(wanted, limit=limit)
        groups = outcome.refused.by_reason()
        scores = dict(outcome.best)
        fitting, refused, pace = [], [], Pace()
        for name in only or [*scores, *outcome.refused.nearest(limit)]:
            placed = inventory.try_place(wanted, name)
            if isinstance(placed, Allocation):
                score = {"score": round(scores[name], 4)} if name in scores else {}
                fitting.append(score | self._allocation(placed) | {"cards": self._cards(name)})
            else:
                refused.append(await self._refused(pod, wanted, name, pace))
            await pace.pause()
        refused.sort(key=lambda node: node.pop("order"))
        shown = {node["node"] for node in refused}
        return {
            "nodes": {"fit": outcome.fitting, "refused": len(outcome.refused)},
            "fitting": fitting,
            "decided": self._decided(pod, outcome),
            "refused": refused,
            "others": [] if only else self._others(groups, shown),
        }

    async def _refused(self, pod: Pod, wanted: PodRequest, name: str, pace: Pace) -> dict[str, Any]:
        told = self._cluster.inventory.explanation(wanted, name)
        miss = miss_of(self._cluster, pod, wanted, name)
        found = []
        for step in search(miss):
            if step is not None:
                found.append(step)
            await pace.pause()
        changes = in_order(found)
        indexes = {usage.device.id: usage.device.index for usage in miss.devices}
        first = changes[0] if changes else None
        return {
            "node": name,
            "why": explaining.why(told),
            "reasons": [
                {
                    "card": indexes.get(reason.device),
                    "id": reason.device,
                    "code": reason.code,
                    "needed": reason.needed,
                    "available": reason.available,
                    "cause": reason.detail.partition(": ")[2],
                }
                for reason in told.reasons
            ],
            "changes": [_change(change) for change in changes],
            "never": not changes and bool(told.container) and is_never(miss),
            "cards": self._cards(name),
            "pods": sorted({*self._cluster.unreadable.on(name), *(uid for change in changes for uid in change.pods)}),
            "order": (first is None, (first.kind, first.size) if first else (0, 0.0), name),
        }

    def _cards(self, node: str) -> list[dict[str, Any]]:
        return [
            {
                "index": usage.device.index,
                "id": usage.device.id,
                "type": usage.device.type,
                "healthy": usage.device.healthy,
                "cordoned": usage.device.cordoned,
                "slots": [usage.used_slots, usage.device.slots],
                "memory_mib": [usage.used_memory_mib, usage.device.memory_mib],
                "cores": [usage.used_cores, usage.device.cores],
            }
            for usage in self._cluster.inventory.usage(node)
        ]

    @staticmethod
    def _others(groups: dict[str, list[str]], shown: set[str]) -> list[dict[str, Any]]:
        """The nodes that are not described, by reason, the largest group first."""
        left = {reason: [name for name in names if name not in shown] for reason, names in groups.items()}
        order = sorted((reason for reason in left if left[reason]), key=lambda reason: (-len(left[reason]), reason))
        found = [(reason, left[reason]) for reason in order[:MAX_GROUPS]]
        if rest := [name for reason in order[MAX_GROUPS:] for name in left[reason]]:
            found.append((f"{len(order) - MAX_GROUPS} other reasons", rest))
        return [
            {"reason": reason, "nodes": len(names), "examples": heapq.nsmallest(EXAMPLES, names)}
            for reason, names in found
        ]

    def _decided(self, pod: Pod, outcome: FilterOutcome) -> str:
        if not outcome.best:
            return ""
        policy = self._policy(pod)
        word, where = policy["node"]["word"], policy["node"]["from"]
        (name, score), *others = outcome.best
        so = "greatest" if word != "spread" else "smallest"
        told = f"node policy {word} (from {where}) takes the {so} score: {name} with {score:.2f}"
        if others:
            second, behind = others[0]
            told += f" before {second} with {behind:.2f}"
            if behind == score:
                told += "; of equal nodes the one whose name sorts first"
        return f"{told}. kube-scheduler then weighs its own plugins' scores"


def _change(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind.word,
        "text": change.text,
        "container": change.container,
        "limits": dict(change.limits),
        "annotations": change.annotations,
        "devices": change.devices,
        "pods": change.pods,
    }


def _number(given: str) -> int:
    if not given:
        return DEFAULT_NODES
    if not (given.isascii() and given.isdigit() and 1 <= int(given) <= MAX_NODES):
        raise ValueError(f"nodes={given[:20]!r}: write a number from 1 to {MAX_NODES}")
    return int(given)
