"""The report of a conformance run: as text, as JSON, and for the table of capabilities in the docs."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

Outcome = Literal["passed", "failed", "skipped", "xfailed"]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one test.

    Attributes:
        suite: Subject of the test, such as ``admission``.
        test: Name of the test without ``test_``.
        outcome: How the test ended.
        detail: Why the test failed, was skipped or does not apply. A failure names the hook and the example.
        rule: What the test requires.

    Example:
        >>> Result("admission", "test_admission_is_total", "failed", "TypeError: boom").outcome
        'failed'
    """

    suite: str
    test: str
    outcome: Outcome
    detail: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The report of one vendor's run.

    Attributes:
        vendor: Name of the vendor's entry point.
        distribution: Name of its distribution.
        version: Version of the distribution.
        api_version: Version of the contract that the tests check.
        results: The results of all tests.
        capabilities: Family → capability → what the vendor declares.
        node_untested: Why the node side was not tested; empty if it was tested.

    Example:
        >>> one = Result("admission", "test_admission_is_total", "passed")
        >>> print(Report("acme", "hami-acme", "0.1.0", "1.0", (one,), {}))
        acme (hami-acme 0.1.0) against hook API 1.0
          admission
            passed   test admission is total
        PASSED: 1 passed
    """

    vendor: str
    distribution: str
    version: str
    api_version: str
    results: tuple[Result, ...]
    capabilities: dict[str, dict[str, str]]
    node_untested: str = ""

    @property
    def passed(self) -> bool:
        """Whether at least one test passed and none failed. It covers the node side only if that was tested."""
        return any(r.outcome == "passed" for r in self.results) and all(r.outcome != "failed" for r in self.results)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "passed": self.passed}

    def __str__(self) -> str:
        lines = [f"{self.vendor} ({self.distribution} {self.version}) against hook API {self.api_version}"]
        suite = ""
        told: set[str] = set()
        for result in self.results:
            if result.suite != suite:
                suite = result.suite
                lines.append(f"  {suite}")
            lines.append(f"    {result.outcome:<8} {result.test.replace('_', ' ')}")
            detail = "" if result.outcome == "passed" else result.detail.strip()
            if detail in told:
                # Shorten a failure that was printed before. Do not repeat the reason of skipped tests.
                detail = detail.splitlines()[0].partition("; called with")[0] if result.outcome == "failed" else ""
            elif detail:
                told.add(detail)
            rule = [f"rule: {result.rule}"] if result.rule and result.outcome == "failed" else []
            lines += [f"             {line}" for line in [*detail.splitlines(), *rule]]
        counts = Counter(result.outcome for result in self.results)
        verdict = "PASSED" if self.passed else "FAILED"
        if self.node_untested:
            lines.append(f"node side: {self.node_untested}")
            verdict += " (scheduler side only)" if self.passed else ""
        lines.append(f"{verdict}: " + ", ".join(f"{n} {word}" for word, n in counts.items()))
        return "\n".join(lines)
