"""Which XIDs make an NVIDIA card unhealthy, against the vectors."""

from __future__ import annotations

from typing import Any

import pytest
from hami_nvidia.health import XidPolicy

from .cases import Case, cases, rows, value

pytestmark = pytest.mark.vectors


def test_xids_that_applications_cause_are_ignored() -> None:
    policy = XidPolicy.parse("", "")
    assert [xid for xid in range(1000) if not policy.is_critical(xid)] == value("vendors/nvidia.xid.ignoredDefault")


@pytest.mark.parametrize("row", rows("vendors/nvidia.xid.parse"))
def test_lists_of_xids_match_hami(row: list[Any]) -> None:
    text, numbers = row
    named = XidPolicy.parse("all", text)
    assert [xid for xid in range(1000) if named.is_critical(xid)] == numbers


@pytest.mark.parametrize("case", cases("vendors/nvidia.xid.sets"))
def test_sets_of_xids_match_hami(case: Case) -> None:
    policy = XidPolicy.parse(case.get("disabled", ""), case.get("enabled", ""))
    assert policy.all_disabled is case.get("all", False)
    for key in case:
        if key.startswith("d") and key[1:].isdigit():
            assert policy.is_critical(int(key[1:])) is not case[key]
