"""Ages of time stamps in objects, relative to the time when the facts were read. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hami_core.doctor.facts import Facts


def moment(text: str | None) -> datetime | None:
    """Parse a Kubernetes time stamp; None when it is missing or malformed."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def age_of(facts: Facts, text: str | None) -> float | None:
    """Seconds since a time stamp, negative if it is in the future; None when it is missing or malformed."""
    time = moment(text)
    return (facts.now - time).total_seconds() if time is not None else None
