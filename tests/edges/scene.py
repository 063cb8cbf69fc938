"""The surroundings of all scenarios: one cluster that calls our recorders."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp

from hami_core.sim.resources import now, now_micro
from tests.edges.api import MERGE, PATIENCE, PODS, STRATEGIC, Api
from tests.edges.normalise import normalised
from tests.edges.recorders import Answers, serving
from tests.edges.subject import SCHEDULER, Subject

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HOLLOW = ("hollow1", "hollow2")
"""Nodes without a kubelet. Pods bound to them stay bound and never run."""
_HOLLOW_LABEL = {"edges.test/hollow": "true"}
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


@dataclass
class Scene:
    """One cluster, its API, and the recorders.

    Args:
        subject: The cluster.
        extender: Server of all extenders, each under a path of its own.
        webhook: Server of all webhooks.
    """

    subject: Subject
    extender: Answers
    webhook: Answers

    @property
    def api(self) -> Api:
        """Requests to the cluster."""
        return self.subject.api


Scenario = Callable[["Scene"], Awaitable[dict[str, Any]]]


def pod(name: str, *containers: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """A pod that mounts no token. The keyword ``metadata`` adds to its metadata, other keywords to its spec."""
    meta = {"name": name, **parts.pop("metadata", {})}
    spec = {"automountServiceAccountToken": False, "containers": [*containers] or [box()], **parts}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def box(name: str = "c", **more: Any) -> dict[str, Any]:
    """A container that never runs."""
    return {"name": name, "image": "localhost/none:1", "command": ["/none"], "imagePullPolicy": "Never", **more}


def limits(**amounts: str) -> dict[str, Any]:
    """Limits of a container: ``cpu``, ``memory``, and any other name as a resource of edges.test."""
    named = {k if k in {"cpu", "memory"} else f"edges.test/{k}": v for k, v in amounts.items()}
    return {"resources": {"limits": named}}


def waiting(name: str, *containers: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """A pod for the scheduler that scenarios configure, on hollow nodes only."""
    return pod(name, *containers, schedulerName=SCHEDULER, nodeSelector=_HOLLOW_LABEL, **parts)


async def create(scene: Scene, body: dict[str, Any]) -> dict[str, Any]:
    """Creates a pod of the namespace default."""
    found: dict[str, Any] = await scene.api.must("POST", PODS, body)
    return found


async def _hollow(api: Api, name: str) -> None:
    """Create a node object that is Ready."""
    labels = {**_HOLLOW_LABEL, "kubernetes.io/hostname": name}
    answer = await api.ask("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
    assert answer.status in {201, 409}, answer
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110", "edges.test/counted": "2"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "hollow"}
    ready |= {"lastHeartbeatTime": now(), "lastTransitionTime": now()}
    body = {"status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}}
    await api.must("PATCH", f"/api/v1/nodes/{name}/status", body, STRATEGIC)
    await _beat(api, name)


async def _beat(api: Api, name: str) -> None:
    """Renew the node's Lease, so that the node stays Ready. A scheduler does not react to this write."""
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now_micro()}
    answer = await api.ask("PATCH", f"{_LEASES}/{name}", {"spec": spec}, MERGE)
    if answer.status == 404:
        await api.must("POST", _LEASES, {"metadata": {"name": name}, "spec": spec})


async def _keep_alive(api: Api) -> None:
    while True:
        await asyncio.sleep(8)
        for name in HOLLOW:
            with contextlib.suppress(aiohttp.ClientError):  # the server may be restarting
                await _beat(api, name)


def _extender(
    url: str, name: str, *verbs: str, cached: bool = True, ignored: bool = True, **more: Any
) -> dict[str, Any]:
    return {
        "urlPrefix": f"{url}/{name}",
        **{f"{verb}Verb": verb for verb in verbs},
        "weight": 5,
        "nodeCacheCapable": cached,
        "httpTimeout": "2s",
        "managedResources": [{"name": f"edges.test/{name}", "ignoredByScheduler": ignored}],
        **more,
    }


def settings(url: str) -> dict[str, Any]:
    """Settings of the scheduler with several extenders. A pod selects them by the resources it asks for."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "percentageOfNodesToScore": 100,
        "profiles": [{"schedulerName": SCHEDULER}],
        "extenders": [
            _extender(url, "cached", "filter", "prioritize", "bind"),
            _extender(url, "whole", "filter", "prioritize", cached=False),
            _extender(url, "counted", "filter", ignored=False),
            _extender(url, "ignorable", "filter", ignorable=True),
        ],
    }


@asynccontextmanager
async def scene(subject: Subject) -> AsyncIterator[Scene]:
    """Set up the scene on a cluster for the time of the context."""
    from tests.edges.scenarios import webhook as webhooks

    async with serving(subject.listen()) as extender, serving(subject.listen(), tls=True) as hook:
        found = Scene(subject, extender, hook)
        await clear(subject.api)
        for name in HOLLOW:
            await _hollow(subject.api, name)
        for name in HOLLOW:
            await subject.api.until(f"node {name} without taints", lambda n=name: _untainted(subject.api, n))
        await subject.schedule_with(settings(extender.url))
        await webhooks.install(found)
        beat = asyncio.create_task(_keep_alive(subject.api))
        try:
            yield found
        finally:
            beat.cancel()
            await asyncio.gather(beat, return_exceptions=True)


async def _untainted(api: Api, name: str) -> bool:
    return not (await api.get(f"/api/v1/nodes/{name}"))["spec"].get("taints")


async def observe_all(subject: Subject, scenarios: Mapping[str, Scenario]) -> dict[str, dict[str, Any] | Exception]:
    """The normalised observation of each scenario, or its exception."""
    seen: dict[str, dict[str, Any] | Exception] = {}
    async with scene(subject) as found:
        for name, scenario in scenarios.items():
            try:
                seen[name] = normalised(await observe(found, scenario))
            except Exception as error:  # noqa: BLE001 - the test of this scenario raises it
                seen[name] = error
    return seen


async def observe(found: Scene, scenario: Scenario) -> dict[str, Any]:
    """Run one scenario and clean up. The time limit makes a hang the failure of that scenario."""
    try:
        async with asyncio.timeout(3 * PATIENCE):
            return await scenario(found)
    finally:
        await clear(found.api)


async def clear(api: Api) -> None:
    """Remove all pods and events of the namespace default."""
    for item in (await api.get(PODS))["items"]:
        name = item["metadata"]["name"]
        if item["metadata"].get("finalizers"):
            await api.remove_finalizers(name)
        await api.remove(name)
    await api.must("DELETE", "/api/v1/namespaces/default/events")
