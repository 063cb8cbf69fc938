"""HAMi's strategy words: what they mean in serial mode, and how they are refused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hami_nvidia.settings import NodeSettings
from structlog.testing import capture_logs

from hami_core import ConfigError, ContainerEdits, ContainerKind, ContainerRef, MigInstance, MigPlacement, Slice

REF = ContainerRef("uid-1", "default", "pod", "main", ContainerKind.APP)


def edits_of(node):
    cards = node.discover()
    return cards, node.allocate(tuple(Slice(card.id, "NVIDIA", 1000, 0, type="NVIDIA") for card in cards), REF)


@pytest.mark.parametrize("word", ["cdi-cri", "cdi-annotations"])
@pytest.mark.parametrize("serial", ["auto", "never"])
def test_words_of_cdi_change_nothing(node, word, serial):
    _, plain = edits_of(node())
    _, asked = edits_of(node(device_list_strategy=(word,), serial=serial))
    assert asked == plain


def test_envvar_leaves_the_drivers_files_to_nvidias_runtime(node):
    cards, plain = edits_of(node())
    _, asked = edits_of(node(device_list_strategy=("envvar",), serial="always"))
    assert asked.env == plain.env | {"NVIDIA_VISIBLE_DEVICES": f"{cards[0].id},{cards[1].id}"}
    left_out = {m.container_path for m in plain.mounts} - {m.container_path for m in asked.mounts}
    assert "/usr/local/nvidia/lib64/libcuda.so.1" in left_out
    assert all("/nvidia/lib64/" in path for path in left_out), "the interposer stays"
    assert (asked.limits, asked.device_nodes) == (plain.limits, plain.device_nodes)


def test_volume_mounts_name_the_cards(node):
    cards, _ = edits_of(node())
    _, asked = edits_of(node(device_list_strategy=("envvar", "volume-mounts"), serial="always"))
    assert asked.env["NVIDIA_VISIBLE_DEVICES"] == "/var/run/nvidia-container-devices"
    named = {m.container_path for m in asked.mounts if m.host_path == "/dev/null"}
    assert named == {f"/var/run/nvidia-container-devices/{card.id}" for card in cards}


def test_index_names_cards_by_their_number(node):
    _, asked = edits_of(node(device_list_strategy=("envvar",), device_id_strategy="index", serial="always"))
    assert asked.env["NVIDIA_VISIBLE_DEVICES"] == "0,1"


@pytest.mark.parametrize("ids", ["uuid", "index"])
def test_instances_are_named_by_their_uuid(node, monkeypatch, ids):
    made = node(device_list_strategy=("envvar",), device_id_strategy=ids, serial="always")
    instance = MigInstance(made.discover()[0].id, MigPlacement(0, 1), "MIG-one", 1, 0)
    monkeypatch.setattr(made, "_allocate", lambda *_: ContainerEdits(mig_instances=(instance,)))
    _, asked = edits_of(made)
    assert asked.env["NVIDIA_VISIBLE_DEVICES"] == "MIG-one"


@pytest.mark.parametrize(
    ("words", "serial", "mig", "message"),
    [
        (("envvar",), "auto", None, "envvar fixes .* run the agent with --serial=always"),
        (("cdi-cri", "volume-mounts"), "never", None, "volume-mounts fixes .* run the agent with --serial=always"),
        (("cdi-annotations",), "always", None, "cdi-annotations needs CDI, which --serial=always does not use"),
        (("envvar",), "always", "mixed", "envvar can't name the MIG instances of migStrategy mixed"),
    ],
)
def test_word_that_does_not_fit_ends_the_agent_and_names_the_fix(node, words, serial, mig, message):
    with pytest.raises(ConfigError, match=f"DEVICE_LIST_STRATEGY: {message}"):
        node(device_list_strategy=words, serial=serial, mig_strategy=mig)


def test_words_from_hamis_variables(monkeypatch):
    monkeypatch.setenv("DEVICE_LIST_STRATEGY", "envvar, cdi-cri")
    monkeypatch.setenv("DEVICE_ID_STRATEGY", "index")
    found = NodeSettings.from_environment()
    assert (found.device_list_strategy, found.device_id_strategy) == (("envvar", "cdi-cri"), "index")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("DEVICE_LIST_STRATEGY", "cdi-cri,envar", "'envar' is none of envvar, .*did you mean envvar"),
        ("DEVICE_ID_STRATEGY", "uid", "'uid' is none of uuid, index"),
        ("DEVICE_DISCOVERY_STRATEGY", "wsl", "'wsl' is none of auto, nvml, tegra"),
        ("GDS_ENABLED", "perhaps", "expected true or false"),
    ],
)
def test_unknown_word_is_refused_with_its_variable(monkeypatch, name, text, message):
    monkeypatch.setenv(name, text)
    with pytest.raises(ConfigError, match=f"environment variable {name}: {message}"):
        NodeSettings.from_environment()


def test_variables_without_effect_are_answered_by_name(node, monkeypatch):
    monkeypatch.setenv("FAIL_ON_INIT_ERROR", "true")
    monkeypatch.setenv("CDI_ANNOTATION_PREFIX", "cdi.k8s.io/")
    with capture_logs() as logs:
        node()
    told = [entry["event"] for entry in logs if "has no effect" in entry["event"]]
    assert [text.partition(" ")[0] for text in told] == ["FAIL_ON_INIT_ERROR", "CDI_ANNOTATION_PREFIX"]


def test_hamis_flag_reaches_the_vendor_and_a_refused_word_ends_the_agent(tmp_path):
    agent = [sys.executable, "-m", "hami_core", "agent", "--vendor=nvidia", "--node-name=n", "--mode=trust:a"]
    words = ["--gds-enabled", "--device-list-strategy", "cdi-cri", "--device-list-strategy=envvar"]
    environment = {**os.environ, "DEVICE_LIST_STRATEGY": "cdi-annotations"}
    command = [*agent, f"--state-dir={tmp_path}", *words]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert "hami: DEVICE_LIST_STRATEGY: envvar fixes a container's devices" in ended.stderr
    assert "(remove it, or run the agent with --serial=always)" in ended.stderr
