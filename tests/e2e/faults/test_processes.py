"""Faults of processes: any process of ours, of the control plane or of a node may be killed at any time."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.bed.errors import ApiRefused, BedError
from tests.e2e.faults import ours
from tests.e2e.faults.load import lost_by_runtime, start_cut_short
from tests.e2e.faults.strikes import TOGETHER, strike
from tests.e2e.faults.truth import emptied, settled
from tests.e2e.pods import pod
from tests.e2e.system import NAMESPACE, PODS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.faults.load import Load
    from tests.e2e.system import System


@pytest.mark.parametrize("victims", TOGETHER, ids=" and ".join)
def test_killed_under_load(strained: System, loaded: Callable[..., Load], seed: int, victims: tuple[str, ...]) -> None:
    """SIGKILL at a random time. The kubelet, or the bed as a service manager, starts the process again."""
    rng = random.Random(seed)
    load = loaded()
    if "kubelet" in victims:
        load.explain.append(start_cut_short)
    if "containerd" in victims:
        load.explain.append(lost_by_runtime)
    time.sleep(rng.uniform(2, 4))
    what = [strike(strained, victim, rng) for victim in victims]
    time.sleep(rng.uniform(1, 3))
    took = settled(strained, load)
    emptied(strained, load)
    print(f"killed {', '.join(what)}: all well {took:.1f} s after the load ended; {load.summary()}")


def test_webhook_killed_while_pods_are_admitted(strained: System, loaded: Callable[..., Load], seed: int) -> None:
    """Every pod is changed by the webhook or refused: the webhook fails closed."""
    rng = random.Random(seed)
    load = loaded(live=4)
    admitted: list[str] = []
    refused: list[str] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            try:
                answer = strained.bed.call("POST", f"{PODS}?dryRun=All", pod("admission"))
                admitted.append(answer["spec"]["schedulerName"])
            except ApiRefused as error:
                refused.append(error.message)
            except BedError as error:
                refused.append(str(error))

    askers = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for asker in askers:
        asker.start()
    time.sleep(rng.uniform(1, 2))
    what = strike(strained, "scheduler", rng)
    down = time.monotonic()
    strained.bed.wait("the API server refuses, by the webhook's name", lambda: refused, 30)
    ours.available(strained)
    before = len(admitted)
    strained.bed.wait("pods are admitted again", lambda: len(admitted) > before + 5, 60)
    away = time.monotonic() - down
    over.set()
    for asker in askers:
        asker.join(30)
    assert set(admitted) == {"hami-scheduler"}, "a pod with cards was admitted without the webhook"
    assert all("webhook" in text for text in refused), refused
    settled(strained, load)
    emptied(strained, load)
    print(f"killed {what}: {len(admitted)} admitted, {len(refused)} refused, away {away:.1f} s")


def test_agents_replaced_under_load(strained: System, loaded: Callable[..., Load]) -> None:
    """`kubectl rollout restart`: each agent ends once its node's bound pods have their devices; none is rejected."""
    load = loaded(live=12, pause=(0.05, 0.2))
    load.explain = []  # no pod may fail
    took = []
    for _ in range(2):
        before, made, began = ours.uids(strained, ours.AGENT), load.made, time.monotonic()
        selector = ("-n", NAMESPACE, "-l", f"app.kubernetes.io/component={ours.AGENT}")
        strained.bed.kubectl("rollout", "restart", "daemonset", *selector)
        strained.bed.kubectl("rollout", "status", "daemonset", *selector, "--timeout=180s", timeout=200)
        strained.bed.wait("other agents", lambda b=before: not b & ours.uids(strained, ours.AGENT), 30)
        took.append(time.monotonic() - began)
        assert load.made > made, "pods were made meanwhile"
    settled(strained, load)
    assert not load.again, f"pods had to be made anew: {load.summary()}"
    words = {
        node: strained.bed.call("GET", f"/api/v1/nodes/{node}")["metadata"]["labels"] for node in strained.gpu_nodes
    }
    assert {labels.get("hami.io/agent-nvidia") for labels in words.values()} == {"ready"}, words
    emptied(strained, load)
    print(f"replaced twice in {', '.join(f'{t:.0f} s' for t in took)}; {load.summary()}")
