"""Our roles grant exactly what is used: no request is denied, and no permission is unused."""

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
    Permission(AGENT, "", "events", "patch"): "counts up a repeated event",
    Permission(AGENT, "", "pods", "patch"): "makes the kubelet try again after a refusal; ends the phase allocating",
    Permission(AGENT, "", "pods", "delete"): "evicts a pod whose devices cannot be right, as in serial mode",
}
"""Permissions that are granted but not used in this test, and their purpose. `test_serial` uses the last two."""
NAMES = {"secrets": ("hami-scheduler-tls", "hami-scheduler-signing"), "configmaps": ("hami-signing-keys",)}


@pytest.mark.smoke
def test_no_request_of_ours_is_denied(clean: System) -> None:
    """All requests since the start of the shared cluster count. The test adds a pod that fits and one that does not."""
    clean.submit(pod("bound", container(memory=1000)), pod("unfit", container(memory=999_999)))
    clean.running("bound")
    clean.bed.wait("a reason", lambda: "FailedScheduling" in clean.bed.kubectl("describe", "pod", "unfit"))
    done = uses(clean.bed)
    assert {use.what.user for use in done} == {SCHEDULER, AGENT}
    assert denied(done) == set()
    assert borrowed(granted(clean.bed), done) == set()


def test_every_granted_permission_is_used(tidy: System) -> None:
    """All requests since the start of the cluster count. The test causes those that may not have happened yet."""
    bed = tidy.bed
    # A Bind, an event, and the repetition of an event.
    tidy.submit(pod("bound", container(memory=1000)), pod("unfit", container(memory=999_999)))
    tidy.running("bound")
    # The agent refuses a pod that bypassed the webhook and our scheduler, with an event.
    tidy.submit(pod("round", container(memory=1000), labels={"hami.io/webhook": "ignore"}, nodeName="node1"))
    # The scheduler replaces damaged credentials, and restores the authority in its webhook configuration.
    for kind, names in NAMES.items():
        for name in names:
            damage(tidy, kind, name)
    with another_vendors_node(tidy):
        bed.wait("everything granted was used", lambda: used_up(tidy), 90, poll=3)
    assert denied(uses(bed)) == set()
    assert borrowed(granted(bed), uses(bed)) == set()
    assert set(NEEDED_ELSEWHERE) <= granted(bed), "an exception names a permission that is no longer granted"
    tidy.ready()
    tidy.submit(pod("after", container(memory=1000)))
    tidy.running("after", timeout=150)  # the kubelet must first bring the new key to the agent


@contextlib.contextmanager
def another_vendors_node(system: System) -> Iterator[None]:
    """A node object with cards of a vendor that locks nodes, and a pod bound to it. The node has no kubelet."""
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
    """Whether all permissions have been used. It makes the scheduler try the unfit pod again, to repeat its event."""
    note = {"metadata": {"annotations": {"example.com/tried": str(time.monotonic())}}}
    system.bed.call("PATCH", f"{PODS}/unfit", note, "application/merge-patch+json")
    return not left(system)


def left(system: System) -> set[Permission]:
    """Permissions that are granted but were not used so far, without those of `NEEDED_ELSEWHERE`."""
    return unused(granted(system.bed), uses(system.bed)) - set(NEEDED_ELSEWHERE)


def damage(system: System, kind: str, name: str) -> None:
    """Empty all entries of a secret or configmap."""
    path = f"/api/v1/namespaces/{NAMESPACE}/{kind}/{name}"
    entries = dict.fromkeys(system.bed.call("GET", path)["data"], "")
    system.bed.call("PATCH", path, {"data": entries}, "application/merge-patch+json")
