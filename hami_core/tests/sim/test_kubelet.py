"""The embedded kubelet, as device plugins and users who submit pods see it."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import grpc.aio
import pytest

from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.agent.proto import deviceplugin_pb2_grpc as rpc
from hami_core.agent.proto import podresources_pb2 as res
from hami_core.agent.proto import podresources_pb2_grpc as res_rpc
from hami_core.sim import Cluster, NodeSpec
from hami_core.sim.kubelet import checkpoint, launch

KIND = "example.test/late"
FAST = NodeSpec("n1", resync_seconds=2, crash_seconds=0.2, settle_seconds=0.5)
SLEEP = ["/bin/sleep", "300"]


def box(name: str, script: str | list[str], count: int = 0, **more) -> dict:
    command = ["/bin/sh", "-c", script] if isinstance(script, str) else script
    limits = {"resources": {"limits": {KIND: str(count)}}} if count else {}
    return {"name": name, "command": command, **limits, **more}


def state(pod: dict, name: str) -> dict:
    found = [*(pod["status"].get("initContainerStatuses") or []), *(pod["status"].get("containerStatuses") or [])]
    return next((c["state"] for c in found if c["name"] == name), {})


def waiting(pod: dict, name: str, reason: str) -> str:
    """The message of a container that waits for this reason."""
    found = state(pod, name).get("waiting") or {}
    return found.get("message") or "-" if found.get("reason") == reason else ""


def ids(entry: dict) -> set[str]:
    return {i for group in entry["DeviceIDs"].values() for i in group}


def restarts(pod) -> int:
    """Restarts of the first container. 0 before the kubelet has reported it."""
    found = pod["status"].get("containerStatuses") or [{"restartCount": 0}]
    return found[0]["restartCount"]


async def test_late_binding_gives_each_container_its_own_identity(short_dir, kube, late_plugin) -> None:
    """Slots of init containers are reused, and sidecars keep theirs."""
    async with (
        Cluster(short_dir, [FAST]) as cluster,
        kube(cluster.url) as k,
        late_plugin(cluster.node("n1"), 8) as plugin,
    ):
        show = "echo $IDENTITY"
        await k.create(
            "a",
            [box("app", f"{show}; sleep 300", 2)],
            initContainers=[
                box("first", show, 2),
                box("side", f"{show}; sleep 300", 1, restartPolicy="Always"),
                box("last", show, 3),
            ],
        )
        pod = await k.phase("a", "Running")
        uid = pod["metadata"]["uid"]
        for name in ("first", "side", "last", "app"):
            assert await k.log("a", name) == f"{uid}/{name}\n"
        held = {e["ContainerName"]: ids(e) for e in plugin.entries()}
        assert {n: len(i) for n, i in held.items()} == {"first": 2, "side": 1, "last": 3, "app": 2}
        assert held["side"] < held["first"]
        assert held["first"] - held["side"] < held["last"]
        assert held["app"] < held["last"]
        assert not held["side"] & (held["last"] | held["app"])
        # The kubelet asks for a preference only if it needs new slots, and names those that must be included.
        assert plugin.preferred == [(set(), 2), (held["first"] - held["side"], 3)]
        assert [c for c, _ in plugin.calls] == ["Allocate"] * 4 + ["PreStartContainer"] * 4
        assert [i for c, i in plugin.calls if c == "PreStartContainer"] == [
            held[n] for n in ("first", "side", "last", "app")
        ]


async def test_checkpoint_has_the_form_of_the_real_kubelets(short_dir, kube, late_plugin) -> None:
    async with Cluster(short_dir, [FAST]) as cluster, kube(cluster.url) as k:
        node = cluster.node("n1")
        async with late_plugin(node, 2):
            await k.create("a", [box("app", SLEEP, 1)])
            pod = await k.phase("a", "Running")
            content = json.loads((node.plugin_dir / "kubelet_internal_checkpoint").read_bytes())
            assert content.keys() == {"Data", "Checksum"}
            (entry,) = content["Data"]["PodDeviceEntries"]
            assert entry.keys() == {"PodUID", "ContainerName", "ResourceName", "DeviceIDs", "AllocResp"}
            assert (entry["PodUID"], entry["ContainerName"], entry["ResourceName"]) == (
                pod["metadata"]["uid"],
                "app",
                KIND,
            )
            assert list(entry["DeviceIDs"]) == ["-1"]
            assert sorted(content["Data"]["RegisteredDevices"][KIND]) == ["slot-0", "slot-1"]
            broken = json.dumps(content).replace("slot-0", "slot-7").encode()
            with pytest.raises(ValueError, match="checksum"):
                checkpoint.decode(broken)


async def test_cdi_edits_apply_only_inside_the_container(short_dir, kube, late_plugin) -> None:
    async with (
        Cluster(short_dir, [FAST]) as cluster,
        kube(cluster.url) as k,
        late_plugin(cluster.node("n1"), 2) as plugin,
    ):
        source = short_dir / "source"
        source.mkdir()
        (source / "file").write_text("from the host\n")
        preload = short_dir / "preload"
        preload.write_text("")
        plugin.extra = {
            "mounts": [
                {"hostPath": str(source), "containerPath": "/opt/in/side", "options": ["ro", "bind"]},
                {"hostPath": str(preload), "containerPath": "/etc/ld.so.preload", "options": ["ro", "bind"]},
            ],
            "deviceNodes": [{"path": "/dev/accelerator0", "hostPath": "/dev/zero"}],
        }
        script = """
        cat /opt/in/side/file; touch /opt/in/side/no 2>/dev/null || echo read-only
        head -c 3 /dev/accelerator0 | od -An -tx1; ls /etc/ld.so.preload
        echo $FROM $POD $ONLY_ALLOCATE $IMAGE $NODE $REF; echo gone > /overlay-only; cat /overlay-only; pwd
        """
        env = [{"name": "FROM", "value": "pod"}, {"name": "POD", "value": "pod"},
               {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
               {"name": "REF", "value": "$(NODE)-$$(NODE)"}]  # fmt: skip
        await k.create("a", [box("app", script, 1, env=env, workingDir="/opt")], restartPolicy="Never")
        pod = await k.phase("a", "Succeeded")
        assert pod["status"]["containerStatuses"][0]["imageID"] == "namespace"
        assert (await k.log("a", "app")).split("\n") == [
            "from the host", "read-only", " 00 00 00", "/etc/ld.so.preload",
            "cdi cdi 1 n1 n1-$(NODE)", "gone", "/opt", "",
        ]  # fmt: skip
        assert not Path("/opt/in").exists()
        assert not Path("/overlay-only").exists()
        assert not any(str(short_dir) in line for line in Path("/proc/self/mountinfo").read_text().splitlines())


async def test_refused_start_is_reported_and_retried(short_dir, kube, late_plugin) -> None:
    async with (
        Cluster(short_dir, [NodeSpec("n1", resync_seconds=600)]) as cluster,
        kube(cluster.url) as k,
        late_plugin(cluster.node("n1"), 2) as plugin,
    ):
        plugin.refuse_start = "slice not verified yet"
        await k.create("a", [box("app", SLEEP, 1)], restartPolicy="Never")
        pod = await k.until("a", lambda p: waiting(p, "app", "CreateContainerConfigError"))
        error = "rpc error: code = FailedPrecondition desc = slice not verified yet"
        text = f"device plugin PreStartContainer rpc failed with err: {error}"
        assert waiting(pod, "app", "CreateContainerConfigError") == text
        assert pod["status"]["phase"] == "Pending"
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
        assert f"Error: {text}" in await k.events("Failed")
        plugin.refuse_start = ""
        # The next retry is a minute away, but a change of the pod causes one at once.
        touch = {"metadata": {"annotations": {"example.test/touch": "1"}}}
        await k.client.call("PATCH", "/api/v1/namespaces/default/pods/a", touch, patch="merge")
        pod = await k.phase("a", "Running")
        assert [c for c, _ in plugin.calls].count("Allocate") == 1


async def test_container_without_its_cdi_spec_does_not_start(short_dir, kube, late_plugin) -> None:
    async with (
        Cluster(short_dir, [FAST]) as cluster,
        kube(cluster.url) as k,
        late_plugin(cluster.node("n1"), 2) as plugin,
    ):
        plugin.write = False
        await k.create("a", [box("app", "echo $IDENTITY; sleep 300", 1)])
        pod = await k.until("a", lambda p: waiting(p, "app", "CreateContainerError"))
        assert "unresolvable CDI devices example.test/late=" in waiting(pod, "app", "CreateContainerError")
        (plugin.node.cdi_dir / "broken.json").write_text("{")
        plugin.write_specs()
        await k.phase("a", "Running")
        assert await k.until_log("a", "app", "/") == f"{pod['metadata']['uid']}/app\n"


async def test_failed_allocate_ends_the_pod(short_dir, kube, late_plugin) -> None:
    async with (
        Cluster(short_dir, [FAST]) as cluster,
        kube(cluster.url) as k,
        late_plugin(cluster.node("n1"), 2) as plugin,
    ):
        plugin.refuse_allocate = "no way"
        await k.create("a", [box("app", SLEEP, 1)])
        pod = await k.phase("a", "Failed")
        text = "Allocate failed due to rpc error: code = Internal desc = no way, which is unexpected"
        assert (pod["status"]["reason"], pod["status"]["message"]) == (
            "UnexpectedAdmissionError",
            f"Pod was rejected: {text}",
        )
        assert await k.events("UnexpectedAdmissionError") == [text]
        plugin.refuse_allocate = ""
        await k.create("b", [box("app", SLEEP, 2)])
        await k.phase("b", "Running")


async def test_containers_survive_a_restart_of_the_kubelet(short_dir, kube, late_plugin) -> None:
    async with Cluster(short_dir, [FAST]) as cluster, kube(cluster.url) as k:
        node = cluster.node("n1")
        async with late_plugin(node, 4) as plugin:
            script = "echo pid $$$$; trap 'exit 3' USR1; while :; do sleep 0.05; done"
            await k.create("a", [box("app", script, 1)], initContainers=[box("init", "true")])
            await k.phase("a", "Running")
            pid = int((await k.until_log("a", "app", "pid")).split()[1])
            calls = len(plugin.calls)
            await cluster.restart("kubelet:n1", signal.SIGKILL)
            assert Path(f"/proc/{pid}").exists()
            assert not (node.plugin_dir / "late.sock").exists()  # removed with all sockets
            await k.until_admitted(cluster, "n1")
            # While the plugin is away, an ended container is restarted with its stored CDI name and without a call.
            os.kill(pid, signal.SIGUSR1)
            pod = await k.until(
                "a",
                lambda p: restarts(p) == 1 and p["status"]["containerStatuses"][0]["ready"],
            )
            assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 3
            assert len(plugin.calls) == calls
            await plugin.stop()
            await plugin.start()
            second = int((await k.until_log("a", "app", "pid")).split()[1])
            os.kill(second, signal.SIGUSR1)
            await k.until("a", lambda p: restarts(p) == 2)
            assert [c for c, _ in plugin.calls[calls:]] == ["PreStartContainer"]


async def test_pod_that_never_ran_fails_if_its_plugin_is_away(short_dir, kube, late_plugin) -> None:
    async with (
        Cluster(short_dir, [FAST]) as cluster,
        kube(cluster.url) as k,
        late_plugin(cluster.node("n1"), 4) as plugin,
    ):
        plugin.refuse_start = "wait"
        await k.create("a", [box("app", SLEEP, 1)])
        await k.until("a", lambda p: waiting(p, "app", "CreateContainerConfigError"))
        await cluster.restart("kubelet:n1")
        pod = await k.phase("a", "Failed")
        assert f"no healthy devices present; cannot allocate unhealthy devices {KIND}" in pod["status"]["message"]


async def test_kubelet_restart_between_allocate_and_start_is_harmless(short_dir, kube, late_plugin) -> None:
    spec = NodeSpec("n1", resync_seconds=2, settle_seconds=30)
    async with (
        Cluster(short_dir, [spec]) as cluster,
        kube(cluster.url) as k,
        late_plugin(cluster.node("n1"), 4) as plugin,
    ):
        plugin.refuse_start = "wait"
        await k.create("a", [box("app", "echo $IDENTITY; sleep 300", 1)])
        pod = await k.until("a", lambda p: waiting(p, "app", "CreateContainerConfigError"))
        await cluster.restart("kubelet:n1")
        plugin.refuse_start = ""
        await plugin.stop()
        await plugin.start()
        await k.phase("a", "Running")
        assert [c for c, _ in plugin.calls].count("Allocate") == 1
        assert await k.log("a", "app") == f"{pod['metadata']['uid']}/app\n"


async def test_restart_policies_lead_to_the_right_phases(short_dir, kube, late_plugin) -> None:
    async with (
        Cluster(short_dir, [FAST]) as cluster,
        kube(cluster.url) as k,
        late_plugin(cluster.node("n1"), 8) as plugin,
    ):
        await k.create("loop", [box("app", "exit 7", 1)])
        await k.until("loop", lambda p: p["status"].get("containerStatuses", [{}])[0].get("restartCount", 0) >= 2)
        pod = await k.until("loop", lambda p: waiting(p, "app", "CrashLoopBackOff"))
        assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 7
        kinds = Counter(c for c, _ in plugin.calls)
        assert kinds["Allocate"] == 1
        assert kinds["PreStartContainer"] >= 3
        await k.client.call("DELETE", "/api/v1/namespaces/default/pods/loop")
        await k.create("done", [box("one", "exit 0", 1), box("two", "exit 0")], restartPolicy="OnFailure")
        await k.phase("done", "Succeeded")
        await k.create("bad", [box("one", "exit 1", 1), box("two", "exit 0")], restartPolicy="Never")
        pod = await k.phase("bad", "Failed")
        assert state(pod, "one")["terminated"]["exitCode"] == 1
        await k.create("init", [box("app", "exit 0", 1)], restartPolicy="Never", initContainers=[box("i", "exit 4")])
        pod = await k.phase("init", "Failed")
        assert state(pod, "i")["terminated"]["exitCode"] == 4
        assert "waiting" in state(pod, "app")
        side = box("side", SLEEP, 1, restartPolicy="Always")
        await k.create("job", [box("app", "exit 0", 1)], restartPolicy="Never", initContainers=[side])
        pod = await k.phase("job", "Succeeded")
        assert "terminated" in state(pod, "side")
        # Ended pods hold no slots, so all can be allocated again.
        await k.create("all", [box("app", SLEEP, 8)])
        await k.until("all", lambda p: p["status"]["phase"] == "Running")


async def test_hooks_see_the_container_and_can_refuse(short_dir, kube, late_plugin) -> None:
    async with (
        Cluster(short_dir, [FAST]) as cluster,
        kube(cluster.url) as k,
        late_plugin(cluster.node("n1"), 8) as plugin,
    ):
        hook = short_dir / "hook"
        hook.write_text(
            f"#!/bin/sh\ncd -P . && pwd > {short_dir}/$1.cwd; cat > {short_dir}/$1.state\n"
            '[ -z "$WORD" ] || { echo $WORD >&2; exit 3; }\n'
        )
        hook.chmod(0o755)

        def hooks(word: str) -> dict:
            names = ("createRuntime", "createContainer")
            entry = {"path": str(hook), "env": [f"WORD={word}", "PATH=/usr/bin:/bin"]}
            return {"hooks": [{"hookName": n, "args": ["hook", n], **entry} for n in names]}

        plugin.extra = hooks("")
        await k.create("good", [box("app", SLEEP, 1)])
        pod = await k.phase("good", "Running")
        for name in ("createRuntime", "createContainer"):
            notes = json.loads((short_dir / f"{name}.state").read_text())["annotations"]
            assert notes["io.kubernetes.cri.sandbox-uid"] == pod["metadata"]["uid"]
            assert notes["io.kubernetes.cri.container-name"] == "app"
        bundle = (short_dir / "createRuntime.cwd").read_text().strip()
        inside = (short_dir / "createContainer.cwd").read_text().strip()
        assert json.loads(Path(bundle, "config.json").read_text())["root"]["path"] == inside
        plugin.extra = hooks("not yours")
        await k.create("bad", [box("app", SLEEP, 1)], restartPolicy="Never")
        pod = await k.phase("bad", "Failed")
        end = state(pod, "app")["terminated"]
        assert (end["reason"], end["exitCode"]) == ("StartError", 128)
        assert "error running hook: exit status 3, stdout: , stderr: not yours" in end["message"]


async def test_deletion_terminates_then_kills_and_leaves_nothing(short_dir, kube) -> None:
    async with Cluster(short_dir, [FAST]) as cluster, kube(cluster.url) as k:
        script = "trap '' TERM; echo pid $$$$; (setsid sleep 299 & echo child $!); while :; do sleep 0.1; done"
        await k.create("stubborn", [box("app", script)])
        await k.create(
            "polite",
            [box("app", "trap 'exit 0' TERM; echo pid $$$$; while :; do sleep 0.05; done")],
            terminationGracePeriodSeconds=60,
        )
        pids = [
            int(w)
            for name in ("stubborn", "polite")
            for w in (await k.until_log(name, "app", "pid")).split()
            if w.isdigit()
        ]
        for name in ("stubborn", "polite"):
            await k.client.call("DELETE", f"/api/v1/namespaces/default/pods/{name}")
        async with asyncio.timeout(90):
            while (await k.client.call("GET", "/api/v1/pods"))["items"]:
                await asyncio.sleep(0.05)
        assert not [p for p in pids if Path(f"/proc/{p}").exists()]
        async with asyncio.timeout(30):  # the folder is removed just after the object
            while list((cluster.node("n1").root / "pods").iterdir()):
                await asyncio.sleep(0.05)
        await k.create("left", [box("app", "echo pid $$$$; sleep 298")])
        last = int((await k.until_log("left", "app", "pid")).split()[1])
        parts = [cluster.pid(n) for n in ("apiserver", "scheduler", "kubelet:n1")]
    assert not [p for p in [last, *parts] if Path(f"/proc/{p}").exists()]


async def test_reduced_mode_points_variables_at_the_same_files(short_dir, kube, late_plugin) -> None:
    spec = NodeSpec(
        "n1", reduced=True, image_env={"HAMI_SIM_DEV": "/dev", "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}
    )
    async with (
        Cluster(short_dir, [spec]) as cluster,
        kube(cluster.url) as k,
        late_plugin(cluster.node("n1"), 2) as plugin,
    ):
        limits, library = short_dir / "limits", short_dir / "libs"
        for folder in (limits, library):
            folder.mkdir()
        (limits / "limits").write_text("here\n")
        (short_dir / "zero").write_text("device\n")
        plugin.extra = {
            "mounts": [{"hostPath": str(limits), "containerPath": "/usr/local/vgpu/limits"},
                       {"hostPath": str(library), "containerPath": "/usr/local/nvidia/lib64"}],
            "deviceNodes": [{"path": "/dev/accelerator0", "hostPath": str(short_dir / "zero")}],
        }  # fmt: skip
        script = "cat $HAMI_VGPU_ROOT/limits/limits $HAMI_SIM_DEV/accelerator0; readlink -f $LD_LIBRARY_PATH"
        await k.create("a", [box("app", script, 1)], restartPolicy="Never")
        pod = await k.phase("a", "Succeeded")
        assert pod["status"]["containerStatuses"][0]["imageID"] == "reduced"
        log = (await k.log("a", "app")).splitlines()
        assert log[0].startswith("[reduced")
        assert log[1:] == ["here", "device", str(library)]


async def test_podresources_shows_apps_and_sidecars(short_dir, kube, late_plugin) -> None:
    async with Cluster(short_dir, [FAST]) as cluster, kube(cluster.url) as k:
        node = cluster.node("n1")
        async with late_plugin(node, 4), grpc.aio.insecure_channel(f"unix://{node.pod_resources}") as channel:
            stub = res_rpc.PodResourcesListerStub(channel)
            inits = [box("i", "true", 2), box("side", SLEEP, 1, restartPolicy="Always")]
            await k.create("a", [box("app", SLEEP, 1), box("plain", SLEEP)], initContainers=inits)
            await k.phase("a", "Running")
            (pod,) = (await stub.List(res.ListPodResourcesRequest())).pod_resources
            assert (pod.name, pod.namespace) == ("a", "default")
            shown = {c.name: [(d.resource_name, len(d.device_ids)) for d in c.devices] for c in pod.containers}
            assert shown == {"side": [(KIND, 1)], "app": [(KIND, 1)], "plain": []}
            one = await stub.Get(res.GetPodResourcesRequest(pod_name="a", pod_namespace="default"))
            assert one.pod_resources == pod
            with pytest.raises(grpc.aio.AioRpcError, match="not found"):
                await stub.Get(res.GetPodResourcesRequest(pod_name="b", pod_namespace="default"))
            free = await stub.GetAllocatableResources(res.AllocatableResourcesRequest())
            assert sorted(i for d in free.devices for i in d.device_ids) == [f"slot-{i}" for i in range(4)]


async def test_bad_registration_is_refused(short_dir) -> None:
    async with (
        Cluster(short_dir, [FAST]) as cluster,
        grpc.aio.insecure_channel(f"unix://{cluster.node('n1').plugin_dir / 'kubelet.sock'}") as channel,
    ):
        stub = rpc.RegistrationStub(channel)
        good = {"version": "v1beta1", "endpoint": "x.sock", "resource_name": KIND}
        for field, value, text in (("version", "v1", "is not supported"), ("resource_name", "gpu", "is invalid")):
            with pytest.raises(grpc.aio.AioRpcError, match=text):
                await stub.Register(api.RegisterRequest(**{**good, field: value}))


async def wave(short_dir, kube, late_plugin, *, seed: int, pods: int) -> None:
    """Submit many pods at once, with slot ids in random order. Every container must find its own identity."""
    rng = random.Random(seed)
    wanted = []
    for index in range(pods):
        inits = [box(f"i{n}", "echo $IDENTITY", rng.randint(1, 3)) for n in range(rng.randint(0, 2))]
        side = [box("side", "echo $IDENTITY; sleep 300", 1, restartPolicy="Always")] * rng.randint(0, 1)
        apps = [box(f"c{n}", "echo $IDENTITY; sleep 300", rng.randint(1, 2)) for n in range(rng.randint(1, 2))]
        wanted.append((f"p{index}", rng.sample([*inits, *side], len(inits) + len(side)), apps))
    async with (
        Cluster(short_dir, [NodeSpec("n1", seed=seed)]) as cluster,
        kube(cluster.url) as k,
        late_plugin(cluster.node("n1"), pods * 8) as plugin,
    ):
        made = await asyncio.gather(*(k.create(name, apps, initContainers=inits) for name, inits, apps in wanted))
        for pod, (name, inits, apps) in zip(made, wanted, strict=True):
            await k.until(
                name, lambda p: all(c.get("ready") for c in p["status"].get("containerStatuses") or [{}]), 150
            )
            for container in [*inits, *apps]:
                assert await k.log(name, container["name"]) == f"{pod['metadata']['uid']}/{container['name']}\n", seed
        held = {(e["PodUID"], e["ContainerName"]): ids(e) for e in plugin.entries()}
        for (uid, _), mine in held.items():
            assert not any(mine & others for (u, _), others in held.items() if u != uid), seed


@pytest.mark.parametrize("seed", [1, 2])
async def test_pods_at_once_get_their_own_identities(short_dir, kube, late_plugin, seed) -> None:
    await wave(short_dir, kube, late_plugin, seed=seed, pods=10)


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_hundred_pods_at_once_get_their_own_identities(short_dir, kube, late_plugin) -> None:
    await wave(short_dir, kube, late_plugin, seed=random.SystemRandom().randrange(1 << 30), pods=100)


async def test_container_whose_shim_is_killed_ends_and_restarts(short_dir, kube) -> None:
    async with Cluster(short_dir, [FAST]) as cluster, kube(cluster.url) as k:
        await k.create("a", [box("app", "echo pid $$$$; exec sleep 297")])
        pid = int((await k.until_log("a", "app", "pid")).split()[1])
        shim = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(shim, signal.SIGKILL)
        pod = await k.until("a", lambda p: restarts(p) == 1)
        end = pod["status"]["containerStatuses"][0]["lastState"]["terminated"]
        assert (end["exitCode"], end["reason"]) == (137, "ContainerStatusUnknown")
        assert launch.start_time(pid) == 0  # ended, or a zombie


async def test_pods_start_although_each_part_restarts_in_turn(short_dir, kube, late_plugin) -> None:
    spec = NodeSpec("n1", resync_seconds=2, crash_seconds=0.2, settle_seconds=30)
    config = {"leaderElection": {"leaseDuration": "1s", "renewDeadline": "800ms", "retryPeriod": "200ms"}}
    async with (
        Cluster(short_dir, [spec], config) as cluster,
        kube(cluster.url) as k,
        late_plugin(cluster.node("n1"), 8) as plugin,
    ):
        for index, part in enumerate(["apiserver", "scheduler", "kubelet:n1"]):
            pod = await k.create(f"p{index}", [box("app", "echo $IDENTITY; sleep 300", 1)])
            await cluster.restart(part)
            if part.startswith("kubelet"):
                await plugin.stop()
                await plugin.start()
            await k.phase(f"p{index}", "Running")
            assert await k.until_log(f"p{index}", "app", "/") == f"{pod['metadata']['uid']}/app\n"


async def test_pod_deleted_while_the_kubelet_is_away_ends(short_dir, kube) -> None:
    async with Cluster(short_dir, [FAST]) as cluster, kube(cluster.url) as k:
        await k.create("done", [box("app", "echo finished")], restartPolicy="Never")
        await k.create("a", [box("app", "echo pid $$$$; exec sleep 296")])
        pid = int((await k.until_log("a", "app", "pid")).split()[1])
        await k.phase("done", "Succeeded")
        await cluster.stop_part("kubelet:n1", signal.SIGKILL)
        await k.client.call("DELETE", "/api/v1/namespaces/default/pods/a", {"gracePeriodSeconds": 0})
        assert launch.start_time(pid)
        await cluster.start_part("kubelet:n1")
        async with asyncio.timeout(90):
            while launch.start_time(pid):
                await asyncio.sleep(0.05)
        assert await k.until_log("done", "app", "finished") == "finished\n"


async def test_unprivileged_users_container_has_its_mounts(short_dir) -> None:
    """Without permission for an overlay over the root, bind mounts give the container the same view."""
    able = await asyncio.create_subprocess_exec("unshare", "--user", "--map-root-user", "--mount", "true")
    if await able.wait():
        pytest.skip("this machine has no user namespaces")
    source = short_dir / "source"
    source.mkdir()
    (source / "file").write_text("from the host\n")
    script = """
    cat /opt/in/side/file /usr/local/vgpu/limits/file; touch /opt/in/side/no 2>/dev/null || echo read-only
    head -c 3 /dev/accelerator0 | od -An -tx1; ls /etc/ld.so.preload; echo gone > /tree-only; cat /tree-only
    touch /usr/bin/no 2>/dev/null || echo read-only
    """
    (short_dir / "preload").write_text("")
    mounts = [
        (source, "/opt/in/side"),
        (source, "/usr/local/vgpu/limits"),
        (short_dir / "preload", "/etc/ld.so.preload"),
    ]
    spec = {
        "id": "x", "mode": "namespace", "args": ["/bin/sh", "-c", script], "env": {"PATH": "/usr/bin:/bin"}, "cwd": "/",
        "mounts": [{"source": str(s), "target": t, "read_only": True} for s, t in mounts],
        "devices": [{"source": "/dev/zero", "target": "/dev/accelerator0"}],
        "hooks": [], "shared": [], "annotations": {}, "log": str(short_dir / "log"),
    }  # fmt: skip
    (short_dir / "spec.json").write_text(json.dumps(spec))
    shim = await asyncio.create_subprocess_exec(
        "unshare", "--user", "--map-root-user", "--mount", sys.executable, "-I", "-S", launch.__file__, str(short_dir)
    )
    assert await shim.wait() == 0
    end = json.loads((short_dir / "exit.json").read_text())
    assert (end["exit_code"], end["error"]) == (0, "")
    assert (short_dir / "log").read_text().splitlines() == [
        "from the host", "from the host", "read-only", " 00 00 00", "/etc/ld.so.preload", "gone", "read-only",
    ]  # fmt: skip
    assert not Path("/tree-only").exists()


async def test_start_begun_by_a_killed_kubelet_never_happens(short_dir) -> None:
    """The first claim of the folder decides: by the next kubelet, or by the shim that was starting."""
    folder = short_dir / "0"
    folder.mkdir()
    mark = short_dir / "ran"
    spec = {
        "id": "x", "mode": "reduced", "args": ["/bin/touch", str(mark)], "env": {}, "cwd": "/", "mounts": [],
        "devices": [], "hooks": [], "shared": [], "annotations": {}, "log": str(folder / "log"),
    }  # fmt: skip
    (folder / "spec.json").write_text(json.dumps(spec))
    for claimed, runs in ((True, False), (False, True)):
        if claimed:
            assert launch.claim(str(folder), 0)
        shim = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", launch.__file__, str(folder))
        assert await shim.wait() == 0
        assert mark.exists() == runs
        (folder / "shim.json").unlink()
