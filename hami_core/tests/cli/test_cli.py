"""The commands and their help, as a user types them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import pytest

from contrib.vendor_folders import in_tree
from hami_core import API_VERSION
from hami_core._version import __version__

CLUSTERS = "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
VENDORS = [vendor.name for vendor in in_tree()]
CONTEXTS = "contexts: [{name: x, context: {cluster: c}}]\n"


def hami(*words, **env):
    argv = [sys.executable, "-m", "hami_core", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120, env={**os.environ, **env})


def test_help_names_every_command():
    done = hami("--help")
    assert done.returncode == 0
    for command in ("demo", "scheduler", "agent", "top", "plugins", "conformance", "version", "completion"):
        assert command in done.stdout


@pytest.mark.parametrize("command", ["demo", "top", "plugins", "conformance", "version", "completion"])
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


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "can't be read: No such file or directory"),
        ("", "clusters: is missing, so this is no kubeconfig"),
        ("clusters: [", "is not YAML"),
        ("clusters: 5", "clusters: is a number, expected a list"),
        (CLUSTERS, "contexts: is missing, so this is no kubeconfig"),
        (CLUSTERS + CONTEXTS + "current-context: elsewhere\n", "Expected object with name elsewhere"),
    ],
)
def test_wrong_kubeconfig_gets_one_line(tmp_path, content, says):
    file = tmp_path / "config"
    if content is not None:
        file.write_text(content)
    done = hami("doctor", "--kubeconfig", str(file))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"hami: {file}")
    assert says in line
    assert line.endswith("(set KUBECONFIG or --kubeconfig to a readable kubeconfig file)")


@pytest.mark.parametrize("folder", ["file", "file/below"])
def test_agent_names_a_state_folder_it_cannot_write(tmp_path, folder):
    (tmp_path / "file").touch()
    words = ["agent", "--vendor=nvidia", "--node-name=n1", "--mode=trust:other", f"--state-dir={tmp_path / folder}"]
    done = hami(*words)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"hami: --state-dir {tmp_path / folder}: can't be written: ")
    assert "mount it writable" in line


def test_misspelt_variable_is_named_at_the_start():
    variables = {
        "HAMI_EXTENDER_TIMOUT": "9",
        "HAMI_SCHEDULER_SERVICE_HOST": "10.0.0.1",
        "HAMI_X_PORT_443_TCP": "tcp://",
    }
    lines = hami("scheduler", "--kubeconfig=/nonexistent", **variables).stderr.splitlines()
    (told,) = (line for line in lines if "environment variable" in line)
    assert "HAMI_EXTENDER_TIMOUT has no effect" in told
    assert "did you mean extender_timeout?" in told


def test_misspelt_variable_is_named_if_its_setting_is_missing():
    assert hami("agent", "--vendor=nvidia", HAMI_NODE_NAM="n1").stderr == (
        "hami: --node-name: is required (give --node-name or set HAMI_NODE_NAME; HAMI_NODE_NAM has no effect)\n"
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("scheduler", "--kubeconfig=/nonexistent"), "hami: /nonexistent: can't be read: No such file or directory"),
        (("scheduler", "--vendors=nvidai"), f"installed: {', '.join(VENDORS)} (did you mean nvidia?)"),
        (("scheduler", "--vendors=nvidia,foo"), "'foo' names no installed package"),
        (("agent", "--node-name=n", "--mode=trust:other", "--vendor=foo"), "'foo' names no installed node side"),
        (("scheduler", "--gpu-scheduler-policy=binpak"), "did you mean binpack?"),
        (("scheduler", "--node-scheduler-policy=bar"), "'bar' is none of binpack, spread"),
        (("scheduler", "--signing-key=/nonexistent"), "/nonexistent can't be read: No such file"),
        (("scheduler", "--signing-key-lifetime=90x"), "'90x' is not a duration; write seconds or a form such as 5m"),
        (("scheduler", "--config=/nonexistent"), "can't be read: No such file"),
        (("manifests", "--set", "a"), "--set a: is not of the form key=value"),
        (("manifests", "--set", "a[x]=1"), "can't read the key"),
        (("manifests", "--set-json", "a={"), "is not JSON"),
        (("manifests", "-f", "/nonexistent"), "can't be read: No such file"),
        (("manifests", "-f", "/"), "can't be read: Is a directory"),
    ],
)
def test_wrong_word_or_file_gets_one_line(words, says):
    done = hami(*words)
    assert done.returncode == 1
    assert says in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert '"exception"' not in done.stderr


def test_defaults_in_help_are_durations_that_flags_accept():
    told = hami("scheduler", "--help").stdout
    assert "(default 90d)" in " ".join(told.split())
    assert "e+0" not in told
    done = hami("scheduler", "--signing-key-lifetime=90d", "--kubeconfig=/nonexistent")
    assert "duration" not in done.stderr


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("plugins",), 0),
        (("manifests", "--kube-version=1.36.3", "--set", "global.imageRegistry=registry.example"), 0),
        (("manifests", "--set", "a"), 1),
        (("conformance", "nobody"), 1),
        (("demo", "--vendor", "nobody"), 1),
        (("scheduler", "--no-such-flag"), 1),
        (("doctor", "--on-node", "--proc-dir", "/nonexistent"), 1),
        (("doctor", "--kubeconfig", "/nonexistent"), 2),
        (("doctor", "--no-such-option"), 2),
        (("manifests", "--no-such-option"), 2),
        (("plugins", "extra"), 2),
        (("conformance",), 2),
        (("demo", "--gpu", "imagined"), 2),
        (("no-such-command",), 2),
    ],
)
def test_exit_status_is_as_documented(words, status):
    assert hami(*words).returncode == status


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("schedulr",), "No such command 'schedulr'. Did you mean 'scheduler'?"),
        (("zzz",), "Try 'hami --help' for help.\n\nError: No such command 'zzz'."),
        (("demo", "--keeep"), "'--keep'"),
        (("completion", "tcsh"), "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_misspelt_word_gets_a_suggestion_and_status_2(words, says):
    done = hami(*words)
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("completion", "  zsh:   hami completion zsh > "),
        ("demo", '    {"program": "mine", "pid": 4711, "devices": ['),
    ],
)
def test_example_in_a_help_keeps_its_lines(command, line):
    assert any(each.startswith(line) for each in hami(command, "--help").stdout.splitlines())


def test_version_names_hami_its_plugins_and_python():
    text = hami("version").stdout
    result = json.loads(hami("version", "--json").stdout)
    assert result["version"] == __version__
    assert result["apiVersion"] == ".".join(map(str, API_VERSION))
    assert result["python"] == platform.python_version()
    assert {"name": "nvidia", "distribution": "hami-nvidia", "version": __version__} in result["plugins"]
    for word in (result["version"], result["apiVersion"], result["python"], "hami-nvidia"):
        assert word in text
