"""The template as an author uses it: copied, renamed, installed with pip, found, scheduled and tested."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from hami_core import __version__

ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "contrib" / "template"
HOW_TO = ROOT / "docs/how-to/write-a-vendor-plugin.md"

SCHEDULE = """
import json
from hami_core import Allocation, ContainerKind, ContainerSpec, NodeFacts, plugins
from hami_core.inventory import Inventory, PolicyDefaults
from hami_core.placement.request import pod_request

loaded = plugins.load(only=["zeta"])
loaded.require()
devices = [{"id": f"Z{i}", "index": i, "count": 10, "devmem": 1000, "devcore": 100, "type": "X", "health": True}
           for i in range(2)]
node = NodeFacts("n1", {"hami.io/node-zeta-register": json.dumps(devices)})
inventory = Inventory(loaded.rules(), PolicyDefaults())
inventory.set_node(node, loaded.register(node).devices)

def pod(name, memory, **annotations):
    limits = {"zeta.example/npu": "1", "zeta.example/npu-memory": str(memory)}
    container = ContainerSpec("main", ContainerKind.APP, limits)
    return pod_request(name, "default", name, [container], annotations, loaded.parse)

placed = []
for name, memory in (("a", 700), ("b", 700), ("c", 700), ("d", 200)):
    request = pod(name, memory)
    outcome = inventory.filter(request, ["n1"])
    booked = inventory.book(request, "n1")
    if isinstance(booked, Allocation):
        placed.append([name, booked.containers[0].slices[0].device_id, booked.containers[0].slices[0].memory_mib])
    else:
        placed.append([name, booked.short, outcome.refused["n1"]])
chosen = inventory.book(pod("e", 100, **{"zeta.example/use-npu-uuid": "Z1"}), "n1")
vendor = loaded.vendor("zeta")
print(json.dumps({
    "placed": placed,
    "chosen": chosen.containers[0].slices[0].device_id,
    "source": vendor.source.label,
    "words": sorted(vendor.words),
}))
"""


@pytest.fixture(scope="module")
def author(tmp_path_factory):
    """A function that runs commands with the copied and renamed package, which is installed into its own folder."""
    root = tmp_path_factory.mktemp("author")
    package, site = root / "hami-zeta", root / "site"
    shutil.copytree(TEMPLATE, package, ignore=shutil.ignore_patterns("__pycache__", ".*", "dist", "build"))
    rename = "grep -rlI -i acme . | xargs sed -i 's/acme/zeta/g; s/Acme/Zeta/g; s/ACME/ZETA/g'"
    assert rename in (TEMPLATE / "README.md").read_text()
    subprocess.run(f"{rename} && mv src/hami_acme src/hami_zeta", shell=True, cwd=package, check=True)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "install", "-q", *options, "--target", str(site), "."]
    subprocess.run(pip, cwd=package, check=True, capture_output=True)

    def run(*arguments, **environment):
        here = str(ROOT)
        variables = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{here}", **environment}
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=package, env=variables, capture_output=True, text=True, check=False)

    return run


def test_renamed_copy_has_no_trace_of_the_old_name(author):
    done = author("-c", "import hami_zeta, hami_zeta.node; print(hami_zeta.Zeta, hami_zeta.node.ZetaNode)")
    assert done.returncode == 0, done.stderr
    assert "acme" not in done.stdout.lower()


def test_package_is_found_and_its_pods_are_scheduled(author):
    done = author("-c", SCHEDULE)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["source"] == f"hami-zeta {__version__}"
    assert said["words"] == ["ZETA"]
    assert [row[0] for row in said["placed"]] == ["a", "b", "c", "d"]
    first, second, third, fourth = said["placed"]
    assert {first[1], second[1]} == {"Z0", "Z1"}
    assert third[1] == "2/2 CardInsufficientMemory"
    assert "CardInsufficientMemory" in third[2]
    assert fourth[2] == 200
    assert said["chosen"] == "Z1"


def test_own_test_file_passes_the_kit(author):
    done = author("-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "warning" not in (done.stdout + done.stderr).lower()


def test_node_side_passes_the_kit_on_fake_devices(author):
    readme = (
        re.sub(r"acme", "zeta", (TEMPLATE / "README.md").read_text()).replace("ACME", "ZETA").replace("Acme", "Zeta")
    )
    recipes = {
        textwrap.dedent(found[1])
        for page in (HOW_TO.read_text(), readme)
        for found in re.finditer(r"^ *```sh\n(.*?)^ *```", page, re.DOTALL | re.MULTILINE)
        if "export HAMI_ZETA_SYSFS=" in found[1]
    }
    [recipe] = recipes
    script = recipe.replace(".venv/bin/hami", f"{sys.executable} -m hami_core")
    show = (
        "import os, hami_core as core; from hami_zeta.node import ZetaNode; "
        "container = core.ContainerRef('u', 'ns', 'p', 'c', core.ContainerKind.APP); "
        "[node] = ZetaNode().allocate((core.Slice('ZETA-0001', 'ZETA', 1, 0),), container).device_nodes; "
        "print(node.path, os.stat(node.host_path).st_size)"
    )
    shell = "import subprocess, sys; sys.exit(subprocess.run(['sh', '-ec', sys.argv[1]]).returncode)"
    done = author("-c", shell, f'{script}\n{sys.executable} -c "{show}"')
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed   allocate answers the same again" in done.stdout
    assert done.stdout.splitlines()[-1] == "/dev/zeta1 0"


def test_code_in_the_how_to_equals_the_template():
    blocks = re.findall(r"^<!-- from (\S+) -->\n```\w+\n(.*?)^```", HOW_TO.read_text(), re.DOTALL | re.MULTILINE)
    assert {path for path, _ in blocks} >= {
        "contrib/template/pyproject.toml",
        "contrib/template/src/hami_acme/__init__.py",
        "contrib/template/src/hami_acme/node.py",
        "contrib/template/tests/test_conformance.py",
    }
    for path, code in blocks:
        assert code in (ROOT / path).read_text(), f"{HOW_TO}: the block from {path} differs from the file"


@pytest.mark.parametrize("page", ["how-to/write-a-vendor-plugin.md", "reference/hooks.md"])
def test_pages_for_authors_have_no_raw_sphinx_directives(page):
    """A code host shows directives and roles of Sphinx as raw text."""
    assert re.findall(r"\{[\w-]+\}`[^`]*`|^[`:]{3,}\{[\w-]+\}", (ROOT / "docs" / page).read_text(), re.MULTILINE) == []


def test_kit_without_files_passes_and_names_the_distribution(author):
    code = "import json; from hami_core.testing import run; print(json.dumps(run('hami-zeta').as_json()))"
    done = author("-c", code)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["passed"], [result for result in report["results"] if result["outcome"] == "failed"]
    assert (report["vendor"], report["distribution"], report["version"]) == ("zeta", "hami-zeta", __version__)
    assert report["capabilities"]["ZETA"]["sharing"] == "full"
    assert {result["suite"] for result in report["results"]} >= {"discovery", "inventory", "fit", "purity", "budget"}
