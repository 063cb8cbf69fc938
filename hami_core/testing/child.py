"""The process `hami_core.testing.run` starts: pytest over one generated class, results to a file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from hami_core.plugins.discovery import Found, installed
from hami_core.plugins.load import assemble
from hami_core.plugins.report import capability_matrix
from hami_core.testing.run import RESULTS, VENDOR

if TYPE_CHECKING:
    from collections.abc import Iterable

_CASE = """
import pytest
from hami_core.testing.run import chosen_node_side, chosen_vendor
from hami_core.testing import VendorSuite

class TestInstalled(VendorSuite):
    @pytest.fixture
    def vendor(self):
        return chosen_vendor()

    @pytest.fixture
    def node_side(self):
        return chosen_node_side()
"""

SUBJECTS: Final = (
    "discovery",
    "capability",
    "inventory",
    "admission",
    "fit",
    "placement",
    "purity",
    "budget",
    "allocate",
    "kit",
)
"""Order of the report."""


class Collector:
    """Pytest plugin that keeps one result a test and writes them after each, so that a crash loses nothing."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._results: dict[str, dict[str, Any]] = {}
        self.capabilities: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst of set-up, call and tear-down."""
        if report.when != "call" and report.outcome == "passed":
            return
        name = report.nodeid.partition("::")[2].rpartition("::")[2]
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        before = self._results.get(report.nodeid)
        if before is not None and before["outcome"] == "failed":
            return
        from hami_core.testing.suite import standard_tests  # noqa: PLC0415 - imported under pytest, see the package

        suite = standard_tests().get(name.partition("[")[0])
        subject = suite.__name__.removesuffix("Suite").lower() if suite else "kit"
        detail = "" if outcome == "passed" else _detail(report)
        self._results[report.nodeid] = {
            "suite": subject,
            "test": name.removeprefix("test_"),
            "outcome": outcome,
            "detail": detail,
        }
        self.write(finished=False)

    def write(self, *, finished: bool) -> None:
        """Write what there is by now."""
        ordered = sorted(self._results.values(), key=lambda result: SUBJECTS.index(result["suite"]))
        content = {
            "results": ordered,
            "capabilities": self.capabilities,
            "finished": finished,
        }
        self._file.write_text(json.dumps(content), "utf-8")


def _detail(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash is not None else report.longreprtext)[:1500]


def _capabilities(name: str) -> Iterable[dict[str, str]]:
    found = [Found(source, point.load()) for source, point in installed("hami.vendors") if source.name == name]
    return capability_matrix(assemble(found).vendors)


def main(folder: str) -> int:
    """Run the kit; the exit status is pytest's."""
    case = Path(folder) / "test_installed.py"
    case.write_text(_CASE, "utf-8")
    collector = Collector(Path(os.environ[RESULTS]))
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "-W",
        "error",
        f"--rootdir={folder}",
        "-c",
        os.devnull,
    ]
    status = int(pytest.main([*options, str(case)], plugins=[collector]))
    try:
        rows = _capabilities(os.environ[VENDOR])
        collector.capabilities = {row["family"]: {k: v for k, v in row.items() if k != "family"} for row in rows}
    finally:
        collector.write(finished=status in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED})
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
