"""What the chart holds that follows from elsewhere, and the wheel it is part of."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DASHBOARDS = sorted((ROOT / "contrib/grafana").glob("*.json"))
METRIC = re.compile(r"\bhami_\w+?(?=_bucket\b|_count\b|\b)")


def test_what_is_generated_is_up_to_date():
    done = subprocess.run(
        [sys.executable, ROOT / "contrib/helm/generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_dashboards_ask_for_metrics_there_are(path):
    sources = [*(ROOT / "hami_core").rglob("*.py"), *(ROOT / "vendors/nvidia/src").rglob("*.py")]
    known = set(METRIC.findall("\n".join(source.read_text() for source in sources)))
    board = json.loads(path.read_text())
    asked = {
        name for panel in board["panels"] for target in panel["targets"] for name in METRIC.findall(target["expr"])
    }
    assert asked
    assert asked <= known


def test_dashboards_are_those_of_the_chart():
    assert [path.read_text() for path in DASHBOARDS] == [
        path.read_text() for path in sorted((ROOT / "contrib/helm/hami/dashboards").glob("*.json"))
    ]


def test_the_wheel_holds_the_chart(tmp_path):
    import zipfile

    from hatchling.builders.wheel import WheelBuilder

    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    chart = ROOT / "contrib/helm/hami"
    with zipfile.ZipFile(wheel) as archive:
        held = {name.removeprefix("hami_core/manifests/chart/") for name in archive.namelist() if "/chart/" in name}
    assert held == {str(path.relative_to(chart)) for path in chart.rglob("*") if path.is_file()}
