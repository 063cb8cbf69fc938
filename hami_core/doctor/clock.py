"""Times in objects against the time the facts were read. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hami_core.doctor.facts import Facts


def moment(text: str | None) -> datetime | None:
    """A Kubernetes time stamp; None where there is none or it makes no sense."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def age_of(facts: Facts, text: str | None) -> float | None:
    """Seconds since a time stamp, below zero for one in the future; None where there is none."""
    time = moment(text)
    return (facts.now - time).total_seconds() if time is not None else None
