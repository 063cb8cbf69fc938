"""Run the kit on an installed vendor, without a test file. It has a process of its own, because plugins may crash."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from hami_core.errors import ConfigError
from hami_core.hookspecs import API_VERSION
from hami_core.plugins.discovery import NODE, VENDORS, Source, installed
from hami_core.plugins.hooks import HOOKS
from hami_core.testing.report import Report, Result

VENDOR: Final = "HAMI_CONFORMANCE_VENDOR"
NODE_SIDE: Final = "HAMI_CONFORMANCE_NODE"
RESULTS: Final = "HAMI_CONFORMANCE_RESULTS"
TEST_LIMIT: Final = "HAMI_CONFORMANCE_TEST_LIMIT_S"
RUN_LIMIT: Final = "HAMI_CONFORMANCE_RUN_LIMIT_S"
STACKS: Final = "stacks.txt"
"""Name of the file, in the run's folder, for the stacks of a process that hung."""

_FRAME: Final = re.compile(r'File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>\S+)')


def run(name: str, *, node: bool = False, timeout_s: float = 60.0) -> Report:
    """Test whether an installed vendor keeps the contract.

    Args:
        name: Name of the entry point (``acme``) or of the distribution (``hami-acme``).
        node: Whether to test the node side too. It must find devices on this machine.
        timeout_s: Limit of the whole run in seconds. A test that takes more than a third of it ends the run.

    Returns:
        The result of each test. If the vendor hangs or crashes, a failed result names the test, and the hook if the
        stack shows it.

    Raises:
        ConfigError: The vendor, pytest or hypothesis is not installed.

    Example:
        >>> run("nobody")
        Traceback (most recent call last):
        hami_core.errors.ConfigError: vendor nobody: no such vendor is installed (installed: ...)
    """
    missing = [module for module in ("pytest", "hypothesis") if find_spec(module) is None]
    if missing:
        raise ConfigError("conformance", f"{missing[0]} is not installed", "pip install 'hami[testing]'")
    source = find(name)
    problem, untested = _node_side(source, asked=node)
    with tempfile.TemporaryDirectory(prefix="hami-conformance-") as folder:
        file = Path(folder) / "results.json"
        environment = {
            **os.environ,
            VENDOR: source.name,
            NODE_SIDE: "" if untested or problem else "1",
            RESULTS: str(file),
            TEST_LIMIT: str(timeout_s / 3),
            RUN_LIMIT: str(timeout_s),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        command = [sys.executable, "-m", "hami_core.testing.child", folder]
        try:
            done = subprocess.run(
                command,
                env=environment,
                capture_output=True,
                text=True,
                timeout=timeout_s + 10,
                check=False,
                cwd=folder,
            )
            said = (done.stdout + done.stderr)[-2000:]
            if done.returncode < 0:
                said = f"the process ended with {signal.Signals(-done.returncode).name}\n{said}"
        except subprocess.TimeoutExpired:
            said = f"not finished after {timeout_s:g} s"
        content = json.loads(file.read_text("utf-8")) if file.exists() else {}
        stacks = Path(folder, STACKS)
        hung = _where_it_hung(stacks.read_text("utf-8")) if stacks.exists() else ""
    results = [Result(**entry) for entry in content.get("results", [])]
    if problem:
        results.append(Result("allocate", "node side is installed", "failed", problem))
    if not content.get("finished"):
        text = f"{hung or said}\nThe tests after it did not run."
        results.append(Result("run", content.get("running") or "run ends", "failed", text))
    dotted = ".".join(map(str, API_VERSION))
    capabilities = content.get("capabilities", {})
    return Report(source.name, source.distribution, source.version, dotted, tuple(results), capabilities, untested)


def _node_side(source: Source, *, asked: bool) -> tuple[str, str]:
    """The node side's fault, and the reason why it is not tested. Both are empty if it is tested."""
    sides = [side for side, _ in installed(NODE)]
    if any(side.name == source.name for side in sides):
        return (
            "",
            "" if asked else f"not tested; to test it where it finds devices: hami conformance --node {source.name}",
        )
    text = f"no entry point {source.name} in the group {NODE}"
    own = [side.name for side in sides if side.distribution == source.distribution]
    if own:
        text += f"; {source.distribution} calls its node side {', '.join(own)}: give both sides the same name"
    return (text if asked else ""), f"not tested, none is installed: {text}"


def _where_it_hung(stacks: str) -> str:
    """The hook that did not return, found in the stacks that faulthandler wrote; empty without stacks."""
    if not stacks.strip():
        return ""
    threads = re.split(r"(?m)^(?:Current thread|Thread) ", stacks)
    thread = next((text for text in threads if "child.py" in text), threads[-1])
    frames = list(_FRAME.finditer(thread))
    core = str(Path(__file__).parents[1])
    outside = [frame for frame in frames if not frame["file"].startswith(core)]
    hooks = [frame for frame in outside if frame["function"] in HOOKS]
    hung = "did not return in time" if "Timeout" in stacks else "crashed"
    if hooks:
        at = frames[0] if frames.index(hooks[-1]) == 0 else next(f for f in frames if f in outside)
        return f"the hook {hooks[-1]['function']} {hung}; it was at {at['file']}:{at['line']} in {at['function']}"
    at_all = [f"{frame['file']}:{frame['line']} in {frame['function']}" for frame in frames[:5]]
    return f"{hung}; it was at " + ", called from ".join(at_all)


def find(name: str) -> Source:
    """The installed vendor with this name of an entry point or a distribution.

    Raises:
        ConfigError: No vendor has this name, or several have it. The text lists the installed vendors.
    """
    every = [source for source, _ in installed(VENDORS)]
    found = [source for source in every if source.name == name] or [s for s in every if s.distribution == name]
    if len(found) != 1:
        have = ", ".join(f"{source.name} ({source.label})" for source in found or every) or "none"
        problem = "several vendors go by this name" if found else "no such vendor is installed"
        raise ConfigError(f"vendor {name}", problem, f"installed: {have}")
    return found[0]


def side(group: str, name: str) -> object | None:
    """An instance of the class of an installed entry point; None if there is no such entry point."""
    for source, point in installed(group):
        if source.name == name:
            made: object = point.load()()
            return made
    return None


def chosen_vendor() -> object:
    """The vendor that `run` has chosen for this process."""
    found = side(VENDORS, os.environ[VENDOR])
    if found is None:
        raise ConfigError(f"vendor {os.environ[VENDOR]}", "is not installed")
    return found


def chosen_node_side() -> object | None:
    """The vendor's node side, if `run` asked to test it."""
    return side(NODE, os.environ[VENDOR]) if os.environ.get(NODE_SIDE) else None
