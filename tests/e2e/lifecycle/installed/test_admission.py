"""Tests of who may write the annotations of allocations, and of what happens to pods while our scheduler is away."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.bed.errors import ApiRefused
from tests.e2e.lifecycle.permissions import SCHEDULER
from tests.e2e.pods import container, pod
from tests.e2e.slices import ALLOCATED
from tests.e2e.system import CHART, NAMESPACE, PODS

if TYPE_CHECKING:
    from tests.e2e.system import System

KEYS: list[str] = json.loads(Path(CHART / "files/system-keys.json").read_text())["keys"]
FORMED = "hami.io/another-devices-allocated"
"""A vendor's key that is in no list. The policy knows it by its form."""
MERGE = "application/merge-patch+json"
IDLE = container(count=0, command=["sleep", "100000"])
WHY = "only the scheduler and the node agents set this"


def annotated(value: str | None, *keys: str) -> dict[str, Any]:
    """A merge patch that sets annotations; None removes them."""
    return {"metadata": {"annotations": dict.fromkeys(keys, value)}}


def binding(name: str, key: str = "", value: str = "x") -> dict[str, Any]:
    """A Binding of a pod to node1."""
    annotations = {key: value} if key else {}
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node1"},
    }


def waiting(name: str) -> dict[str, Any]:
    """A pod that no scheduler binds."""
    return pod(name, IDLE, schedulerName="nobody")


def test_users_cannot_write_allocations(tidy: System) -> None:
    """A cluster admin cannot write them either: not on creation, by patch, by the status, or by a Binding."""
    tidy.submit(waiting("plain"))
    for key in [*KEYS, FORMED]:
        attempts = [
            ("POST", PODS, waiting("new") | {"metadata": {"name": "new", "annotations": {key: "x"}}}, None),
            ("PATCH", f"{PODS}/plain", annotated("x", key), MERGE),
            ("PATCH", f"{PODS}/plain/status", annotated("x", key), MERGE),
            ("POST", f"{PODS}/plain/binding", binding("plain", key), None),
            ("POST", "/api/v1/namespaces/default/bindings", binding("plain", key), None),
        ]
        for method, path, body, kind in attempts:
            with pytest.raises(ApiRefused) as refused:
                tidy.bed.call(method, path, body, *([kind] if kind else []))
            assert refused.value.status == 403, (key, path)
            assert f"metadata.annotations: {key}: {WHY}" in str(refused.value), (key, path)
    now = tidy.pod("plain")
    assert not now["metadata"].get("annotations")
    assert "nodeName" not in now["spec"]


def test_users_cannot_change_or_remove_allocations(tidy: System) -> None:
    tidy.submit(pod("given", container(memory=2000)))
    (now,) = tidy.running("given")
    held = now["metadata"]["annotations"]
    mine = [key for key in KEYS if key in held]
    assert ALLOCATED in mine
    for key in mine:
        for value in (None, "GPU-x,NVIDIA,1,1:;"):
            for path in (f"{PODS}/given", f"{PODS}/given/status"):
                with pytest.raises(ApiRefused, match=WHY):
                    tidy.bed.call("PATCH", path, annotated(value, key), MERGE)
    tidy.bed.call("PATCH", f"{PODS}/given", annotated("fine", "example.com/note"), MERGE)
    now = tidy.pod("given")["metadata"]["annotations"]
    assert now.pop("example.com/note") == "fine", "users may write annotations that are not ours"
    assert now == held


def test_scheduler_account_writes_allocations(tidy: System) -> None:
    """The scheduler's account may bind with an allocation and write one."""
    tidy.submit(waiting("bound"))
    words = ("create", f"--as={SCHEDULER}", "-f", "-", "--raw")
    tidy.bed.kubectl(*words, f"{PODS}/bound/binding", stdin=json.dumps(binding("bound", KEYS[0])))
    now = tidy.pod("bound")
    assert now["spec"]["nodeName"] == "node1"
    assert now["metadata"]["annotations"][KEYS[0]] == "x"
    tidy.running("bound")
    tidy.bed.kubectl("annotate", "pod", "bound", f"--as={SCHEDULER}", f"{KEYS[0]}=y", "--overwrite")
    assert tidy.pod("bound")["metadata"]["annotations"][KEYS[0]] == "y"


def test_agent_writes_only_its_own_node(tidy: System) -> None:
    """RBAC cannot express this. The policy uses the node that the agent's token names."""
    bed, note = tidy.bed, {"metadata": {"annotations": {"example.com/note": "x"}}}
    bed.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "elsewhere"}})
    try:
        tidy.submit(waiting("far"))
        bed.call("POST", f"{PODS}/far/binding", binding("far") | {"target": {"kind": "Node", "name": "elsewhere"}})
        agent = Agent(tidy, tidy.ours("hami-device-plugin")[0]["metadata"]["name"])
        assert agent.answer("PATCH", "/api/v1/nodes/node1", note) == ""
        assert "of its own node, nothing else" in agent.answer("PATCH", "/api/v1/nodes/elsewhere", note)
        assert "pods of its own node, no others" in agent.answer("PATCH", f"{PODS}/far", note)
        assert "pods of its own node, no others" in agent.answer("DELETE", f"{PODS}/far")
        # A token without a node (made by hand, or by an old cluster) must not write at all.
        assert "token names no node" in Agent(tidy, "").answer("PATCH", "/api/v1/nodes/node1", note)
    finally:
        bed.call("DELETE", "/api/v1/nodes/elsewhere")


REQUEST = """
import json, ssl, sys, urllib.error, urllib.request
url, method, token, authority, body = json.load(sys.stdin)
headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
request = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers, method=method)
try:
    urllib.request.urlopen(request, context=ssl.create_default_context(cafile=authority)).read()
except urllib.error.HTTPError as error:
    print(json.load(error)["message"])
"""


class Agent:
    """Sends requests with a token of the agents' account, for one of its pods or for none."""

    def __init__(self, system: System, name: str) -> None:
        of_pod = ("--bound-object-kind=Pod", f"--bound-object-name={name}") if name else ()
        words = ("create", "token", "hami-device-plugin", "-n", NAMESPACE, *of_pod)
        self.token, self.bed = system.bed.kubectl(*words).strip(), system.bed

    def answer(self, method: str, path: str, body: object = None) -> str:
        """Why a request was refused; empty if it was not."""
        said = [f"https://10.200.0.1{path}", method, self.token, f"{self.bed.work}/pki/ca.crt", body]
        return self.bed.run("cp", sys.executable, "-I", "-c", REQUEST, stdin=json.dumps(said)).stdout.strip()


def test_without_scheduler_only_pods_with_devices_are_refused(tidy: System) -> None:
    """They are refused, because they must not bypass the webhook. All other pods are admitted."""
    bed = tidy.bed
    scale = ("scale", "deployment/hami-scheduler", "-n", NAMESPACE)
    bed.kubectl(*scale, "--replicas=0")
    try:
        bed.wait("no scheduler", lambda: not tidy.ours("hami-scheduler"))
        named = {
            "by its app container": pod("refused", container(memory=1000)),
            "by its request alone": pod(
                "refused", container(count=0) | {"resources": {"requests": {"nvidia.com/gpumem": 1}}}
            ),
            "by its init container": pod("refused", container(count=0), init=(container("first", 1000),)),
            "for another scheduler": pod("refused", container(memory=1000), schedulerName="default-scheduler"),
        }
        for how, body in named.items():
            with pytest.raises(ApiRefused, match="failed calling webhook"):
                bed.call("POST", PODS, body)
            assert not tidy.pods(""), how
        tidy.submit(pod("unhindered", IDLE))
        tidy.running("unhindered")
    finally:
        bed.kubectl(*scale, "--replicas=1")
        bed.kubectl("rollout", "status", "deployment/hami-scheduler", "-n", NAMESPACE, "--timeout=90s", timeout=100)
    tidy.ready()
    tidy.submit(pod("again", container(memory=1000)))
    tidy.running("again")
