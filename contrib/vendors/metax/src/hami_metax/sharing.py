"""Which containers may share a card: by app class (online or offline), and by the card's QoS policy.

A *mode* says how a pod shares its cards. It is the text that Bind signs (`Family.mode_key`): ``online``,
``offline+<policy>`` or ``<policy>``; `LINKED` may follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hami_core import Reason, RequestError
from hami_core.documents import one_line
from hami_core.vendorkit import (
    APP_CLASS_MISMATCH,
    CARD_COMPUTE_UNITS_EXHAUSTED,
    EXCLUSIVE_CONFLICT,
    QOS_MISMATCH,
    parse_bool_go,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core import DeviceKind, DeviceUsage, Request

APP_CLASS: Final = "metax-tech.com/sgpu-app-class"
"""Pod annotation. Online pods interrupt the offline pods of their card."""
QOS_POLICY: Final = "metax-tech.com/sgpu-qos-policy"
"""Pod annotation. All sGPUs of a card have one policy, which the driver changes only while the card is idle."""
TOPOLOGY_AWARE: Final = "metax-tech.com/sgpu-topology-aware"
"""Pod annotation: whether nodes are preferred by the links between their cards."""
ONLINE: Final = "online"
OFFLINE: Final = "offline"
CLASSES: Final = (ONLINE, OFFLINE)
BEST_EFFORT: Final = "best-effort"
POLICIES: Final = (BEST_EFFORT, "fixed-share", "burst-share")
LINKED: Final = "linked"
"""Part of the mode of pods for which nodes are preferred by links."""
WHOLE: Final = 100
"""Percent of compute by which a container asks for a card of its own."""


def mode_of(annotations: Mapping[str, str], *, topology_aware: bool) -> str:
    """Return a pod's mode.

    Args:
        annotations: The pod's declared annotations.
        topology_aware: Whether links count for pods that do not say it.

    Raises:
        RequestError: An annotation has another value than the legal ones.
    """
    app_class = _one_of(annotations, APP_CLASS, CLASSES)
    if app_class == ONLINE:
        return ONLINE
    policy = _one_of(annotations, QOS_POLICY, POLICIES) or BEST_EFFORT
    linked = LINKED if _is_linked(annotations, topology_aware) else ""
    return "+".join(filter(None, (app_class, policy, linked)))


def words(mode: str) -> frozenset[str]:
    """The parts of a mode."""
    return frozenset(mode.split("+"))


def mismatch(request: Request, kind: DeviceKind) -> Reason | None:
    """Say why a request may not share cards of this kind, as in HAMi.

    Containers with an app class share with each other only, and an offline container does not join an online one.
    Policies must be equal, except for online containers, and for containers that want a card of their own.

    HAMi's scheduler records no mode. If no container's policy is known, the card's own report counts
    (`DeviceKind.mode`).
    """
    if not kind.shared_as:
        return None
    present, wanted = [words(mode) for mode in kind.shared_as.split(",")], words(request.mode)
    with_class = [mode for mode in present if not mode.isdisjoint(CLASSES)]
    may_join = not with_class if wanted.isdisjoint(CLASSES) else len(with_class) == len(present)
    if not may_join or (OFFLINE in wanted and any(ONLINE in mode for mode in present)):
        return Reason(APP_CLASS_MISMATCH, detail=f"the card is used as {kind.shared_as}")
    if ONLINE in wanted or request.cores == WHOLE:
        return None
    known = frozenset().union(*present).intersection(POLICIES)
    if not (known or {kind.mode}) <= wanted:
        there = ", ".join(sorted(known)) or kind.mode or "not reported"
        return Reason(QOS_MISMATCH, detail=f"the card's QoS policy is {there}, the pod's is another")
    return None


def no_room(request: Request, device: DeviceUsage) -> Reason | None:
    """Apply HAMi's rules about whole and sold-out cards. Online containers book no compute, so none holds for them."""
    if ONLINE in words(request.mode):
        return None
    cores = device.device.cores
    if request.cores == WHOLE == cores and device.used_slots > 0:
        return Reason(EXCLUSIVE_CONFLICT, device.device.id)
    if request.cores == 0 and 0 < cores == device.used_cores:
        return Reason(CARD_COMPUTE_UNITS_EXHAUSTED, device.device.id)
    return None


def _one_of(annotations: Mapping[str, str], key: str, legal: Sequence[str]) -> str:
    text = annotations.get(key)
    if text is not None and text not in legal:
        problem = f"{key} must be set one of [{', '.join(legal)}]: it is {one_line(text, 40)!r}"
        raise RequestError("pod", "annotations", problem, "write one of these words, or leave the annotation out")
    return text or ""


def _is_linked(annotations: Mapping[str, str], default: bool) -> bool:
    text = annotations.get(TOPOLOGY_AWARE)
    if text is None:
        return default
    if (found := parse_bool_go(text)) is None:
        problem = f"{TOPOLOGY_AWARE} is {one_line(text, 40)!r}"
        raise RequestError("pod", "annotations", problem, "write true or false")
    return found
