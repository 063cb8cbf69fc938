"""Prioritize: scores nodes from 0 to 10. Only the node with the pod's hold scores 10."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hami_core.errors import HamiError
from hami_core.http.serve import Request, Response, text
from hami_core.scheduler.filter import decode_nodes, decode_pod, wait_synced
from hami_core.wire.extender import HostPriority, decode_filter_args, encode_priorities

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.scheduler.cluster import Cluster
    from hami_core.scheduler.filter import Filter, Ranking
    from hami_core.wire.extender import FilterArgs

TOP: Final = 10
"""kube-scheduler's MaxExtenderPriority."""


class Prioritize:
    """Answers ``/prioritize``."""

    def __init__(self, cluster: Cluster, filtering: Filter) -> None:
        self._cluster = cluster
        self._filter = filtering

    async def __call__(self, request: Request) -> Response:
        """Serve one request. The protocol has no field for errors, so an invalid request gets status 400."""
        if not request.body:
            return text(400, "please send a request body\n")
        try:
            args = decode_filter_args(request.body)
            await wait_synced(self._cluster)
            names = _names(args)
            return Response(200, encode_priorities(self._scores(args, names)))
        except HamiError as error:
            return text(400, f"{error}\n")

    def _scores(self, args: FilterArgs, names: list[str]) -> list[HostPriority]:
        pod = decode_pod(args)
        ranking = self._filter.ranking(pod.uid)
        if ranking is None or ranking.held not in names:
            ranking = self._rank_again(args, names)
        scores = stretch(ranking, names) if ranking is not None else {}
        return [HostPriority(name, scores.get(name, 0)) for name in names]

    def _rank_again(self, args: FilterArgs, names: list[str]) -> Ranking | None:
        """Hold the best of these nodes. Another replica answered Filter, or another extender removed the held node."""
        pod = decode_pod(args)
        wanted = self._cluster.request_of(pod)
        if not wanted.families:
            return None
        inventory = self._cluster.inventory
        inventory.release_hold(wanted.uid)
        outcome = inventory.filter(wanted, names, limit=max(len(names), 1))
        return self._filter.hold(pod, wanted, outcome) if outcome.best else None


def stretch(ranking: Ranking, names: Sequence[str]) -> Mapping[str, int]:
    """Scores of the named nodes: 10 for the held node, 9 to 0 for the others by their distance from it.

    The furthest node gets 0, even if there are only two nodes. So our policy outranks small differences that
    kube-scheduler's own plugins see. Nodes as good as the held one get 9, and there kube-scheduler's plugins decide.
    Only distances count, so binpack and spread are treated alike.

    Example: held node 24, others 24, 18 and 12: scores 10, 9, 4 and 0.
    """
    wanted = set(names)
    score_of = {name: score for name, score in ranking.best if name in wanted or name == ranking.held}
    behind = {name: abs(score - score_of[ranking.held]) for name, score in score_of.items() if name != ranking.held}
    span = max(behind.values(), default=0.0)
    scores = {name: round((TOP - 1) * (1 - (far / span if span else 0.0))) for name, far in behind.items()}
    return scores | ({ranking.held: TOP} if ranking.held in wanted else {})


def _names(args: FilterArgs) -> list[str]:
    if args.nodes is not None:
        return [node.metadata.name for node in decode_nodes(args)]
    return args.names() or []
