"""What a wrapper plugin may make of a vendor's answer: the same, or less. A refusal never becomes a yes.

Each rule gets the vendor's own answer and the one that came out of the wrappers and returns the answer to use: the
wrapped one where it only tightens, else the vendor's own. `hami_core.plugins.call` reports the wrappers when the two
differ.
"""

# ruff: noqa: ANN401 - answers of every hook, each of its own type

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hami_core.model import Reason, Slice


class Loosened(Exception):  # noqa: N818 - a finding, turned into a report at once
    """A wrapper tried to give more than the vendor; the message says what it did."""


def same(inner: Any, outer: Any) -> Any:
    """The wrapper may refuse by raising; it cannot change the answer."""
    if outer is inner or outer == inner:
        return inner
    raise Loosened("changed the vendor's answer; a wrapper may only pass it on or raise")


def refusals(inner: Any, outer: Any) -> Any:
    """Reasons may be added, none removed."""
    reasons = [item for item in inner if item is not None] if isinstance(inner, list) else []
    if not isinstance(outer, list):
        raise Loosened(f"returned {type(outer).__name__} in place of the list of reasons")
    if any(reason not in outer for reason in reasons):
        raise Loosened("removed the vendor's refusal")
    return outer


def mask(inner: Any, outer: Any) -> Any:
    """A device the vendor refused stays refused."""
    if inner is None or outer is inner:
        return inner
    if getattr(outer, "shape", None) != getattr(inner, "shape", ()):
        raise Loosened("returned a mask of another shape")
    both = outer & inner
    if (both != outer).any():
        raise Loosened("accepted devices the vendor refused")
    return both


def choice(inner: Any, outer: Any) -> Any:
    """A choice may become a refusal, not another choice; where the vendor leaves the order, a wrapper may choose."""
    if outer is inner or isinstance(outer, Reason) or inner is None or outer == inner:
        return outer
    raise Loosened("replaced the vendor's choice")


def piece(inner: Any, outer: Any) -> Any:
    """A slice may become a refusal or smaller; a refusal stays one."""
    if outer is inner or isinstance(outer, Reason):
        return outer
    if inner is None or not isinstance(inner, Slice) or not isinstance(outer, Slice):
        raise Loosened("replaced the vendor's answer")
    same_but_amounts = replace(outer, memory_mib=inner.memory_mib, cores=inner.cores) == inner
    if not same_but_amounts or _limit(outer.memory_mib) > _limit(inner.memory_mib):
        raise Loosened("gave another device or more memory than the vendor")
    if _limit(outer.cores) > _limit(inner.cores):
        raise Loosened("gave more cores than the vendor")
    return outer


def _limit(amount: int) -> float:
    return amount if amount > 0 else float("inf")


def subset(inner: Any, outer: Any) -> Any:
    """Devices may be left out, not added or changed."""
    if outer is inner:
        return inner
    if inner is None or outer is None or any(device not in inner for device in outer):
        raise Loosened("added or changed devices")
    return outer


def unhealthier(inner: Any, outer: Any) -> Any:
    """A device the vendor calls unhealthy stays so."""
    if outer is inner:
        return inner
    after = {change.device_id: change.healthy for change in outer}
    if any(after.get(change.device_id, True) for change in inner or () if not change.healthy):
        raise Loosened("called a device healthy that the vendor calls unhealthy")
    return outer


def free(_inner: Any, outer: Any) -> Any:
    """Not a permission: a score or a measurement."""
    return outer
