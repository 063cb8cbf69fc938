"""Limits what a wrapper plugin may change: it may make an answer stricter, but a refusal never becomes a yes.

Each function gets the vendor's own answer (``inner``) and the answer that came out of the wrappers (``outer``), and
returns the answer to use. If the wrappers gave more than the vendor, it raises `Loosened`. Then
`hami_core.plugins.call` uses the vendor's answer and reports the wrappers.
"""

# ruff: noqa: ANN401 - answers of all hooks, each of its own type

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hami_core.model import Reason, Slice


class Loosened(Exception):  # noqa: N818 - it never leaves this package: the caller reports it
    """A wrapper tried to give more than the vendor; the message says what it did."""


def same(inner: Any, outer: Any) -> Any:
    """Allow no change of the answer; the wrapper may refuse by raising."""
    if outer is inner or outer == inner:
        return inner
    raise Loosened("changed the vendor's answer; a wrapper may only pass it on or raise")


def refusals(inner: Any, outer: Any) -> Any:
    """Allow further reasons, but no removed ones."""
    reasons = [item for item in inner if item is not None] if isinstance(inner, list) else []
    if not isinstance(outer, list):
        raise Loosened(f"returned {type(outer).__name__} in place of the list of reasons")
    if any(reason not in outer for reason in reasons):
        raise Loosened("removed the vendor's refusal")
    return outer


def mask(inner: Any, outer: Any) -> Any:
    """Allow a mask that refuses more devices. A device that the vendor refused stays refused."""
    if inner is None or outer is inner:
        return inner
    if getattr(outer, "shape", None) != getattr(inner, "shape", ()):
        raise Loosened("returned a mask of another shape")
    both = outer & inner
    if (both != outer).any():
        raise Loosened("accepted devices the vendor refused")
    return both


def choice(inner: Any, outer: Any) -> Any:
    """Allow a refusal, but not another choice. If the vendor answered None, the wrapper may choose."""
    if outer is inner or isinstance(outer, Reason) or inner is None or outer == inner:
        return outer
    raise Loosened("replaced the vendor's choice")


def piece(inner: Any, outer: Any) -> Any:
    """Allow a refusal or a smaller slice. A refusal stays a refusal."""
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
    """Allow devices to be left out, but not added or changed."""
    if outer is inner:
        return inner
    if inner is None or outer is None or any(device not in inner for device in outer):
        raise Loosened("added or changed devices")
    return outer


def unhealthier(inner: Any, outer: Any) -> Any:
    """Allow more devices to be unhealthy. A device that the vendor calls unhealthy stays unhealthy."""
    if outer is inner:
        return inner
    after = {change.device_id: change.healthy for change in outer}
    if any(after.get(change.device_id, True) for change in inner or () if not change.healthy):
        raise Loosened("called a device healthy that the vendor calls unhealthy")
    return outer


def free(_inner: Any, outer: Any) -> Any:
    """Allow any change: the answer grants nothing, it is a score or a measurement."""
    return outer
