"""The examples in the how-to's section "On a cluster" are accepted by the programs that they are for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from hami_core.cli.main import root
from hami_core.demo.manifests import load
from hami_core.manifests import Chart, Release, render, warnings

PAGE = Path(__file__).parents[3] / "docs/how-to/write-a-vendor-plugin.md"
SECTION = PAGE.read_text("utf-8").partition("\n## On a cluster\n")[2].partition("\n## ")[0]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)


@pytest.fixture
def values():
    return next(block for block in map(yaml.safe_load, blocks("yaml")) if "agents" in block)


def test_demo_accepts_the_pod_of_the_page(tmp_path):
    (tmp_path / "pods.yaml").write_text(blocks("yaml")[0])
    (pod,) = load(tmp_path / "pods.yaml")
    assert pod["metadata"]["name"] == "trainer"


def test_values_of_the_page_render_without_a_warning(values):
    release = Release(namespace="hami-system", kube_version="1.36.3")
    objects = {(m.content["kind"], m.content["metadata"]["name"]) for m in render(Chart.read(), values, release)}
    assert ("DaemonSet", "hami-agent-zeta") in objects
    assert not [line for line in warnings(Chart.read(), values, release) if "zeta" in line]


def test_options_of_the_page_exist():
    demo = {option for parameter in root.get_command(None, "demo").params for option in parameter.opts}
    said = re.findall(r"hami demo [^`]*", SECTION)
    assert said
    assert {word for text in said for word in re.findall(r"--[a-z-]+", text)} <= demo


def test_example_of_a_test_is_valid_python():
    (text,) = blocks("python")
    compile(text, "page", "exec")
