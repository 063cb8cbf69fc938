"""Operations of clusters: replace pods, drain and cordon, restart kubelets, add nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.bed.bed import Node
from tests.e2e.pods import container, pod, spec
from tests.e2e.slices import booked, cards

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.system import System


def controller(kind: str, name: str, replicas: int, template: dict[str, Any]) -> dict[str, Any]:
    """A Deployment or StatefulSet with this pod template."""
    labels = {"test": "e2e", "app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": template},
        }
        | ({"serviceName": name} if kind == "StatefulSet" else {}),
    }


def ready_names(system: System, app: str, count: int, timeout: float = 90) -> list[str]:
    """Wait until an app has this number of ready pods. Returns their names."""

    def look() -> list[str] | None:
        names = [
            name
            for name, now in system.pods(f"app={app}").items()
            if "deletionTimestamp" not in now["metadata"]
            and any(c["type"] == "Ready" and c["status"] == "True" for c in now["status"].get("conditions", []))
        ]
        return names if len(names) == count else None

    return list(system.bed.wait(f"{count} pods of {app} ready", look, timeout))


@pytest.fixture
def annotated(clean: System) -> Iterator[list[str]]:
    """A list of nodes. After the test their cordon annotation is removed."""
    nodes: list[str] = []
    yield nodes
    for node in nodes:
        clean.bed.kubectl("annotate", "node", node, "hami.io/device-cordon-")


def test_a_statefulset_deleted_and_made_again(clean: System) -> None:
    path = "/apis/apps/v1/namespaces/default/statefulsets"
    for memory in (1000, 2000):
        clean.bed.call(
            "POST", path, controller("StatefulSet", "db", 2, spec(container(memory=memory), restartPolicy="Always"))
        )
        names = ready_names(clean, "db", 2)
        assert sorted(names) == ["db-0", "db-1"], "the second generation has the first one's names"
        assert clean.problems(*names) == []
        assert {booked(clean.pod(name))["main"][0][1] for name in names} == {memory}
        clean.bed.call("DELETE", f"{path}/db")
        clean.bed.wait("the set is gone", lambda: not clean.pods("app=db"))


def test_a_deployment_rolls_over(clean: System) -> None:
    """Old and new replicas hold slices of different sizes at the same time."""
    path = "/apis/apps/v1/namespaces/default/deployments"
    body = controller("Deployment", "web", 3, spec(container(memory=5000), restartPolicy="Always"))
    clean.bed.call("POST", path, body)
    ready_names(clean, "web", 3)
    patch = {"spec": {"template": {"spec": spec(container(memory=6000), restartPolicy="Always")}}}
    clean.bed.call("PATCH", f"{path}/web", patch, "application/merge-patch+json")
    clean.bed.kubectl("rollout", "status", "deployment/web", "--timeout=90s", timeout=100)
    names = ready_names(clean, "web", 3)
    assert {booked(clean.pod(name))["main"][0][1] for name in names} == {6000}
    assert clean.problems(*names) == []


def test_a_drained_node_gives_its_pods_away(clean: System) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = spec(container(memory=3000), restartPolicy="Always")
    clean.bed.call("POST", path, controller("Deployment", "movers", 4, template))
    ready_names(clean, "movers", 4)
    try:
        clean.bed.kubectl("drain", "node1", "--ignore-daemonsets", "--force", "--delete-emptydir-data",
                          "--pod-selector=app=movers", "--timeout=60s", timeout=90)  # fmt: skip
        names = ready_names(clean, "movers", 4)
        assert {clean.pod(name)["spec"]["nodeName"] for name in names} == {"node2"}
        assert clean.problems(*names) == []
    finally:
        clean.bed.kubectl("uncordon", "node1")


def test_a_cordoned_card_takes_nothing_new_and_keeps_what_it_has(clean: System, annotated: list[str]) -> None:
    clean.submit(pod("before", container(memory=1000), node="node1"))
    (before,) = clean.running("before")
    held = booked(before)["main"][0][0]
    annotated.append("node1")
    clean.bed.kubectl("annotate", "node", "node1", f"hami.io/device-cordon={held}", "--overwrite")
    names = [f"after{index}" for index in range(4)]
    clean.submit(*[pod(name, container(memory=1000), node="node1") for name in names])
    clean.running(*names)
    assert {booked(clean.pod(name))["main"][0][0] for name in names} == set(cards(clean.bed, "node1").values()) - {held}
    assert clean.problems("before", *names) == []
    clean.submit(pod("both", container(memory=1000, count=2), node="node1"))
    clean.bed.wait("the reason", lambda: "CardCordoned" in clean.bed.kubectl("describe", "pod", "both"))


def test_affinity_and_spread_decide_among_fitting_nodes(clean: System) -> None:
    preferred = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 100,
                    "preference": {
                        "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node2"]}]
                    },
                }
            ]
        }
    }
    required = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node1"]}]}
                ]
            }
        }
    }
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"group": "spread"}},
        }
    ]
    clean.submit(pod("prefers", container(memory=1000), affinity=preferred))
    clean.submit(pod("requires", container(memory=1000), affinity=required))
    for index in range(4):
        labels = {"group": "spread"}
        clean.submit(pod(f"spread{index}", container(memory=1000), labels=labels, topologySpreadConstraints=spread))
    clean.running("prefers", "requires", *[f"spread{index}" for index in range(4)])
    pods = clean.pods()
    assert pods["prefers"]["spec"]["nodeName"] == "node2"
    assert pods["requires"]["spec"]["nodeName"] == "node1"
    nodes = [pods[f"spread{index}"]["spec"]["nodeName"] for index in range(4)]
    assert sorted(nodes) == ["node1", "node1", "node2", "node2"]


def test_restarting_containers_keep_slices_over_kubelet_restart(clean: System) -> None:
    """They run again with their own slice. Until the agent has registered again, they wait."""
    again = container(memory=1234, command=["cuda-probe", "look", "2"])
    clean.submit(*[pod(f"loop{i}", again, restartPolicy="Always", node="node1") for i in range(3)])
    clean.submit(pod("other", container(memory=4321), node="node1"))
    clean.bed.wait("they have restarted", lambda: all(restarts(clean, f"loop{i}") >= 1 for i in range(3)), 90)
    clean.bed.restart("kubelet:node1")
    before = {f"loop{i}": restarts(clean, f"loop{i}") for i in range(3)}
    clean.bed.wait("and again after the kubelet", lambda: all(restarts(clean, n) > c for n, c in before.items()), 120)
    for name in before:
        clean.bed.wait("it has printed", lambda name=name: clean.problems(name) == [], 60)
    assert clean.problems("other") == []
    clean.ready()


def restarts(system: System, name: str) -> int:
    """Number of restarts of a pod's containers."""
    return sum(status["restartCount"] for status in system.pod(name)["status"].get("containerStatuses", []))


def test_a_node_added_later_serves(clean: System) -> None:
    clean.bed.add_node(Node("node3", "h100x1"))
    clean.gpu_nodes.append("node3")
    try:
        clean.bed.kubectl("label", "node", "node3", "gpu=on", "--overwrite")
        clean.ready()
        clean.submit(pod("newcomer", container(memory=2000), node="node3"))
        clean.running("newcomer")
        assert clean.problems("newcomer") == []
        clean.delete("newcomer")
    finally:
        clean.gpu_nodes.remove("node3")
        clean.bed.remove_node("node3")
        there = ("-A", "--field-selector", "spec.nodeName=node3")  # the garbage collector would take longer
        clean.bed.kubectl("delete", "pods", *there, "--grace-period=0", "--force")
