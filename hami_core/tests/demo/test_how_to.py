"""The examples in the how-to for vendors are accepted by the programs that they are for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from hami_core.cli.main import root
from hami_core.demo.manifests import load
from hami_core.manifests import Chart, Release, render, warnings

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/how-to/write-a-vendor-plugin.md"
TESTING = ROOT / "docs/reference/testing.md"


def blocks(page, heading, language):
    section = page.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


@pytest.fixture
def values():
    return next(block for block in map(yaml.safe_load, blocks(PAGE, "On a cluster", "yaml")) if "agents" in block)


def test_demo_accepts_the_pod_of_the_page():
    assert "--manifests examples/pod.yaml" in PAGE.read_text("utf-8")
    (pod,) = load(ROOT / "contrib/template/examples/pod.yaml")
    assert pod["metadata"]["name"] == "trainer"


def test_values_of_the_page_render_without_a_warning(values):
    release = Release(namespace="hami-system", kube_version="1.36.3")
    objects = {(m.content["kind"], m.content["metadata"]["name"]) for m in render(Chart.read(), values, release)}
    assert ("DaemonSet", "hami-agent-zeta") in objects
    assert not [line for line in warnings(Chart.read(), values, release) if "zeta" in line]


def test_options_of_the_page_exist():
    demo = {option for parameter in root.get_command(None, "demo").params for option in parameter.opts}
    said = re.findall(r"hami demo [^`]*", PAGE.read_text("utf-8"))
    assert said
    assert {word for text in said for word in re.findall(r"--[a-z-]+", text)} <= demo


def test_example_of_a_test_is_valid_python():
    (text,) = blocks(TESTING, "A pod in a test of your own", "python")
    compile(text, "page", "exec")
