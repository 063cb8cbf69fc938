"""The metric tables of all processes and vendors, and the page generated from them."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from contrib.vendor_folders import in_tree
from hami_core import MetricSpec
from hami_core.observe import metrics
from hami_core.plugins import discovery
from hami_core.plugins.metrics_reference import page, tables

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "metrics.md"


def test_page_is_up_to_date_with_the_tables():
    assert PAGE.read_text() == page(tables()), "regenerate it: python -m hami_core.plugins.metrics_reference"


def test_metric_added_to_a_table_is_on_the_page():
    added = MetricSpec.counter("hami_agent_added_total", "Something new.", "node", zoned=True)
    rows = set(page({**tables(), "Agent": (*metrics.AGENT, added)}).splitlines()) - set(PAGE.read_text().splitlines())
    assert rows == {"| `hami_agent_added_total` | counter | `node`, `zone` | Something new. |"}


def test_tables_that_share_a_name_agree_on_its_labels():
    found = {source.distribution for source, _ in discovery.installed(discovery.VENDORS)}
    assert {f"hami-{vendor.name}" for vendor in in_tree()} <= found, "not every vendor of the repository is installed"
    assert metrics.disagreements(tables().values()) == {}


DASHBOARD = "HAMi: dashboards/hami-vgpu-dashboard.json"
OLD_DASHBOARD = "HAMi: docs/gpu-dashboard.json"
WEBUI = "HAMi-WebUI: server/internal/exporter/exporter.go"
CONTAINER = ("namespace", "pod", "container")
QUERIES = [
    (DASHBOARD, "hami_gpu_memory_limit_bytes", ("node", "device_uuid")),
    (DASHBOARD, "hami_gpu_memory_allocated_bytes", ("node",)),
    (DASHBOARD, "hami_gpu_shared_count", ("node", "device_index", "device_uuid")),
    (DASHBOARD, "hami_gpu_core_allocated_ratio", ("node", "device_index", "device_uuid")),
    (DASHBOARD, "hami_node_gpu_memory_allocated_ratio", ("node", "device_index")),
    (DASHBOARD, "hami_host_gpu_memory_used_bytes", ("device_uuid", "device_index", "device_type")),
    (DASHBOARD, "hami_host_gpu_utilization_ratio", ("device_uuid", "device_index", "device_type")),
    (DASHBOARD, "hami_vgpu_memory_used_bytes", (*CONTAINER, "vdevice_index", "device_uuid")),
    (DASHBOARD, "hami_vgpu_memory_limit_bytes", (*CONTAINER, "vdevice_index")),
    (DASHBOARD, "hami_container_device_utilization_ratio", (*CONTAINER, "vdevice_index")),
    # Label node_name of this dashboard comes from the scrape configuration in HAMi's docs/dashboard.md.
    (OLD_DASHBOARD, "Device_memory_desc_of_container", ("podname",)),
    (OLD_DASHBOARD, "HostGPUMemoryUsage", ()),
    (OLD_DASHBOARD, "HostCoreUtilization", ()),
    (OLD_DASHBOARD, "vGPU_device_memory_limit_in_bytes", ()),
    (WEBUI, "hami_container_device_utilization_ratio", (*CONTAINER, "device_uuid")),
    (WEBUI, "hami_vgpu_memory_used_bytes", (*CONTAINER, "device_uuid")),
]
"""What queries of HAMi's programs use: where, metric, labels. Metrics of other exporters (DCGM) are left out."""


def test_queries_of_hamis_dashboards_find_every_label():
    served = {spec.name: {*spec.labels} for spec in chain(*tables().values())}
    missing = [(where, name) for where, name, labels in QUERIES if not served.get(name, set()) >= {*labels}]
    unserved = [(where, name) for where, name, _ in QUERIES if name not in served]
    assert (missing, unserved) == ([], [])


def test_every_metrics_help_is_a_sentence():
    assert [spec.name for spec in chain(*tables().values()) if not spec.help.endswith(".")] == []
