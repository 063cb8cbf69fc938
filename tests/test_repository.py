"""Rules for the repository itself."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import files, requires, version
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import hami_core
import hami_core.testing
from contrib.vendor_folders import in_tree
from hami_core.wire.node import DEFAULT_MODE

ROOT = Path(__file__).parent.parent
FOLDERS = r"docs|contrib|hami_core|interpose|vendors|tests/(?:integration|bench|vectors)"
NAMED = re.compile(rf"`((?:{FOLDERS})/[\w./-]+)(?:<[^`]*)?`")
TEST = re.compile(r"`((?:\w+/)*test_\w+\.py)(?:::(test_\w+))?")
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(ROOT / "docs").rglob("*.md"),
    *(page for vendor in in_tree() for page in vendor.folder.glob("*.md")),
]
DISTRIBUTIONS = ["hami", "hami-interpose", "hami-gpusim", *(vendor.distribution for vendor in in_tree())]
HEAVY = {"aiohttp", "grpc", "kubernetes", "numpy", "pydantic_settings", "structlog", "rich", "pluggy"}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_all_distributions_carry_one_version(distribution):
    assert version(distribution) == hami_core.__version__


def test_interposer_is_installed_without_a_fake_driver():
    names = {path.name for path in files("hami-interpose") or []}
    assert "libvgpu.so" in names
    assert [name for name in names if name.startswith(("libcuda", "libnvidia"))] == []
    assert [line for line in requires("hami-interpose") or [] if "extra ==" not in line] == []


def test_no_text_names_the_other_projects_hami_core():
    """The package of this name on the index is not ours. In annotations the name is the word for a mode."""
    texts = subprocess.run(
        ["git", "grep", "-n", "-I", "-E", r"hami-core(\[|[<>=]=?[0-9]| package)|install hami-core"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line for line in texts.stdout.splitlines() if "test_repository.py" not in line] == []
    assert DEFAULT_MODE == "hami-core"


def test_each_vendor_is_an_extra_of_its_version():
    extras = ProjectMetadata(str(ROOT), PluginManager()).core.optional_dependencies
    vendors = {vendor.name: f"hami-{vendor.name}=={hami_core.__version__}" for vendor in in_tree()}
    assert {"nvidia", "ascend", "cambricon"} <= vendors.keys()
    assert {name: extras[name] for name in vendors} == {name: [pin] for name, pin in vendors.items()}
    assert extras["all"] == sorted(vendors.values())
    assert extras.keys() == {*vendors, "all", "demo", "manifests", "simulate", "testing", "top"}


def test_template_has_the_right_version():
    template = tomllib.loads((ROOT / "contrib/template/pyproject.toml").read_text())
    assert template["project"]["version"] == hami_core.__version__


def test_readme_has_the_two_commands_and_ci_runs_the_second():
    readme = (ROOT / "README.md").read_text()
    setup = "python3 -m venv .venv && .venv/bin/pip install -q nox && .venv/bin/nox -s "
    assert f"\n{setup}demo\n" in readme
    assert f"\n{setup}tests\n" in readme
    assert "nox -s tests" in (ROOT / ".ci" / "run").read_text()


def test_help_imports_nothing_heavy():
    script = (
        "import sys; from hami_core.cli.main import root; "
        "root.main(['--help'], standalone_mode=False); "
        "print('\\n'.join(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stderr.split())
    assert "scheduler" in done.stdout


def test_every_file_named_on_a_page_exists():
    missing = []
    for page in PAGES:
        for name in NAMED.findall(page.read_text()):
            if not re.search("NNNN|NAME", name) and not (ROOT / name).exists():
                missing.append(f"{page.relative_to(ROOT)}: {name}")
    assert not missing


def test_every_test_named_on_a_page_exists():
    folders = ("tests", "hami_core", "vendors", "interpose", "contrib")
    tests = [path for folder in folders for path in (ROOT / folder).rglob("test_*.py")]
    named = {(page, *found) for page in PAGES for found in TEST.findall(page.read_text())}
    assert len(named) > 20, "too few found: the table of faults alone names more"
    missing = [
        f"{page.relative_to(ROOT)}: {file} {test}"
        for page, file, test in named
        if not any(str(path).endswith(f"/{file}") and f"def {test}" in path.read_text() for path in tests)
    ]
    assert not missing


@pytest.mark.parametrize("module", [hami_core, hami_core.testing])
def test_dir_lists_public_names_before_they_are_loaded(module):
    """A fresh process is needed. Interactive shells complete names by `dir`."""
    code = f"import {module.__name__} as it; print(*sorted(set(it.__all__) - set(dir(it))))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
