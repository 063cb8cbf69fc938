"""`VendorSuite`: all suites in one class, and a test that no standard test was replaced without a reason."""

# ruff: noqa: S101 - these are tests
from __future__ import annotations

from typing import TYPE_CHECKING

from hami_core.testing.suites.admission import AdmissionSuite
from hami_core.testing.suites.allocate import AllocateSuite
from hami_core.testing.suites.budget import BudgetSuite
from hami_core.testing.suites.capability import CapabilitySuite
from hami_core.testing.suites.discovery import DiscoverySuite
from hami_core.testing.suites.fit import FitSuite
from hami_core.testing.suites.inventory import InventorySuite
from hami_core.testing.suites.lifecycle import LifecycleSuite
from hami_core.testing.suites.placement import PlacementSuite
from hami_core.testing.suites.purity import PuritySuite

if TYPE_CHECKING:
    import pytest

SUITES: tuple[type, ...] = (
    DiscoverySuite,
    CapabilitySuite,
    InventorySuite,
    AdmissionSuite,
    FitSuite,
    PlacementSuite,
    PuritySuite,
    BudgetSuite,
    AllocateSuite,
    LifecycleSuite,
)


def standard_tests() -> dict[str, type]:
    """Name of each test of the kit → the suite that defines it."""
    return {name: suite for suite in SUITES for name in vars(suite) if name.startswith("test_")}


class VendorSuite(
    DiscoverySuite,
    CapabilitySuite,
    InventorySuite,
    AdmissionSuite,
    FitSuite,
    PlacementSuite,
    PuritySuite,
    BudgetSuite,
    AllocateSuite,
    LifecycleSuite,
):
    """All tests of the kit. Inherit from it and define the fixture ``vendor``.

    If the vendor has a node side, define ``node_side`` too. With ``set_health`` and ``leftovers`` the kit also proves
    that devices may fail and that nothing remains after containers.

    Example:
        >>> class TestAcme(VendorSuite):
        ...     node_fixtures = "data/nodes/*.yaml"
        ...
        ...     @pytest.fixture
        ...     def vendor(self):
        ...         return Acme()
    """

    def test_no_standard_test_was_replaced_in_silence(self) -> None:
        """A test that does not apply must be overridden with ``@pytest.mark.xfail(reason=…)``, never removed."""
        replaced = [
            name
            for name, suite in standard_tests().items()
            if getattr(type(self), name, None) is not vars(suite)[name] and not _says_why(getattr(self, name, None))
        ]
        assert not replaced, f"replaced without @pytest.mark.xfail(reason=…): {', '.join(replaced)}"


def _says_why(test: object) -> bool:
    marks: list[pytest.Mark] = getattr(test, "pytestmark", [])
    return any(mark.name == "xfail" and mark.kwargs.get("reason") for mark in marks)
