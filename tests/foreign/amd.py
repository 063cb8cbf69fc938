"""HAMi's device plugin for AMD GPUs.

Written after Project-HAMi/amd-device-plugin, ``internal/pkg/plugin/plugin.go``,
``internal/pkg/utils/{utils,types,nodelocks}.go`` and ``internal/pkg/cuallocation/cuallocation.go``: the register, the
search for the pod, the lists of devices and compute units, and the end of the hand-off.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES, PODS
from hami_core.tests.scheduler.hami_plugin import HamiPlugin, PluginError
from hami_core.wire import keys
from tests.foreign.device_plugin import Offer

if TYPE_CHECKING:
    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi

COUNT, MEMORY, CORES = "amd.com/gpu", "amd.com/gpumem", "amd.com/gpucores"
REGISTER = "hami.io/node-amd-register"
TO_ALLOCATE, ALLOCATED = "hami.io/amd-devices-to-allocate", "hami.io/amd-devices-allocated"
UNITS_KEY = "hami.io/amd-cu-allocated"
MODEL, MEMORY_MIB, UNITS = "AMD Instinct MI300X VF", 196288, 304
SPLITS = 10


class AmdPlugin(HamiPlugin):
    """The plugin of one node.

    Args:
        api: The API server.
        node: The node's name.
        cards: How many GPUs it has.
        mended: Without the plugin's fault: a pod is finished when none of its containers is left.
    """

    to_allocate = TO_ALLOCATE

    def __init__(self, api: KubeApi, node: str, cards: int = 2, *, mended: bool = False) -> None:
        super().__init__(api, node)
        self._uuids = [f"8eff74b5-0000-1000-80{i:02x}-{node}" for i in range(cards)]
        self._mended = mended
        self.refused: list[str] = []
        """Texts of failed calls."""

    async def register(self) -> None:
        """Write the node's annotation, as the real plugin does every 30 s. There is no handshake."""
        devices = [
            {
                "id": uuid,
                **({"index": i} if i else {}),
                "count": SPLITS,
                "devmem": MEMORY_MIB,
                "devcore": UNITS,
                "type": MODEL,
                "health": True,
                "devicevendor": "amd",
                "custominfo": {"pciBDF": f"0000:{i:02x}:00.0"},
            }
            for i, uuid in enumerate(self._uuids)
        ]
        await self.api.patch(NODES, self.node, metadata_patch(annotations={REGISTER: json.dumps(devices)}))

    @property
    def offer(self) -> Offer:
        """The resource: ten ids for each GPU."""
        ids = [f"0000:{i:02x}:00.0#{k}" for i in range(len(self._uuids)) for k in range(SPLITS)]
        return Offer(COUNT, ids, self._answer)

    async def _answer(self, ids: int) -> dict[str, str]:
        try:
            pod = await self._pending_pod()
            try:
                return await self._serve(pod, ids)
            except PluginError:
                await self._annotate(pod, {keys.BIND_PHASE: keys.PHASE_FAILED})
                await self._release(pod)
                raise
        except PluginError as error:
            self.refused.append(str(error))
            raise

    async def _serve(self, pod: Pod, ids: int) -> dict[str, str]:
        taken = await self._occupied()
        devices, rest = self._next(pod, ids)
        await self._annotate(pod, {TO_ALLOCATE: rest})
        own = _units_of(pod)
        masks = []
        for position, (uuid, _, _, cores) in enumerate(devices):
            if uuid not in self._uuids or pod.metadata.name in self.broken:
                raise PluginError(f"no local GPU topology entry for AMD SMI UUID {uuid!r}")
            free = [unit for unit in range(UNITS) if unit not in taken.setdefault(uuid, set())]
            if len(free) < int(cores):
                raise PluginError(f"allocate cu for {uuid}: insufficient free CUs")
            given = free[: int(cores)]
            taken[uuid] |= set(given)
            own[uuid] = own.get(uuid, set()) | set(given)
            masks.append(f"{position}:{_ranges(given)}")
        await self._check_lock(pod)
        await self._annotate(pod, {UNITS_KEY: json.dumps({uuid: _ranges(units) for uuid, units in own.items()})})
        await self._try_success(pod)
        return {
            "HSA_CU_MASK": ";".join(masks),
            "ROCR_VISIBLE_DEVICES": ",".join(f"GPU-{self._uuids.index(device[0])}" for device in devices),
            "HIP_DEVICE_MEMORY_LIMIT": f"{devices[0][2]}m",
            "LD_AUDIT": "/usr/local/vgpu/libamvgpu.so",
        }

    async def _pending_pod(self) -> Pod:
        """The pod that the lock names. Without a lock: a pod in the phase ``allocating``, and in no other."""
        pod = await super()._pending_pod()
        lock = (await self.api.get(NODES, self.node)).metadata.annotations.get(keys.NODE_LOCK, "")
        if lock.count(",") != 2 and pod.metadata.annotations[keys.BIND_PHASE] != keys.PHASE_ALLOCATING:
            raise PluginError(f"no binding pod found on node {self.node}")
        return pod

    def _next(self, pod: Pod, ids: int) -> tuple[list[list[str]], str]:
        """The next container's devices and the list without them. The plugin drops empty containers as it reads."""
        lists = [piece for piece in pod.metadata.annotations.get(TO_ALLOCATE, "").split(";") if "," in piece]
        devices = [device.split(",") for device in lists[0].split(":") if device] if lists else []
        if len(devices) != ids:
            raise PluginError("device number not matched")
        return devices, ";" + "".join(f"{piece};" for piece in lists[1:])

    async def _occupied(self) -> dict[str, set[int]]:
        """Compute units in use on the node's GPUs, from the pods' annotations."""
        found: dict[str, set[int]] = {}
        for pod in (await self.api.list(PODS)).items:
            if pod.spec.node_name == self.node and not pod.is_terminal:
                for uuid, units in _units_of(pod).items():
                    if found.setdefault(uuid, set()) & units:
                        raise PluginError(f"CU allocation overlap on device {uuid}")
                    found[uuid] |= units
        return found

    async def _check_lock(self, pod: Pod) -> None:
        lock = (await self.api.get(NODES, self.node)).metadata.annotations.get(keys.NODE_LOCK)
        if lock is None:
            raise PluginError(f"node {self.node} lock is missing before CU allocation commit")
        if not lock.endswith(f",{pod.metadata.namespace},{pod.metadata.name}"):
            raise PluginError(f"node {self.node} lock is owned by {lock}, not {pod.metadata.name}")

    async def _try_success(self, pod: Pod) -> None:
        """Finish the pod. The real plugin looks for the pod's whole list in what is left, which is shorter."""
        now = await self.api.get(PODS, pod.metadata.name, pod.metadata.namespace)
        left = now.metadata.annotations.get(TO_ALLOCATE, "")
        if "," in left if self._mended else pod.metadata.annotations[ALLOCATED] in left:
            return
        await self._annotate(pod, {keys.BIND_PHASE: keys.PHASE_SUCCESS})
        await self._release(pod)


def _units_of(pod: Pod) -> dict[str, set[int]]:
    text = pod.metadata.annotations.get(UNITS_KEY, "{}")
    return {uuid: members(ranges) for uuid, ranges in json.loads(text).items()}


def _ranges(units: list[int] | set[int]) -> str:
    """Numbers as ``0-3,8``."""
    parts: list[list[int]] = []
    for unit in sorted(units):
        if parts and parts[-1][1] == unit - 1:
            parts[-1][1] = unit
        else:
            parts.append([unit, unit])
    return ",".join(f"{first}-{last}" if first < last else f"{first}" for first, last in parts)


def members(text: str) -> set[int]:
    """The numbers in such a text."""
    pairs = [part.partition("-") for part in text.split(",")]
    return {unit for first, _, last in pairs for unit in range(int(first), int(last or first) + 1)}
