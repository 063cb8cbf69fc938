"""Our roles are exactly what is used: no request is denied, and nothing is granted that nobody asks for."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.lifecycle.permissions import AGENT, SCHEDULER, Permission, borrowed, denied, granted, unused, uses
from tests.e2e.pods import container, pod
from tests.e2e.system import NAMESPACE, PODS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.system import System

MLU = "cambricon.com/vmlu"
MLU_AMOUNTS = {"cambricon.com/mlu.smlu.vmemory": "400", "cambricon.com/mlu.smlu.vcore": "200"}
LOCK = "cambricon.com/dsmlu.lock"

NEEDED_ELSEWHERE = {
    Permission(SCHEDULER, "", "pods", "get"): "reads a pod whose Binding was not answered in time",
    Permission(AGENT, "", "events", "patch"): "counts up an event that is said again",
    Permission(AGENT, "", "pods", "patch"): "asks the kubelet again after a refusal; ends the phase allocating",
    Permission(AGENT, "", "pods", "delete"): "sends a pod away whose devices can't be right, as in serial mode",
}
"""Granted and not used in what this test does: each with who needs it. The last two are seen in `test_serial`."""
NAMES = {"secrets": ("hami-scheduler-tls", "hami-scheduler-signing"), "configmaps": ("hami-signing-keys",)}


@pytest.mark.smoke
def test_nothing_that_is_asked_for_is_denied(clean: System) -> None:
    """Since the shared cluster began, whatever was done to it; a pod that is bound and one that is not among it."""
    clean.submit(pod("bound", container(memory=1000)), pod("unfit", container(memory=999_999)))
    clean.running("bound")
    clean.bed.wait("a reason", lambda: "FailedScheduling" in clean.bed.kubectl("describe", "pod", "unfit"))
    done = uses(clean.bed)
    assert {use.what.user for use in done} == {SCHEDULER, AGENT}
    assert denied(done) == set()
    assert borrowed(granted(clean.bed), done) == set()


def test_what_is_granted_is_what_is_used(tidy: System) -> None:
    """Everything since the cluster began counts; what may not have happened yet is made to happen."""
    bed = tidy.bed
    # Bind; an event said once, and again.
    tidy.submit(pod("bound", container(memory=1000)), pod("unfit", container(memory=999_999)))
    tidy.running("bound")
    # A pod that came round the webhook and our scheduler is refused by the agent: an event.
    tidy.submit(pod("round", container(memory=1000), labels={"hami.io/webhook": "ignore"}, nodeName="node1"))
    # Credentials that are damaged are made anew, and a webhook configuration that lost its authority gets it back.
    for kind, names in NAMES.items():
        for name in names:
            damage(tidy, kind, name)
    with another_vendors_node(tidy):
        bed.wait("everything granted was used", lambda: used_up(tidy), 90, poll=3)
    assert denied(uses(bed)) == set()
    assert borrowed(granted(bed), uses(bed)) == set()
    assert set(NEEDED_ELSEWHERE) <= granted(bed), "an exception for what is not granted any more"
    tidy.ready()
    tidy.submit(pod("after", container(memory=1000)))
    tidy.running("after", timeout=150)  # once the kubelet has brought the new key to the agent


@contextlib.contextmanager
def another_vendors_node(system: System) -> Iterator[None]:
    """A node with cards of a vendor whose own plugin waits for a lock on it (there is no kubelet), and a pod bound."""
    meta = {"name": "mlus", "labels": {"cards": "mlu"}}
    capacity = {"cpu": "1", "memory": "1Gi", "pods": "9", MLU: "10"} | MLU_AMOUNTS
    system.bed.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": meta})
    try:
        status = {"status": {"capacity": capacity, "allocatable": capacity}}
        system.bed.call("PATCH", "/api/v1/nodes/mlus/status", status, "application/merge-patch+json")
        limits = {MLU: 1, "cambricon.com/mlu.smlu.vmemory": 20, "cambricon.com/mlu.smlu.vcore": 10}
        anywhere = [{"operator": "Exists"}]
        body = container(count=0) | {"resources": {"limits": limits}}
        system.submit(pod("mlu", body, nodeSelector={"cards": "mlu"}, tolerations=anywhere))
        system.bed.wait("it is bound", lambda: system.pod("mlu")["spec"].get("nodeName") == "mlus", 30)
        assert LOCK in system.bed.call("GET", "/api/v1/nodes/mlus")["metadata"]["annotations"]
        yield
    finally:
        system.delete("mlu")
        system.bed.call("DELETE", "/api/v1/nodes/mlus")


def used_up(system: System) -> bool:
    """Whether nothing granted is left; the pod that does not fit is tried again, so that the same is said again."""
    note = {"metadata": {"annotations": {"example.com/tried": str(time.monotonic())}}}
    system.bed.call("PATCH", f"{PODS}/unfit", note, "application/merge-patch+json")
    return not left(system)


def left(system: System) -> set[Permission]:
    """What is granted and was not used so far, but for what is needed elsewhere."""
    return unused(granted(system.bed), uses(system.bed)) - set(NEEDED_ELSEWHERE)


def damage(system: System, kind: str, name: str) -> None:
    """Take all entries away."""
    path = f"/api/v1/namespaces/{NAMESPACE}/{kind}/{name}"
    entries = dict.fromkeys(system.bed.call("GET", path)["data"], "")
    system.bed.call("PATCH", path, {"data": entries}, "application/merge-patch+json")
