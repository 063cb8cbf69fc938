"""`hami explain` on real Kubernetes: a pod that is written as the answer says runs."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.e2e.doctor import ROOT
from tests.e2e.pods import container, pod
from tests.e2e.system import NAMESPACE
from tests.e2e.test_top import READER, reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.system import System

__all__ = ["reader"]
MEMORY = "nvidia.com/gpumem"


def explain(system: System, kubeconfig: str, *words: str, text: str = "", status: int = 0) -> str:
    """Run it on the control plane's machine."""
    environment = {"KUBECONFIG": kubeconfig, "PYTHONPATH": str(ROOT)}
    command = (sys.executable, "-m", "hami_core", "explain", "pod", *words, "--hami-namespace", NAMESPACE)
    done = system.bed.run("cp", *command, check=False, env=environment, timeout=120, stdin=text)
    assert done.returncode == status, (done.stdout, done.stderr)
    return str(done.stdout if status == 0 else done.stderr)


def answer(system: System, kubeconfig: str, *words: str, text: str = "") -> dict[str, Any]:
    return dict(json.loads(explain(system, kubeconfig, *words, "-o", "json", text=text)))


@contextmanager
def granted(system: System, verb: str) -> Iterator[None]:
    """The reader's right to do this with pods in the namespace default."""
    whom = f"--serviceaccount=default:{READER}"
    system.bed.kubectl("create", "role", READER, f"--verb={verb}", "--resource=pods", "-n", "default")
    system.bed.kubectl("create", "rolebinding", READER, f"--role={READER}", whom, "-n", "default")
    try:
        yield
    finally:
        system.bed.kubectl("delete", "role,rolebinding", READER, "-n", "default")


def test_following_the_answer_makes_the_pod_run(clean: System) -> None:
    admin = str(clean.bed.work / "kubeconfig/admin")
    clean.submit(pod("big", container(memory=500_000)))

    def event() -> str:
        found = clean.bed.kubectl("get", "events", "--field-selector=reason=FilteringFailed,involvedObject.name=big")
        return next((line for line in found.splitlines() if "it would fit on" in line), "")

    said = clean.bed.wait("the nearest miss in an event", event, 60, 1)
    told = answer(clean, admin, "big")
    assert told["state"] == "pending"
    assert told["nodes"] == {"fit": 0, "refused": len(clean.gpu_nodes)}
    assert "nodes are available" in told["kube_scheduler"]
    change = told["refused"][0]["changes"][0]
    assert change["text"] in said
    most = change["limits"][MEMORY]
    written = json.dumps(pod("fitting", container(memory=most)))
    assert answer(clean, admin, "-f", "-", text=written)["nodes"]["fit"] == len(clean.gpu_nodes)
    one_more = json.dumps(pod("fitting", container(memory=most + 1)))
    assert answer(clean, admin, "-f", "-", text=one_more)["nodes"]["fit"] == 0
    clean.submit(pod("fitting", container(memory=most)))
    clean.running("fitting")
    placed = answer(clean, admin, "fitting")
    assert (placed["state"], placed["placed"]["containers"][0]["cards"][0]["memory_mib"]) == ("bound", most)
    assert "fits on" in explain(clean, admin, "fitting", "--cards")


def test_rights_decide_what_is_told(clean: System, reader: str) -> None:
    clean.submit(pod("mine", container(memory=500_000)))
    assert "pods there" in explain(clean, reader, "mine", status=1), "the caller may not read the pod"
    with granted(clean, "get"):
        told = explain(clean, reader, "mine")
        assert f"with {MEMORY} ≤ " in told
        assert "you need the right to create pods in namespace default" in explain(
            clean, reader, "-f", "-", text=json.dumps(pod("new", container())), status=1
        )
