"""How pods choose devices, against the vectors."""

from __future__ import annotations

import pytest

from hami_core.model import DeviceKind, Family, Reason, Request, Resources, SelectorKeys
from hami_core.vendorkit import default_check_type, default_check_uuid, mode_accepted
from hami_core.wire.quantity import parse_bool_go

from .cases import Case, cases

pytestmark = pytest.mark.vectors


@pytest.mark.parametrize("case", cases("check_uuid"))
def test_selection_by_id_matches_hami(case: Case) -> None:
    family = Family(
        "X", Resources("x"), "a", uuid_selectors=(SelectorKeys(case.head["use_key"], case.head["nouse_key"]),)
    )
    request = Request("X", 1, annotations=case.get("annos", {}))
    reason = default_check_uuid(request, case.get("id", ""), family)
    case.verdict("ok", reason is None, *words(reason))


def words(reason: Reason | None) -> tuple[str, ...]:
    return () if reason is None else (reason.code, reason.detail, str(reason))


@pytest.mark.parametrize("case", cases("check_type"))
def test_models_match_hami(case: Case) -> None:
    family = Family(
        "X", Resources("x"), "a", type_selectors=(SelectorKeys(case.head["use_key"], case.head["nouse_key"]),)
    )
    request = Request("X", 1, annotations=case.get("annos", {}))
    reason = default_check_type(request, DeviceKind("X", case.get("type", "")), family)
    case.verdict("ok", reason is None, *words(reason))


@pytest.mark.parametrize("case", cases("vgpu_mode_annotation"))
def test_modes_match_hami(case: Case) -> None:
    case.verdict("ok", mode_accepted(case.get("annotation"), case.get("device_mode", "")), "ModeNotFit")


@pytest.mark.parametrize("case", cases("numa_bind_annotation"))
def test_numa_bind_matches_hami(case: Case) -> None:
    """Any text that Go does not parse as true leaves it off."""
    text = case.get("value")
    case.verdict("enforced", text is not None and parse_bool_go(text) is True, f"{text!r} is not a boolean")
