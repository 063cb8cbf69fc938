"""The conformance kit: what a vendor has to prove, as a test class to inherit and as a command.

In a vendor's ``tests/test_conformance.py``::

    class TestAcme(VendorSuite):
        node_fixtures = "data/nodes/*.yaml"

        @pytest.fixture
        def vendor(self) -> Acme:
            return Acme()

Without any file: ``hami conformance acme``. Needs the extra ``hami[testing]``. New required tests come in minor
releases only and are announced in the changelog under "plugin API".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hami_core.testing.report import Report, Result
from hami_core.testing.run import run

if TYPE_CHECKING:
    from hami_core.testing.suite import VendorSuite

__all__ = ["Report", "Result", "VendorSuite", "run"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the class, whose import needs pytest and hypothesis
    """Import the suites when asked for, after pytest was told to show what their assertions compared."""
    if name != "VendorSuite":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pytest  # noqa: PLC0415 - see above

    pytest.register_assert_rewrite("hami_core.testing.suites", "hami_core.testing.suite")
    from hami_core.testing.suite import VendorSuite  # noqa: PLC0415 - after the rewrite is registered

    globals()[name] = VendorSuite
    return VendorSuite


def __dir__() -> list[str]:
    """List the public names too that are not loaded yet, so that an interactive shell completes them."""
    return sorted({*globals(), *__all__})
