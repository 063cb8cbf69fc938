"""Any process may be killed at any moment: ours, the control plane's, the node's."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.bed.errors import ApiRefused, BedError
from tests.e2e.faults import ours
from tests.e2e.faults.strikes import TOGETHER, strike
from tests.e2e.faults.truth import emptied, settled
from tests.e2e.pods import pod
from tests.e2e.system import PODS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.faults.load import Load
    from tests.e2e.system import System


@pytest.mark.parametrize("victims", TOGETHER, ids=" and ".join)
def test_killed_under_load(strained: System, loaded: Callable[..., Load], seed: int, victims: tuple[str, ...]) -> None:
    """SIGKILL at a random moment; the kubelet, or the bed in a service manager's place, starts it again."""
    rng = random.Random(seed)
    load = loaded()
    time.sleep(rng.uniform(2, 4))
    what = [strike(strained, victim, rng) for victim in victims]
    time.sleep(rng.uniform(1, 3))
    took = settled(strained, load)
    emptied(strained, load)
    print(f"killed {', '.join(what)}: all well {took:.1f} s after the load ended; {load.summary()}")


def test_webhook_killed_while_pods_are_admitted(strained: System, loaded: Callable[..., Load], seed: int) -> None:
    """Every pod is admitted as the webhook makes it, or not at all: it fails closed."""
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
    assert set(admitted) == {"hami-scheduler"}, "a pod that asks for cards came round the webhook"
    assert all("webhook" in text for text in refused), refused
    settled(strained, load)
    emptied(strained, load)
    print(f"killed {what}: {len(admitted)} admitted, {len(refused)} refused, away {away:.1f} s")
