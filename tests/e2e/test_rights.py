"""What our processes ask the API server for, by its own audit log, against what the chart grants them: both ways."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.pods import container, pod
from tests.e2e.system import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.system import System

OURS = {"hami-scheduler": "hami-scheduler", "hami-device-plugin": "hami-agent"}
"""Service account → what our program in it calls itself; kube-scheduler shares the scheduler's."""

Right = tuple[str, str]

RARE: dict[str, dict[Right, str]] = {
    "hami-scheduler": {
        ("get", "leases"): "the watch lags behind a change of leader",
        ("get", "pods"): "a Binding's outcome is not known",
        ("patch", "events"): "the same event again",
        ("patch", "secrets"): "a certificate or key is renewed",
        ("patch", "configmaps"): "a key is renewed",
        ("patch", "mutatingwebhookconfigurations"): "a certificate is renewed",
        ("get", "nodes"): "a vendor's node lock",
        ("patch", "nodes"): "a vendor's node lock",
        ("update", "leases"): "kube-scheduler's, of the same account",
        ("create", "leases"): "kube-scheduler's, of the same account",
    },
    "hami-device-plugin": {
        ("patch", "pods"): "a refusal is over, or serial mode",
        ("delete", "pods"): "a pod whose devices can't be right",
        ("create", "events"): "a refusal",
        ("patch", "events"): "the same refusal again",
    },
}
"""What a quiet session doesn't bring about; each is a test of its own elsewhere."""


def requests(system: System) -> Iterator[dict[str, Any]]:
    """Audited requests of our service accounts, those that tests made in their name left out."""
    with (system.work / "log/audit.log").open() as log:
        for line in log:
            if f"system:serviceaccount:{NAMESPACE}:hami-" not in line:
                continue
            try:
                event = json.loads(line)
            except ValueError:
                continue  # the last line may be half written
            if "impersonatedUser" not in event and event["user"]["username"].rpartition(":")[2] in OURS:
                yield event


def account(event: dict[str, Any]) -> str:
    return str(event["user"]["username"].rpartition(":")[2])


def right(event: dict[str, Any]) -> Right:
    what = event["objectRef"]
    return event["verb"], "/".join(filter(None, (what["resource"], what.get("subresource"))))


def granted(system: System) -> dict[str, set[Right]]:
    """What roles of ours give to our accounts."""
    found: dict[str, set[Right]] = defaultdict(set)
    root = "/apis/rbac.authorization.k8s.io/v1"
    for path in (f"{root}/clusterroles", f"{root}/namespaces/{NAMESPACE}/roles"):
        for role in system.bed.call("GET", f"{path}?labelSelector=app.kubernetes.io/instance=hami")["items"]:
            for rule in role["rules"]:
                found[role["metadata"]["name"]] |= {(v, r) for v in rule["verbs"] for r in rule["resources"]}
    return found


@pytest.fixture(scope="module")
def used(system: System) -> dict[str, set[Right]]:
    """What was asked for since the cluster is up, one pod with a device and one too big among it."""
    system.submit(pod("rights"), pod("rights-too-big", container(memory=10**6)))
    system.running("rights")
    system.bed.wait("a reason", lambda: "FailedScheduling" in system.bed.kubectl("describe", "pod", "rights-too-big"))
    found: dict[str, set[Right]] = defaultdict(set)
    for event in requests(system):
        if "resource" in event.get("objectRef", {}) and OURS[account(event)] in event.get("userAgent", ""):
            found[account(event)].add(right(event))
    system.clean()
    return found


@pytest.mark.smoke
def test_nothing_our_processes_ask_for_is_forbidden(system, used):
    assert set(used) == set(OURS)
    forbidden = {
        (account(event), event["userAgent"], *right(event), event["responseStatus"].get("message"))
        for event in requests(system)
        if "resource" in event.get("objectRef", {}) and event.get("responseStatus", {}).get("code") in {401, 403}
    }
    assert not forbidden


@pytest.mark.smoke
@pytest.mark.parametrize("name", OURS)
def test_nothing_is_granted_that_nobody_uses(system, used, name):
    rights = granted(system)[name]
    assert used[name] <= rights
    assert rights - used[name] <= set(RARE[name])
    assert set(RARE[name]) <= rights, "an exception for what is not even granted"
