"""HAMi's rules by which a pod's annotations choose or refuse devices: by id, by model and by mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hami_core.documents import one_line
from hami_core.model import Reason
from hami_core.wire import reasons

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.model import DeviceKind, Family, Request, SelectorKeys


SHOWN_CHARACTERS: Final = 80
"""Most characters of a pod's annotation that a reason repeats."""
WHOLE_DEVICE: Final = 100
"""Percent of one device's compute."""


def default_check_uuid(request: Request, device_id: str, family: Family) -> Reason | None:
    """Check a device id against every pair of the family's ``uuid_selectors``.

    Each annotation is a comma list. The id must be in the "use" list and must not be in the "nouse" list. Entries match
    exactly, without the blanks around them. A blank annotation sets no rule.

    Returns:
        None to accept, else ``CardUuidMismatch``.

    Example:
        >>> keys = SelectorKeys("acme.example/use", "acme.example/nouse")
        >>> acme = Family("ACME", Resources("acme.example/npu"), "hami.io/acme", uuid_selectors=(keys,))
        >>> picky = Request("ACME", 1, annotations={"acme.example/use": "A-0,A-1"})
        >>> default_check_uuid(picky, "A-0", acme), default_check_uuid(picky, "A-2", acme).code
        (None, 'CardUuidMismatch')
    """
    accepted = all(_uuid_accepted(request.annotations, pair, device_id) for pair in family.uuid_selectors)
    return None if accepted else Reason(reasons.CARD_UUID_MISMATCH, device_id)


def default_check_type(request: Request, kind: DeviceKind, family: Family) -> Reason | None:
    """Check a kind of device against the request's family and every pair of the family's ``type_selectors``.

    Each annotation is a comma list. An entry matches a model that contains it, in upper or lower case; a blank entry
    matches nothing. At least one "use" entry must match, and no "nouse" entry may match. A blank annotation sets no
    rule. A device that is given only as a whole card refuses a request for a part.

    Returns:
        None to accept, else ``CardTypeMismatch``. Its ``detail`` names the model and the pod's rule.

    Example:
        >>> keys = SelectorKeys("acme.example/use", "acme.example/nouse")
        >>> acme = Family("ACME", Resources("acme.example/npu"), "hami.io/acme", type_selectors=(keys,))
        >>> picky = Request("ACME", 1, annotations={"acme.example/use": "x1"})
        >>> default_check_type(picky, DeviceKind("ACME", "Acme-X1"), acme)
        >>> default_check_type(picky, DeviceKind("ACME", "Acme-X2"), acme).detail
        'model Acme-X2; the pod takes x1 (acme.example/use)'
    """
    if kind.family != request.family:
        return Reason(reasons.CARD_TYPE_MISMATCH, detail=f"model {kind.type}")
    for pair in family.type_selectors:
        if rule := _type_refusal(request.annotations, pair, kind.type):
            return Reason(reasons.CARD_TYPE_MISMATCH, detail=f"model {kind.type}; the pod {rule}")
    if kind.whole_only and not _asks_whole(request, kind.whole_mib):
        detail = f"{kind.whole_only}: given as a whole only; ask for all of its memory and for 0 or 100 % of its cores"
        return Reason(reasons.CARD_TYPE_MISMATCH, detail=detail)
    return None


def _asks_whole(request: Request, whole_mib: int) -> bool:
    """Whether a request asks for a whole card with this much memory."""
    whole = request.memory_mib >= whole_mib if request.memory_mib else request.memory_percent in {None, 100}
    return whole and (request.cores == 0 or request.cores >= WHOLE_DEVICE)


def mode_accepted(wanted: str | None, mode: str) -> bool:
    """Whether a mode annotation (``nvidia.com/vgpu-mode``) accepts a device's mode.

    HAMi's rule: the annotation must contain the mode. ``hami-core,mig`` accepts both modes; an empty annotation accepts
    only devices without a mode. Without the annotation (None), every device is accepted.

    Example:
        >>> mode_accepted("hami-core,mig", "mig"), mode_accepted("", "mig"), mode_accepted(None, "mig")
        (True, False, True)
    """
    return wanted is None or mode in wanted


def _uuid_accepted(annotations: Mapping[str, str], pair: SelectorKeys, device_id: str) -> bool:
    use, nouse = _rule(annotations, pair.use), _rule(annotations, pair.nouse)
    return (not use or device_id in use) and device_id not in nouse


def _type_refusal(annotations: Mapping[str, str], pair: SelectorKeys, model: str) -> str:
    """The annotation that refuses a model, in words; empty: none does."""
    use, nouse = _rule(annotations, pair.use), _rule(annotations, pair.nouse)
    if use and not _matches(use, model):
        return f"takes {one_line(annotations[pair.use], SHOWN_CHARACTERS)} ({pair.use})"
    if _matches(nouse, model):
        return f"refuses {one_line(annotations[pair.nouse], SHOWN_CHARACTERS)} ({pair.nouse})"
    return ""


def _rule(annotations: Mapping[str, str], key: str) -> list[str]:
    """Return the trimmed entries of a list annotation; none if the value is blank."""
    text = annotations.get(key, "") if key else ""
    return [entry.strip() for entry in text.split(",")] if text.strip() else []


def _matches(entries: Sequence[str], model: str) -> bool:
    upper = model.upper()
    return any(entry and entry.upper() in upper for entry in entries)
