"""The feedback rule of HAMi's monitor, which makes containers wait for others, against the vectors."""

from __future__ import annotations

import pytest
from hami_interpose.feedback import Words
from hami_nvidia import feedback

from hami_core.agent.devices import TEND_INTERVAL_S

from .cases import Case, cases, value

pytestmark = pytest.mark.vectors


@pytest.mark.parametrize("case", cases("vendors/feedback"))
def test_feedback_matches_hami(case: Case) -> None:
    how = case.get("priority", 0), case.get("uuids", []), case.get("switch", {})
    if "blocking" in case:
        assert feedback.is_blocked(*how) is case["blocking"]
    if "contended" in case:
        assert feedback.is_contended(*how) is case["contended"]


def test_feedback_values_match_hami() -> None:
    said = value("vendors/sharedRegion.feedback")
    assert said["blockedRecentKernel"] == feedback.SUSPENDED
    assert said["periodSeconds"] == TEND_INTERVAL_S
    low, high = feedback.Tenant(frozenset("a"), 1), feedback.Tenant(frozenset("a"), 0)
    found = feedback.feedback(
        {"low": low, "high": high}, {"low": Words(1, said["blockedRecentKernel"]), "high": Words(1, 0)}
    )
    assert found["low"].recent_kernel == said["unblockedRecentKernel"]
