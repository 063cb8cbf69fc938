"""A third party's vendor on real Kubernetes: its wheel is installed by our chart, and its pods get their cards."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.e2e.bed.bed import Node
from tests.e2e.pods import CLIENT
from tests.e2e.system import NAMESPACE, System

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bed.tools import Tools

NPU = Path(__file__).parents[1] / "stranger/npu"
SYSFS = "/opt/acme/sys"
CARDS = [("Acme-X1", 16384), ("Acme-X1", 16384), ("Acme-X2", 32768), ("Acme-X2", 32768)]
JUDGED_S = 20
"""Time after which the agent has checked whether the runtime serves CDI."""
AGENT = {
    "name": "acme",
    "vendor": "acme",
    "resourceNames": ["acme.example/npu", "acme.example/npu-memory"],
    "image": {"repository": "hami/agent-vendor", "pullPolicy": "Never"},
    "nodeSelector": {"acme.example/npu": "present"},
    "env": {"HAMI_ACME_SYSFS": SYSFS},
    "mounts": [{"hostPath": SYSFS}],
}


@pytest.fixture(scope="module")
def acme(module_work: Path, tools: Tools) -> Iterator[System]:
    """A system of one node with four NPUs, with the chart and the vendor's entry in its values."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-q", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "-w", str(module_work / "wheels"), str(NPU)], check=True)
    system = System(
        module_work / "bed",
        tools,
        [Node("npu1", "")],
        vendors=list((module_work / "wheels").glob("*.whl")),
        agents=[AGENT],
    )
    system.bed.up()
    try:
        lines = []
        for index, (model, memory) in enumerate(CARDS):
            card = f"{SYSFS}/acme{index}"
            lines += [f"mkdir -p {card}", f"echo ACME-{index} > {card}/uuid", f"echo {memory} > {card}/memory_mib"]
            lines += [f"echo {model} > {card}/model", f"mknod -m 666 /dev/acme{index} c 1 3"]
        system.bed.components.machine("npu1").script("\n".join(lines))
        system.bed.kubectl("label", "node", "npu1", "acme.example/npu=present")
        system.install()
        system.bed.wait("the node offers NPUs", lambda: offered(system) == 16, 90)
        yield system
    finally:
        system.bed.down()


def offered(system: System) -> int:
    node = system.bed.call("GET", "/api/v1/nodes/npu1")
    return int(node["status"].get("allocatable", {}).get("acme.example/npu", 0))


def pods() -> dict[str, dict[str, Any]]:
    """The vendor's example manifests, with an image of the bed."""
    found = {}
    for manifest in yaml.safe_load_all((NPU / "pods.yaml").read_text()):
        for container in manifest["spec"]["containers"]:
            container |= {"image": CLIENT, "imagePullPolicy": "Never", "command": ["sleep", "600"]}
        found[manifest["metadata"]["name"]] = manifest
    return found


def test_pods_get_their_cards_without_false_warnings(acme: System) -> None:
    wanted = pods()
    acme.submit(*wanted.values())
    acme.running("pair", "old", timeout=120)
    seen = acme.bed.kubectl("exec", "pair", "--", "ls", "/dev").split()
    pair = sorted(name for name in seen if name.startswith("acme"))
    assert pair in (["acme0", "acme1"], ["acme2", "acme3"])
    told = acme.bed.kubectl("exec", "pair", "--", "env")
    slices = next(line for line in told.splitlines() if line.startswith("ACME_SLICES=")).partition("=")[2]
    assert sorted(slices.split(",")) == [f"{name[-1]}:15360" for name in pair]
    three = json.dumps(acme.bed.wait("the third is told why it waits", lambda: events(acme, "three"), 60))
    assert "AcmeNotAPair" in three
    time.sleep(JUDGED_S)
    assert "DevicesUnlimited" not in json.dumps(events(acme, "pair") + events(acme, "old"))
    node = acme.bed.call("GET", "/api/v1/nodes/npu1")
    assert node["metadata"]["annotations"]["hami.io/agent-mode-acme"] == "cdi"


def events(system: System, pod: str) -> list[str]:
    path = f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={pod}"
    return [f"{item['reason']}: {item['message']}" for item in system.bed.call("GET", path)["items"]]


def test_policies_name_the_agents_account(acme: System) -> None:
    """The policies name the account that the chart created for the agent."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component=hami-agent-acme"
    [agent] = acme.bed.call("GET", path)["items"]
    account = f"system:serviceaccount:{NAMESPACE}:{agent['spec']['serviceAccountName']}"
    policies = acme.bed.kubectl("get", "validatingadmissionpolicies", "-o", "json")
    assert policies.count(account) >= 2
