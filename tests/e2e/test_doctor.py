"""`hami doctor` on real Kubernetes: it has no complaints after installation, and names each broken set-up."""

from __future__ import annotations

import copy
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.doctor import complaints, doctor
from tests.e2e.pods import container, pod
from tests.e2e.system import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.system import System

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
HOOK = f"{ADMISSION}/mutatingwebhookconfigurations/hami-webhook"
CONFIG = f"/api/v1/namespaces/{NAMESPACE}/configmaps/hami-scheduler"
SERVICE = f"/api/v1/namespaces/{NAMESPACE}/services/hami-scheduler"


def until(system: System, check: str, words: str) -> str:
    """Repeat until a check reports these words. Returns all findings of that check."""

    def look() -> str:
        said = complaints(doctor(system)).get(check, "")
        return said if words in said else ""

    return system.bed.wait(f"{check}: {words}", look, 60, 1)


@contextmanager
def changed(system: System, path: str, change: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Change an object during the block."""
    before = system.bed.call("GET", path)
    now = copy.deepcopy(before)
    change(now)
    system.bed.call("PUT", path, now)
    try:
        yield
    finally:
        before["metadata"]["resourceVersion"] = system.bed.call("GET", path)["metadata"]["resourceVersion"]
        system.bed.call("PUT", path, before)


@contextmanager
def made(system: System, *bodies: dict[str, Any]) -> Iterator[None]:
    """Create objects during the block."""
    system.bed.apply(*bodies)
    try:
        yield
    finally:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)})
        system.bed.kubectl("delete", "--ignore-not-found", "--grace-period=0", "--force", "-f", "-", stdin=text)


# --- a sound installation --------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_after_install_it_has_nothing_to_complain_of(clean: System) -> None:
    clean.submit(pod("alice", container(memory=3000)))
    clean.running("alice")
    said = doctor(clean)
    expected = {"node.runtime"} if clean.tools.containerd.lstrip("v").startswith("1.7") else set()
    assert complaints(said).keys() == expected, complaints(said)
    signed = [f for f in said["findings"] if f["check"] == "pods.signatures"]
    assert signed[0]["seen"].startswith("1 allocations are signed")


def asked_inside(system: System, *words: str) -> dict[str, Any]:
    """Run `hami doctor` in the agent of node1 and return its output."""
    (agent,) = (p["metadata"]["name"] for p in system.ours("hami-device-plugin") if p["spec"]["nodeName"] == "node1")
    command = ("exec", agent, "--", "hami", "doctor", "--output", "json", *words)
    return dict(json.loads(system.bed.kubectl("-n", NAMESPACE, *command)))


def test_from_inside_an_agent_the_node_is_fine(clean: System) -> None:
    clean.submit(pod("bob", container(memory=3000), node="node1"))
    clean.running("bob")
    said = asked_inside(clean, "--on-node")
    assert complaints(said, "fail", "unknown") == {}, said
    found = {f["check"]: f for f in said["findings"]}
    assert "1 containers with devices" in found["on-node.checkpoint"]["seen"]
    assert "2 found" in found["on-node.driver"]["seen"]


def test_with_an_agents_own_rights_it_says_what_it_may_not_read(system: System) -> None:
    said = asked_inside(system)
    assert complaints(said, "warn", "fail") == {} or complaints(said, "warn", "fail").keys() <= {"node.runtime"}
    unknown = complaints(said, "unknown")
    assert "not allowed to list mutatingwebhookconfigurations" in unknown["webhook.present"]
    assert "not allowed to get configmaps" in unknown["kube-scheduler.settings"]


# --- broken installations --------------------------------------------------------------------------------------------


def _ignore(hook: dict[str, Any]) -> None:
    hook["webhooks"][0]["failurePolicy"] = "Ignore"


def _sampling(config: dict[str, Any]) -> None:
    config["data"]["config.yaml"] = config["data"]["config.yaml"].replace("percentageOfNodesToScore: 100", "")


def _elsewhere(service: dict[str, Any]) -> None:
    service["spec"]["selector"]["app.kubernetes.io/component"] = "nothing"


def _audit(binding: dict[str, Any]) -> None:
    binding["spec"]["validationActions"] = ["Audit"]


@pytest.mark.parametrize(
    ("path", "change", "check", "words"),
    [
        (HOOK, _ignore, "webhook.failure-policy", "failurePolicy Ignore"),
        (CONFIG, _sampling, "kube-scheduler.settings", "percentageOfNodesToScore not set"),
    ],
)
def test_a_changed_setting_is_named(
    system: System, path: str, change: Callable[[dict[str, Any]], None], check: str, words: str
) -> None:
    with changed(system, path, change):
        found = complaints(doctor(system))
    assert words in found[check], found


def test_a_service_without_endpoints_is_named(system: System) -> None:
    with changed(system, SERVICE, _elsewhere):
        until(system, "webhook.service", "endpoints none")
    system.ready()


def test_a_policy_that_denies_nothing_is_named(system: System) -> None:
    sound = next(f for f in doctor(system)["findings"] if f["check"] == "policy.system-keys")
    listed = system.bed.call("GET", f"{ADMISSION}/validatingadmissionpolicybindings")["items"]
    (name,) = (b["metadata"]["name"] for b in listed if sound["object"].endswith(f" {b['spec']['policyName']}"))
    with changed(system, f"{ADMISSION}/validatingadmissionpolicybindings/{name}", _audit):
        found = complaints(doctor(system))
    assert "Audit: nothing is refused" in found["policy.system-keys"]


def test_another_device_plugin_beside_our_agent_is_named(system: System) -> None:
    labels = {"app": "nvidia-device-plugin"}
    image = {"name": "nvidia-device-plugin-ctr", "image": "localhost/pause:1", "imagePullPolicy": "Never"}
    body = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nvidia-device-plugin-daemonset", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [image]}},
        },
    }
    with made(system, body):
        found = until(system, "collision.device-plugin", "node1, node2")
    assert "devicePlugin.enabled=false" in found


def test_hami_itself_beside_us_is_named(system: System) -> None:
    old = {
        "name": "vgpu-scheduler-extender",
        "image": "docker.io/projecthami/hami:v2.10.0",
        "imagePullPolicy": "Never",
        "command": ["scheduler", "--http_bind=0.0.0.0:443"],
    }
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "hami-original", "namespace": "default"},
        "spec": {"containers": [old]},
    }
    with made(system, body):
        found = complaints(doctor(system))
    assert "still runs: Pod/hami-original" in found["collision.hami"]


def test_a_node_that_lost_its_agent_is_named(system: System) -> None:
    system.bed.kubectl("label", "node", "node2", "gpu-")
    try:
        found = until(system, "agents.coverage", "no agent runs there")
        assert "kubectl label node node2 gpu=on" in found
    finally:
        system.bed.kubectl("label", "node", "node2", "gpu=on")
        system.ready()


def test_pods_that_cannot_work_are_named(clean: System) -> None:
    sandbox = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "secure"},
        "handler": "kata",
    }
    with made(clean, sandbox):
        boxed = pod("boxed", container(memory=1000))
        boxed["spec"]["runtimeClassName"] = "secure"
        elsewhere = pod("elsewhere", container(memory=1000))
        elsewhere["spec"]["schedulerName"] = "volcano"
        clean.submit(boxed, elsewhere, pod("huge", container(memory=200000)))
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "wrong", "namespace": "default"},
            "spec": {"hard": {"requests.nvidia.com/gpumem": "1000000"}},
        }
        clean.bed.apply(quota)
        until(clean, "pods.pending", "default/huge")
        found = complaints(doctor(clean))
    assert "default/boxed" in found["collision.sandbox"]
    assert "volcano: default/elsewhere" in found["pods.scheduler"]
    assert "limits.nvidia.com/gpumem" in found["quota.names"]
