"""Tests for authors of vendors: the conformance kit, and a stage that runs pods on an embedded cluster.

`VendorSuite` tests whether a vendor keeps the contract. In a vendor's ``tests/test_conformance.py``::

    class TestAcme(VendorSuite):
        node_fixtures = "data/nodes/*.yaml"

        @pytest.fixture
        def vendor(self) -> Acme:
            return Acme()

``hami conformance acme`` runs the same tests without a test file. New required tests come only in minor releases. The
changelog announces them under "plugin API".

`Stage` runs scheduler, webhook and node agents with the installed vendor, and shows what each container got. Its
docstring has an example. ``hami demo --vendor acme --manifests pods.yaml`` does the same without a test file.

Both need the extra ``hami[testing]``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hami_core.testing.demo import Demo
from hami_core.testing.library import build_library
from hami_core.testing.report import Report, Result
from hami_core.testing.run import run

if TYPE_CHECKING:
    from hami_core.testing.parts import StageError
    from hami_core.testing.stage import Stage, StagedCard, StagedContainer, StageNode
    from hami_core.testing.suite import VendorSuite

_STAGE = {
    "Stage": "hami_core.testing.stage",
    "StageError": "hami_core.testing.parts",
    "StageNode": "hami_core.testing.stage",
    "StagedCard": "hami_core.testing.stage",
    "StagedContainer": "hami_core.testing.stage",
}

__all__ = [
    "Demo",
    "Report",
    "Result",
    "Stage",
    "StageError",
    "StageNode",
    "StagedCard",
    "StagedContainer",
    "VendorSuite",
    "build_library",
    "run",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class, whose import needs the extra
    """Import suites and stage on first use. Pytest rewrites the suites' assertions to show what they compared."""
    if name in _STAGE:
        return getattr(import_module(_STAGE[name]), name)
    if name != "VendorSuite":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pytest  # noqa: PLC0415 - see above

    pytest.register_assert_rewrite("hami_core.testing.suites", "hami_core.testing.suite")
    from hami_core.testing.suite import VendorSuite  # noqa: PLC0415 - after the rewrite is registered

    globals()[name] = VendorSuite
    return VendorSuite


def __dir__() -> list[str]:
    """Also list public names that are not loaded yet, so that an interactive shell completes them."""
    return sorted({*globals(), *__all__})
