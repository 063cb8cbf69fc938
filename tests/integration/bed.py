"""Shared by the integration tests: pods, and the comparison of the slices they see with the slices booked."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hami_nvidia.demo.stage import GpuStage

MIB = 1 << 20
ALLOCATED = "hami.io/vgpu-devices-allocated"


def container(name: str, memory: int | None, count: int = 1, *, command: list[str] | None = None) -> dict[str, Any]:
    """A container that asks for a slice and prints the cards that it sees. Memory None: it asks for no device."""
    body: dict[str, Any] = {"name": name, "image": "hami-probe", "command": command or ["cuda-probe", "look"]}
    if memory is None:
        body["command"] = command or ["true"]
    else:
        body["resources"] = {"limits": {"nvidia.com/gpu": count, "nvidia.com/gpumem": memory}}
    return body


def pod(name: str, containers: list[dict[str, Any]], init: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A pod that runs once."""
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": containers}
    if init:
        spec["initContainers"] = init
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def booked(pod: dict[str, Any]) -> dict[str, list[tuple[str, int]]]:
    """Container name → (uuid, MiB) of each slice, from the pod's annotation, parsed without the product's code."""
    names = [c["name"] for c in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]]
    lists = pod["metadata"]["annotations"][ALLOCATED].split(";")
    found = {}
    for name, entry in zip(names, lists, strict=False):
        devices = [piece.split(",") for piece in entry.split(":") if piece]
        found[name] = [(uuid, int(memory)) for uuid, _, memory, _ in devices]
    return found


async def seen(stage: GpuStage, name: str, container: str) -> list[tuple[str, int]] | None:
    """(uuid, MiB) of each card that the program in the container saw. None if it has printed nothing yet."""
    lines = [line for line in (await stage.log(name, container)).splitlines() if line.startswith("{")]
    if not lines:
        return None
    return [(device["uuid"], device["total_bytes"] // MIB) for device in json.loads(lines[-1])["devices"]]


async def wrong_slices(stage: GpuStage, pods: list[dict[str, Any]]) -> list[str]:
    """Describe each container whose program saw something other than its booking and its request."""
    now = await stage.pods()
    found = []
    for wanted in pods:
        name = wanted["metadata"]["name"]
        slices = booked(now[name])
        for spec in [*wanted["spec"].get("initContainers", []), *wanted["spec"]["containers"]]:
            limits = spec.get("resources", {}).get("limits")
            if not limits:
                assert not slices.get(spec["name"]), f"{name}/{spec['name']} asked for nothing"
                continue
            asked = [int(limits["nvidia.com/gpumem"])] * int(limits["nvidia.com/gpu"])
            got = await seen(stage, name, spec["name"])
            if got is None or sorted(got) != sorted(slices[spec["name"]]) or [m for _, m in got] != asked:
                found.append(f"{name}/{spec['name']}: asked {asked}, booked {slices[spec['name']]}, saw {got}")
    return found


async def all_end(stage: GpuStage, names: set[str], limit_s: float) -> dict[str, str]:
    """Wait until these pods have succeeded. Returns the others, with the reason."""
    from hami_core.testing.stage import refusal_of

    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    while True:
        now = await stage.pods()
        open_ = {
            name: f"{now[name]['status'].get('phase')}: {refusal_of(now[name])}" if name in now else "gone"
            for name in names
            if name not in now or now[name]["status"].get("phase") != "Succeeded"
        }
        over = all(why.startswith("Failed") for why in open_.values())
        if over or loop.time() > deadline:
            return open_
        await asyncio.sleep(0.25)


async def replace_rejected(stage: GpuStage, pods: list[dict[str, Any]]) -> int:
    """Like a Job's controller, replace pods that the kubelet rejected at admission. Returns how many.

    A pod that arrives while its device plugin is away is rejected and never runs. No plugin can change that. Pods that
    failed otherwise stay as they are.
    """
    now, replaced = await stage.pods(), 0
    for wanted in pods:
        name = wanted["metadata"]["name"]
        status = now.get(name, {}).get("status", {})
        if status.get("phase") == "Failed" and status.get("reason") == "UnexpectedAdmissionError":
            await stage.call("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})
            while name in await stage.pods():
                await asyncio.sleep(0.1)
            await stage.submit(wanted)
            replaced += 1
    return replaced


async def delete_all(stage: GpuStage) -> None:
    """Delete every pod and wait until they are gone."""
    for name in await stage.pods():
        await stage.call("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})
    while await stage.pods():
        await asyncio.sleep(0.1)
