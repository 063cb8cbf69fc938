"""Clocks that are wrong, watches that have expired, credentials that change."""

from __future__ import annotations

import random
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.faults import ours
from tests.e2e.faults.conftest import QUICK
from tests.e2e.faults.truth import emptied, settled
from tests.e2e.system import NAMESPACE
from tests.e2e.values import merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.faults.load import Load
    from tests.e2e.system import System

OFFSET = "HAMI_TEST_CLOCK_OFFSET"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
SHORT_LIVED = ["--certificate-lifetime=60s", "--signing-key-lifetime=45s", "--signing-key-delay=25s"]


@contextmanager
def clock_off(system: System, whose: str, seconds: int) -> Iterator[None]:
    """Our scheduler, or the agent of the first node, with its wall clock off."""
    agent = whose == "agent"
    target = "daemonset/hami-device-plugin" if agent else "deployment/hami-scheduler"
    container = ours.PLUGIN if agent else ours.EXTENDER

    def set_to(word: str, strategy: str) -> None:
        if agent:  # of one node alone: no roll-out
            body = f'{{"spec": {{"updateStrategy": {{"$retainKeys": ["type"], "type": "{strategy}"}}}}}}'
            system.bed.kubectl("patch", "-n", NAMESPACE, target, "-p", body)
        system.bed.kubectl("set", "env", "-n", NAMESPACE, target, "-c", container, word)
        if agent:
            name = ours.pod_of(system, ours.AGENT, system.gpu_nodes[0])["metadata"]["name"]
            system.bed.kubectl("delete", "pod", "-n", NAMESPACE, name)
        else:
            system.bed.kubectl("rollout", "status", "-n", NAMESPACE, target, "--timeout=90s", timeout=100)
        ours.available(system)

    set_to(f"{OFFSET}={seconds}", "OnDelete")
    try:
        yield
    finally:
        set_to(f"{OFFSET}-", "OnDelete")


@pytest.mark.parametrize(("whose", "seconds"), [("scheduler", 3600), ("agent", -3600)], ids=["ahead", "behind"])
def test_clock_off_by_an_hour(strained: System, loaded: Callable[..., Load], whose: str, seconds: int) -> None:
    """Nothing waits by the wall clock, so nothing changes; certificates are valid an hour before they are made."""
    load = loaded()
    with clock_off(strained, whose, seconds):
        time.sleep(6)
        took = settled(strained, load)
        emptied(strained, load)
    print(f"{whose}'s clock {seconds} s off: all well {took:.1f} s after; {load.summary()}")


@pytest.mark.soak
@pytest.mark.parametrize(("whose", "seconds"), [("scheduler", -3600), ("agent", 3600)], ids=["behind", "ahead"])
def test_clock_off_by_an_hour_the_other_way(
    strained: System, loaded: Callable[..., Load], whose: str, seconds: int
) -> None:
    test_clock_off_by_an_hour(strained, loaded, whose, seconds)


def test_watches_expire(strained: System, loaded: Callable[..., Load], seed: int) -> None:
    """Our processes sleep while the API server forgets what they have seen last: 410, and they list again."""
    rng = random.Random(seed)
    load = loaded()
    time.sleep(rng.uniform(2, 4))
    bed = strained.bed
    scheduler, agent = ours.pod_of(strained, ours.SCHEDULER), ours.pod_of(strained, ours.AGENT, "node1")
    with ours.frozen(scheduler, ours.EXTENDER), ours.frozen(agent, ours.PLUGIN):
        time.sleep(1)
        for number in range(5):  # versions that nobody asleep has seen
            bed.kubectl("annotate", "node", "node1", f"test/number={number}", "--overwrite")
        forget(strained)
    said = "watch version is too old, lists again"
    bed.wait("the scheduler lists again", lambda: said in ours.logs(strained, scheduler, ours.EXTENDER), 60)
    took = settled(strained, load)
    emptied(strained, load)
    print(f"watches expired: all well {took:.1f} s after; {load.summary()}")


def forget(system: System) -> None:
    """Compact etcd up to now and restart the API server, whose watch cache then begins at this version."""
    pki = system.bed.work / "pki"
    etcdctl = str(system.tools.etcd_bin / "etcdctl")
    del pki
    said = system.bed.run("cp", etcdctl, "endpoint", "status", "-w", "json", env={"ETCDCTL_API": "3"}).stdout
    revision = said.partition('"revision":')[2].split(",")[0].strip("} ]")
    system.bed.run("cp", etcdctl, "compact", revision, env={"ETCDCTL_API": "3"})
    system.bed.restart("kube-apiserver")
    system.bed.wait("the API server is back", lambda: system.bed.call("GET", "/readyz") == "ok", 60)


def test_credentials_rotate(strained: System, loaded: Callable[..., Load]) -> None:
    """Certificates and signing keys that live a minute: no pod is refused for either."""
    strained.install(**merged(QUICK, {"scheduler": {"extender": {"extraArgs": [*_extra(QUICK), *SHORT_LIVED]}}}))
    ours.available(strained)
    try:
        load = loaded()
        bundles: set[str] = set()
        keys: set[str] = set()
        until = time.monotonic() + 110
        while time.monotonic() < until and not (len(bundles) >= 3 and len(keys) >= 2):
            bundles |= _bundles(strained)
            keys |= {
                text.split(":")[2]
                for now in strained.pods("").values()
                if (text := now["metadata"].get("annotations", {}).get("hami.io/allocation-signature"))
            }
            time.sleep(1)
        assert len(bundles) >= 3, "the webhook's certificate was renewed"
        assert len(keys) >= 2, "another key signs"
        took = settled(strained, load)
        refused = [text for text in load.unanswered if "webhook" in text]
        assert refused == [], "the API server trusted every certificate it was shown"
        said = strained.bed.kubectl("get", "events", "-A", "--field-selector", "reason=DevicesRefused", "--no-headers")
        assert "signature" not in said, "agents knew every key in time"
        emptied(strained, load)
        print(f"{len(bundles)} bundles, {len(keys)} keys: all well {took:.1f} s after; {load.summary()}")
    finally:
        strained.install(**QUICK)
        ours.available(strained)


def _extra(values: dict[str, Any]) -> list[str]:
    return list(values["scheduler"]["extender"]["extraArgs"])


def _bundles(system: System) -> set[str]:
    listing = system.bed.call("GET", HOOKS)["items"]
    return {hook["clientConfig"].get("caBundle", "") for item in listing for hook in item.get("webhooks", [])} - {""}
