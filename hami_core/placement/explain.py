"""Why a pod does not fit: one reason for each device, with amounts, and a sentence for people."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from textwrap import shorten
from typing import TYPE_CHECKING, Final

from hami_core.model import INT32_MAX, Allocation, Reason, Slice
from hami_core.placement.place import place
from hami_core.placement.pod_usage import Amounts
from hami_core.wire import reasons

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.placement.card import Card
    from hami_core.placement.fit import Ask
    from hami_core.placement.place import Plan, Rejection
    from hami_core.placement.quota import QuotaBook


@dataclass(frozen=True, slots=True)
class RefusedCombination:
    """Cards that fit by themselves, but of which the vendor accepts no combination.

    Attributes:
        devices: Their ids.
        together: How many the container needs.
        why: The vendor's reason, in words.
    """

    devices: frozenset[str]
    together: int
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one node refuses a pod.

    Attributes:
        node: The node.
        container: The first container that does not fit; empty when no device was looked at.
        family: Common word of the devices that it asks for.
        needs: What it asks for, in words.
        reasons: One for each device that does not fit, or one for the whole node; empty: the pod fits.
        cards: Number of devices of the family on the node.
        quota: What the namespace's quota leaves and which object limits it; empty: quota is not the reason.
        refused_combination: Cards that fit alone but not together; None: combinations are not the reason.
        earlier: Whether the pod's earlier containers have taken part of these cards.
    """

    node: str
    container: str = ""
    needs: str = ""
    reasons: tuple[Reason, ...] = ()
    cards: int = 0
    quota: str = ""
    refused_combination: RefusedCombination | None = None
    earlier: bool = False
    family: str = ""


def of_node(node: str, word: str) -> Explanation:
    """The explanation for a whole node that is refused."""
    return Explanation(node, reasons=(Reason(word, detail=f"node {node}"),))


def explain(node: str, cards: Mapping[str, Sequence[Card]], plan: Plan, quota: QuotaBook | None = None) -> Explanation:
    """Place a pod on a node and explain why it does not fit.

    Args:
        node: The node.
        cards: As for `hami_core.placement.place.place`; this function changes them.
        plan: The pod.
        quota: Namespace limits.
    """
    before = {word: [card.usage() for card in row] for word, row in cards.items()}
    placed = place(node, cards, plan, quota)
    if isinstance(placed, Allocation):
        return Explanation(node)
    ask = _ask_of(plan, placed)
    if ask is None:
        return of_node(node, placed.short)
    family = cards.get(placed.family, ())
    where = f"node {node}, container {placed.container}"
    if placed.word:
        found = Reason(placed.word, "", ask.request.count, len(family), where)
        return Explanation(node, placed.container, needs(ask), (found,), len(family), family=placed.family)
    by_quota = None
    if quota is not None and reasons.QUOTA_NOT_FIT in placed.counts:
        by_quota = _quota_reason(plan, ask, quota, max(card.device.usable_mib for card in family))
    answers = [ask.refusal_before_numa(card) or ask.refusal(card, [], None) for card in family]
    pairs = list(zip(family, answers, strict=True))
    by_card = tuple(_card_reason(card, answer, ask, placed, where, by_quota) for card, answer in pairs)
    told = f"{by_quota.available} {by_quota.detail}" if by_quota else ""
    refused_combination = None
    if placed.combination is not None:
        alone = frozenset(card.device.id for card, answer in pairs if isinstance(answer, Slice))
        refused_combination = RefusedCombination(alone, ask.request.count, _reason_text(placed.combination))
    earlier = [card.usage() for card in family] != before.get(placed.family, [])
    return Explanation(node, placed.container, needs(ask), by_card, len(family), told, refused_combination, earlier)


def text(explanations: Sequence[Explanation]) -> str:
    """One sentence for each container that does not fit, over all nodes: what it needs and what the best card offers.

    Returns:
        Text such as ``container trainer needs 30000 MiB on one card; of n1's 8 cards the freest has 12000 MiB free``.
        It is empty if the pod fits on every node.
    """
    sentences: dict[str, list[Explanation]] = {}
    for one in explanations:
        if one.reasons:
            subject = f"container {one.container} needs {one.needs}; " if one.container else ""
            sentences.setdefault(subject, []).append(one)
    return "\n".join(subject + _sentence(group) for subject, group in sentences.items())


def why(explanation: Explanation) -> str:
    """The sentence of `text` for one node, without the container and what it needs; empty: the pod fits."""
    return _sentence([explanation]) if explanation.reasons else ""


def of_nodes(names: Sequence[str], word: str) -> str:
    """The sentence for whole nodes that are refused for one reason, such as ``n1: refuses: node unregistered (…)``."""
    return f"{names[0] if len(names) == 1 else f'{len(names)} nodes'}: {_node_phrase(Reason(word), '')}"


def _sentence(group: Sequence[Explanation]) -> str:
    cards = sum(one.cards for one in group)
    combined = {
        (one.node, device) for one in group if one.refused_combination for device in one.refused_combination.devices
    }
    by_card = [r for one in group for r in one.reasons if r.device and (one.node, r.device) not in combined]
    others: dict[str, int] = {}
    for one in group:
        for reason in one.reasons:
            if not reason.device:
                words = _node_phrase(reason, one.family)
                others[words] = others.get(words, 0) + 1
    where = f"{group[0].node}'s" if len(group) == 1 else f"the {cards} cards on {len(group)} nodes"
    parts = []
    phrases = _phrases(by_card, cards, len(group)) + _combination_phrases(group)
    if phrases:
        of = f"of {where} {_plural(cards) if len(group) == 1 else ''}".rstrip()
        beside = ", beside what the pod's earlier containers take," if any(one.earlier for one in group) else ""
        parts.append(f"{of}{beside} " + ", ".join(phrases))
    single = group[0].node if len(group) == 1 else ""
    parts += [f"{single or f'{number} of {len(group)} nodes'}: {words}" for words, number in others.items()]
    parts += dict.fromkeys(one.quota for one in group if one.quota)
    return "; ".join(parts)


_NODE_HINTS: Final = {
    reasons.NODE_UNREGISTERED: (
        "no agent has registered devices there: check the node's labels and kubectl get ds, or run hami doctor"
    ),
    reasons.NODE_USAGE_UNAVAILABLE: (
        "a vendor could not read what the node registered: see the scheduler's log, or run hami doctor"
    ),
}
"""What HAMi's words about a whole node mean, and what to do."""


def _node_phrase(reason: Reason, family: str) -> str:
    if reason.available == 0:
        return f"has no {family} cards"
    if reason.available is not None:
        return f"has only {_plural(reason.available)}"
    hint = _NODE_HINTS.get(reason.code, "")
    return f"refuses: {reason.code}" + (f" ({hint})" if hint else "")


def _plural(number: int) -> str:
    return f"{number} card" if number == 1 else f"{number} cards"


MAX_WHY: Final = 200
"""Most characters of a vendor's reason that a sentence repeats."""
MAX_CAUSES: Final = 3
"""Most causes of one reason that a sentence names."""

_WITH_CAUSE: Final = {
    reasons.CARD_NOT_HEALTH: "{n} not offered: {cause}",
    reasons.CARD_TYPE_MISMATCH: "{n} not matching the pod: {cause}",
    reasons.EXCLUSIVE_CONFLICT: "{n} {cause}",
    reasons.MODE_NOT_FIT: "{n} {cause}",
}
"""HAMi's reasons that need their cause: it shows whether the pod's author or an administrator has to act.

A vendor's own reason always shows its cause.
"""

_PHRASES: Final = {
    reasons.CARD_NOT_HEALTH: "{n} not healthy",
    reasons.CARD_CORDONED: "{n} cordoned",
    reasons.CARD_TYPE_MISMATCH: "{n} of a model or mode the pod does not take",
    reasons.CARD_UUID_MISMATCH: "{n} excluded by the ids the pod names",
    reasons.CARD_TIME_SLICING_EXHAUSTED: "{n} without a free slot",
    reasons.EXCLUSIVE_CONFLICT: "{n} in use while the container wants its cards alone",
    reasons.CARD_COMPUTE_UNITS_EXHAUSTED: "{n} with all cores given away",
    reasons.CARD_INSUFFICIENT_MEMORY: "{n} with {most}{best} MiB free",
    reasons.CARD_INSUFFICIENT_CORE: "{n} with {most}{best} % of the cores free",
    reasons.TOO_FEW_CARDS: "only {n} would serve",
    reasons.NUMA_NOT_FIT: "{n} would serve, but not enough on one NUMA node",
    reasons.QUOTA_NOT_FIT: "{n} would serve, but the namespace's quota leaves {best}",
    reasons.MIG_INFEASIBLE: "{n} without a free MIG instance large enough",
}

_OF_ALL: Final = {
    reasons.CARD_INSUFFICIENT_MEMORY: "the freest has {best} MiB free",
    reasons.CARD_INSUFFICIENT_CORE: "the least busy has {best} % of its cores free",
}
"""Phrases for when every card has the same reason. Only then is the best of these cards the best of all."""


def _phrases(found: Sequence[Reason], cards: int, nodes: int) -> list[str]:
    """One phrase for each reason: memory first, then the most frequent.

    Args:
        found: One reason for each card.
        cards: Number of cards that the sentence is about.
        nodes: Number of nodes with these cards.
    """
    groups: dict[str, list[Reason]] = {}
    for reason in found:
        groups.setdefault(reason.code, []).append(reason)
    order = sorted(groups, key=lambda code: (code != reasons.CARD_INSUFFICIENT_MEMORY, -len(groups[code]), code))
    words = []
    for code in order:
        best = max((reason.available or 0 for reason in groups[code]), default=0)
        shows_cause = code in _WITH_CAUSE or code not in _PHRASES
        caused = _frequent_causes(groups[code]) if shows_cause else {}
        pattern = _WITH_CAUSE.get(code, "{n} refused as " + code + ": {cause}")
        words += [pattern.format(n=number, cause=cause) for cause, number in caused.items()]
        rest = len(groups[code]) - sum(caused.values())
        if rest:
            phrase = _PHRASES.get(code, "{n} refused as " + code)
            if rest == cards:
                phrase = _OF_ALL.get(code, phrase)
            if code == reasons.TOO_FEW_CARDS and nodes > 1:
                phrase = "{n} would serve, but not enough on one node"
            words.append(phrase.format(n=rest, best=best, most="at most " if rest > 1 else ""))
    return words


def _combination_phrases(group: Sequence[Explanation]) -> list[str]:
    """Why cards that fit by themselves do not fit together."""
    found: Counter[tuple[int, str]] = Counter()
    for one in group:
        if one.refused_combination:
            found[one.refused_combination.together, one.refused_combination.why] += len(one.refused_combination.devices)
    shown = found.most_common(MAX_CAUSES)
    return [
        f"{n} would serve alone, but no {needed} of them together: {why}"
        if needed > 1
        else f"{n} would serve, but not by the vendor's rule on combinations: {why}"
        for (needed, why), n in shown
    ]


def _reason_text(reason: Reason) -> str:
    return shorten(f"{reason.code}: {reason.detail}" if reason.detail else reason.code, MAX_WHY, placeholder=" …")


def _frequent_causes(group: Sequence[Reason]) -> dict[str, int]:
    """The most frequent causes, counted. A cause follows the colon in ``detail``: ``node n, container c: cause``."""
    causes = Counter(cause for reason in group if (cause := reason.detail.partition(": ")[2]))
    return dict(causes.most_common(MAX_CAUSES))


def needs(ask: Ask) -> str:
    """What a container asks for, such as ``3000 MiB and 30 % of the cores on one card``."""
    request = ask.request
    parts = []
    if request.memory_mib:
        parts.append(f"{request.memory_mib} MiB")
    elif request.memory_percent:
        parts.append(f"{request.memory_percent} % of the memory")
    if ask.cores:
        units = ask.rules.family.cores_are_units
        parts.append(f"{ask.cores} core{'s'[: ask.cores > 1]}" if units else f"{ask.cores} % of the cores")
    amount = " and ".join(parts) or "a slot"
    which = "one card" if request.count == 1 else f"each of {request.count} cards"
    return f"{amount} on {which}" + (" of one NUMA node" if request.numa_bind and request.count > 1 else "")


def _ask_of(plan: Plan, rejection: Rejection) -> Ask | None:
    for container, asks in zip(plan.request.containers, plan.asks, strict=False):
        if container.name == rejection.container:
            return next((ask for ask in asks if ask.rules.family.word == rejection.family), None)
    return None


def _quota_reason(plan: Plan, ask: Ask, quota: QuotaBook, largest_mib: int) -> Reason | None:
    """What the quota says about this container alone, or about the whole pod if only that exceeds it."""
    namespace, word, count = plan.request.namespace, ask.rules.family.word, ask.request.count
    own = Amounts(ask.request.memory_on(largest_mib) * count, ask.cores * count, count)
    whole = Amounts(INT32_MAX * count, INT32_MAX * count, INT32_MAX)
    alone = quota.refusal(namespace, word, *own)
    together = None if alone else quota.refusal(namespace, word, *whole)
    return replace(together, needed=None) if together else alone


def _card_reason(  # noqa: PLR0917 - what is known of one card
    card: Card,
    answer: Reason | str | Slice,
    ask: Ask,
    rejection: Rejection,
    where: str,
    by_quota: Reason | None,
) -> Reason:
    """The device's own reason. If the device fits alone: the reason why the container does not fit."""
    device = card.device
    if isinstance(answer, Reason):
        detail = f"{where}: {answer.detail}" if answer.detail else where
        return Reason(answer.code, device.id, answer.needed, answer.available, detail)
    if answer == reasons.CARD_NOT_HEALTH and device.not_offered:
        return Reason(answer, device.id, detail=f"{where}: {device.not_offered}")
    if answer == reasons.EXCLUSIVE_CONFLICT and card.kept:
        return Reason(answer, device.id, detail=f"{where}: kept by a pod with policy mutex")
    need = ask.request.memory_on(device.usable_mib)
    whole = max(device.cores, 1) if ask.rules.family.cores_are_units else 100
    amounts: dict[str, tuple[int | None, int | None]] = {
        reasons.CARD_INSUFFICIENT_MEMORY: (need, max(device.memory_mib - card.used_memory, 0)),
        reasons.CARD_INSUFFICIENT_CORE: (
            ask.cores * 100 // whole,
            max(device.cores - card.used_cores, 0) * 100 // whole,
        ),
        reasons.CARD_TIME_SLICING_EXHAUSTED: (1, 0),
    }
    if isinstance(answer, str):
        return Reason(answer, device.id, *amounts.get(answer, (None, None)), where)
    if (refused := rejection.combination) is not None:
        detail = f"{where}: {refused.detail}" if refused.detail else where
        return Reason(refused.code, device.id, ask.request.count, None, detail)
    if by_quota is not None:
        return Reason(reasons.QUOTA_NOT_FIT, device.id, by_quota.needed, by_quota.available, where)
    if reasons.NUMA_NOT_FIT in rejection.counts:
        return Reason(reasons.NUMA_NOT_FIT, device.id, need, None, where)
    return Reason(reasons.TOO_FEW_CARDS, device.id, ask.request.count, None, where)
