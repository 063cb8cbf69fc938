"""Upgrade, rollback, uninstall and install again: what changes, what is left, and that running pods do not notice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.bed import tools as bed_tools
from tests.e2e.lifecycle import agents
from tests.e2e.lifecycle.crash import crash
from tests.e2e.lifecycle.inventory import objects
from tests.e2e.lifecycle.plugins import allocatable
from tests.e2e.pods import container, pod
from tests.e2e.slices import RESOURCE, booked
from tests.e2e.system import CHART, NAMESPACE, RELEASE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.system import System

MIB = 1 << 20
CARD_MIB = 81920
ONCE_MORE = "localhost/hami/agent-nvidia:once-more"

KEPT = {
    # A new installation signs with the same keys. Its agents need the keys with which running pods were signed.
    f"secrets {NAMESPACE}/hami-scheduler-signing",
    f"configmaps {NAMESPACE}/hami-signing-keys",
    f"secrets {NAMESPACE}/hami-scheduler-tls",
    # The Lease's number of leaders, which is the epoch in signatures, and each agent's last sign of life.
    f"leases.coordination.k8s.io {NAMESPACE}/hami-scheduler",
    f"leases.coordination.k8s.io {NAMESPACE}/hami-agent-nvidia.node1",
    # Kubernetes' own objects of every namespace.
    f"namespaces /{NAMESPACE}",
    f"configmaps {NAMESPACE}/kube-root-ca.crt",
    f"serviceaccounts {NAMESPACE}/default",
}
"""Objects that `helm uninstall` leaves. docs/how-to/install.md says why, and how to remove them."""
NODE_ANNOTATIONS = {"hami.io/node-nvidia-register", "hami.io/agent-mode-nvidia"}
NODE_LABELS = {"hami.io/agent-nvidia"}


@pytest.fixture
def witnesses(tidy: System) -> Witnesses:
    """Two running pods that share a card."""
    return Witnesses(tidy)


class Witnesses:
    """Pods that run during a change of the installation. They must not notice it."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.sizes = {"first": 30720, "second": 20480}
        for name, memory in self.sizes.items():
            body = pod(name, container(memory=memory), annotations={"hami.io/gpu-scheduler-policy": "binpack"})
            system.submit(body)
            system.running(name)
        assert len({booked(system.pod(name))["main"][0][0] for name in self.sizes}) == 1, "they share a card"
        self.identities = self._identities()

    def _identities(self) -> dict[str, Any]:
        statuses = {name: self.system.pod(name)["status"]["containerStatuses"][0] for name in self.sizes}
        return {name: (status["containerID"], status["restartCount"]) for name, status in statuses.items()}

    def undisturbed(self) -> None:
        """Check that they run in the same containers, and that a new process in each is still limited."""
        assert self._identities() == self.identities
        assert self.system.problems(*self.sizes) == []
        for name, memory in self.sizes.items():
            text = self.system.bed.kubectl("exec", name, "--", "cuda-probe", "0")
            (card,) = json.loads([line for line in text.splitlines() if line.startswith("{")][-1])["devices"]
            assert card["total_bytes"] == memory * MIB
            assert 0 < card["allocated_bytes"] <= memory * MIB

    def counted(self) -> None:
        """Check that exactly the rest of their card can be booked."""
        ((uuid, _),) = booked(self.system.pod("first"))["main"]
        there = {"nvidia.com/use-gpuuuid": uuid}
        left = CARD_MIB - sum(self.sizes.values())
        self.system.submit(pod("beside", container(memory=left), annotations=there))
        self.system.running("beside")
        assert self.system.problems("beside") == []
        self.system.submit(pod("too-much", container(memory=1), annotations=there))
        self.system.bed.wait(
            "a reason", lambda: "CardInsufficientMemory" in self.system.bed.kubectl("describe", "pod", "too-much")
        )
        self.system.delete("too-much", "beside")


def revision(system: System) -> int:
    """Number of the release's latest revision."""
    return int(json.loads(system.bed.helm("history", RELEASE, "-n", NAMESPACE, "-o", "json"))[-1]["revision"])


def roll_back(system: System, to: int) -> None:
    """Roll back to a revision and wait until it serves."""
    system.bed.helm("rollback", RELEASE, str(to), "-n", NAMESPACE, "--wait", "--timeout", "120s")
    system.ready()


def test_changed_values_and_back(witnesses: Witnesses) -> None:
    """An upgrade that changes the number of slots of each card; then a rollback."""
    system = witnesses.system
    before, slots = revision(system), allocatable(system.bed, "node1", RESOURCE)
    system.install(devicePlugin={"deviceSplitCount": slots // 4})
    system.bed.wait("half the slots", lambda: allocatable(system.bed, "node1", RESOURCE) == slots // 2)
    witnesses.undisturbed()
    witnesses.counted()
    roll_back(system, before)
    system.bed.wait("all slots", lambda: allocatable(system.bed, "node1", RESOURCE) == slots)
    witnesses.undisturbed()


def test_a_vendors_package_is_upgraded_while_pods_run(witnesses: Witnesses) -> None:
    """A new image of the agent also has a new interposer. Running containers keep the library that they loaded."""
    system = witnesses.system
    ctr = str(system.tools.containerd_bin / "ctr")
    tag = ("-a", "/run/containerd/containerd.sock", "-n", "k8s.io", "images", "tag", "--force")
    system.bed.run("node1", ctr, *tag, "localhost/hami/agent-nvidia:dev", ONCE_MORE)
    before, old = revision(system), agents.uids(system)
    system.install(devicePlugin={"image": {"tag": "once-more"}})
    assert not old & agents.uids(system), "every agent was replaced"
    images = {c["image"] for now in system.ours("hami-device-plugin") for c in now["spec"]["containers"]}
    assert images == {ONCE_MORE}
    witnesses.undisturbed()
    witnesses.counted()
    roll_back(system, before)
    witnesses.undisturbed()


@pytest.mark.parametrize("line", ["3", "4"])
def test_uninstalled_and_installed_anew(tidy: System, line: str) -> None:
    """No program of ours is left, pods run on with their limits, and the next installation takes them over."""
    system = tidy
    helm = bed_tools.locate(bed_tools.RECIPES[f"helm-{line}"]) / "helm"
    witnesses = Witnesses(system)
    system.submit(
        pod("again", container(memory=1234, command=["cuda-probe", "look", "100000"]), restartPolicy="Always")
    )
    system.running("again")

    run(system, helm, "uninstall", RELEASE, "-n", NAMESPACE, "--wait", "--timeout", "120s")
    system.bed.wait("our pods end", lambda: not system.bed.pods(namespace=NAMESPACE), 90)
    system.bed.wait("nothing but what is kept is left", lambda: left_of(system) <= KEPT or left_of(system) - KEPT, 30)
    assert left_of(system) - KEPT == set()
    witnesses.undisturbed()
    # Without an agent no container gets devices: a new pod waits, and so does a container that restarts.
    system.bed.wait("no slots", lambda: allocatable(system.bed, "node1", RESOURCE) == 0)
    system.submit(pod("meanwhile", container(memory=1000)))
    system.bed.wait(
        "its reason", lambda: "Insufficient nvidia.com/gpu" in system.bed.kubectl("describe", "pod", "meanwhile")
    )
    crash(system, "node1", "again")
    system.bed.wait("it waits", lambda: waiting_reason(system, "again") == "CreateContainerConfigError", 90)
    system.delete("meanwhile")

    file = system.work / "values.json"
    run(system, helm, "install", RELEASE, str(CHART), "-n", NAMESPACE, "-f", str(file), "--wait",
        "--timeout", "120s")  # fmt: skip
    system.ready()
    witnesses.undisturbed()
    witnesses.counted()
    system.running("again", timeout=90)
    assert system.problems("again") == [], "a container that ended before has its own slice again"


def test_what_is_kept_can_be_removed(tidy: System) -> None:
    """The how-to's commands, after the last pod, remove all our objects. A new installation then works."""
    system = tidy
    system.bed.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait", "--timeout", "120s")
    system.bed.wait("our pods end", lambda: not system.bed.pods(namespace=NAMESPACE), 90)
    system.bed.kubectl("delete", "secret,configmap", "-n", NAMESPACE, "-l", "hami.io/credentials")
    leases = system.bed.kubectl("get", "lease", "-n", NAMESPACE, "-o", "name").split()
    system.bed.kubectl("delete", "-n", NAMESPACE, *leases)
    system.bed.kubectl("annotate", "node", "--all", *(f"{key}-" for key in sorted(NODE_ANNOTATIONS)))
    system.bed.kubectl("label", "node", "--all", *(f"{key}-" for key in sorted(NODE_LABELS)))
    own = {
        f"namespaces /{NAMESPACE}",
        f"configmaps {NAMESPACE}/kube-root-ca.crt",
        f"serviceaccounts {NAMESPACE}/default",
    }
    system.bed.wait("nothing is left", lambda: left_of(system) == own, 30)
    node = system.bed.call("GET", "/api/v1/nodes/node1")["metadata"]
    assert not [key for key in {**node["annotations"], **node["labels"]} if "hami.io/" in key]
    # Records stay while the kubelet's checkpoint lists their pods. Without an agent, remove them by hand.
    system.bed.run("node1", "sh", "-c", "rm -rf /var/lib/hami/* /var/run/cdi/hami-*.json")
    system.install()
    system.submit(pod("fresh", container(memory=1000)))
    system.running("fresh")
    assert system.problems("fresh") == []


def run(system: System, helm: Path, *words: str) -> None:
    """Run a given helm program against the bed."""
    home = {"KUBECONFIG": f"{system.bed.work}/kubeconfig/admin", "HOME": f"{system.bed.work}/helm"}
    system.bed.run("cp", str(helm), *words, timeout=200, env=home)


def left_of(system: System) -> set[str]:
    """Objects of the cluster with "hami" in their names."""
    return {text for text in objects(system.bed) if "hami" in text.partition(" ")[2]}


def waiting_reason(system: System, name: str) -> str:
    """Reason why a pod's container waits."""
    (status,) = system.pod(name)["status"]["containerStatuses"]
    return str(status["state"].get("waiting", {}).get("reason", ""))
