"""The commands and their help, as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def hami(*words, **env):
    argv = [sys.executable, "-m", "hami_core", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


def test_help_names_every_command():
    done = hami("--help")
    assert done.returncode == 0
    for command in ("demo", "scheduler", "agent", "plugins", "conformance"):
        assert command in done.stdout


@pytest.mark.parametrize("command", ["demo", "plugins", "conformance"])
def test_every_command_has_help(command):
    done = hami(command, "--help")
    assert done.returncode == 0
    assert "Usage: hami " + command in done.stdout


@pytest.mark.parametrize(("command", "flag"), [("scheduler", "--http_bind"), ("agent", "--signing-keys")])
def test_daemons_help_lists_flag_variable_and_default(command, flag):
    done = hami(command, "--help")
    assert done.returncode == 0
    assert flag in done.stdout
    assert "HAMI_" in done.stdout
    assert "default" in done.stdout


def test_plugins_lists_the_installed_vendors_with_their_hooks():
    done = hami("plugins", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.dumps(json.loads(done.stdout))
    for word in ("hami-nvidia", "hami-ascend", "hami-cambricon", "parse_request", "NVIDIA"):
        assert word in listed


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("scheduler", "--no-such-flag"), "there is no such flag"),
        (("scheduler", "--filter-return=none"), "expected a number from 1, or all"),
        (("agent", "--vendor", "nvidia"), "--node-name"),
        (("conformance", "nobody"), "nobody"),
        (("demo", "--manifests", "/nonexistent"), "does not exist"),
        (("no-such-command",), "No such command"),
    ],
)
def test_wrong_call_gets_one_line_without_traceback(words, says):
    done = hami(*words)
    assert done.returncode != 0
    assert says in done.stderr
    assert "Traceback" not in done.stderr
