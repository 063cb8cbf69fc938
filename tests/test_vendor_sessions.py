"""nox finds the tests of one vendor, and of all vendors, by names and tags."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import noxfile
from contrib.vendor_folders import in_tree

ROOT = Path(__file__).parent.parent
VENDORS = in_tree()


class Session:
    """Stands for nox's session: keeps the words of the programs that it runs."""

    def __init__(self) -> None:
        self.posargs = ("-x",)
        self.ran: list[tuple[str, ...]] = []

    def install(self, *words: str) -> None:
        pass

    def run(self, *words: str) -> None:
        self.ran.append(words)


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        *((("--session", f"vendor({vendor.name})"), [vendor.name]) for vendor in VENDORS),
        (("--tags", VENDORS[0].name), [VENDORS[0].name]),
        (("--tags", "vendors"), [vendor.name for vendor in VENDORS]),
    ],
)
def test_nox_finds_sessions_of_vendors(chosen, names):
    listed = subprocess.run(
        [sys.executable, "-m", "nox", "--list", "--json", *chosen], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert sorted(session["session"] for session in json.loads(listed)) == [f"vendor({name})" for name in names]


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
def test_session_tests_the_vendors_folder_only(vendor):
    session = Session()
    noxfile.vendor.func(session, vendor.name)
    [words] = session.ran
    assert words[0] == "pytest"
    assert [word for word in words if (ROOT / word).is_dir()] == [vendor.folder.relative_to(ROOT).as_posix()]
    assert words[-1] == "-x"
