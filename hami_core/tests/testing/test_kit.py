"""The kit itself: a good vendor passes, and each broken promise fails the test for that promise."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from hami_core import ConfigError
from hami_core.testing import Report, Result, run
from hami_core.testing.isolation import watched

MUTANTS = Path(__file__).with_name("mutants.py")


def kit(tmp_path, *selection):
    """Run the kit on tests of mutants.py. Returns the failure's text, or nothing, by (class, test)."""
    xml = tmp_path / "results.xml"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", f"--junit-xml={xml}", "-o", "junit_family=xunit1"]
    command = [sys.executable, "-m", "pytest", *options, *selection]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3], check=False)
    assert xml.exists(), done.stdout + done.stderr
    outcomes = {}
    for case in ET.parse(xml).iter("testcase"):
        found = [part.get("message") + part.text for kind in ("failure", "error") for part in case.iter(kind)]
        key = (case.get("classname").rpartition(".")[2], case.get("name").partition("[")[0])
        outcomes[key] = outcomes.get(key, "") + "".join(found)
    return outcomes


@pytest.mark.parametrize("vendor", ["TestGood", "TestGoodInPairs"])
def test_good_vendor_passes(tmp_path, vendor):
    outcomes = kit(tmp_path, f"{MUTANTS}::{vendor}")
    assert len(outcomes) > 40
    assert {key: text for key, text in outcomes.items() if text} == {}


def test_every_broken_promise_is_caught(tmp_path):
    from hami_core.tests.testing import mutants

    classes = {name: cls for name, cls in vars(mutants).items() if getattr(cls, "must_fail", None)}
    wanted = {(name, cls.must_fail[0]): cls.must_fail[1] for name, cls in classes.items()}
    assert len(wanted) > 45
    outcomes = kit(tmp_path, *[f"{MUTANTS}::{name}::{test}" for name, test in sorted(wanted)])
    assert [key for key in wanted if not outcomes.get(key)] == []
    unnamed = {key: outcomes[key][:300] for key, says in wanted.items() if not re.search(says, outcomes[key])}
    assert unnamed == {}


def test_unknown_vendor_is_refused_by_name():
    with pytest.raises(ConfigError, match="vendor nowhere: no such vendor is installed"):
        run("nowhere")


@pytest.mark.parametrize(
    ("act", "shown"),
    [
        (lambda: open("/dev/null").close(), "open"),  # noqa: PTH123
        (lambda: __import__("time").monotonic(), "time.monotonic()"),
        (lambda: __import__("os").environ.get("HOME"), "os.environ"),
        (lambda: __import__("socket").socket().close(), "socket"),
        (lambda: __import__("os").listdir("/"), "os.listdir"),
        (lambda: subprocess.run(["true"], check=True), "subprocess.Popen"),
    ],
)
def test_impure_calls_are_recorded_and_still_run(act, shown):
    act()
    with watched() as acts:
        act()
    assert any(shown in line for line in acts)
    before = list(acts)
    act()
    assert acts == before


def test_report_passes_only_if_tests_ran_and_none_failed():
    def report(*outcomes):
        return Report("v", "d", "1", "1.0", tuple(Result("s", "test", o, "why") for o in outcomes), {})

    assert report("passed", "skipped", "xfailed").passed
    assert not report("passed", "failed").passed
    assert not report("skipped").passed
    assert not report().passed
    assert "why" in str(report("failed"))
    assert str(report("failed")).endswith("FAILED: 1 failed")


def test_report_says_that_the_node_side_was_not_tested():
    results = (Result("fit", "test", "passed"), Result("allocate", "devices", "skipped", "no node side"))
    lines = str(Report("v", "d", "1", "1.0", results, {}, "not tested; no devices")).splitlines()
    assert lines[-2:] == ["node side: not tested; no devices", "PASSED (scheduler side only): 1 passed, 1 skipped"]


def test_report_gives_a_cause_in_full_only_once():
    results = tuple(Result("fit", test, "failed", "answered bool; called with x=1\nand more") for test in "ab")
    text = str(Report("v", "d", "1", "1.0", results, {}))
    assert text.count("answered bool") == 2
    assert text.count("called with x=1") == 1


def test_report_of_a_failure_says_the_rule():
    failed = Result("lifecycle", "nothing_is_made_twice", "failed", "allocate makes two", "What it made, it must find.")
    lines = str(Report("v", "d", "1", "1.0", (failed,), {})).splitlines()
    assert [line.strip() for line in lines[2:5]] == [
        "failed   nothing is made twice",
        "allocate makes two",
        "rule: What it made, it must find.",
    ]
