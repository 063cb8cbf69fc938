"""`hami top` on real Kubernetes: a person with only the chart's view role sees what is booked and used."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.doctor import ROOT
from tests.e2e.pods import FILL, container, pod
from tests.e2e.system import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.system import System

READER = "reader"
VIEW = "hami-scheduler-view"


@pytest.fixture(scope="module")
def reader(system: System) -> Iterator[str]:
    """Kubeconfig of a service account that has only the view role."""
    system.bed.kubectl("create", "serviceaccount", READER, "-n", "default")
    whom = f"--serviceaccount=default:{READER}"
    system.bed.kubectl("create", "rolebinding", READER, f"--role={VIEW}", whom, "-n", NAMESPACE)
    token = system.bed.kubectl("create", "token", READER, "-n", "default").strip()
    config = json.loads((system.bed.work / "kubeconfig/admin").read_text())
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    file = system.work / "reader.json"
    file.write_text(json.dumps(config))
    yield str(file)
    system.bed.kubectl("delete", "rolebinding", READER, "-n", NAMESPACE)
    system.bed.kubectl("delete", "serviceaccount", READER, "-n", "default")


def top(system: System, kubeconfig: str, *words: str) -> Any:
    """Run it on the control plane's machine. Returns the finished process."""
    environment = {"KUBECONFIG": kubeconfig, "PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-m", "hami_core", "top", "--once", *words)
    return system.bed.run("cp", *command, check=False, env=environment, timeout=120)


def slices(said: dict[str, Any]) -> list[dict[str, Any]]:
    return [piece for node in said["nodes"] for card in node["cards"] for piece in card["slices"]]


def test_view_role_is_enough_and_names_end_where_rights_end(clean: System, reader: str) -> None:
    clean.submit(pod("alice", container(memory=3000, cores=30, command=FILL)))
    (running,) = clean.running("alice")
    here = ("--hami-namespace", NAMESPACE)

    def used() -> dict[str, Any] | None:
        done = top(clean, reader, "--json", *here)
        assert done.returncode == 0, done.stderr
        said = dict(json.loads(done.stdout))
        measured = [piece["used"]["memory_mib"] for piece in slices(said)]
        return said if measured and all(mib is not None and mib > 2000 for mib in measured) else None

    said = clean.bed.wait("hami top shows used memory", used, 60, 1)
    assert {node["name"]: node["agent"]["state"] for node in said["nodes"]} == dict.fromkeys(clean.gpu_nodes, "answers")
    (piece,) = slices(said)
    assert piece["pod"] == {"uid": running["metadata"]["uid"], "namespace": None, "name": None}
    assert piece["booked"] == {"slots": 1, "memory_mib": 3000, "cores_percent": 30}
    assert piece["limit"] == {"memory_mib": 3000, "cores_percent": 30}
    assert [line for line in said["problems"] if "names of some pods are hidden" in line]
    assert all(card["used"]["memory_mib"] is not None for node in said["nodes"] for card in node["cards"])

    clean.bed.kubectl("create", "role", READER, "--verb=list", "--resource=pods", "-n", "default")
    whom = f"--serviceaccount=default:{READER}"
    clean.bed.kubectl("create", "rolebinding", READER, f"--role={READER}", whom, "-n", "default")
    try:
        done = top(clean, reader, "slices", *here)
    finally:
        clean.bed.kubectl("delete", "role,rolebinding", READER, "-n", "default")
    assert done.stdout.splitlines()[1].split()[2:5] == ["default/alice", "main", "3000"], done.stdout


def test_without_the_role_it_says_what_to_grant(clean: System, reader: str) -> None:
    clean.bed.kubectl("delete", "rolebinding", READER, "-n", NAMESPACE)
    try:
        done = top(clean, reader, "--hami-namespace", NAMESPACE)
    finally:
        whom = f"--serviceaccount=default:{READER}"
        clean.bed.kubectl("create", "rolebinding", READER, f"--role={VIEW}", whom, "-n", NAMESPACE)
    assert done.returncode == 1
    assert f"the chart's role {VIEW}" in done.stderr


def test_administrator_needs_no_options(clean: System) -> None:
    done = top(clean, str(clean.bed.work / "kubeconfig/admin"), "cards")
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert header.split()[:4] == ["NODE", "CARD", "STATE", "SLOTS"]
    assert [row.split()[0] for row in rows] == [node for node in clean.gpu_nodes for _ in range(2)]
