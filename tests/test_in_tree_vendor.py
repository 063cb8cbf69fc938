"""A folder is all that a vendor of this repository needs: what `hami plugins new` writes there is used everywhere.

The test writes a vendor into each home of a copy of this tree. It installs nothing from an index and builds no image.
"""

from __future__ import annotations

import json
import shutil
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from contrib import lint_imports, vendor_folders
from hami_core import __version__
from tests.tree import Tree

ROOT = Path(__file__).parent.parent
PIN = f"hami-acme=={__version__}"
HOMES = {"acme": "vendors", "zeta": "contrib/vendors"}
"""Vendor → its home; zeta has no node side."""
BUILD = """
import os, sys
from hatchling import build
command, source, out = sys.argv[1:]
os.chdir(source)
getattr(build, command)(out)
"""
IMAGES = """
import json
from pathlib import Path
from contrib.images.recipes import RECIPES

class Shop:
    '''Stands for the workshop: answers each request for a layer with its words.'''
    root, vendors = Path(), ()
    def __getattr__(self, name):
        return lambda *words: (name, *words)

print(json.dumps({name: RECIPES[name].make(Shop()) for name in ("scheduler", "agent-acme")}))
"""
CHART = """
import json
from hami_core.manifests import Chart, Release, render, warnings
release = Release(kube_version="1.36.3")
agent = {"name": "acme", "vendor": "acme", "resourceNames": ["acme.example/npu"]}
values = {"global": {"imageRegistry": "localhost"}, "agents": [agent | {"image": {"repository": "hami/agent-acme"}}]}
objects = [manifest.content for manifest in render(Chart.read(), values, release)]
print(json.dumps({"objects": objects, "warnings": list(warnings(Chart.read(), values, release))}))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Tree:
    copy = Tree(tmp_path_factory.mktemp("tree"))
    for name, home in HOMES.items():
        copy.run("-m", "hami_core", "plugins", "new", name, "--into", home)
    return copy


@pytest.mark.parametrize("name", HOMES)
def test_nox_runs_the_vendors_session_by_its_tag(tree, name):
    sessions = json.loads(tree.run("-m", "nox", "--list", "--json", "--tags", name))
    assert [session["session"] for session in sessions] == [f"vendor({name})"]


def test_wheels_from_tree_and_sdist_have_the_vendors_extra(tree, tmp_path):
    extras = ProjectMetadata(str(tree.root), PluginManager()).core.optional_dependencies
    assert extras["acme"] == [PIN]
    assert extras["zeta"] == [PIN.replace("acme", "zeta")]
    assert {*extras["acme"], *extras["zeta"]} <= set(extras["all"])
    tree.run("-c", BUILD, "build_sdist", tree.root, tmp_path)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.glob("hami-*/")
    shutil.rmtree(source / "vendors", ignore_errors=True)
    tree.run("-c", BUILD, "build_wheel", source, tmp_path)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        [metadata] = [name for name in wheel.namelist() if name.endswith("/METADATA")]
        lines = wheel.read(metadata).decode().splitlines()
    assert {"Provides-Extra: acme", f"Requires-Dist: {PIN}; extra == 'acme'"} <= set(lines)


def test_images_contain_the_vendor_and_its_agent_has_one(tree):
    made = json.loads(tree.run("-c", IMAGES))
    own = {name: layer[1] for name, layers in made.items() for layer in layers if layer[0] == "own"}
    assert {"hami-acme", "hami-zeta"} <= set(own["scheduler"])
    assert own["agent-acme"] == ["hami", "hami-acme"]


def test_vendor_without_a_node_side_has_no_agents_image(tree):
    assert "agent-zeta" not in tree.run("-c", "from contrib.images.recipes import RECIPES; print(*RECIPES)").split()


def test_agents_debian_packages_come_from_the_vendors_folder(tree):
    file = tree.root / "vendors/acme/pyproject.toml"
    text = file.read_text()
    try:
        file.write_text(text + '\n[tool.hami.image]\ndebian-packages = ["libudev1"]\n')
        made = json.loads(tree.run("-c", IMAGES))
    finally:
        file.write_text(text)
    assert ["packages", ["libudev1"]] in made["agent-acme"]
    assert ["packages", ["libudev1"]] not in made["scheduler"]


def test_chart_protects_the_vendors_keys_and_trusts_our_image(tree):
    tree.run("contrib/helm/generate.py")
    said = json.loads(tree.run("-c", CHART))
    assert said["warnings"] == []
    text = json.dumps(said["objects"])
    assert ",acme" in next(word for word in text.split('"') if word.startswith("--vendors=nvidia,"))
    assert "hami/agent-acme" in text
    protected = (tree.root / "contrib/helm/hami/files/system-keys.json").read_text()
    assert all(f"hami.io/{name}-devices-allocated" in protected for name in HOMES)


def test_docs_have_the_vendors_page(tree):
    tree.run("-c", "from contrib.vendor_folders import copy_pages; copy_pages()")
    for name, home in HOMES.items():
        assert (tree.root / f"docs/vendors/{name}.md").read_text() == (
            tree.root / home / name / "README.md"
        ).read_text()
    assert "\nvendors/*\n" in (tree.root / "docs/index.md").read_text()


def test_import_rules_hold_for_the_vendor(tree):
    rules = tomllib.loads(lint_imports.configuration(tree.root))["tool"]["importlinter"]
    assert {"hami_acme", "hami_zeta"} <= set(rules["root_packages"])
    lists = {
        contract["name"]: [name for kind in ("source_modules", "modules") for name in contract.get(kind, ())]
        for contract in rules["contracts"]
    }
    for contract in ("Vendors see only what is public", "Vendors do not know each other"):
        assert {"hami_acme", "hami_zeta"} <= set(lists[contract])


@pytest.mark.parametrize(
    "door",
    ["hami_core.wire import keys", "hami_core.agent.files import sync", "hami_core.vendorkit.locks import NodeLock"],
)
def test_vendor_that_imports_a_private_module_is_refused(tree, door):
    tree.run("contrib/lint_imports.py", "--no-cache")
    file = tree.root / "vendors/acme/src/hami_acme/node.py"
    text = file.read_text()
    try:
        file.write_text(f"{text}\nfrom {door}\n")
        with pytest.raises(AssertionError, match="hami_acme is not allowed to import hami_core") as told:
            tree.run("contrib/lint_imports.py", "--no-cache")
    finally:
        file.write_text(text)
    assert f"hami_acme.node -> {door.partition(' ')[0]}" in str(told.value)


def test_repository_tests_cover_the_vendor(tree, tmp_path):
    for name, home in HOMES.items():
        tree.run("-c", BUILD, "build_wheel", tree.root / home / name, tmp_path)
    for file in tmp_path.glob("*.whl"):
        with zipfile.ZipFile(file) as wheel:
            wheel.extractall(tmp_path)
    files = [
        "vendors/acme",
        "contrib/vendors/zeta",
        "tests/test_repository.py",
        "hami_core/tests/plugins/test_api_reference.py",
    ]
    chosen = (
        "one_version or extra_of_its_version or import_public_names_only or ((TestAcme or TestZeta) and entry_point)"
    )
    words = ["-v", "-c", "pyproject.toml", "-p", "no:cacheprovider", *files, "-k", chosen]
    said = tree.run("-m", "pytest", *words, path=(tmp_path,))
    tests = ("one_version[hami-acme] PASSED", "hami_acme/node.py] PASSED", "TestAcme::test_", "TestZeta::test_")
    for test in (*tests, "one_version[hami-zeta] PASSED"):
        assert test in said


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "hami-acme"', 'name = "acme"', "project.name: write 'hami-acme'"),
        (f'version = "{__version__}"', "", "project.version: write the version"),
        ('acme = "hami_acme:Acme"', 'a = "hami_acme:Acme"', 'entry-points."hami.vendors": add acme'),
    ],
)
def test_vendor_folder_that_breaks_a_rule_is_refused(tmp_path, old, new, words):
    file = tmp_path / "vendors/acme/pyproject.toml"
    file.parent.mkdir(parents=True)
    file.write_text((ROOT / "contrib/template/pyproject.toml").read_text().replace(old, new))
    with pytest.raises(ValueError, match=r"vendors/acme/pyproject\.toml: ") as told:
        vendor_folders.in_tree(tmp_path)
    assert words in str(told.value)
