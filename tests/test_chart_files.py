"""Generated parts of the chart, its dashboards, and the wheel that contains it."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from hami_interpose import region
from hami_interpose.limits import DeviceLimit, Limits
from hami_nvidia import monitor
from hami_nvidia.host_pids import HostPids
from hami_nvidia.nvml import Traffic, Usage
from hami_nvidia.region_updater import RegionUpdater

from hami_core import ContainerKind, ContainerRef, MetricKind
from hami_core.agent.health import State
from hami_core.observe import metrics
from hami_core.plugins.metrics_reference import tables
from hami_core.scheduler.verification import SignatureProblem

ROOT = Path(__file__).parent.parent
DASHBOARDS = sorted((ROOT / "contrib/grafana").glob("*.json"))
METRIC = re.compile(r"\bhami_\w+")


def test_generated_parts_of_the_chart_are_up_to_date():
    done = subprocess.run(
        [sys.executable, ROOT / "contrib/helm/generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


class Card:
    """Replaces NVML with a card that answers every call."""

    def usage(self, uuid: str) -> Usage:
        return Usage(1, 1, 1)

    def link_traffic(self, uuid: str) -> Traffic:
        return Traffic(1, 1)


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> set[str]:
    """Names of all metrics that scheduler, agent and vendor export when everything is in use."""
    folder = tmp_path_factory.mktemp("region")
    damaged = tmp_path_factory.mktemp("damaged")
    content = bytearray(region.initial(Limits((DeviceLimit("GPU-1", 2 << 30, 1 << 30, 30),))))
    struct.pack_into("<I", content, region.BLOCK_OFFSET + 48, 1)  # a denial of memory
    (folder / "vgpu.cache").write_bytes(content)
    (damaged / "vgpu.cache").write_bytes(b"")
    ref = ContainerRef("uid", "default", "pod", "main", ContainerKind.APP)
    records = {"good": ref, "damaged": ref}
    updater = RegionUpdater(time.monotonic, time.time, HostPids(Path("/proc"), time.monotonic))
    updater.suspended["good"] = True
    card = SimpleNamespace(uuid="GPU-1", index=0, name="A100")
    samples = [
        *monitor.host_samples(Card(), [card], "n1", {card.uuid}),
        *monitor.container_samples(
            records, {"good": str(folder), "damaged": str(damaged)}, set(), lambda *_: 1, lambda *_: 30.0, cards=()
        ),
        *updater.samples("n1", records),
    ]
    specs = [spec for table in metrics.TABLES.values() for spec in table]
    return {
        *(sample.name for sample in samples),
        *(spec.name for spec in specs),
        *(f"{spec.name}_{part}" for spec in specs if spec.kind is MetricKind.HISTOGRAM for part in ("bucket", "count")),
    }


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_dashboards_use_only_metrics_that_exist(path, exported):
    board = json.loads(path.read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    expressions += [v["definition"] for v in board["templating"]["list"] if v["type"] == "query"]
    asked = {name for expression in expressions for name in METRIC.findall(expression)}
    assert asked
    assert asked <= exported, asked - exported


def test_dashboards_show_all_metrics_of_containers(exported):
    asked = set(METRIC.findall("\n".join(path.read_text() for path in DASHBOARDS)))
    kinds = ("hami_vgpu_compute_", "hami_vgpu_host_memory_", "hami_host_gpu_pcie")
    told = {name for name in exported if name.startswith(kinds)}
    assert told | {"hami_vgpu_suspended"} <= asked


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_panels_of_dashboards_do_not_overlap(path):
    taken: dict[tuple[int, int], str] = {}
    for panel in json.loads(path.read_text())["panels"]:
        at = panel["gridPos"]
        for place in product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])):
            assert taken.setdefault(place, panel["title"]) == panel["title"]
            assert place[0] < 24, panel["title"]


def test_dashboards_equal_those_in_the_chart():
    assert [path.read_text() for path in DASHBOARDS] == [
        path.read_text() for path in sorted((ROOT / "contrib/helm/hami/dashboards").glob("*.json"))
    ]


ALERTS = [
    pytest.param(rule, id=rule["alert"])
    for group in yaml.safe_load((ROOT / "contrib/helm/hami/files/alerts.yaml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
SELECTED = re.compile(r"\b(hami_\w+)(?:\{(?P<matchers>[^}]*)\})?")
TROUBLESHOOT = ROOT / "docs/how-to/troubleshoot.md"


@pytest.mark.parametrize("rule", ALERTS)
def test_alert_uses_only_metrics_and_labels_that_exist(rule):
    labels = {spec.name: set(spec.labels) for table in tables().values() for spec in table}
    histograms = [spec for table in tables().values() for spec in table if spec.kind is MetricKind.HISTOGRAM]
    labels |= {f"{spec.name}_count": set(spec.labels) for spec in histograms}
    carried = set()
    for selected in SELECTED.finditer(rule["expr"]):
        assert selected[1] in labels
        assert set(re.findall(r"(\w+)(?:=|!)", selected["matchers"] or "")) <= labels[selected[1]]
        carried |= labels[selected[1]]
    assert carried or "by" not in rule["expr"]
    grouped = {name for names in re.findall(r"\b(?:by|on) \(([^)]*)\)", rule["expr"]) for name in names.split(", ")}
    assert grouped <= carried
    shown = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
    assert shown <= (grouped or carried)


@pytest.mark.parametrize("rule", ALERTS)
def test_alert_has_a_severity_a_fix_and_a_section(rule):
    assert rule["labels"] in ({"severity": "warning"}, {"severity": "critical"})
    assert rule["annotations"].keys() == {"summary", "description", "runbook"}
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert ROOT / page == TROUBLESHOOT
    heads = re.findall(r"^## (.+)$", TROUBLESHOOT.read_text("utf-8"), re.MULTILINE)
    assert anchor in {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
    assert f"| `{rule['alert']}` |" in TROUBLESHOOT.read_text("utf-8")


@pytest.mark.parametrize("rule", ALERTS)
def test_alert_names_states_and_reasons_that_exist(rule):
    words = {
        "state": {state.value for state in State},
        "reason": {"unreadable", *(problem.value for problem in SignatureProblem)},
        "result": {"ok", "refused", "error"},
    }
    for label, _, text in re.findall(r'(\w+)(=~?)"([^"]*)"', rule["expr"]):
        assert set(text.split("|")) <= words[label]


def test_wheel_contains_the_chart(tmp_path):
    import zipfile

    from hatchling.builders.wheel import WheelBuilder

    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    chart = ROOT / "contrib/helm/hami"
    with zipfile.ZipFile(wheel) as archive:
        held = {name.removeprefix("hami_core/manifests/chart/") for name in archive.namelist() if "/chart/" in name}
    assert held == {str(path.relative_to(chart)) for path in chart.rglob("*") if path.is_file()}
