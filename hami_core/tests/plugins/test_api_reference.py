"""Public types and functions: each is on a page, and its example runs."""

from __future__ import annotations

import ast
import doctest
from importlib import import_module
from pathlib import Path

import pytest

import hami_core
from contrib.vendor_folders import in_tree

ROOT = Path(__file__).parents[3]
DOORS = ["hami_core", "hami_core.vendorkit", "hami_core.vendorkit.node", "hami_core.documents", "hami_core.testing"]
PUBLIC = {door: set(import_module(door).__all__) for door in DOORS}


def test_every_public_module_has_a_page():
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "docs/reference").glob("*.md"))
    assert [door for door in DOORS if f".. automodule:: {door}\n" not in pages] == []


NAMES = [
    (module, name)
    for module, names in PUBLIC.items()
    for name in sorted(names)
    if callable(getattr(import_module(module), name))
    and name not in {"hookimpl", "Stage"}  # see the page of hooks, tests/integration/test_stage.py
]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_public_name_has_an_example_that_is_true(module, name):
    it = getattr(import_module(module), name)
    known = {each: getattr(hami_core, each) for each in hami_core.__all__}
    known |= {each: getattr(import_module(module), each) for each in PUBLIC[module]} | {"pytest": pytest}
    [test] = doctest.DocTestFinder(recurse=False).find(it, name, globs=known, module=False)
    assert test.examples, f"{module}.{name} has no example"
    told: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append)
    assert "".join(told) == ""


@pytest.mark.parametrize("field", ["Attributes", "Args"])
def test_docstring_sections_name_existing_fields(field):
    """A described field that was removed or renamed would mislead readers."""
    for name in hami_core.__all__:
        it = getattr(hami_core, name)
        text = (it.__doc__ or "").partition(f"{field}:\n")[2].partition("\n\n")[0]
        described = [line.strip().partition(":")[0] for line in text.splitlines() if line.startswith(" " * 8)]
        described = [each for each in described if each.isidentifier()]
        known = {*getattr(it, "__annotations__", {}), *getattr(it.__init__, "__annotations__", {})}
        assert set(described) <= known, name


FILES = [
    path
    for folder in (
        *(vendor.source for vendor in in_tree()),
        ROOT / "contrib/template/src",
        ROOT / "tests/stranger/npu/src",
    )
    for path in sorted(folder.rglob("*.py"))
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_vendors_import_public_names_only(path):
    wrong = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            named = [each.name for each in node.names if each.name.startswith("hami_core.")]
            wrong += [each for each in named if each not in PUBLIC]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "hami_core":
            beside = {each.removeprefix(f"{node.module}.") for each in PUBLIC if each.startswith(f"{node.module}.")}
            public = PUBLIC.get(node.module, set()) | beside
            wrong += [f"{node.module}.{each.name}" for each in node.names if each.name not in public]
    assert wrong == []
