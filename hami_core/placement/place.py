"""Places a whole pod on one node: container by container in start order, each on what the earlier ones left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hami_core.model import Allocation, ContainerKind, ContainerSlices
from hami_core.placement.fit import Ask, Fit, fit_node
from hami_core.placement.order import device_order
from hami_core.placement.pod_usage import PeakUsage
from hami_core.policies import PolicyDefaults
from hami_core.wire.reasons import CUSTOM_RULE, encode_histogram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.model import ContainerRequest, PodRequest, Reason, VendorRules
    from hami_core.placement.card import Card
    from hami_core.placement.fit import Admits, Pick
    from hami_core.placement.quota import QuotaBook


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod does not fit on a node.

    Attributes:
        node: The node.
        word: A reason for the whole node; empty if devices were checked.
        container: The first container that does not fit.
        family: The family that it asked for.
        counts: Reason word → number of devices.
        total: Number of devices of the family on the node.
        combination: As in `hami_core.placement.fit.Fit`.
    """

    node: str
    word: str = ""
    container: str = ""
    family: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    total: int = 0
    combination: Reason | None = None

    @property
    def short(self) -> str:
        """HAMi's text: ``1/2 CardInsufficientMemory, …`` or the node-level word."""
        return self.word or encode_histogram(self.counts, self.total)


class Plan:
    """A pod's request, prepared once with everything that does not depend on the node.

    Args:
        request: The effective request.
        rules: Rules of each family served, by common word.
        defaults: Policies of pods that name none.
    """

    def __init__(
        self, request: PodRequest, rules: Mapping[str, VendorRules], defaults: PolicyDefaults | None = None
    ) -> None:
        given = defaults or PolicyDefaults()
        self.request = request
        self.rules = rules
        self.node_policy = request.node_policy or given.node_policy
        self.device_policy = device_order(request.device_policy or given.device_policy)
        self.unknown = next((word for word in request.families if word not in rules), "")
        """A family of the request that no vendor serves; empty: all are served."""
        self.asks: tuple[tuple[Ask, ...], ...] = ((),) * len(request.containers)
        if not self.unknown:
            policy, weights, named = self.device_policy, request.weights, bool(request.device_policy)
            self.asks = tuple(
                tuple(Ask(r, rules[r.family], policy, weights, names_policy=named) for r in container.requests)
                for container in request.containers
            )
        words = [ask.rules.family.word for asks in self.asks for ask in asks if ask.rules.family.one_choice_per_pod]
        self.ties_containers = len(words) > len(set(words))
        """Whether several containers must share devices (`Family.one_choice_per_pod`)."""

    def quota_check(self, ask: Ask, peak: PeakUsage, quota: QuotaBook | None) -> Admits | None:
        """A check whether the namespace's quota allows slices to the next container, given the pod's usage so far."""
        if quota is None:
            return None
        word = ask.rules.family.word
        room = quota.room(self.request.namespace, word)
        if room.is_unlimited:
            return None
        return lambda pieces: room.admits(peak.total_with(word, pieces))


def place(
    node: str, cards: Mapping[str, Sequence[Card]], plan: Plan, quota: QuotaBook | None = None
) -> Allocation | Rejection:
    """Place a pod on one node.

    An init container's slices are given back before the next container is placed. Those of sidecars and app containers
    stay taken.

    Args:
        node: Its name.
        cards: Per family, the node's devices in index order. This function changes the cards, so pass fresh ones.
        plan: The pod.
        quota: Namespace limits, checked while devices are chosen; None: no limits.
    """
    if plan.unknown:
        return Rejection(node, word="Device type not found", family=plan.unknown)
    attempt = _Attempt(node, cards, plan, quota)
    first = found = attempt.run()
    while isinstance(found, Rejection) and attempt.can_move():
        found = attempt.run()
    return first if isinstance(found, Rejection) else found


class _Attempt:
    """Places a pod on one node, again and again if its containers must share devices.

    In families with `Family.one_choice_per_pod`, later containers get the devices of the first one. If these have too
    little room for a later container, the pod is placed anew without them.
    """

    def __init__(self, node: str, cards: Mapping[str, Sequence[Card]], plan: Plan, quota: QuotaBook | None) -> None:
        self._node = node
        self._cards = cards
        self._plan = plan
        self._quota = quota
        self._booked: list[Pick] = []
        self._shared: dict[str, set[str]] = {}
        """Family → the devices that the pod's containers share."""
        self._avoided: set[str] = set()
        self._failed_on: set[str] = set()
        """Shared devices on which a later container did not fit."""

    def run(self) -> Allocation | Rejection:
        """Place every container. After a rejection, the slices of earlier containers stay booked."""
        peak = PeakUsage()
        placed: list[ContainerSlices] = []
        for container, asks in zip(self._plan.request.containers, self._plan.asks, strict=True):
            taken: list[Pick] = []
            is_limited = False
            for ask in asks:
                family = ask.rules.family.word
                admits = self._plan.quota_check(ask, peak, self._quota)
                is_limited = is_limited or admits is not None
                fit = self._fit(ask, admits)
                if not fit.fits:
                    return _rejection(self._node, container, family, fit)
                for card, piece in fit.picks:
                    card.take(piece)
                taken += fit.picks
                self._booked += fit.picks
            slices = tuple(piece for _, piece in taken)
            if is_limited:
                peak.add(container.kind, slices)
            placed.append(ContainerSlices(container.name, container.kind, slices))
            if container.kind is ContainerKind.INIT:
                self._give_back(len(taken))
        return Allocation(self._node, tuple(placed))

    def can_move(self) -> bool:
        """Whether to place the pod anew, without devices that its containers could not share. Frees all, if so."""
        if not self._failed_on:
            return False
        self._give_back(len(self._booked))
        self._avoided |= self._failed_on
        self._failed_on, self._shared = set(), {}
        return True

    def _give_back(self, count: int) -> None:
        for _ in range(count):
            card, piece = self._booked.pop()
            card.give_back(piece)

    def _fit(self, ask: Ask, admits: Admits | None) -> Fit:
        family = ask.rules.family
        cards = self._cards.get(family.word, ())
        if not family.one_choice_per_pod:
            return fit_node(cards, ask, admits)
        shared = self._shared.get(family.word)
        if shared is None:
            fit = fit_node([card for card in cards if card.device.id not in self._avoided], ask, admits)
            self._shared[family.word] = {card.device.id for card, _ in fit.picks}
            return fit
        fit = fit_node([card for card in cards if card.device.id in shared], ask, admits)
        if not fit.fits:
            self._failed_on |= shared
            others = len(cards) - fit.total
            fit = Fit(counts=fit.counts | ({CUSTOM_RULE: others} if others else {}), total=len(cards))
        return fit


def _rejection(node: str, container: ContainerRequest, family: str, fit: Fit) -> Rejection:
    return Rejection(node, fit.word, container.name, family, fit.counts, fit.total, fit.combination)
