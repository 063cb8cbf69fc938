"""The Acme NPU, built as a third party would by the project's pages: with wheels, in an empty folder.

`npu/` is the whole package. It has memory in steps of 512 MiB, two card types, and two cards only as a wired pair. Its
node side gives containers ``/dev/acmeN`` and a variable.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NPU = Path(__file__).parent / "npu"
CARDS = [("Acme-X1", 16384), ("Acme-X1", 16384), ("Acme-X2", 32768), ("Acme-X2", 32768)]

pytestmark = pytest.mark.timeout(420)


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """A folder with four cards, and a virtual environment of our wheels without this checkout on its path."""
    folder = tmp_path_factory.mktemp("npu")
    shutil.copytree(NPU, folder / "acme-npu", ignore=shutil.ignore_patterns("__pycache__"))
    sources = [ROOT, folder / "acme-npu"]
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
    ]
    subprocess.run([*pip, "-w", folder / "wheels", *sources], check=True, cwd=folder)
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", folder / "venv"], check=True)
    python = folder / "venv/bin/python"
    # Dependencies come from this environment. Its own copies of our packages come later on the path than the wheels.
    site = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        check=True,
        text=True,
        capture_output=True,
    ).stdout.strip()
    wheels = sorted((folder / "wheels").glob("*.whl"))
    install = ["-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps", "--no-index", "--target", site]
    subprocess.run([python, *install, "--upgrade", *wheels], check=True)
    (Path(site) / "packages_of_this_environment.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    for index, (model, memory) in enumerate(CARDS):
        card = folder / f"sysfs/acme{index}"
        card.mkdir(parents=True)
        for name, value in {"uuid": f"ACME-{index}", "memory_mib": memory, "model": model}.items():
            (card / name).write_text(f"{value}\n")
        (folder / "dev").mkdir(exist_ok=True)
        (folder / f"dev/acme{index}").touch()
    return folder


@pytest.fixture(scope="module")
def hami(machine):
    """A function that runs that environment's ``hami``."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HAMI_", "PYTHON", "PYTEST"))}

    def run(*words: object, **variables: str) -> subprocess.CompletedProcess[str]:
        env = clean | {"HAMI_PLUGINS": "acme", "COLUMNS": "80"} | variables
        command = [machine / "venv/bin/python", "-m", "hami_core", *map(str, words)]
        return subprocess.run(command, cwd=machine, env=env, text=True, capture_output=True, check=False)

    return run


def devices(machine) -> dict[str, str]:
    return {"HAMI_ACME_SYSFS": str(machine / "sysfs"), "HAMI_ACME_DEV": str(machine / "dev")}


def test_vendor_is_found_by_its_entry_points(machine, hami):
    where = subprocess.run(
        [machine / "venv/bin/python", "-P", "-c", "import hami_core; print(hami_core.__file__)"],
        cwd=machine,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    assert str(machine) in where, "expected the wheel's hami_core, not the checkout's"
    done = hami("plugins")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "acme-npu" in done.stdout
    assert "ok" in done.stdout


def test_both_sides_pass_the_kit(machine, hami):
    done = hami("conformance", "acme", "--node", "--timeout=150", **devices(machine))
    assert done.returncode == 0, done.stdout + done.stderr


def test_vendors_pods_run_on_the_embedded_cluster(machine, hami):
    options = [f"--agent-env={name}={value}" for name, value in devices(machine).items()]
    done = hami("demo", "--vendor=acme", "--manifests", machine / "acme-npu/pods.yaml", *options, "--json")
    assert done.stdout, done.stderr
    assert done.returncode == 1, "a pod of three cards must wait, since they are no pair"
    pods = {pod["name"]: pod for pod in json.loads(done.stdout)["pods"]}
    pair, old = (pods[name]["containers"][0]["given"] for name in ("pair", "old"))
    assert {piece["memory_mib"] for piece in pair["slices"]} == {15360}, "15,000 MiB must be rounded up to steps of 512"
    assert sorted(pair["devices"]) in (["/dev/acme0", "/dev/acme1"], ["/dev/acme2", "/dev/acme3"])
    assert sorted(pair["env"]["ACME_SLICES"].split(",")) == [f"{path[-1]}:15360" for path in sorted(pair["devices"])]
    assert [pods[name]["ok"] for name in ("pair", "old", "three")] == [True, True, False]
    assert old["exit_code"] == 0
    assert set(old["devices"]) < {"/dev/acme0", "/dev/acme1"}, "the pod asked for type X1"
    assert old["env"]["ACME_SLICES"].endswith(":1024")
    assert "no 3 of them together: AcmeNotAPair" in pods["three"]["problems"][0]
