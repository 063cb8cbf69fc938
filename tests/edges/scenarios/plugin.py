"""kubelet: registration, Allocate, PreStartContainer, their order, checkpoint, CDI, and errors in a pod's status."""

from __future__ import annotations

import base64
import json
import socket
from typing import TYPE_CHECKING, Any

import grpc

from hami_core.agent.proto import deviceplugin_pb2
from tests.edges.api import MERGE, PODS
from tests.edges.recorders import Plugin, plugin
from tests.edges.scene import Scene, create, pod
from tests.edges.subject import NODE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Seen = dict[str, Any]
KIND = "edges.test/cdi"
"""CDI kind of the devices in these scenarios."""
FOREVER = "sleep 3600 & wait"


def _unit(scene: Scene, name: str, resource: str = "", count: int = 0, script: str = FOREVER, **more: Any) -> Seen:
    """A container that runs a script and asks for devices."""
    wants = {"resources": {"limits": {resource: str(count)}}} if resource else {}
    return {"name": name, "imagePullPolicy": "Never", **scene.subject.program(script), **wants, **more}


async def _start(scene: Scene, name: str, *units: Seen, **spec: Any) -> Seen:
    """Create a pod that names its node, since these scenarios need no scheduler."""
    body = pod(name, *units, nodeName=NODE, terminationGracePeriodSeconds=1, **scene.subject.pod_part(), **spec)
    return await create(scene, body)


def _states(found: Seen) -> dict[str, Seen]:
    status = found.get("status") or {}
    return {c["name"]: c for part in ("initContainerStatuses", "containerStatuses") for c in status.get(part) or []}


def _state(container: Seen) -> Seen:
    """A container's state without ids and times."""
    kept = {"reason", "message", "exitCode"}
    return {
        "restarts": container["restartCount"],
        **{kind: {k: v for k, v in s.items() if k in kept} for kind, s in container["state"].items()},
    }


def _status(found: Seen) -> Seen:
    status = found["status"]
    top = {k: status.get(k) for k in ("phase", "reason", "message")}
    return {**top, "containers": {name: _state(c) for name, c in _states(found).items()}}


async def _until(scene: Scene, name: str, test: Callable[[dict[str, Seen]], Any]) -> Seen:
    """Wait until the test is true for the pod's container statuses, and return the pod."""
    return await scene.api.pod_until(name, lambda p: _states(p) and test(_states(p)))


async def _running(scene: Scene, name: str) -> Seen:
    return await _until(
        scene,
        name,
        lambda c: all(
            "running" in s["state"] or s["state"].get("terminated", {}).get("exitCode") == 0 for s in c.values()
        ),
    )


async def _ended(scene: Scene, name: str) -> Seen:
    return await scene.api.pod_until(name, lambda p: p["status"]["phase"] in {"Failed", "Succeeded"})


async def _waiting(scene: Scene, name: str, container: str, reason: str) -> Seen:
    return await _until(
        scene, name, lambda c: c.get(container, {}).get("state", {}).get("waiting", {}).get("reason") == reason
    )


async def _amounts(scene: Scene, resource: str, capacity: str | None, allocatable: str | None) -> Seen:
    """Wait until the node has these amounts of a resource, and return them."""

    async def reached() -> Seen | None:
        status = (await scene.api.get(f"/api/v1/nodes/{NODE}"))["status"]
        found = {k: status[k].get(resource) for k in ("capacity", "allocatable")}
        return found if found == {"capacity": capacity, "allocatable": allocatable} else None

    found: Seen = await scene.api.until(f"{resource} {capacity}/{allocatable}", reached)
    return found


def _checkpoint(scene: Scene, *resources: str) -> Seen:
    """The kubelet's checkpoint for these resources, with answers decoded and ids sorted."""
    content = json.loads((scene.subject.plugin_dir / "kubelet_internal_checkpoint").read_bytes())
    entries = [e for e in content["Data"]["PodDeviceEntries"] or [] if e["ResourceName"] in resources]
    for entry in entries:
        answer = deviceplugin_pb2.ContainerAllocateResponse.FromString(base64.b64decode(entry["AllocResp"]))
        entry["AllocResp"] = {"envs": dict(answer.envs), "cdi": [d.name for d in answer.cdi_devices]}
        entry["DeviceIDs"] = {numa: sorted(ids) for numa, ids in entry["DeviceIDs"].items()}
    registered = {k: sorted(v) for k, v in content["Data"]["RegisteredDevices"].items() if k in resources}
    return {
        "keys": sorted(content),
        "data keys": sorted(content["Data"]),
        "checksum": type(content["Checksum"]).__name__,
        "entries": sorted(entries, key=lambda e: e["ContainerName"]),
        "registered": registered,
    }


def _describe(scene: Scene, device: str, **edits: Any) -> None:
    """Write a CDI spec for one device as an agent does: under a temporary name, then renamed."""
    body = {"cdiVersion": "0.6.0", "kind": KIND, "devices": [{"name": device, "containerEdits": edits}]}
    folder = scene.subject.cdi_dir
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f"{device}.tmp"
    fresh.write_text(json.dumps(body))
    fresh.rename(folder / f"edges-{device}.json")


# ---- scenarios


async def registration(scene: Scene) -> Seen:
    """Which registrations the kubelet accepts, what it then calls, and the node's amounts as devices change."""
    resource = "edges.test/registered"
    found = Plugin(scene.subject.plugin_dir, resource, 3, pre_start_required=True)
    await found.serve()
    seen: Seen = {
        "old version": await found.register(version="v1alpha1"),
        "name without a domain": await found.register(resource_name="gpu"),
        "kubernetes' own domain": await found.register(resource_name="kubernetes.io/gpu"),
        "good": await found.register(),
    }
    try:
        seen["three"] = await _amounts(scene, resource, "3", "3")
        seen["calls"] = found.names()
        await found.set_devices(d0="Healthy", d1="Unhealthy", d2="Healthy")
        seen["one sick"] = await _amounts(scene, resource, "3", "2")
        await found.set_devices(d0="Healthy", d1="Healthy", d2="Healthy", d3="Healthy")
        seen["one more"] = await _amounts(scene, resource, "4", "4")
        await found.set_devices(d0="Healthy")
        seen["three fewer"] = await _amounts(scene, resource, "1", "1")
        seen["calls in all"] = found.names()
    finally:
        await found.stop()
    seen["plugin gone"] = await _amounts(scene, resource, "1", "0")
    async with plugin(scene.subject.plugin_dir, resource, 2) as again:
        seen["plugin back"] = await _amounts(scene, resource, "2", "2")
        seen["calls of the second"] = again.names()
    return seen


async def init_and_apps(scene: Scene) -> Seen:
    """Allocate is called once for each container, before the first start. Apps reuse devices of init containers."""
    name, resource = "reuse", "edges.test/reuse"
    options = {"pre_start_required": True, "get_preferred_allocation_available": True}
    async with plugin(scene.subject.plugin_dir, resource, 4, **options) as found:
        await _amounts(scene, resource, "4", "4")
        await _start(
            scene,
            name,
            _unit(scene, "a", resource, 2),
            _unit(scene, "b", resource, 1),
            _unit(scene, "none"),
            initContainers=[_unit(scene, "i", resource, 2, "exit 0")],
        )
        running = await _running(scene, name)
        seen = {"calls": found.calls, "status": _status(running), "checkpoint": _checkpoint(scene, resource)}
        await scene.api.remove(name)
        # The pod's devices are free again, although the checkpoint still has its entries.
        count = len(found.calls)
        await _start(scene, "next", _unit(scene, "c", resource, 4))
        await _running(scene, "next")
        seen["calls of the next pod"] = found.calls[count:]
        seen["entries then"] = [e["ContainerName"] for e in _checkpoint(scene, resource)["entries"]]
        await scene.api.remove("next")
    return seen


async def sidecars(scene: Scene) -> Seen:
    """A sidecar keeps its devices. GetPreferredAllocation names the devices that must be included."""
    name, resource = "sidecars", "edges.test/sidecars"
    options = {"pre_start_required": True, "get_preferred_allocation_available": True}
    async with plugin(scene.subject.plugin_dir, resource, 4, **options) as found:
        await _amounts(scene, resource, "4", "4")
        await _start(
            scene,
            name,
            _unit(scene, "app", resource, 2),
            initContainers=[
                _unit(scene, "first", resource, 1, "exit 0"),
                _unit(scene, "side", resource, 1, restartPolicy="Always"),
                _unit(scene, "last", resource, 1, "exit 0"),
            ],
        )
        await _running(scene, name)
        seen = {"calls": found.calls, "checkpoint": _checkpoint(scene, resource)}
        await scene.api.remove(name)
    return seen


async def plain_options(scene: Scene) -> Seen:
    """Without options the kubelet calls neither GetPreferredAllocation nor PreStartContainer."""
    name, resource = "plain", "edges.test/plain"
    async with plugin(scene.subject.plugin_dir, resource, 1) as found:
        await _amounts(scene, resource, "1", "1")
        await _start(scene, name, _unit(scene, "c", resource, 1))
        await _running(scene, name)
        seen = {"calls": found.calls}
        await scene.api.remove(name)
    return seen


async def allocate_fails(scene: Scene) -> Seen:
    """A failed Allocate ends the pod, with the plugin's message in its status."""
    name, resource = "refused", "edges.test/refused"
    options = {"get_preferred_allocation_available": True}
    async with plugin(scene.subject.plugin_dir, resource, 1, **options) as found:
        await _amounts(scene, resource, "1", "1")
        found.refuse["Allocate"] = (grpc.StatusCode.INTERNAL, "card 0: no memory left")
        await _start(scene, name, _unit(scene, "c", resource, 1))
        ended = await _ended(scene, name)
        seen = {"status": _status(ended), "events": await _told(scene, name, "UnexpectedAdmissionError")}
        await scene.api.remove(name)
        found.refuse = {"GetPreferredAllocation": (grpc.StatusCode.UNKNOWN, "no opinion")}
        await _start(scene, name, _unit(scene, "c", resource, 1))
        seen["no preference"] = _status(await _ended(scene, name))
        await scene.api.remove(name)
        found.refuse = {}
        await _start(scene, name, _unit(scene, "c", resource, 2))
        seen["more than there are"] = _status(await _ended(scene, name))
        seen["names of calls"] = found.names()
        await scene.api.remove(name)
    return seen


async def _told(scene: Scene, name: str, reason: str) -> list[Seen]:
    await scene.api.until(f"event {reason} of {name}", lambda: scene.api.events(name, reason))
    found: list[Seen] = await scene.api.events(name, reason)
    return found


async def start_refused(scene: Scene) -> Seen:
    """An error of PreStartContainer is in the pod's status. The kubelet retries, at once if the pod changes."""
    name, resource = "held-back", "edges.test/held"
    async with plugin(scene.subject.plugin_dir, resource, 1, pre_start_required=True) as found:
        await _amounts(scene, resource, "1", "1")
        found.refuse["PreStartContainer"] = (grpc.StatusCode.FAILED_PRECONDITION, "no booking for this pod yet")
        await _start(scene, name, _unit(scene, "c", resource, 1))
        held = await _waiting(scene, name, "c", "CreateContainerConfigError")
        seen = {"status": _status(held), "events": await _told(scene, name, "Failed")}
        await scene.api.until("second try", lambda: found.names().count("PreStartContainer") >= 2)
        found.refuse = {}
        await scene.api.must("PATCH", f"{PODS}/{name}", {"metadata": {"annotations": {"edges.test/go": "on"}}}, MERGE)
        seen["later"] = _status(await _running(scene, name))
        seen["allocations"] = found.names().count("Allocate")
        await scene.api.remove(name)
    return seen


async def restarts_announced(scene: Scene) -> Seen:
    """Before each restart of a container, PreStartContainer is called again with the same devices."""
    name, resource = "restarting", "edges.test/restarting"
    options = {"pre_start_required": True, "get_preferred_allocation_available": True}
    async with plugin(scene.subject.plugin_dir, resource, 2, **options) as found:
        await _amounts(scene, resource, "2", "2")
        once = "[ -e /edge/once ] || { touch /edge/once; exit 3; }; " + FOREVER
        unit = _unit(scene, "c", resource, 1, once)
        unit.setdefault("volumeMounts", []).append({"name": "edge", "mountPath": "/edge"})
        spec = scene.subject.pod_part()
        spec.setdefault("volumes", []).append({"name": "edge", "emptyDir": {}})
        body = pod(name, unit, nodeName=NODE, terminationGracePeriodSeconds=1, **spec)
        await create(scene, body)
        running = await _until(scene, name, lambda c: c["c"]["restartCount"] == 1 and "running" in c["c"]["state"])
        seen = {"calls": found.calls, "status": _status(running)}
        await scene.api.remove(name)
    return seen


async def cdi(scene: Scene) -> Seen:
    """A container does not start while its CDI name has no spec. Variables from CDI override those of the pod."""
    name, resource = "injected", "edges.test/injected"
    async with plugin(scene.subject.plugin_dir, resource, 1) as found:
        await _amounts(scene, resource, "1", "1")
        found.cdi = [f"{KIND}=later"]
        found.envs = {"A": "allocate", "B": "allocate", "C": "allocate"}
        env = [{"name": "B", "value": "pod"}, {"name": "C", "value": "pod"}]
        await _start(scene, name, _unit(scene, "c", resource, 1, 'echo "$A $B $C $D"; ' + FOREVER, env=env))
        held = await _waiting(scene, name, "c", "CreateContainerError")
        seen = {"status": _status(held), "events": await _told(scene, name, "Failed")}
        _describe(scene, "later", env=["C=cdi", "D=cdi"])
        seen["later"] = _status(await _running(scene, name))

        async def log() -> str:
            return str((await scene.api.ask("GET", f"{PODS}/{name}/log?container=c")).body).strip()

        seen["environment"] = await scene.api.until("output", log)
        await scene.api.remove(name)
    (scene.subject.cdi_dir / "edges-later.json").unlink()
    return seen


async def plugin_away(scene: Scene) -> Seen:
    """While the plugin is away, new pods fail and running ones continue. Back again, it gets no calls about them."""
    name, resource = "orphaned", "edges.test/away"
    options = {"pre_start_required": True, "get_preferred_allocation_available": True}
    async with plugin(scene.subject.plugin_dir, resource, 2, **options):
        await _amounts(scene, resource, "2", "2")
        await _start(scene, name, _unit(scene, "c", resource, 1))
        await _running(scene, name)
    await _amounts(scene, resource, "2", "0")
    await _start(scene, "too-late", _unit(scene, "c", resource, 1))
    seen: Seen = {"while away": _status(await _ended(scene, "too-late"))}
    async with plugin(scene.subject.plugin_dir, resource, 2, **options) as again:
        await _amounts(scene, resource, "2", "2")
        seen["calls"] = again.names()
        seen["status"] = _status(await scene.api.pod(name))
        seen["checkpoint"] = _checkpoint(scene, resource)
        await scene.api.remove(name, "too-late")
    return seen


async def kubelet_restart(scene: Scene) -> Seen:
    """A restarted kubelet removes all sockets, keeps checkpoint and containers, and does not allocate again."""
    name, resource = "kept", "edges.test/kept"
    async with plugin(scene.subject.plugin_dir, resource, 2, pre_start_required=True) as found:
        await _amounts(scene, resource, "2", "2")
        await _start(scene, name, _unit(scene, "c", resource, 1))
        await _running(scene, name)
        before = _checkpoint(scene, resource)
        (scene.subject.plugin_dir / "stray.sock").unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as stray:
            stray.bind(str(scene.subject.plugin_dir / "stray.sock"))
        (scene.subject.plugin_dir / "plain-file").write_text("")
        await scene.subject.restart_kubelet()
        folder = scene.subject.plugin_dir
        served = folder / "kubelet.sock"
        await scene.api.until("a new kubelet.sock", lambda: served.exists() and not (folder / "stray.sock").exists())
        left = sorted(p.name for p in folder.iterdir() if p.name != "DEPRECATION")
        (folder / "plain-file").unlink(missing_ok=True)
        count = len(found.calls)
        await found.stop()
        await found.start()
        await scene.api.until("ListAndWatch", lambda: "ListAndWatch" in [c["call"] for c in found.calls[count:]])
        await _amounts(scene, resource, "2", "2")
        seen = {"left in the folder": left, "calls after": [c["call"] for c in found.calls[count:]]}
        seen["status"] = _status(await _running(scene, name))
        seen["checkpoint is the same"] = _checkpoint(scene, resource) == before
        await _start(scene, "after", _unit(scene, "d", resource, 1))
        await _running(scene, "after")
        seen["calls of a new pod"] = [c["call"] for c in found.calls[count:]][2:]
        entries = _checkpoint(scene, resource)["entries"]
        seen["entries"] = [e["ContainerName"] for e in entries]
        seen["devices are apart"] = entries[0]["DeviceIDs"] != entries[1]["DeviceIDs"]
        await scene.api.remove(name, "after")
    return seen


SCENARIOS: dict[str, Callable[[Scene], Awaitable[Seen]]] = {
    f.__name__: f
    for f in (
        registration, init_and_apps, sidecars, plain_options, allocate_fails, start_refused, restarts_announced, cdi,
        plugin_away, kubelet_restart,
    )
}  # fmt: skip
