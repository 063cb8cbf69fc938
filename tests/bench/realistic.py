"""Nodes and running pods that are as large as real ones, and an embedded API server that has them from its start.

A node object has 11 kB: 20 labels, 25 images, conditions, managed fields and the register of eight cards. A running
pod has 5 kB: environment, mounts, tolerations, status, managed fields and a signed allocation.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import orjson

from hami_core.model import Allocation, ContainerKind, ContainerSlices, Device, Slice
from hami_core.wire import keys
from hami_core.wire import node as node_wire
from hami_core.wire.pod import allocation_annotations
from hami_core.wire.signature import sign, statement_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from hami_core.model import Family

CARDS: Final = 8
CARD_MIB: Final = 81_920
TAKEN_MIB: Final = range(45_000, 85_000)
"""MiB that a running pod takes of each of its two cards. A larger amount is cut to the card."""
_WHEN: Final = "2026-01-01T00:00:00Z"


def name(number: int) -> str:
    """The name of a node."""
    return f"node-{number:05d}"


def objects(
    nodes: int, running: int, waiting: int, key: Ed25519PrivateKey, families: Mapping[str, Family]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield plural and object: nodes, the pods that run on them in turn, of two cards each, and waiting pods."""
    rng = random.Random(7)
    cards = [_cards(number) for number in range(nodes)]
    for number in range(nodes):
        yield "nodes", _node(number, cards[number])
    for number in range(running):
        on, turn = number % nodes, number // nodes
        own = cards[on][turn % (CARDS // 2) * 2 :][:2]
        taken = tuple(Slice(c.id, "NVIDIA", min(CARD_MIB, rng.choice(TAKEN_MIB)), 50) for c in own)
        main = ContainerSlices("main", ContainerKind.APP, taken)
        annotations = allocation_annotations(Allocation(name(on), (main,)), families, 1_767_225_600, "success")
        uid = _uid(1, number)
        annotations[keys.SIGNATURE] = sign(key, statement_of(uid, annotations, [families["NVIDIA"]], epoch=1))
        yield "pods", _running(f"busy-{number:05d}", uid, name(on), annotations)
    for number in range(waiting):
        yield "pods", waiting_pod(number)


def write_journal(file: Path, found: Iterator[tuple[str, dict[str, Any]]]) -> None:
    """Write the objects as the embedded API server's journal. Creating them by requests would take minutes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as out:
        for version, (plural, item) in enumerate(found, 2):
            item["metadata"]["resourceVersion"] = str(version)
            record = {"version": version, "type": "ADDED", "resource": ["", "v1", plural], "object": item}
            out.write(orjson.dumps(record) + b"\n")
        out.write(orjson.dumps({"version": version}) + b"\n")  # the events before this are forgotten


def waiting_pod(number: int) -> dict[str, Any]:
    """A pod that waits for a card."""
    return pod(f"waiting-{number:05d}", _uid(2, number), memory_mib=300 + number)


def pod(name: str, uid: str, *, cards: int = 1, memory_mib: int) -> dict[str, Any]:
    """A waiting pod that asks for one card, as the API server sends it to the webhook and kube-scheduler to Filter."""
    limits = {"nvidia.com/gpu": str(cards), "nvidia.com/gpumem": str(memory_mib), "nvidia.com/gpucores": "5"}
    env = [{"name": f"VARIABLE_{i:02}", "value": "x" * 60} for i in range(10)]
    mounts = [{"name": f"volume-{i}", "mountPath": f"/var/lib/data/{i}", "readOnly": True} for i in range(4)]
    container = {
        "name": "main",
        "image": "registry.example/team/training:1.2.3",
        "command": ["python", "-m", "train"],
        "resources": {"limits": limits, "requests": {**limits, "cpu": "4", "memory": "16Gi"}},
        "env": env,
        "volumeMounts": mounts,
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    spec = {
        "schedulerName": "bench",  # not the embedded scheduler's
        "containers": [container],
        "volumes": [
            {"name": f"volume-{i}", "configMap": {"name": f"config-{i}", "defaultMode": 420}} for i in range(4)
        ],
        "restartPolicy": "Always",
        "serviceAccountName": "default",
        "tolerations": [
            {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for what in ("not-ready", "unreachable")
        ],
    }
    fields = {
        "f:metadata": {"f:labels": {}},
        "f:spec": {'k:{"name":"main"}': {f"f:variable-{i}": {} for i in range(40)}},
    }
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": uid,
        "creationTimestamp": _WHEN,
        "labels": {"app": "training", "pod-template-hash": "7d9f8b6c5d"},
        "managedFields": [_managed("kube-controller-manager", fields)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def _running(name: str, uid: str, node: str, annotations: dict[str, str]) -> dict[str, Any]:
    made = pod(name, uid, cards=2, memory_mib=45_000)
    made["metadata"]["annotations"] = annotations
    made["metadata"]["managedFields"].append(_managed("kubelet", {"f:status": {f"f:field-{i}": {} for i in range(10)}}))
    made["spec"]["nodeName"] = node
    ready = [
        {"type": t, "status": "True", "lastProbeTime": None, "lastTransitionTime": _WHEN}
        for t in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    status = {
        "name": "main",
        "ready": True,
        "restartCount": 0,
        "started": True,
        "containerID": f"containerd://{'0' * 64}",
    }
    status["state"] = {"running": {"startedAt": _WHEN}}
    made["status"] = {"phase": "Running", "conditions": ready, "hostIP": "10.0.0.1", "containerStatuses": [status]}
    return made


def _cards(number: int) -> list[Device]:
    ids = [f"GPU-{number:08x}-{i:04x}-0000-0000-000000000000" for i in range(CARDS)]
    return [Device(d, i, 10, CARD_MIB, 100, "NVIDIA-A100", "NVIDIA", i // 4) for i, d in enumerate(ids)]


def _node(number: int, cards: list[Device]) -> dict[str, Any]:
    labels = {f"topology.example.com/some-label-{i:02}": f"value-{i:02}-of-some-length" for i in range(18)}
    labels |= {"kubernetes.io/hostname": name(number), "hami.io/agent-nvidia": "ready"}
    images = [
        {"names": [f"registry.example/team-of-a-long-name/image-{i:02}@sha256:{i:064x}",
                   f"registry.example/team-of-a-long-name/image-{i:02}:2026.1"], "sizeBytes": 1_234_567_890}
        for i in range(25)
    ]  # fmt: skip
    conditions = [
        {"type": t, "status": "False", "reason": f"KubeletHas{t}", "message": f"kubelet has sufficient {t} available",
         "lastHeartbeatTime": _WHEN, "lastTransitionTime": _WHEN}
        for t in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]  # fmt: skip
    room = {"cpu": "64", "memory": "528Gi", "ephemeral-storage": "1Ti", "pods": "110", "nvidia.com/gpu": "80"}
    fields = {"f:status": {"f:conditions": {f'k:{{"type":"Condition{i}"}}': {"f:status": {}} for i in range(30)}}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name(number),
            "uid": _uid(0, number),
            "creationTimestamp": _WHEN,
            "labels": labels,
            "annotations": {"hami.io/node-nvidia-register": node_wire.encode_devices_json(cards)},
            "managedFields": [_managed("kubelet", fields)],
        },
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {
            "allocatable": room,
            "capacity": room,
            "conditions": conditions,
            "images": images,
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name(number)}],
            "nodeInfo": {
                "kubeletVersion": "v1.35.0",
                "osImage": "Ubuntu 24.04.1 LTS",
                "kernelVersion": "6.8.0-45-generic",
                "containerRuntimeVersion": "containerd://2.1.0",
                "architecture": "amd64",
                "bootID": _uid(3, number),
            },
        },
    }


def _managed(manager: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": _WHEN, "fieldsType": "FieldsV1",
            "fieldsV1": fields}  # fmt: skip


def _uid(kind: int, number: int) -> str:
    return f"{number:08x}-000{kind}-4000-8000-000000000000"
