"""Version, pin and entry points of every vendor's distribution match the core and the vendor's folder."""

from __future__ import annotations

import ast
import pkgutil
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pytest

import hami_core
from contrib.vendor_folders import NODE, ROOT, VENDORS, in_tree

if TYPE_CHECKING:
    from pathlib import Path

EVERY = [pytest.param(vendor, id=vendor.name) for vendor in in_tree()]
SIDES = [
    pytest.param(vendor, group, module, id=f"{vendor.name}-{group}")
    for vendor in in_tree()
    for group, module in ((VENDORS, vendor.package), (NODE, f"{vendor.package}.node"))
    if group == VENDORS or group in vendor.pyproject["project"]["entry-points"]
]


@pytest.mark.parametrize("vendor", EVERY)
def test_version_and_pin_are_those_of_the_core(vendor):
    assert vendor.version == hami_core.__version__
    major, minor = hami_core.__version__.split(".")[:2]
    pin = f">={major}.{minor},<{major}.{int(minor) + 1}"
    assert f"hami{pin}" in vendor.pyproject["project"]["dependencies"]
    assert not [
        text for text in vendor.pyproject["project"]["dependencies"] if text.startswith("hami") and pin not in text
    ]


@pytest.mark.parametrize(("vendor", "group", "module"), SIDES)
def test_entry_point_names_the_vendor_and_its_class(vendor, group, module):
    listed = vendor.pyproject["project"]["entry-points"][group]
    assert listed.keys() == {vendor.name}
    assert listed[vendor.name].partition(":")[0] == module
    side = pkgutil.resolve_name(listed[vendor.name])
    assert isinstance(side, type)
    found = [entry.load() for entry in entry_points(group=group) if entry.name == vendor.name]
    assert found == [side], f"install the distribution: pip install -e {vendor.folder.relative_to(ROOT)}"


def test_vendors_with_an_agent_of_ours_are_in_one_home():
    """``vendors/`` has the vendors with a node side. Others' device plugins serve those of ``contrib/vendors/``."""
    homes = {vendor.name: vendor.folder.parent.relative_to(ROOT).as_posix() for vendor in in_tree()}
    with_agent = {vendor.name for vendor in in_tree() if vendor.target(NODE)}
    assert {name for name, home in homes.items() if home == "vendors"} == with_agent


RUN = 6
"""Equal lines from which on two vendors repeat each other."""


def code(file: Path) -> list[tuple[int, str]]:
    """Number and text of a file's lines, without blank ones and imports."""
    text = file.read_text("utf-8")
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    skipped = {line for node in imports for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return [(number, line) for number, line in lines if line and number not in skipped]


def test_vendors_repeat_no_six_lines_of_each_other():
    """What two vendors need belongs into `hami_core.vendorkit`."""
    places: dict[tuple[str, ...], dict[str, str]] = {}
    for vendor in in_tree():
        for file in sorted(vendor.source.rglob("*.py")):
            lines = code(file)
            for first in range(len(lines) - RUN + 1):
                run = tuple(line for _, line in lines[first : first + RUN])
                where = f"{file.relative_to(ROOT)}:{lines[first][0]}"
                places.setdefault(run, {}).setdefault(vendor.name, where)
    assert [list(found.values()) for found in places.values() if len(found) > 1] == []
