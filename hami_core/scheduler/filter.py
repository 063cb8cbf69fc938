"""Filter: answers the best nodes for a pod, or one reason for each node. It only writes a hold, in memory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import orjson
import structlog

from hami_core.errors import HamiError, WireError
from hami_core.http.serve import Request, Response, text
from hami_core.inventory.names import RawNames
from hami_core.kube.objects import Node, ObjectList, Pod
from hami_core.scheduler import pods
from hami_core.scheduler.errors import UnservedError
from hami_core.wire.extender import decode_filter_args, encode_filter_result

if TYPE_CHECKING:
    from hami_core.inventory.outcome import FilterOutcome
    from hami_core.model import PodRequest
    from hami_core.scheduler.cluster import Cluster
    from hami_core.scheduler.pod_events import PodEvents
    from hami_core.scheduler.retry import RefusedPodRetry
    from hami_core.wire.extender import FilterArgs

log = structlog.get_logger(__name__)

HOLD_S: Final = 15.0
"""How long a hold lasts if neither Bind nor a change of the pod ends it."""
LONG_HOLD_S: Final = 660.0
"""As `HOLD_S`, if kube-scheduler may wait for volumes, a pod group or preemption. It waits 10 min for volumes."""
SYNC_WAIT_S: Final = 20.0
"""The longest time that a request waits for the first sync."""
ALL: Final = 2**31 - 1
REMEMBERED: Final = 4096
"""Number of Filter answers that are kept for Prioritize."""

_pod = msgspec.json.Decoder(Pod)
_nodes = msgspec.json.Decoder(ObjectList[Node])
_raw_nodes = msgspec.json.Decoder(ObjectList[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Ranking:
    """Filter's answer for a pod: nodes with scores, best first, and the node with the hold."""

    best: tuple[tuple[str, float], ...]
    held: str


class Filter:
    """Answers ``/filter``.

    Args:
        cluster: The local copy of the cluster.
        events: Records events.
        pod_retry: Is told which pods were refused.
        limit: Most nodes in an answer; 0: all that fit.
        hold_s: How long a hold lasts, and how long if kube-scheduler may wait before Bind.
    """

    def __init__(
        self,
        cluster: Cluster,
        events: PodEvents,
        pod_retry: RefusedPodRetry,
        *,
        limit: int = 16,
        hold_s: tuple[float, float] = (HOLD_S, LONG_HOLD_S),
    ) -> None:
        self._cluster = cluster
        self._events = events
        self._pod_retry = pod_retry
        self._limit = limit or ALL
        self._hold_s, self._long_hold_s = hold_s
        self._rankings: OrderedDict[str, Ranking] = OrderedDict()

    async def __call__(self, request: Request) -> Response:
        """Serve one request. A failure is reported in ``Error`` with status 200, as kube-scheduler expects."""
        if not request.body:
            return text(400, "please send a request body\n")
        try:
            return Response(200, await self._answer(request.body))
        except HamiError as error:
            return Response(200, encode_filter_result(error=str(error)))

    def ranking(self, uid: str) -> Ranking | None:
        """The answer to the pod's last Filter."""
        return self._rankings.get(uid)

    async def _answer(self, body: bytes) -> bytes:
        args = decode_filter_args(body)
        await wait_synced(self._cluster)
        pod = decode_pod(args)
        try:
            wanted = self._cluster.request_of(pod)
        except UnservedError as error:
            self._events.filter_error(pod, error)
            return _refused_everywhere(args, error.reason)
        except HamiError as error:
            self._events.filter_error(pod, error)
            raise
        if not wanted.families:
            return _echo(args)
        if args.nodes is not None:
            return self._simulate(args, wanted)
        if args.node_names is None:
            raise WireError("ExtenderArgs", -1, "neither NodeNames nor Nodes given")
        return self._place(pod, wanted, args)

    def _place(self, pod: Pod, wanted: PodRequest, args: FilterArgs) -> bytes:
        inventory, now = self._cluster.inventory, self._cluster.now()
        lost = inventory.held_on(wanted.uid)
        if inventory.expire_holds(now):
            self._pod_retry.retry_refused()
        inventory.release_hold(wanted.uid)
        assert args.node_names is not None  # noqa: S101 - checked by the caller
        outcome = inventory.filter(wanted, RawNames(bytes(args.node_names)), limit=self._limit)
        if not outcome.best:
            self._rankings.pop(wanted.uid, None)
            self._events.nothing_fits(pod, wanted, outcome)
            self._pod_retry.refused(wanted)
            if lost:
                self._pod_retry.retry_refused()
            return _refused(outcome)
        self._pod_retry.placed(wanted.uid)
        if lost not in ("", self.hold(pod, wanted, outcome).held):
            self._pod_retry.retry_refused()
        self._events.fits(pod, outcome)
        return encode_filter_result(names=[name for name, _ in outcome.best])

    def hold(self, pod: Pod, wanted: PodRequest, outcome: FilterOutcome) -> Ranking:
        """Hold the pod's place on the best node and remember the ranking."""
        name = outcome.best[0][0]
        lasts = self._long_hold_s if pods.may_wait_long(pod) else self._hold_s
        self._cluster.inventory.hold(wanted, name, self._cluster.now() + lasts)
        ranking = Ranking(tuple(outcome.best), name)
        self._rankings[wanted.uid] = ranking
        self._rankings.move_to_end(wanted.uid)
        while len(self._rankings) > REMEMBERED:
            self._rankings.popitem(last=False)
        return ranking

    def _simulate(self, args: FilterArgs, wanted: PodRequest) -> bytes:
        """Cluster-autoscaler's dry run on whole node objects, which need not exist. Nothing is held or remembered."""
        nodes = decode_nodes(args)
        raws = _raw_nodes.decode(args.nodes or b"{}").items or []
        facts = [pods.node_facts(node) for node in nodes]
        imagined = [(one, self._cluster.loaded.register(one).devices) for one in facts]
        outcome = self._cluster.inventory.simulate(wanted, imagined)
        by_name = {one.name: raw for one, raw in zip(facts, raws, strict=True)}
        chosen = [bytes(by_name[name]) for name, _ in outcome.best]
        listing = b'{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[' + b",".join(chosen) + b"]}"
        return encode_filter_result(nodes=listing if chosen else None, failed=dict(outcome.refused))


async def wait_synced(cluster: Cluster, patience_s: float = SYNC_WAIT_S) -> None:
    """Wait for the first sync.

    Args:
        cluster: The local copy of the cluster.
        patience_s: The longest wait; `Cluster.sync_wait_s` bounds it too.

    Raises:
        WireError: The sync takes longer.
    """
    if cluster.is_synced:
        return
    try:
        async with asyncio.timeout(min(patience_s, cluster.sync_wait_s)):
            await cluster.synced()
    except TimeoutError:
        raise WireError("", -1, "the scheduler has not read the cluster's state yet, try again") from None


def decode_pod(args: FilterArgs) -> Pod:
    """The pod of an extender call.

    Raises:
        WireError: The text is not a pod.
    """
    try:
        return _pod.decode(args.pod)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise WireError("ExtenderArgs.Pod", -1, str(error)) from None


def decode_nodes(args: FilterArgs) -> list[Node]:
    """The node objects of an extender call, with the fields that we use.

    Raises:
        WireError: The text is not a list of nodes.
    """
    try:
        return _nodes.decode(args.nodes or b"{}").items or []
    except (msgspec.MsgspecError, RecursionError) as error:
        raise WireError("ExtenderArgs.Nodes", -1, str(error)) from None


def _echo(args: FilterArgs) -> bytes:
    """Answer all nodes: a pod without our devices may go anywhere."""
    if args.nodes is not None:
        return encode_filter_result(nodes=bytes(args.nodes))
    return encode_filter_result(names=args.names())


def _refused_everywhere(args: FilterArgs, reason: str) -> bytes:
    names = args.names() if args.nodes is None else [node.metadata.name for node in decode_nodes(args)]
    return encode_filter_result(failed=dict.fromkeys(names or (), reason))


def _refused(outcome: FilterOutcome) -> bytes:
    body = {
        "Nodes": None,
        "NodeNames": None,
        "FailedNodes": orjson.Fragment(outcome.refused.json()),
        "FailedAndUnresolvableNodes": None,
        "Error": "",
    }
    return orjson.dumps(body)
