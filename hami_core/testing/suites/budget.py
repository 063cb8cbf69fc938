"""The cost of hooks, counted in function calls and not in time, so that the result is the same on every machine."""

# ruff: noqa: S101 - these are tests
from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from hami_core.errors import HamiError
from hami_core.testing.suites.case import VendorCase
from hami_core.testing.suites.purity import scheduler_calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from hami_core.model import Device, NodeFacts
    from hami_core.plugins.vendor import LoadedVendor

LIMITS: Final = {
    "register": 20_000,
    "parse_request": 2_000,
    "mutate_admission": 5_000,
    "check_type": 500,
    "check_uuid": 500,
    "custom_filter": 500,
    "fit_mask": 2_000,
    "patch_annotations": 5_000,
    "lock_annotations": 1_000,
    "choose": 20_000,
    "account": 2_000,
    "score_node": 2_000,
}
"""Function calls that one call of a hook may make. Each costs about 0.1 µs; one Filter may call `check_uuid` 40,000
times."""


class BudgetSuite(VendorCase):
    """Tests of the cost of scheduler-side hooks."""

    def test_hooks_stay_within_their_budget(
        self, loaded: LoadedVendor, nodes: tuple[NodeFacts, ...], devices: tuple[Device, ...]
    ) -> None:
        """Count the Python and C calls of each hook's second run."""
        for hook, call in scheduler_calls(loaded, nodes, devices):
            _counted(call)
            calls = _counted(call)
            assert calls <= LIMITS[hook], f"{hook} makes {calls} function calls, budget {LIMITS[hook]}"


def _counted(call: Callable[[], Any]) -> int:
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    except HamiError:
        pass
    finally:
        sys.setprofile(before)
    return count
