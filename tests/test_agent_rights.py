"""The rights of NVIDIA's agent: the chart gives what the table of its reference page explains, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hami_core.manifests import Chart, Release, render
from hami_core.manifests.values import assign

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/reference/agent-nvidia.md").read_text()
BY_HAND = "not by default"
"""Rights that an administrator adds to the values by hand."""


def table() -> dict[str, tuple[str, str, str]]:
    """Access, condition and reason of each right on the page."""
    section = PAGE.partition("\n## Rights\n")[2].partition("\n## ")[0]
    rows = [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in section.splitlines()]
    return {row[0]: (row[1], row[2], row[3]) for row in rows if len(row) == 4 and row[0] not in {"right", "---"}}


def rights(*settings: str) -> dict[str, str]:
    """Access of each right that the chart gives the agent's pod."""
    values: dict = {"global": {"imageRegistry": "registry.example"}}
    for setting in settings:
        assign(values, setting)
    made = [m.content for m in render(Chart.read(), values, Release(kube_version="1.36.3"))]
    (pod,) = [
        m["spec"]["template"]["spec"]
        for m in made
        if m["kind"] == "DaemonSet" and m["metadata"]["name"] == "hami-device-plugin"
    ]
    (container,) = pod["containers"]
    context = container["securityContext"]
    assert context["capabilities"]["drop"] == ["ALL"]
    assert not context.get("privileged")
    found = {f"capability {name}": "" for name in context["capabilities"]["add"]}
    found |= {name: "" for name in ("hostPID", "hostNetwork", "hostIPC", "shareProcessNamespace") if pod.get(name)}
    for mount in container["volumeMounts"]:
        access = "read-only" if mount.get("readOnly") else "read-write"
        found[f"mount {mount['mountPath']}"] = access
    return found


def test_the_page_explains_every_right_of_the_chart():
    explained = {right: access for right, (access, when, _) in table().items() if when == "always"}
    assert rights() == explained
    assert all(reason for *_, reason in table().values())


@pytest.mark.parametrize("right", [right for right, (_, when, _) in table().items() if when not in {"always", BY_HAND}])
def test_a_setting_adds_the_right_that_the_page_names(right):
    access, when, _ = table()[right]
    settings = when.split(", ")
    assert all(re.fullmatch(r"[\w.]+=\S+", setting) for setting in settings)
    assert rights(*settings).items() - rights().items() == {(right, access)}


def test_the_template_has_no_mount_that_the_page_lacks():
    """A mount behind a setting that the page does not name."""
    template = (ROOT / "contrib/helm/hami/templates/agent-nvidia.yaml").read_text()
    _, _, container = template.partition("- name: device-plugin\n")
    assert container.count("mountPath:") == sum(right.startswith("mount ") for right in table())
