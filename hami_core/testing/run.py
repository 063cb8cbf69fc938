"""`run`: the kit on an installed vendor, without any test file; in a process of its own, since plugins may crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from hami_core.errors import ConfigError
from hami_core.hookspecs import API_VERSION
from hami_core.plugins.discovery import NODE, VENDORS, Source, installed
from hami_core.testing.report import Report, Result

VENDOR: Final = "HAMI_CONFORMANCE_VENDOR"
NODE_SIDE: Final = "HAMI_CONFORMANCE_NODE"
RESULTS: Final = "HAMI_CONFORMANCE_RESULTS"


def run(name: str, *, node: bool = False, timeout_s: float = 600.0) -> Report:
    """Hold an installed vendor against the contract.

    Args:
        name: Entry-point name (``acme``) or distribution (``hami-acme``).
        node: Test the node side too; it must find devices on this machine.
        timeout_s: Limit of the whole run.

    Returns:
        What each test said. A vendor that crashes the process has a failed result that says so.

    Raises:
        ConfigError: No such vendor is installed.

    Example:
        >>> run("nobody")
        Traceback (most recent call last):
        hami_core.errors.ConfigError: vendor nobody: no such vendor is installed (installed: ...)
    """
    source = find(name)
    with tempfile.TemporaryDirectory(prefix="hami-conformance-") as folder:
        file = Path(folder) / "results.json"
        environment = {
            **os.environ,
            VENDOR: source.name,
            NODE_SIDE: "1" if node else "",
            RESULTS: str(file),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        command = [sys.executable, "-m", "hami_core.testing.child", folder]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False, cwd=folder
            )
            said = (done.stdout + done.stderr)[-2000:]
        except subprocess.TimeoutExpired:
            said = f"not finished after {timeout_s:g} s"
        content = json.loads(file.read_text("utf-8")) if file.exists() else {}
    results = [Result(**entry) for entry in content.get("results", [])]
    if not content.get("finished"):
        results.append(Result("run", "test_run_ends", "failed", said))
    dotted = ".".join(map(str, API_VERSION))
    capabilities = content.get("capabilities", {})
    return Report(source.name, source.distribution, source.version, dotted, tuple(results), capabilities)


def find(name: str) -> Source:
    """The installed vendor of an entry-point or distribution name.

    Raises:
        ConfigError: There is none, or there are several; lists what there is.
    """
    every = [source for source, _ in installed(VENDORS)]
    found = [source for source in every if source.name == name] or [s for s in every if s.distribution == name]
    if len(found) != 1:
        have = ", ".join(f"{source.name} ({source.label})" for source in found or every) or "none"
        problem = "several vendors go by this name" if found else "no such vendor is installed"
        raise ConfigError(f"vendor {name}", problem, f"installed: {have}")
    return found[0]


def side(group: str, name: str) -> object | None:
    """An instance of an installed entry point's class, None when there is none."""
    for source, point in installed(group):
        if source.name == name:
            made: object = point.load()()
            return made
    return None


def chosen_vendor() -> object:
    """The vendor of this process, as `run` set it."""
    found = side(VENDORS, os.environ[VENDOR])
    if found is None:
        raise ConfigError(f"vendor {os.environ[VENDOR]}", "is not installed")
    return found


def chosen_node_side() -> object | None:
    """Its node side, when `run` asked for it."""
    return side(NODE, os.environ[VENDOR]) if os.environ.get(NODE_SIDE) else None
