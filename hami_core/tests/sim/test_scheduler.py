"""The embedded scheduler with an extender of the tests."""

from __future__ import annotations

import asyncio
import socket

from hami_core.sim import Cluster, NodeSpec
from hami_core.sim.quantity import requests
from hami_core.sim.waiting import Queue

GPU = {"name": "c", "command": ["/bin/sleep", "60"], "resources": {"limits": {"example.test/gpu": "1"}}}
PLAIN = {"name": "c", "command": ["/bin/sleep", "60"]}


def binder(kube, note: str):
    """A Bind handler that binds as requested and adds an annotation."""

    async def bind(body: dict) -> str:
        meta = {"name": body["PodName"], "uid": body["PodUID"], "annotations": {"example.test/by": note}}
        target = {"kind": "Node", "apiVersion": "v1", "name": body["Node"]}
        path = f"/api/v1/namespaces/{body['PodNamespace']}/pods/{body['PodName']}/binding"
        await kube.client.call("POST", path, {"metadata": meta, "target": target})
        return ""

    return bind


async def test_extender_filters_scores_and_binds_pods(short_dir, kube, extender) -> None:
    nodes = [NodeSpec("n1"), NodeSpec("n2"), NodeSpec("n3")]
    async with Cluster(short_dir, nodes, scheduler_config=extender.config()) as cluster, kube(cluster.url) as k:
        extender.on_bind = binder(k, "extender")
        extender.refuse, extender.scores = {"n1": "card 0: too small"}, {"n2": 3, "n3": 7}
        await k.create("a", [GPU])
        pod = await k.until("a", lambda p: p["spec"].get("nodeName"))
        assert pod["spec"]["nodeName"] == "n3"
        assert pod["metadata"]["annotations"] == {"example.test/by": "extender"}
        assert extender.verbs() == ["filter", "prioritize", "bind"]
        asked = dict(extender.asked)
        assert asked["filter"]["NodeNames"] == ["n1", "n2", "n3"]
        assert asked["filter"]["Nodes"] is None
        assert asked["prioritize"]["NodeNames"] == ["n2", "n3"]
        assert asked["bind"] == {
            "PodName": "a",
            "PodNamespace": "default",
            "PodUID": pod["metadata"]["uid"],
            "Node": "n3",
        }
        assert await k.events("Scheduled") == ["Successfully assigned default/a to n3"]
        # The extender gets no call for a pod without a managed resource.
        await k.create("b", [PLAIN])
        await k.until("b", lambda p: p["spec"].get("nodeName"))
        assert len(extender.asked) == 3
        # With one node left, the scheduler asks for no scores.
        extender.refuse = {"n1": "x", "n3": "y"}
        await k.create("c", [GPU])
        assert (await k.until("c", lambda p: p["spec"].get("nodeName")))["spec"]["nodeName"] == "n2"
        assert extender.verbs()[3:] == ["filter", "bind"]


async def test_default_schedulers_pods_run_without_the_extender(short_dir, kube, extender) -> None:
    config = extender.config(managedResources=[])
    config["profiles"] = [{"schedulerName": "other"}]
    async with Cluster(short_dir, [NodeSpec("n1")], scheduler_config=config) as cluster, kube(cluster.url) as k:
        await k.create("plain", [PLAIN])
        await k.phase("plain", "Running")
        assert extender.asked == []
        extender.on_bind = binder(k, "extender")
        await k.create("with-extender", [PLAIN], schedulerName="other")
        await k.phase("with-extender", "Running")
        assert extender.verbs() == ["filter", "bind"]


async def test_refused_pod_is_reported_and_retried_after_an_event(short_dir, kube, extender) -> None:
    async with (
        Cluster(short_dir, [NodeSpec("n1"), NodeSpec("n2")], scheduler_config=extender.config()) as cluster,
        kube(cluster.url) as k,
    ):
        extender.on_bind = binder(k, "late")
        extender.refuse = {"n1": "card 0: needs 4000 MiB, has 1000", "n2": "card 0: needs 4000 MiB, has 1000"}
        await k.create("a", [GPU])
        pod = await k.until("a", lambda p: p["status"].get("conditions"))
        (condition,) = pod["status"]["conditions"]
        refusal = "0/2 nodes are available: 2 card 0: needs 4000 MiB, has 1000."
        preemption = "0/2 nodes are available: 2 No preemption victims found for incoming pod."
        expected = f"{refusal} no new claims to deallocate, preemption: {preemption}"
        assert (condition["type"], condition["status"], condition["reason"]) == (
            "PodScheduled",
            "False",
            "Unschedulable",
        )
        assert condition["message"] == expected
        assert expected in await k.events("FailedScheduling")
        # The pod is retried only after an event of the cluster.
        extender.refuse = {}
        node = {"metadata": {"annotations": {"example.test/changed": "1"}}}
        await k.client.call("PATCH", "/api/v1/nodes/n1", node, patch="merge")
        await k.until("a", lambda p: p["spec"].get("nodeName"))


async def test_failed_bind_is_retried(short_dir, kube, extender) -> None:
    async with Cluster(short_dir, scheduler_config=extender.config()) as cluster, kube(cluster.url) as k:
        good, answers = binder(k, "second"), ["node n1 is locked"]

        async def bind(body: dict) -> str:
            return answers.pop() if answers else await good(body)

        extender.on_bind = bind
        await k.create("a", [GPU])
        pod = await k.until("a", lambda p: p["spec"].get("nodeName"))
        assert pod["metadata"]["annotations"] == {"example.test/by": "second"}
        assert "node n1 is locked" in await k.events("FailedScheduling")


async def test_extender_that_is_down_blocks_pods_unless_ignorable(short_dir, kube, extender) -> None:
    down = {"urlPrefix": "http://127.0.0.1:9", "filterVerb": "filter", "nodeCacheCapable": True}
    config = extender.config()
    config["extenders"][0]["bindVerb"] = ""
    config["extenders"].insert(0, {**down, "ignorable": True})
    async with Cluster(short_dir, scheduler_config=config) as cluster, kube(cluster.url) as k:
        await k.create("a", [GPU])
        await k.until("a", lambda p: p["spec"].get("nodeName"))
        config["extenders"][0]["ignorable"] = False
        await cluster.configure_scheduler(config)
        await k.create("b", [GPU])
        pod = await k.until("b", lambda p: p["status"].get("conditions"))
        assert pod["status"]["conditions"][0]["reason"] == "SchedulerError"


async def test_resources_and_unschedulable_nodes_are_respected(short_dir, kube) -> None:
    async with (
        Cluster(short_dir, [NodeSpec("n1"), NodeSpec("n2")], {"podMaxBackoffSeconds": 1}) as cluster,
        kube(cluster.url) as k,
    ):
        for name in ("n1", "n2"):
            status = {"status": {"allocatable": {"example.test/thing": "2"}}}
            await k.client.call("PATCH", f"/api/v1/nodes/{name}/status", status, patch="merge")
        await k.client.call("PATCH", "/api/v1/nodes/n2", {"spec": {"unschedulable": True}}, patch="merge")
        thing = {**PLAIN, "resources": {"limits": {"example.test/thing": "2"}}}
        await k.create("first", [thing])
        assert (await k.until("first", lambda p: p["spec"].get("nodeName")))["spec"]["nodeName"] == "n1"
        await k.create("second", [thing])
        pod = await k.until("second", lambda p: p["status"].get("conditions"))
        refusal = "0/2 nodes are available: 1 Insufficient example.test/thing, 1 node(s) were unschedulable."
        assert pod["status"]["conditions"][0]["message"].startswith(refusal)
        taint = {"key": "example.test/taint", "value": "v", "effect": "NoSchedule"}
        await k.client.call(
            "PATCH", "/api/v1/nodes/n2", {"spec": {"unschedulable": None, "taints": [taint]}}, patch="merge"
        )
        await k.create("third", [PLAIN], tolerations=[{"key": "example.test/taint", "operator": "Exists"}],
                       nodeSelector={"kubernetes.io/hostname": "n2"})  # fmt: skip
        assert (await k.until("third", lambda p: p["spec"].get("nodeName")))["spec"]["nodeName"] == "n2"
        await k.client.call("DELETE", "/api/v1/namespaces/default/pods/first")
        assert (await k.until("second", lambda p: p["spec"].get("nodeName")))["spec"]["nodeName"] == "n1"


async def test_lease_names_the_host_and_passes_to_the_next_leader(short_dir, kube) -> None:
    config = {"leaderElection": {"leaseDuration": "2s", "renewDeadline": "1500ms", "retryPeriod": "200ms"}}
    async with Cluster(short_dir, [], config) as cluster, kube(cluster.url) as k:
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"

        async def holder(other: str = "") -> dict:
            async with asyncio.timeout(60):
                while True:
                    found = await k.client.call("GET", "/apis/coordination.k8s.io/v1/leases")
                    spec = next((i["spec"] for i in found["items"] if i["metadata"]["name"] == "kube-scheduler"), {})
                    if spec.get("holderIdentity") not in {None, "", other}:
                        return spec
                    await asyncio.sleep(0.1)

        first = await holder()
        assert first["holderIdentity"].startswith(f"{socket.gethostname()}_")
        assert first["leaseDurationSeconds"] == 2
        await cluster.restart("scheduler")  # killed, so the Lease must expire
        second = await holder(first["holderIdentity"])
        assert second["leaseTransitions"] == first["leaseTransitions"] + 1
        await k.client.call("PATCH", path, {"spec": {"holderIdentity": "thief_1"}}, patch="merge")
        assert (await holder("thief_1"))["holderIdentity"] != second["holderIdentity"]


async def test_queue_doubles_the_back_off_each_time() -> None:
    queue = Queue(initial=1.0, longest=3.0)
    pod = {"metadata": {"uid": "u"}, "spec": {}}
    queue.put(pod)
    now, waits = asyncio.get_running_loop().time, []
    for _ in range(4):
        waiting = await queue.pop() if not waits else waiting  # noqa: F821
        waiting.attempts = len(waits) + 1
        queue.failed(waiting, queue.moves, unschedulable=False)
        waits.append(round(waiting.ready_at - now(), 1))
    assert waits == [1.0, 2.0, 3.0, 3.0]


async def test_queue_remembers_an_event_during_an_attempt() -> None:
    queue = Queue(initial=0.0, longest=0.0)
    queue.put({"metadata": {"uid": "u"}, "spec": {}})
    waiting, before = await queue.pop(), queue.moves
    queue.move_all()
    queue.failed(waiting, before, unschedulable=True)
    assert (await queue.pop()).attempts == 2


def test_init_containers_and_sidecars_count_as_in_kubernetes() -> None:
    def needs(count: int, **more) -> dict:
        return {"resources": {"requests": {"r": str(count)}}, **more}

    spec = {
        "initContainers": [needs(1, restartPolicy="Always"), needs(5), needs(2, restartPolicy="Always")],
        "containers": [needs(1), needs(1)],
    }
    assert requests({"spec": spec}) == {"r": 6}  # 1 + 5 while the second runs; afterwards 1 + 2 + 1 + 1


async def test_scheduler_and_kubelet_recover_from_faults(short_dir, kube) -> None:
    async with (
        Cluster(short_dir, scheduler_config={"podInitialBackoffSeconds": 0.1}) as cluster,
        kube(cluster.url) as k,
    ):
        for fault in (
            {"action": "status", "verb": "create", "resource": "pods/binding", "code": 500},
            {"action": "commit_then_timeout", "verb": "create", "resource": "pods/binding", "seconds": 0.2},
            {"action": "status", "verb": "patch", "resource": "pods/status", "code": 429, "count": 3},
            {"action": "commit_then_timeout", "verb": "patch", "resource": "pods/status", "seconds": 0.2},
            {"action": "status", "verb": "delete", "resource": "pods", "code": 500, "agent": "kubelet", "count": 2},
            {"action": "latency", "verb": "create", "resource": "events", "seconds": 0.2},
        ):
            await cluster.fault(**fault)
        for name in ("a", "b", "c"):
            await k.create(name, [PLAIN])
            await cluster.drop_watches()
            await cluster.compact()
        for name in ("a", "b", "c"):
            await k.phase(name, "Running")
            await k.client.call("DELETE", f"/api/v1/namespaces/default/pods/{name}")
        async with asyncio.timeout(90):
            while (await k.client.call("GET", "/api/v1/pods"))["items"]:
                await asyncio.sleep(0.05)
        assert all(f["hits"] == f["count"] for f in await cluster.faults())
