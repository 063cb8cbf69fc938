"""Installs the template's vendor for a test. Its devices are folders and files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPLATE = Path(__file__).parents[2] / "contrib" / "template"


def installed(root: Path, package: Path = TEMPLATE) -> Iterator[Path]:
    """Install a vendor's package for the time of the context, for imports in this process and its children."""
    site = root / "site"
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "install", "-q", *options, "--target", str(site), str(package)]
    subprocess.run(pip, check=True, capture_output=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        patch.setenv("PYTHONPATH", f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep))
        yield site


def devices(root: Path, count: int = 2) -> dict[str, str]:
    """Make fake devices of 32,768 MiB each. Returns the variables that tell the vendor's node side about them."""
    sysfs, dev = root / "sysfs", root / "dev"
    dev.mkdir(parents=True)
    for index in range(count):
        folder = sysfs / f"acme{index}"
        folder.mkdir(parents=True)
        facts = {"uuid": f"ACME-000{index}", "memory_mib": "32768", "model": "Acme-X1", "numa_node": "0"}
        for name, value in facts.items():
            (folder / name).write_text(value + "\n")
        (dev / f"acme{index}").touch()
    return {"HAMI_ACME_SYSFS": str(sysfs), "HAMI_ACME_DEV": str(dev)}


def pod(name: str, memory: int, count: int = 1, command: str = "sleep 600") -> dict[str, object]:
    """A pod that asks for slices."""
    limits = {"acme.example/npu": count, "acme.example/npu-memory": memory}
    container = {"name": "main", "image": "any", "command": command.split(), "resources": {"limits": limits}}
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"restartPolicy": "Never", "containers": [container]}}
