"""Node locks that vendors' own node plugins expect: their format, and what a pod may do about a lock."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from hami_core.errors import WireError
from hami_core.wire import keys

NODE_LOCK_KEY: Final = keys.NODE_LOCK
"""The lock that all of HAMi's node plugins share."""
PROTOCOL_HAMI: Final = "hami"
"""Protocol (`Family.foreign_lock_protocol`) of locks of the form ``<time>,<namespace>,<pod>``."""
PROTOCOL_TIME: Final = "time"
"""Protocol (`Family.foreign_lock_protocol`) of locks that hold only a time."""
NODE_LOCK_TIMEOUT: Final = timedelta(minutes=5)
"""Age from which a lock of `NODE_LOCK_KEY` may be taken over."""

CONTENTION: Final = "node lock contention"
"""HAMi's words in an error that another pod's lock caused."""

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True)
class NodeLock:
    """A lock on a node.

    Attributes:
        taken: When the lock was taken; with time zone.
        namespace: Namespace of the pod that holds it; empty in the older form.
        pod: Name of that pod; empty in the older form.
        legacy: Whether the lock has the older form, a time only. Its holder is then unknown.

    Example:
        >>> lock = parse_lock("2026-01-02T03:04:05Z,default,one")
        >>> lock.held_by("default", "one"), lock.legacy
        (True, False)
    """

    taken: datetime
    namespace: str = ""
    pod: str = ""
    legacy: bool = False

    def held_by(self, namespace: str, pod: str) -> bool:
        """Whether this pod holds the lock."""
        return not self.legacy and (self.namespace, self.pod) == (namespace, pod)


class LockVerdict(StrEnum):
    """What a pod may do about a node's lock.

    Example:
        >>> LockVerdict("take-over") is LockVerdict.TAKE_OVER
        True
    """

    TAKE = "take"
    """The lock is free. Write it, on condition that the node has not changed meanwhile."""
    OURS = "ours"
    """This pod holds the lock already."""
    TAKE_OVER = "take-over"
    """The lock has expired, or its holder is gone. Replace it, on condition that the node has not changed meanwhile."""
    CONTENDED = "contended"
    """Another pod holds the lock. Try again later."""


def parse_lock(text: str, *, key: str = keys.NODE_LOCK) -> NodeLock:
    """Read ``<RFC 3339>,<namespace>,<pod>``, or the older form that holds only the time.

    Raises:
        WireError: The text is malformed; in HAMi's words.

    Example:
        >>> parse_lock("2026-01-02T03:04:05Z,default,one").pod
        'one'
    """
    parts = text.split(",")
    if len(parts) == 1:
        return NodeLock(_time(text, key), legacy=True)
    if len(parts) != 3:
        raise WireError(key, 0, f"malformed lock annotation: expected 3 parts, got {len(parts)} from {text[:256]}")
    return NodeLock(_time(parts[0], key), parts[1], parts[2])


def format_lock(now: datetime, namespace: str, pod: str) -> str:
    """Write HAMi's lock value; ``now`` needs a time zone.

    Example:
        >>> from datetime import UTC, datetime
        >>> format_lock(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "default", "one")
        '2026-01-02T03:04:05Z,default,one'
    """
    return f"{format_time_lock(now)},{namespace},{pod}"


def format_time_lock(now: datetime) -> str:
    """Write a lock that holds only the time; ``now`` needs a time zone.

    Example:
        >>> from datetime import UTC, datetime
        >>> format_time_lock(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
        '2026-01-02T03:04:05Z'
    """
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def judge_lock(
    text: str | None,
    *,
    namespace: str,
    pod: str,
    now: datetime,
    holder_exists: bool = True,
    timeout: timedelta = NODE_LOCK_TIMEOUT,
    key: str = keys.NODE_LOCK,
) -> LockVerdict:
    """Decide what a pod that wants a node's lock may do.

    Args:
        text: The lock annotation; None: absent.
        namespace: Namespace of the pod that wants the lock.
        pod: Name of that pod.
        now: The time; with time zone.
        holder_exists: Whether the pod named in the lock exists and has not ended.
        timeout: Age from which a lock may be taken over.
        key: Key of the annotation, for errors.

    Raises:
        WireError: The annotation is malformed. Such a lock is never taken over.

    Example:
        >>> from datetime import UTC, datetime
        >>> held, now = "2026-01-02T03:04:05Z,default,one", datetime(2026, 1, 2, 3, 5, 0, tzinfo=UTC)
        >>> str(judge_lock(held, namespace="default", pod="two", now=now))
        'contended'
        >>> str(judge_lock(held, namespace="default", pod="two", now=now, holder_exists=False))
        'take-over'
    """
    if text is None:
        return LockVerdict.TAKE
    lock = parse_lock(text, key=key)
    if now - lock.taken > timeout:
        return LockVerdict.TAKE_OVER
    if lock.held_by(namespace, pod):
        return LockVerdict.OURS
    if not lock.legacy and not holder_exists:
        return LockVerdict.TAKE_OVER
    return LockVerdict.CONTENDED


def contention_text(node: str, timeout: timedelta = NODE_LOCK_TIMEOUT) -> str:
    """Say in HAMi's words that another pod holds a node's lock. Callers retry if they find the part after the colon.

    Example:
        >>> contention_text("node-1")
        'node node-1 has been locked within 5m0s: node lock contention'
    """
    return f"node {node} has been locked within {_go_duration(timeout)}: {CONTENTION}"


def may_release(text: str | None, *, namespace: str, pod: str) -> bool:
    """Whether a lock may be removed for a pod, because the pod holds it or the lock holds only a time.

    Example:
        >>> may_release("2026-01-02T03:04:05Z,default,one", namespace="default", pod="two")
        False
    """
    return text is not None and ("," not in text or text.endswith(f",{namespace},{pod}"))


def _go_duration(span: timedelta) -> str:
    """Format a duration as Go does: ``5m0s``, ``28s``, ``1h0m0s``."""
    minutes, seconds = divmod(span.total_seconds(), 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{seconds:g}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{hours}h{text}" if hours else text


def _time(text: str, key: str) -> datetime:
    if _RFC3339.fullmatch(text):
        try:
            return datetime.fromisoformat(text.upper())
        except ValueError:
            pass
    raise WireError(key, 0, f"{text[:64]!r} is not a time in RFC 3339 form")
