"""Compare each container's slice in all places with its booking.

Five programs write or show a container's slice:

- our scheduler in the pod's annotation,
- the kubelet in its device checkpoint,
- our agent in its record and limits file,
- containerd in the OCI spec,
- the driver behind the interposer, to a program in the container.

`problems` names each place that differs from the booking.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from hami_interpose import limits as limits_file

from hami_core.agent.proto import deviceplugin_pb2
from hami_core.wire.quantity import parse_quantity

if TYPE_CHECKING:
    from tests.e2e.bed.bed import Bed
    from tests.e2e.bed.containers import Container

MIB = 1 << 20
ALLOCATED = "hami.io/vgpu-devices-allocated"
RESOURCE = "nvidia.com/gpu"
LIMITS_MOUNT = "/usr/local/vgpu/limits"


def booked(pod: dict[str, Any]) -> dict[str, list[tuple[str, int]]]:
    """Container name → (uuid, MiB) of each slice, from the pod's annotation. Parsed without our own code."""
    names = [c["name"] for c in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]]
    lists = pod["metadata"].get("annotations", {}).get(ALLOCATED, "").split(";")
    found = {}
    for name, entry in zip(names, lists, strict=False):
        pieces = [piece.split(",") for piece in entry.split(":") if piece]
        found[name] = [(uuid, int(memory)) for uuid, _, memory, _ in pieces]
    return found


def amount(quantity: object) -> int | None:
    """A quantity as a number. The API server may write 10000 as 10k."""
    return None if quantity is None else int(parse_quantity(str(quantity)))


def checkpoint(bed: Bed, node: str) -> dict[tuple[str, str], tuple[list[str], list[str]]]:
    """(pod UID, container) → (slot ids, CDI names), from the kubelet's checkpoint."""
    file = bed.root(node) / "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
    entries = json.loads(file.read_bytes())["Data"]["PodDeviceEntries"] or []
    found = {}
    for entry in entries:
        if entry["ResourceName"] != RESOURCE:
            continue
        answer = deviceplugin_pb2.ContainerAllocateResponse.FromString(base64.b64decode(entry["AllocResp"] or ""))
        slots = sorted(slot for ids in entry["DeviceIDs"].values() for slot in ids)
        found[entry["PodUID"], entry["ContainerName"]] = (slots, [device.name for device in answer.cdi_devices])
    return found


def cards(bed: Bed, node: str) -> dict[str, str]:
    """Device path → uuid of the node's cards, from the state of the simulated hardware."""
    state = json.loads((bed.root(node) / "opt/nvidia-sim/state/profile.json").read_bytes())
    return {f"/dev/nvidia{index}": f"GPU-{device['uuid']}" for index, device in enumerate(state["devices"])}


@dataclass(frozen=True)
class View:
    """A snapshot of a node: its kubelet's checkpoint, its cards, and its containers in containerd."""

    entries: dict[tuple[str, str], tuple[list[str], list[str]]]
    by_path: dict[str, str]
    running: dict[tuple[str, str], Container]

    @classmethod
    def of(cls, bed: Bed, node: str) -> Self:
        """Take a snapshot."""
        return cls(checkpoint(bed, node), cards(bed, node), bed.containers(node))


def problems(bed: Bed, *pods: dict[str, Any], seen: bool = True) -> list[str]:
    """All places where a container of these running pods has something other than its own booking.

    Args:
        bed: The bed on which the pods run.
        pods: The pods' current objects.
        seen: Whether to compare what their programs print too. They must run `LOOK`, `STAY` or `FILL`.
    """
    views = {node: View.of(bed, node) for node in {pod["spec"]["nodeName"] for pod in pods}}
    return [text for pod in pods for text in _problems(bed, pod, views[pod["spec"]["nodeName"]], seen=seen)]


def _problems(bed: Bed, pod: dict[str, Any], view: View, *, seen: bool) -> list[str]:
    node, uid, name = pod["spec"]["nodeName"], pod["metadata"]["uid"], pod["metadata"]["name"]
    found: list[str] = []
    for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]:
        where = f"{name}/{container['name']}"
        asked = container.get("resources", {}).get("limits", {})
        count, memory = int(asked.get(RESOURCE, 0)), amount(asked.get("nvidia.com/gpumem"))
        mine = sorted(booked(pod).get(container["name"], []))
        if not count:
            found += [f"{where}: asked for nothing, booked {mine}"] if mine else []
            continue
        if len(mine) != count or (memory is not None and {m for _, m in mine} != {memory}):
            found.append(f"{where}: asked {count} x {memory}, booked {mine}")
        slots, names = view.entries.get((uid, container["name"]), ([], []))
        if len(slots) != count or len(names) != 1:
            found.append(f"{where}: the kubelet's checkpoint has slots {slots}, names {names}")
            continue
        found += [f"{where}: {text}" for text in _files(bed, node, uid, container["name"], names[0], mine)]
        oci = view.running.get((uid, container["name"]))
        if oci is not None:
            found += [f"{where}: {text}" for text in _oci(oci.spec, mine, view.by_path, whole=memory is None)]
        if seen:
            found += [f"{where}: {text}" for text in _seen(bed, pod, container["name"], mine)]
    return found


def _files(bed: Bed, node: str, uid: str, container: str, name: str, mine: list[tuple[str, int]]) -> list[str]:
    """Problems of the agent's record, limits file and CDI spec."""
    short = name.rpartition("=")[2]
    folder = bed.root(node) / "var/lib/hami/containers" / f"{uid}_{container}_{short[:8]}"
    if not (folder / "record.json").exists():
        return [f"no record for its CDI name {short}"]
    record = json.loads((folder / "record.json").read_bytes())
    found = []
    if (record["pod_uid"], record["container"], record["name"]) != (uid, container, short):
        found.append(f"the record is {record['pod_uid']}/{record['container']}/{record['name']}")
    if not (bed.root(node) / "run/cdi" / f"hami-{short}.json").exists():
        found.append("no CDI spec")
    if not record["whole"]:
        limits = limits_file.decode((folder / "limits" / "limits").read_bytes())
        held = sorted((device.uuid, device.memory_bytes // MIB) for device in limits.devices)
        if held != mine:
            found.append(f"the limits file says {held}, booked {mine}")
    return found


def _oci(spec: dict[str, Any], mine: list[tuple[str, int]], by_path: dict[str, str], *, whole: bool) -> list[str]:
    """Problems of the OCI spec that containerd passed to runc."""
    found = []
    visible = sorted(by_path[d["path"]] for d in spec["linux"].get("devices", []) if d["path"] in by_path)
    if visible != sorted(uuid for uuid, _ in mine):
        found.append(f"its OCI spec has the cards {visible}, booked {mine}")
    if "NVIDIA_VISIBLE_DEVICES=void" not in spec["process"]["env"]:
        found.append("its OCI spec lacks NVIDIA_VISIBLE_DEVICES=void")
    mounted = any(mount["destination"] == LIMITS_MOUNT for mount in spec["mounts"])
    if mounted == whole:
        found.append(f"its OCI spec {'has' if mounted else 'lacks'} the limits mount")
    return found


def _seen(bed: Bed, pod: dict[str, Any], container: str, mine: list[tuple[str, int]]) -> list[str]:
    """Problems of the program's output."""
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/log?container={container}"
    lines = [line for line in bed.call("GET", path).splitlines() if line.startswith("{")]
    if not lines:
        return ["its program has printed nothing yet"]
    got = sorted((device["uuid"], device["total_bytes"] // MIB) for device in json.loads(lines[-1])["devices"])
    return [] if got == mine else [f"its program sees {got}, booked {mine}"]
