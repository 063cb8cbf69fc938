"""docs/reference/vendors.md is generated, complete and true."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from contrib.vendor_folders import NODE, in_tree
from contrib.vendors_page import evidence, page, replayed
from hami_core.plugins.load import load

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/reference/vendors.md"
VENDORS = [pytest.param(vendor, id=vendor.name) for vendor in in_tree()]


def test_page_of_vendors_is_up_to_date():
    text = PAGE.read_text("utf-8")
    made = subprocess.run(
        [sys.executable, "-m", "contrib.vendors_page"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert text == made, "regenerate it: python -m contrib.vendors_page > docs/reference/vendors.md"
    assert [vendor.name for vendor in in_tree() if f"</vendors/{vendor.name}>" not in text] == []


def test_page_names_the_cards_that_were_measured():
    kept = [path for path in (ROOT / "tests/gpu/results").iterdir() if path.name != "simulated.json"]
    text = " ".join(PAGE.read_text("utf-8").split())
    for path in kept:
        assert f"on an {json.loads(path.read_text('utf-8'))['machine']['card']}" in text, "name the card on the page"
    assert "None of them has run on the vendor's hardware yet" in text


def test_tables_have_as_many_cells_in_every_row():
    tables = re.findall(r"(?:^\|.*\n)+", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(tables) == 5
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1
        assert table.count("\n") > 2


def test_page_names_every_resource_and_annotation():
    text = PAGE.read_text("utf-8")
    for family in (family for vendor in load().vendors for family in vendor.families):
        keys = (family.register_key, family.allocated_key, family.to_allocate_key, family.foreign_lock)
        selectors = [key for pair in (*family.uuid_selectors, *family.type_selectors) for key in (pair.use, pair.nouse)]
        for name in filter(None, (*family.resources.names(), *keys, *selectors)):
            assert f"`{name}`" in text or f"`{name.replace(family.word, 'CHIP')}`" in text


@pytest.mark.parametrize("vendor", VENDORS)
def test_what_a_vendor_is_tested_against_has_tests(vendor):
    said = vendor.pyproject.get("tool", {}).get("hami", {}).get("tested-against", {})
    missing = [path for path in said.values() if not any((ROOT / path).glob("*")) and not (ROOT / path).is_file()]
    assert missing == []
    assert bool(said) == bool(vendor.target(NODE)), "name what its agent is tested against, or nothing"
    fake, replay = ROOT / f"tests/foreign/{vendor.name}.py", ROOT / f"tests/foreign/test_{vendor.name}.py"
    if fake.is_file() or not vendor.target(NODE):
        assert f"from tests.foreign.{vendor.name} import" in replay.read_text("utf-8")
    assert evidence()[vendor.name]


@pytest.mark.parametrize(
    ("docstring", "shown"),
    [
        (
            "Acme's plugin in mode ``x``.\n\nWritten after Acme/k8s-plugin, ``pkg/a.go`` and ``pkg/b.go``: all calls.",
            "Acme's plugin in mode `x` ([Acme/k8s-plugin](https://github.com/Acme/k8s-plugin))",
        ),
        (
            "Acme's plugin,\nas documented.\n\nIts limits/requests are guessed.",
            "Acme's plugin, as documented (no public source)",
        ),
    ],
)
def test_replay_is_shown_with_the_repository_it_was_written_after(docstring, shown):
    assert replayed(docstring) == shown


def test_families_that_differ_by_their_word_share_a_row():
    (vendor, *_) = load().vendors
    (family, *_) = vendor.families
    words = ("ChipA", "ChipB")
    same = [
        replace(
            family,
            word=word,
            resources=replace(family.resources, count=f"acme.example/{word}"),
            allocated_key=f"hami.io/{word}-devices-allocated",
            uuid_selectors=(),
        )
        for word in words
    ]
    text = page([replace(vendor, families=tuple(same))], [], {vendor.name: ["a fake"]})
    assert "| `ChipA`, `ChipB` | `acme.example/CHIP` |" in text
    assert "`hami.io/CHIP-devices-allocated`" in text
