"""Prioritize: whole numbers from 0 to 10, exactly one node with 10, the one the pod's hold is on."""

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
        """Serve one request. The protocol has no field for errors, so a malformed one is status 400."""
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
        """Another replica answered Filter, or another extender took the held node away: hold the best of the rest."""
        pod = decode_pod(args)
        wanted = self._cluster.request_of(pod)
        if not wanted.families:
            return None
        inventory = self._cluster.inventory
        inventory.release_hold(wanted.uid)
        outcome = inventory.filter(wanted, names, limit=max(len(names), 1))
        return self._filter.hold(pod, wanted, outcome) if outcome.best else None


def stretch(ranking: Ranking, names: Sequence[str]) -> Mapping[str, int]:
    """Scores of the nodes named: 10 for the held one, the others 9 to 0 by how far they are behind it.

    The one that is furthest behind has 0; with two nodes as with many, so that a policy outranks what kube-scheduler's
    own plugins make of a few percent of processor. Nodes that are as good as the held one have 9: there they decide.
    A ranking says which end of the scale is better; only distances count, so binpack and spread need no difference.
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
