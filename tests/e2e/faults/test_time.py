"""Faults of time: wrong clocks, expired watches, credentials that rotate."""

from __future__ import annotations

import random
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.faults import ours
from tests.e2e.faults.truth import emptied, settled
from tests.e2e.system import NAMESPACE
from tests.e2e.values import EXTENDER_ARGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.faults.load import Load
    from tests.e2e.system import System

OFFSET = "HAMI_TEST_CLOCK_OFFSET"
TLS = f"/api/v1/namespaces/{NAMESPACE}/secrets/hami-scheduler-tls"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
SHORT_LIVED = ["--certificate-lifetime=45s", "--signing-key-lifetime=50s", "--signing-key-delay=25s"]


@contextmanager
def clock_off(system: System, whose: str, seconds: int) -> Iterator[None]:
    """Set the wall clock of our scheduler, or of the first node's agent, off by some seconds."""
    agent = whose == "agent"
    target = "daemonset/hami-device-plugin" if agent else "deployment/hami-scheduler"
    container = ours.PLUGIN if agent else ours.EXTENDER

    def set_to(word: str) -> None:
        system.bed.kubectl("set", "env", "-n", NAMESPACE, target, "-c", container, word)
        if agent:
            name = ours.pod_of(system, ours.AGENT, system.gpu_nodes[0])["metadata"]["name"]
            system.bed.kubectl("delete", "pod", "-n", NAMESPACE, name)
        else:
            system.bed.kubectl("rollout", "status", "-n", NAMESPACE, target, "--timeout=90s", timeout=100)
        ours.available(system)

    if agent:  # change only one node's agent, so prevent a rollout
        _strategy(system, {"type": "OnDelete", "rollingUpdate": None})
    try:
        set_to(f"{OFFSET}={seconds}")
        yield
    finally:
        set_to(f"{OFFSET}-")
        if agent:
            _strategy(system, {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}})


def _strategy(system: System, how: dict[str, Any]) -> None:
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/hami-device-plugin"
    system.bed.call("PATCH", path, {"spec": {"updateStrategy": how}}, "application/merge-patch+json")


@pytest.mark.parametrize(("whose", "seconds"), [("scheduler", 3600), ("agent", -3600)], ids=["ahead", "behind"])
def test_clock_off_by_an_hour(strained: System, loaded: Callable[..., Load], whose: str, seconds: int) -> None:
    """No timeout uses the wall clock, so nothing changes. Certificates are valid from an hour before their creation."""
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
    """The API server forgets versions while our processes are frozen. They get 410 and list again."""
    rng = random.Random(seed)
    load = loaded()
    time.sleep(rng.uniform(2, 4))
    bed = strained.bed
    scheduler, agent = ours.pod_of(strained, ours.SCHEDULER), ours.pod_of(strained, ours.AGENT, "node1")
    with ours.frozen(scheduler, ours.EXTENDER), ours.frozen(agent, ours.PLUGIN):
        time.sleep(1)
        for number in range(5):  # new versions that the frozen processes have not seen
            bed.kubectl("annotate", "node", "node1", f"test/number={number}", "--overwrite")
        forget(strained)
    said = "watch version is too old: listing again"
    bed.wait("the scheduler lists again", lambda: said in ours.logs(strained, scheduler, ours.EXTENDER), 60)
    took = settled(strained, load)
    emptied(strained, load)
    print(f"watches expired: all well {took:.1f} s after; {load.summary()}")


def forget(system: System) -> None:
    """Compact etcd and restart the API server. Its watch cache then begins at the current version."""
    etcdctl = str(system.tools.etcd.with_name("etcdctl"))
    said = system.bed.run("cp", etcdctl, "endpoint", "status", "-w", "json", env={"ETCDCTL_API": "3"}).stdout
    revision = said.partition('"revision":')[2].split(",")[0].strip("} ]")
    system.bed.run("cp", etcdctl, "compact", revision, env={"ETCDCTL_API": "3"})
    system.bed.kill("kube-apiserver")  # on SIGTERM it would wait for the frozen clients
    system.bed.start("kube-apiserver")
    system.bed.wait("the API server is back", lambda: system.bed.call("GET", "/readyz") == "ok", 60)


def test_credentials_rotate(strained: System, loaded: Callable[..., Load]) -> None:
    """Certificates and signing keys are valid for less than a minute. No pod is refused because of them."""
    try:
        strained.install(scheduler={"extender": {"extraArgs": [*EXTENDER_ARGS, *SHORT_LIVED]}})
        # The existing certificate is valid for long. Delete it, so that the scheduler makes a short-lived one.
        strained.bed.kubectl("delete", "secret", "-n", NAMESPACE, "hami-scheduler-tls")
        strained.bed.wait("a new certificate", lambda: strained.bed.call("GET", TLS), 60)
        ours.available(strained)
        load = loaded()
        bundles, keys = _turns(strained)
        took = settled(strained, load)
        refused = [text for text in load.unanswered if "webhook" in text]
        assert refused == [], "the API server trusted every certificate it was shown"
        said = strained.bed.kubectl("get", "events", "-A", "--field-selector", "reason=DevicesRefused", "--no-headers")
        assert "signature" not in said, "agents knew every key in time"
        emptied(strained, load)
        print(f"{bundles} bundles, {keys} keys: all well {took:.1f} s after; {load.summary()}")
    finally:
        strained.install()
        ours.available(strained)


def _turns(system: System, seconds: float = 120) -> tuple[int, int]:
    """Wait until three lists of authorities and two signing keys have been seen. Returns both numbers."""
    bundles: set[str] = set()
    keys: set[str] = set()
    until = time.monotonic() + seconds
    while len(bundles) < 3 or len(keys) < 2:
        assert time.monotonic() < until, f"{len(bundles)} lists of authorities, {len(keys)} keys in {seconds:g} s"
        bundles |= _bundles(system)
        keys |= {
            text.split(":")[2]
            for now in system.pods("").values()
            if (text := now["metadata"].get("annotations", {}).get("hami.io/allocation-signature"))
        }
        time.sleep(0.5)
    return len(bundles), len(keys)


def _bundles(system: System) -> set[str]:
    listing = system.bed.call("GET", HOOKS)["items"]
    return {hook["clientConfig"].get("caBundle", "") for item in listing for hook in item.get("webhooks", [])} - {""}
