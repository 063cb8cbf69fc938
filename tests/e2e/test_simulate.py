"""`hami simulate` on a snapshot of real Kubernetes: the running pod keeps its card there."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from tests.e2e.doctor import ROOT
from tests.e2e.pods import container, pod

if TYPE_CHECKING:
    from tests.e2e.system import System


def test_snapshot_has_the_cards_and_what_runs_on_them(clean: System) -> None:
    clean.submit(pod("alice", container(memory=3000)))
    clean.running("alice")
    environment = {"KUBECONFIG": str(clean.bed.work / "kubeconfig/admin"), "PYTHONPATH": str(ROOT)}
    file, jobs = clean.work / "snapshot.json", clean.work / "jobs.yaml"
    wanted = {"arrival": 0, "duration": "1m", "pod": {"spec": {"containers": [container(memory=None)]}}}
    jobs.write_text(json.dumps({"jobs": [{"name": "whole", "count": 9, **wanted}]}))

    def simulate(*words: str) -> str:
        command = (sys.executable, "-m", "hami_core", "simulate", *words)
        return str(clean.bed.run("cp", *command, env=environment, timeout=120).stdout)

    simulate("snapshot", "-o", str(file))
    assert "environment" not in file.read_text()
    told = json.loads(simulate(str(file), str(jobs), "--policies", "binpack/spread", "-o", "json"))
    cards = 2 * len(clean.gpu_nodes)
    assert (told["cluster"]["nodes"], told["cluster"]["cards"]) == (len(clean.gpu_nodes), cards)
    (policy,) = told["policies"]
    assert policy["placed"] == 9
    whole_cards_at_once = cards - 1
    assert policy["waitSeconds"]["max"] == 60 * ((9 - 1) // whole_cards_at_once)
