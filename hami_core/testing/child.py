"""The process that `hami_core.testing.run` starts: it runs pytest on one generated class and writes the results."""

from __future__ import annotations

import faulthandler
import inspect
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import pytest

from hami_core.errors import HamiError
from hami_core.model import NodeContext
from hami_core.plugins.discovery import NODE, VENDORS, Selection, discover
from hami_core.plugins.load import assemble
from hami_core.plugins.report import capability_matrix
from hami_core.testing.run import NODE_SIDE, RESULTS, RUN_LIMIT, STACKS, TEST_LIMIT, VENDOR

if TYPE_CHECKING:
    from collections.abc import Generator

    from hami_core.plugins.vendor import LoadedVendor

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
    "lifecycle",
    "kit",
)
"""Subjects in the order of the report."""


class Collector:
    """Pytest plugin that keeps one result for each test. It writes all results after each, so that a crash loses none.

    Args:
        file: File to write the results to.
        stacks: Open file for the stacks of a test that hangs. The process ends after it has written them.
        limits: Seconds that one test may take, and seconds that the whole run may take.
    """

    def __init__(self, file: Path, stacks: TextIO, limits: tuple[float, float]) -> None:
        self._file = file
        self._stacks = stacks
        self._test_limit_s = limits[0]
        self._end = time.monotonic() + limits[1]
        self.results: dict[str, dict[str, Any]] = {}
        self.capabilities: dict[str, dict[str, str]] = {}
        self.running = ""
        self.started("loading the vendor")

    def started(self, what: str) -> None:
        """Record what runs now, and set the time after which it counts as hanging."""
        self.running = what
        self.write(finished=False)
        left = max(min(self._test_limit_s, self._end - time.monotonic()), 0.1)
        faulthandler.dump_traceback_later(left, exit=True, file=self._stacks)

    def add(self, key: str, suite: str, test: str, outcome: str, detail: str, *, rule: str = "") -> None:
        """Keep a result."""
        self.results[key] = {"suite": suite, "test": test, "outcome": outcome, "detail": detail, "rule": rule}
        self.write(finished=False)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Watch the test that starts now."""
        self.started(_test(nodeid))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep the rule and the exception's own text: pytest's text contains hypothesis' notes, which fill a screen."""
        report = yield
        report.sections.append((_RULE, _rule(item)))
        if call.excinfo is not None:
            report.sections.append((_CAUSE, "\n".join(_causes(call.excinfo.value))))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst outcome of set-up, call and tear-down, and the cause that tear-down reports."""
        if report.when != "call" and report.outcome == "passed":
            return
        name = _test(report.nodeid)
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        before = self.results.get(report.nodeid)
        detail = "" if outcome == "passed" else _detail(report)
        if before is not None and before["outcome"] == "failed":
            if detail not in before["detail"]:
                before["detail"] += f"\ncause: {detail}"
            self.write(finished=False)
            return
        from hami_core.testing.suite import standard_tests  # noqa: PLC0415 - imported under pytest, see the package

        suite = standard_tests().get(f"test_{name}".partition("[")[0])
        subject = suite.__name__.removesuffix("Suite").lower() if suite else "kit"
        self.add(report.nodeid, subject, name, outcome, detail, rule=_section(report, _RULE))

    def write(self, *, finished: bool) -> None:
        """Write the results so far."""
        ordered = sorted(self.results.values(), key=lambda result: SUBJECTS.index(result["suite"]))
        content = {
            "results": ordered,
            "capabilities": self.capabilities,
            "finished": finished,
            "running": self.running,
        }
        self._file.write_text(json.dumps(content), "utf-8")


_CAUSE: Final = "cause"
_RULE: Final = "rule"
_REPEATED: Final = re.compile(r"\nassert .*", re.DOTALL)
"""Pytest's explanation after an assertion's own message."""


def _test(nodeid: str) -> str:
    return nodeid.partition("::")[2].rpartition("::")[2].removeprefix("test_")


def _causes(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return list(dict.fromkeys(line for part in error.exceptions for line in _causes(part)))
    if isinstance(error, AssertionError | HamiError | pytest.fail.Exception):
        return [_REPEATED.sub("", str(error))]
    return [f"{type(error).__name__}: {error}"]


def _detail(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return (_section(report, _CAUSE) or str(report.longreprtext))[:1500]


def _section(report: pytest.TestReport, wanted: str) -> str:
    return next((text for heading, text in report.sections if heading == wanted), "")


def _rule(item: pytest.Item) -> str:
    """The first paragraph of a test's docstring, on one line."""
    text = inspect.getdoc(getattr(item, "function", None)) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("`", "")


def _load_errors(name: str, node: NodeContext | None = None) -> tuple[list[str], tuple[LoadedVendor, ...]]:
    selection = Selection(only=frozenset({name}))
    sides = [discover(VENDORS, selection), discover(NODE, selection) if node else []]
    loaded = assemble(*sides, side="node" if node else "scheduler", node=node)
    return [str(problem) for problem in loaded.problems if problem.severity == "error"], loaded.vendors


def main(folder: str) -> int:
    """Run the kit; the exit status is pytest's."""
    case = Path(folder) / "test_installed.py"
    case.write_text(_CASE, "utf-8")
    limits = (float(os.environ[TEST_LIMIT]), float(os.environ[RUN_LIMIT]))
    with Path(folder, STACKS).open("w", encoding="utf-8") as stacks:
        collector = Collector(Path(os.environ[RESULTS]), stacks, limits)
        status = _run(folder, str(case), collector)
        faulthandler.cancel_dump_traceback_later()
    return status


def _run(folder: str, case: str, collector: Collector) -> int:
    name = os.environ[VENDOR]
    errors, vendors = _load_errors(name)
    if errors:
        # Without this, each test would fail for the same reason.
        collector.add("load", "discovery", "vendor can be loaded", "failed", "\n".join(errors))
        collector.write(finished=True)
        return int(pytest.ExitCode.TESTS_FAILED)
    if os.environ.get(NODE_SIDE):
        errors, _ = _load_errors(name, NodeContext("node", Path(folder)))
        if errors:
            os.environ[NODE_SIDE] = ""
            collector.add("node", "allocate", "node side can be loaded", "failed", "\n".join(errors))
    rows = capability_matrix(vendors)
    collector.capabilities = {row["family"]: {k: v for k, v in row.items() if k != "family"} for row in rows}
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-W", "error", f"--rootdir={folder}"]
    # Not in pytest's shared folder, where it would spend this run's time on removing what earlier runs left.
    options.append(f"--basetemp={folder}/tests")
    status = int(pytest.main([*options, "-c", os.devnull, case], plugins=[collector]))
    collector.write(finished=status in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED})
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
