"""HAMi v2.10's NVIDIA device plugin as the API server sees it, and the kubelet that asks it.

HAMi's other device plugins share its protocol: subclasses name their annotation.

Written after HAMi's ``pkg/util/util.go`` (GetPendingPod), ``pkg/device/devices.go`` (PodAllocationTrySuccess,
PodAllocationFailed) and ``pkg/util/nodelock``: what it reads, what it writes, and in which order.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from hami_nvidia import rules

from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES, PODS, ApiError
from hami_core.wire import keys

if TYPE_CHECKING:
    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi
    from hami_core.tests.kube.apiserver import ApiServer

GPU = "nvidia.com/gpu"
WORDS = ("NVIDIA", "MLU", "DCU")
"""A part of HAMi's ``DevicesToHandle``. A to-allocate list with one of these words has containers left."""


def node(name: str, cards: int = 2, **meta: Any) -> dict[str, Any]:
    """A node as the plugin registers it: no label, no handshake."""
    devices = [
        {
            "id": f"GPU-{name}-{i}",
            **({"index": i} if i else {}),
            "count": 10,
            "devmem": 40_000,
            "devcore": 100,
            "type": "NVIDIA-Tesla T4",
            "mode": "hami-core",
            "health": True,
        }
        for i in range(cards)
    ]
    annotations = {rules.REGISTER: json.dumps(devices), **meta.pop("annotations", {})}
    room = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: str(cards * 10)}
    return {
        "metadata": {"name": name, "annotations": annotations, **meta},
        "status": {"capacity": room, "allocatable": room},
    }


class PluginError(Exception):
    """Allocate fails; the kubelet rejects the pod."""


class HamiPlugin:
    """The plugin's Allocate."""

    to_allocate = rules.TO_ALLOCATE
    """The pod annotation that the plugin consumes."""
    words: tuple[str, ...] = WORDS
    """While the annotation holds one of these words, the pod is not finished."""

    def __init__(self, api: KubeApi, node: str) -> None:
        self.api = api
        self.node = node
        self.broken: set[str] = set()
        """Pods whose Allocate fails."""

    async def allocate(self, ids: int) -> list[str]:
        """The devices (``uuid,type,mem,cores``) of one container that has this number of device ids."""
        pod = await self._pending_pod()
        try:
            devices, rest = self._pop(pod, ids)
            self.check(pod, devices)
        except PluginError:
            await self._annotate(pod, {keys.BIND_PHASE: keys.PHASE_FAILED})
            await self._release(pod)
            raise
        await self._annotate(pod, {self.to_allocate: rest})
        await self._try_success(pod)
        return devices

    def check(self, pod: Pod, devices: list[str]) -> None:
        """Look at the devices of a container before they are given; raise `PluginError` to fail."""

    def _pop(self, pod: Pod, ids: int) -> tuple[list[str], str]:
        """The devices of the first container that has some, and the list with its place emptied."""
        text = pod.metadata.annotations.get(self.to_allocate)
        if text is None:
            raise PluginError("device request not found")
        pieces = text.split(";")
        position = next((i for i, piece in enumerate(pieces) if piece), None)
        if position is None or position >= len(pod.spec.init_containers) + len(pod.spec.containers):
            raise PluginError("no container with devices is left")
        devices = [device for device in pieces[position].split(":") if device]
        if len(devices) != ids:
            raise PluginError("device number not matched")
        if pod.metadata.name in self.broken:
            raise PluginError("NVML failed")
        pieces[position] = ""
        return devices, ";".join(pieces)

    async def _pending_pod(self) -> Pod:
        found = await self.api.get(NODES, self.node)
        lock = found.metadata.annotations.get(keys.NODE_LOCK, "")
        if lock.count(",") == 2:
            _, namespace, name = lock.split(",")
            return await self.api.get(PODS, name, namespace)
        for pod in (await self.api.list(PODS)).items:
            there = pod.metadata.annotations
            is_bound = pod.spec.node_name == self.node == there.get(keys.NODE) and keys.BIND_TIME in there
            waits = there.get(keys.BIND_PHASE) in {keys.PHASE_ALLOCATING, keys.PHASE_SUCCESS}
            if is_bound and waits and pod.status.phase == "Pending":
                return pod
        raise PluginError(f"no binding pod found on node {self.node}")

    async def _try_success(self, pod: Pod) -> None:
        pod = await self.api.get(PODS, pod.metadata.name, pod.metadata.namespace)
        if any(word in pod.metadata.annotations.get(self.to_allocate, "") for word in self.words):
            return
        await self._annotate(pod, {keys.BIND_PHASE: keys.PHASE_SUCCESS})
        await self._release(pod)

    async def _release(self, pod: Pod) -> None:
        found = await self.api.get(NODES, self.node)
        lock = found.metadata.annotations.get(keys.NODE_LOCK)
        meta = pod.metadata
        if lock is None or ("," in lock and not lock.endswith(f",{meta.namespace},{meta.name}")):
            return
        patch = metadata_patch(annotations={keys.NODE_LOCK: None}, resource_version=found.metadata.resource_version)
        await self.api.patch(NODES, self.node, patch)

    async def _annotate(self, pod: Pod, annotations: dict[str, str]) -> None:
        await self.api.patch(PODS, pod.metadata.name, metadata_patch(annotations=annotations), pod.metadata.namespace)


class Kubelet:
    """Admits the node's pods one by one, and asks the plugin for each container with GPUs, init containers first."""

    def __init__(self, server: ApiServer, plugin: HamiPlugin) -> None:
        self.given: dict[str, list[str]] = {}
        """``pod/container`` → devices."""
        self.rejected: dict[str, str] = {}
        """Pod → why."""
        self.started = asyncio.Event()
        self.started.set()
        self._server = server
        self._plugin = plugin
        self._seen: set[str] = set()

    async def run(self) -> None:
        """Admit until cancelled."""
        while True:
            found = list(self._server.objects.get("pods", {}).values())
            for pod in found:
                name, spec = pod["metadata"]["name"], pod["spec"]
                if spec.get("nodeName") == self._plugin.node and name not in self._seen:
                    self._seen.add(name)
                    await self.started.wait()
                    await self._admit(pod)
            await asyncio.sleep(0.01)

    async def _admit(self, pod: dict[str, Any]) -> None:
        name, spec = pod["metadata"]["name"], pod["spec"]
        try:
            for container in (*spec.get("initContainers", ()), *spec["containers"]):
                count = int(container.get("resources", {}).get("limits", {}).get(GPU, 0))
                if count:
                    self.given[f"{name}/{container['name']}"] = await self._plugin.allocate(count)
        except (PluginError, ApiError) as error:
            self.rejected[name] = str(error)
            now = self._server.objects["pods"][f"default/{name}"]
            await self._server.put("pods", {**now, "status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}})
