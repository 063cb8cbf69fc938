"""The distribution's version, pin and entry point match the core."""

from __future__ import annotations

import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import hami_cambricon.node

import hami_core

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())


def test_version_and_pin_are_those_of_the_core() -> None:
    assert PROJECT["project"]["version"] == hami_core.__version__
    major, minor = hami_core.__version__.split(".")[:2]
    assert f"hami>={major}.{minor},<{major}.{int(minor) + 1}" in PROJECT["project"]["dependencies"]


def test_the_entry_point_of_the_node_side_names_it() -> None:
    assert PROJECT["project"]["entry-points"]["hami.node"] == {"cambricon": "hami_cambricon.node:CambriconNode"}
    assert hami_cambricon.node.CambriconNode is not None


def test_the_entry_point_names_the_vendor() -> None:
    assert PROJECT["project"]["entry-points"]["hami.vendors"] == {"cambricon": "hami_cambricon:Cambricon"}
    assert hami_cambricon.Cambricon is not None
    found = [e for e in entry_points(group="hami.vendors") if e.name == "cambricon"]
    assert [e.load() for e in found] == [hami_cambricon.Cambricon], (
        "install the distribution: pip install -e vendors/cambricon"
    )
