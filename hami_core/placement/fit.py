"""Checks one container's request against the devices of one node: HAMi's checks, in HAMi's order, device by device.

The order is that of HAMi v2.10's NVIDIA Fit: health, cordon, type, NUMA group, UUID, slots, mutex, namespace quota,
memory, cores, exclusive card, card with all cores sold, the vendor's own rule, the vendor's accounting (MIG). HAMi's
Fits for other vendors leave steps out. Devices are tried from the end of the sorted list.

A vendor may have rules about *combinations* of devices, by its hook `choose`, or by `custom_filter` with
`Family.depends_on_chosen`. Then every device that fits by itself is collected first, and a combination is taken from
these candidates as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from hami_core.model import Reason, Slice, no_reason
from hami_core.placement.score import device_score
from hami_core.wire import reasons

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hami_core.model import DeviceKind, Request, VendorRules, Weights
    from hami_core.placement.card import Card
    from hami_core.placement.order import DeviceOrder

    Pick = tuple[Card, Slice]
    Admits = Callable[[list[Slice]], bool]

WHOLE_CARD: Final = 100
"""Percent of one device's compute."""

MAX_QUESTIONS: Final = 256
"""Most questions about devices in a search for a combination, in addition to one for each candidate. This is enough for
every pair among 16 devices. If the search would take longer, the node is refused."""


@dataclass(slots=True)
class Fit:
    """The result of trying a node's devices.

    Attributes:
        picks: Devices taken with their slices, in order; empty if the request does not fit.
        counts: Reason word → number of devices, if the request does not fit.
        total: Number of devices of the family on the node.
        word: A reason for the whole node, in place of the counts.
        combination: Why the vendor accepts no combination of the devices that fit by themselves; None: combinations
            are not the reason.
    """

    picks: list[Pick] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    total: int = 0
    word: str = ""
    combination: Reason | None = None

    @property
    def fits(self) -> bool:
        """Whether the request fits."""
        return bool(self.picks)


class Ask:
    """One container's request of one family, prepared once and checked against many nodes.

    Args:
        request: The request.
        rules: The family's rules.
        policy: The pod's device policy.
        weights: The pod's scoring weights.
        names_policy: Whether the pod itself names the policy.
    """

    __slots__ = (
        "_ids", "_kinds", "_named", "_scores", "chooses", "combines", "cores", "custom", "idle_only",
        "may_refuse_combinations", "numa_bind", "policy", "ranks_numa", "request", "rules", "weights",
    )  # fmt: skip

    def __init__(
        self, request: Request, rules: VendorRules, policy: DeviceOrder, weights: Weights, *, names_policy: bool = False
    ) -> None:
        self.request = request
        self.rules = rules
        self.policy = policy
        self.weights = None if weights.slot == weights.core == weights.memory == 1 else weights
        self.cores = min(request.cores, WHOLE_CARD)
        self.idle_only = policy.idle_only
        self.numa_bind = request.numa_bind
        self.ranks_numa = request.numa_bind and names_policy
        """Whether the policy ranks the NUMA nodes that fit. If not, the first in HAMi's order is taken."""
        self.custom = None if rules.custom_filter is no_reason else rules.custom_filter
        family = rules.family
        words = family.choose_policies
        self.chooses = rules.choose is not None and (words is None or bool(words & policy.words))
        """Whether the vendor's `choose` picks among the devices that fit."""
        depends = self.custom is not None and family.depends_on_chosen
        self.combines = self.chooses or depends
        """Whether the vendor has rules about combinations of devices."""
        self.may_refuse_combinations = depends or (self.chooses and not family.choose_is_preference)
        """Whether a node may be refused although enough of its devices fit by themselves."""
        self._kinds: dict[DeviceKind, Reason | None] = {}
        self._ids: dict[str, Reason | None] = {}
        self._named = _named_ids(request, rules)
        self._scores: dict[tuple[int, ...], float] = {}

    @property
    def must_be_asked_again(self) -> bool:
        """Whether only the vendor can say if the present amounts on a device still allow a slice."""
        accounts = self.rules.account is not None and self.rules.family.account_modes is None
        return self.custom is not None or self.may_refuse_combinations or accounts

    @property
    def scores_nodes(self) -> bool:
        """Whether the vendor's `score_node` is asked about the nodes on which the pod fits."""
        least = self.rules.family.scored_from
        return self.rules.score_node is not None and least is not None and self.request.count >= least

    @property
    def names_ids(self) -> bool:
        """Whether the pod's selectors choose or refuse devices by id."""
        return self._named is not None and self.rules.check_uuid is not no_reason

    @property
    def named_ids(self) -> frozenset[str] | None:
        """Ids in the pod's selectors; None: the vendor has to be asked about every device."""
        return self._named if self.rules.family.exact_uuid_selectors else None

    def type_refusal(self, kind: DeviceKind) -> Reason | None:
        """Ask the vendor whether the request takes a kind of device. The answer is cached."""
        try:
            return self._kinds[kind]
        except KeyError:
            answer = self._kinds[kind] = self.rules.check_type(self.request, kind)
            return answer

    def uuid_refusal(self, device_id: str) -> Reason | None:
        """Ask the vendor about a device by its id. The answer is cached; ids that no selector names may share one."""
        if not self.names_ids:
            return None
        named = self.named_ids
        key = device_id if named is None or device_id in named else ""
        try:
            return self._ids[key]
        except KeyError:
            answer = self._ids[key] = self.rules.check_uuid(self.request, device_id)
            return answer

    def id_refusals(self) -> list[Reason | None]:
        """The distinct answers the vendor gave about device ids so far."""
        return list(self._ids.values())

    def has_vendor_accounting(self, card: Card) -> bool:
        """Whether the vendor's `account` decides what this device gives (MIG)."""
        modes = self.rules.family.account_modes
        return self.rules.account is not None and (modes is None or card.device.mode in modes)

    def gives_several_slices(self, card: Card) -> bool:
        """Whether one container may take several slices of the device, such as several MIG instances."""
        return self.has_vendor_accounting(card) and self.rules.family.account_modes is not None

    def score(self, card: Card) -> float:
        """HAMi's device score, this container's share included. Cards with equal sums share an answer."""
        device, request = card.device, self.request
        sums = (
            card.used_slots, device.slots, card.used_cores, device.cores, card.used_memory, device.memory_mib,
        )  # fmt: skip
        try:
            return self._scores[sums]
        except KeyError:
            answer = self._scores[sums] = device_score(
                (card.used_slots + 1, device.slots),
                (card.used_cores + request.cores, device.cores),
                (card.used_memory + request.scored_memory_on(device.memory_mib), device.memory_mib),
                self.weights,
            )
            return answer

    def order(self, cards: Sequence[Card]) -> list[Card]:
        """The devices sorted by the policy. They are taken from the end."""
        for card in cards:
            card.score = self.score(card)
        return self.policy.sort(cards, numa_bind=self.numa_bind)

    def refusal_before_numa(self, card: Card) -> Reason | str | None:
        """Checks 1 to 3: health, cordon, type."""
        if not card.device.healthy:
            return reasons.CARD_NOT_HEALTH
        if card.device.cordoned:
            return reasons.CARD_CORDONED
        return self.type_refusal(card.kind)

    def refusal(self, card: Card, picks: list[Pick], admits: Admits | None) -> Reason | str | Slice:
        """Checks 5 to 14 on one device, given the slices that the container has taken so far.

        Returns:
            The slice that the container would get, or why it gets none.
        """
        device = card.device
        if (by_id := self.uuid_refusal(device.id)) is not None:
            return by_id
        again = sum(1 for taken, _ in picks if taken is card) if self.gives_several_slices(card) else 0
        if device.slots <= card.used_slots + again:
            return reasons.CARD_TIME_SLICING_EXHAUSTED
        if card.kept or (self.idle_only and card.used_slots > 0):
            return reasons.EXCLUSIVE_CONFLICT
        piece = self._piece(card)
        if admits is not None and not admits([*(taken for _, taken in picks), piece]):
            return reasons.QUOTA_NOT_FIT
        answer = self._capacity_refusal(card, piece) or self._vendor_answer(card, piece, picks)
        if admits is not None and isinstance(answer, Slice) and answer is not piece:
            return answer if admits([*(taken for _, taken in picks), answer]) else reasons.QUOTA_NOT_FIT
        return answer

    def _capacity_refusal(self, card: Card, piece: Slice) -> str | None:
        device = card.device
        if device.memory_mib - card.used_memory < piece.memory_mib:
            return reasons.CARD_INSUFFICIENT_MEMORY
        if device.cores - card.used_cores < self.cores:
            return reasons.CARD_INSUFFICIENT_CORE
        return self._sharing_refusal(card)

    def may_share(self, card: Card) -> bool:
        """Whether the rules about mutex, exclusive and sold-out cards allow to share this card. Ignores amounts."""
        return not card.kept and not (self.idle_only and card.used_slots > 0) and self._sharing_refusal(card) is None

    def _sharing_refusal(self, card: Card) -> str | None:
        device = card.device
        if not self.rules.family.full_card_rule:
            return None
        if device.cores == WHOLE_CARD and self.cores == WHOLE_CARD and card.used_slots > 0:
            return reasons.EXCLUSIVE_CONFLICT
        if device.cores != 0 and card.used_cores == device.cores and self.cores == 0:
            return reasons.CARD_COMPUTE_UNITS_EXHAUSTED
        return None

    def _vendor_answer(self, card: Card, piece: Slice, picks: list[Pick]) -> Reason | Slice:
        if self.custom is not None:
            chosen = tuple(taken.usage() for taken, _ in picks) if self.rules.family.depends_on_chosen else ()
            refusal = self.custom(self.request, card.usage(), chosen)
            if refusal is not None:
                return refusal
        if self.rules.account is not None and self.has_vendor_accounting(card):
            own = tuple(p.mig_placement for c, p in picks if c is card and p.mig_placement is not None)
            return self.rules.account(self.request, card.usage(own), piece, tuple(c.usage() for c, _ in picks)) or piece
        return piece

    def _piece(self, card: Card) -> Slice:
        device, family = card.device, self.rules.family
        return Slice(
            device.id,
            family.word,
            self.request.memory_on(device.usable_mib),
            self.cores,
            device.type if family.device_type_on_wire else family.word,
            self.request.mode or device.mode,
            1,
            device.index,
        )


def walk(ordered: Sequence[Card], ask: Ask, admits: Admits | None = None) -> Fit:
    """Take devices from the end of a sorted list until the request is served.

    Args:
        ordered: The node's devices of the family, sorted ascending by the policy.
        ask: The request.
        admits: Whether the namespace's quota allows these slices to the container; None: no quota.
    """
    attempt = _combine if ask.combines else _walk
    if ask.ranks_numa:
        fits = [fit for group in _by_numa(ordered) if (fit := attempt(group, ask, admits)).fits]
        if fits:
            return max(fits, key=lambda fit: ask.policy.rank_together([card for card, _ in fit.picks]))
    return attempt(ordered, ask, admits)


def _by_numa(ordered: Sequence[Card]) -> list[list[Card]]:
    """The devices of each NUMA node, still sorted; the NUMA node that the walk reaches first comes first."""
    groups: dict[int, list[Card]] = {card.device.numa: [] for card in reversed(ordered)}
    for card in ordered:
        groups[card.device.numa].append(card)
    return list(groups.values())


def _walk(ordered: Sequence[Card], ask: Ask, admits: Admits | None) -> Fit:
    """Take each device that fits together with those taken before it."""
    count = ask.request.count
    fit = Fit(total=len(ordered))
    picks, counts = fit.picks, fit.counts
    numa: int | None = None
    for card in reversed(ordered):
        if (early := ask.refusal_before_numa(card)) is not None:
            _count(counts, early)
            continue
        if ask.numa_bind and card.device.numa != numa:
            if picks:
                _count(counts, reasons.NUMA_NOT_FIT, len(picks))
            picks.clear()
            numa = card.device.numa
        for _ in range(count if ask.gives_several_slices(card) else 1):
            answer = ask.refusal(card, picks, admits)
            if not isinstance(answer, Slice):
                _count(counts, answer)
                break
            picks.append((card, answer))
            if len(picks) == count:
                return fit
    if picks:
        _count(counts, reasons.TOO_FEW_CARDS, len(picks))
        picks.clear()
    return fit


def _combine(ordered: Sequence[Card], ask: Ask, admits: Admits | None) -> Fit:
    """Take a combination that the vendor accepts from all devices that fit by themselves."""
    groups, counts = _candidates(ordered, ask, admits)
    fit = Fit(total=len(ordered), counts=counts)
    for group in groups:
        if len(group) < ask.request.count:
            if group:
                _count(counts, reasons.TOO_FEW_CARDS if group is groups[-1] else reasons.NUMA_NOT_FIT, len(group))
            continue
        cards = [card for card, _ in group]
        found = _vendor_choice(cards, ask, admits, ordered) if ask.chooses else _first_combination(cards, ask, admits)
        if found == reasons.QUOTA_NOT_FIT and ask.chooses:
            return _within_quota(ordered, ask, admits)
        if isinstance(found, list):
            fit.picks = found
            return fit
        _count(counts, found, len(group))
        if isinstance(found, Reason) and fit.combination is None:
            fit.combination = found
    return fit


def _candidates(ordered: Sequence[Card], ask: Ask, admits: Admits | None) -> tuple[list[list[Pick]], dict[str, int]]:
    """Every device that fits by itself, and the reasons of the others.

    Returns:
        The candidates in the order in which they are tried, and the reasons. With NUMA binding there is one list of
        candidates for each NUMA node. A device that may give several slices is in its list once for each.
    """
    groups: list[list[Pick]] = [[]]
    counts: dict[str, int] = {}
    alone = None if admits is None else (lambda pieces: admits(pieces[-1:]))
    numa: int | None = None
    for card in reversed(ordered):
        if (early := ask.refusal_before_numa(card)) is not None:
            _count(counts, early)
            continue
        if ask.numa_bind and card.device.numa != numa:
            numa = card.device.numa
            groups.append([])
        own: list[Pick] = []
        for _ in range(ask.request.count if ask.gives_several_slices(card) else 1):
            answer = ask.refusal(card, own, alone)
            if not isinstance(answer, Slice):
                _count(counts, answer)
                break
            own.append((card, answer))
        groups[-1] += own
    return groups, counts


def _vendor_choice(
    candidates: Sequence[Card], ask: Ask, admits: Admits | None, everything: Sequence[Card]
) -> list[Pick] | Reason | str:
    """The vendor's choice, with all checks repeated. If the vendor answers None, the policy's order is used."""
    usages = {card.position: card.usage() for card in everything}
    shown = tuple(usages[card.position] for card in candidates)
    choose = ask.rules.choose
    wanted = choose(ask.request, shown, ask.policy.text, tuple(usages.values())) if choose is not None else None
    if isinstance(wanted, Reason):
        return wanted
    if wanted is None:
        return _first_combination(candidates, ask, admits)
    picks: list[Pick] = []
    for position in wanted:
        answer = ask.refusal(candidates[position], picks, admits)
        if not isinstance(answer, Slice):
            return answer
        picks.append((candidates[position], answer))
    return picks


def _within_quota(ordered: Sequence[Card], ask: Ask, admits: Admits | None) -> Fit:
    """Devices in the policy's order, because the namespace's quota does not allow the vendor's choice.

    If the vendor may refuse combinations, it is asked about exactly these devices.
    """
    fit = _walk(ordered, ask, admits)
    if fit.fits and ask.may_refuse_combinations:
        found = _vendor_choice([card for card, _ in fit.picks], ask, admits, ordered)
        if isinstance(found, list):
            fit.picks = found
        else:
            fit.counts = {reasons.QUOTA_NOT_FIT: len(fit.picks)}
            fit.picks = []
    return fit


def _first_combination(candidates: Sequence[Card], ask: Ask, admits: Admits | None) -> list[Pick] | Reason | str:
    """The first combination, in the policy's order, in which each device fits together with those before it.

    This is a search with backtracking: if no further device fits, the last device taken is replaced by the next
    candidate. The search ends after `MAX_QUESTIONS` questions more than there are candidates.

    Returns:
        The combination, or the first reason for which a device was refused.
    """
    count = ask.request.count
    picks: list[Pick] = []
    taken: list[int] = []
    refusal: Reason | str = reasons.TOO_FEW_CARDS
    position, left = 0, len(candidates) + MAX_QUESTIONS
    while len(picks) < count:
        if position + count - len(picks) > len(candidates):
            if not taken:
                return refusal
            position = taken.pop() + 1
            picks.pop()
            continue
        if not left:
            detail = f"gave up after {MAX_QUESTIONS} questions; the vendor's hook `choose` has no such limit"
            return replace(refusal, detail=detail) if isinstance(refusal, Reason) else refusal
        left -= 1
        answer = ask.refusal(candidates[position], picks, admits)
        if isinstance(answer, Slice):
            picks.append((candidates[position], answer))
            taken.append(position)
        elif refusal == reasons.TOO_FEW_CARDS:
            refusal = answer
        position += 1
    return picks


def fit_node(cards: Sequence[Card], ask: Ask, admits: Admits | None = None) -> Fit:
    """Try a node's devices of one family for one container.

    Args:
        cards: The devices in index order, with everything booked on them.
        ask: The request.
        admits: As in `walk`.
    """
    if len(cards) < ask.request.count and not any(
        ask.gives_several_slices(card) and ask.type_refusal(card.kind) is None for card in cards
    ):
        return Fit(total=len(cards), word=reasons.NODE_INSUFFICIENT_DEVICE)
    return walk(ask.order(cards), ask, admits)


def _count(counts: dict[str, int], answer: Reason | str, devices: int = 1) -> None:
    word = answer if isinstance(answer, str) else answer.code
    counts[word] = counts.get(word, 0) + devices


def _named_ids(request: Request, rules: VendorRules) -> frozenset[str] | None:
    """Ids in the family's selector annotations; None: the pod has none of these annotations."""
    values = [
        request.annotations[key]
        for pair in rules.family.uuid_selectors
        for key in (pair.use, pair.nouse)
        if key and key in request.annotations
    ]
    if not values:
        return None
    return frozenset(name for value in values for part in value.split(",") if (name := part.strip()))
