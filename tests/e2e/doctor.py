"""Run `hami doctor` on the bed, and select its complaints."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.e2e.system import System

ROOT = Path(__file__).parents[2]
MACHINE = {"node.cgroups", "on-node.cgroups"}
"""Checks of the machine that runs the bed, not of the installation."""


def doctor(system: System, *words: str, kubeconfig: str = "") -> dict[str, Any]:
    """Run it on the control plane's machine and return its JSON output."""
    environment = {"KUBECONFIG": kubeconfig or str(system.bed.work / "kubeconfig/admin"), "PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-m", "hami_core", "doctor", "--output", "json", *words)
    done = system.bed.run("cp", *command, check=False, env=environment, timeout=120)
    assert done.returncode in {0, 1}, done.stderr
    said = dict(json.loads(done.stdout))
    assert done.returncode == int(said["counts"]["fail"] > 0), done.stdout
    return said


def complaints(said: dict[str, Any], *levels: str) -> dict[str, str]:
    """Check → text of its findings with these levels; by default all levels except ok."""
    wanted = levels or ("warn", "fail", "unknown")
    found: dict[str, str] = {}
    for f in said["findings"]:
        if f["level"] in wanted and f["check"] not in MACHINE:
            found[f["check"]] = f"{found.get(f['check'], '')}{f['object']} {f['field']} {f['seen']} {f['fix']}\n"
    return found
