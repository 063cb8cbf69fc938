"""The template as an author uses it: copied, renamed, installed by pip, found, scheduled, proven."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TEMPLATE = Path(__file__).parents[3] / "contrib" / "template"

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
    """The copied and renamed package, installed into a folder of its own; and a way to run commands there."""
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
        here = str(Path(__file__).parents[3])
        variables = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{here}", **environment}
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=package, env=variables, capture_output=True, text=True, check=False)

    return run


def test_no_trace_of_the_old_name_is_left(author):
    done = author("-c", "import hami_zeta, hami_zeta.node; print(hami_zeta.Zeta, hami_zeta.node.ZetaNode)")
    assert done.returncode == 0, done.stderr
    assert "acme" not in done.stdout.lower()


def test_package_is_found_and_its_pods_are_scheduled(author):
    done = author("-c", SCHEDULE)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["source"] == "hami-zeta 0.1.0"
    assert said["words"] == ["ZETA"]
    assert [row[0] for row in said["placed"]] == ["a", "b", "c", "d"]
    first, second, third, fourth = said["placed"]
    assert {first[1], second[1]} == {"Z0", "Z1"}
    assert third[1] == "2/2 CardInsufficientMemory"
    assert "CardInsufficientMemory" in third[2]
    assert fourth[2] == 200
    assert said["chosen"] == "Z1"


def test_own_test_file_passes_the_kit(author):
    options = ["-q", "-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function"]
    done = author("-m", "pytest", *options, "tests")
    assert done.returncode == 0, done.stdout[-3000:]


def test_kit_without_files_passes_and_names_the_distribution(author):
    code = "import json; from hami_core.testing import run; print(json.dumps(run('hami-zeta').as_json()))"
    done = author("-c", code)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["passed"], [result for result in report["results"] if result["outcome"] == "failed"]
    assert (report["vendor"], report["distribution"], report["version"]) == ("zeta", "hami-zeta", "0.1.0")
    assert report["capabilities"]["ZETA"]["sharing"] == "full"
    assert {result["suite"] for result in report["results"]} >= {"discovery", "inventory", "fit", "purity", "budget"}
