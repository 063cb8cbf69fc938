"""Enflame's gcushare-device-plugin for GCUs in DRS mode.

Written after EnflameTechnology/gcushare, folder ``gcushare-device-plugin/pkg``: ``server/server.go``,
``resource/pod.go``, ``resource/node.go``, ``drs/drs.go`` and ``device/device.go``. They say which ids it offers, what
it writes to the node, how it finds the pod and the container, what it writes back, and which environment it gives.
Enflame's own scheduler, ``gcushare-scheduler-plugin/src/v1/plugin/plugin.go``, says what it expects of a pod.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES, PODS
from hami_core.tests.scheduler.hami_plugin import PluginError
from tests.foreign.device_plugin import Offer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.kube.objects import Pod
    from hami_core.kube.port import KubeApi

RESOURCE = "enflame.com/drs-gcu"
CAPACITY = "enflame.com/gcu-drs-capacity"
ASSIGNED = "enflame.com/gcu-assigned"
CONTAINERS = "assigned-containers"
SLICES = 6
PROFILES = {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2"}


@dataclass(frozen=True)
class Instance:
    """A DRS instance: the GCU's index, and the profile."""

    index: str
    profile: str

    @property
    def size(self) -> int:
        """Its slices."""
        return int(self.profile.partition("g")[0])


class EnflamePlugin:
    """The plugin of one node.

    Args:
        api: The API server.
        node: The node's name.
        minors: Index → minor number of each GCU.
    """

    def __init__(self, api: KubeApi, node: str, minors: Mapping[str, str]) -> None:
        self._api = api
        self._node = node
        self._minors = minors
        self.instances: dict[str, Instance] = {}
        """UUID → instance."""
        self.refused: list[str] = []
        """Texts of failed calls."""
        self._turn = asyncio.Lock()

    @property
    def offer(self) -> Offer:
        """Six ids for each GCU, named after its minor number."""
        ids = [f"{minor}-{part}" for minor in self._minors.values() for part in range(SLICES)]
        return Offer(RESOURCE, ids, self._allocate)

    async def register(self) -> None:
        """Write the node's annotation."""
        rows = [{"index": index, "minor": minor, "capacity": SLICES} for index, minor in self._minors.items()]
        text = json.dumps({"devices": rows, "profiles": PROFILES})
        await self._api.patch(NODES, self._node, metadata_patch(annotations={CAPACITY: text}))

    async def _allocate(self, ids: int) -> dict[str, str]:
        """Answer the kubelet. Only the number of the ids matters: it has to be the container's limit."""
        async with self._turn:
            try:
                return await self._serve_oldest(ids)
            except PluginError as error:
                self.refused.append(str(error))
                raise

    async def _serve_oldest(self, ids: int) -> dict[str, str]:
        """Serve the pod that was placed first and has a container of this size."""
        pods = [pod for pod in (await self._api.list(PODS)).items if self._waits(pod)]
        for pod in sorted(pods, key=lambda pod: int(pod.metadata.annotations[f"{ASSIGNED}-time"])):
            if found := await self._serve(pod, ids):
                return found
        raise PluginError(f"unable to find pod request {RESOURCE}: {ids}")

    def _waits(self, pod: Pod) -> bool:
        here = pod.spec.node_name == self._node and pod.status.phase == "Pending"
        return here and sum(_limits(pod).values()) > 0 and f"{ASSIGNED}-time" in pod.metadata.annotations

    async def _serve(self, pod: Pod, ids: int) -> dict[str, str] | None:
        """Serve the first container of this size that has no instance; None: the pod has none."""
        annotations = pod.metadata.annotations
        records: dict[str, dict[str, Any]] = json.loads(annotations.get(CONTAINERS, "{}"))
        limits = _limits(pod)
        waiting = [name for name in limits if not records.get(name, {}).get("allocated")]
        chosen = next((name for name in waiting if limits[name] == ids), None)
        if chosen is None:
            return None
        record = records.setdefault(chosen, {})
        record["allocated"] = True
        env = {"ENFLAME_VISIBLE_DEVICES": annotations.get(f"{ASSIGNED}-minor", "")}
        if not env["ENFLAME_VISIBLE_DEVICES"]:
            raise PluginError(f"pod {pod.metadata.name} has not been assigned device")
        if "profileName" in record and "profileID" in record:
            uuid = self._create(annotations.get(f"{ASSIGNED}-index", ""), record)
            record |= {"instanceID": str(len(self.instances)), "instanceUUID": uuid}
            env["TOPS_VISIBLE_DEVICES"] = f"DRS-{uuid}"
        written = {CONTAINERS: json.dumps(records), ASSIGNED: "true" if len(waiting) == 1 else annotations[ASSIGNED]}
        await self._api.patch(PODS, pod.metadata.name, metadata_patch(annotations=written), pod.metadata.namespace)
        return env

    def _create(self, index: str, record: Mapping[str, Any]) -> str:
        """Make an instance, as ``efsmi`` does: the profile must exist and have room."""
        made = Instance(index, record["profileName"])
        if index not in self._minors or PROFILES.get(made.profile) != record["profileID"]:
            raise PluginError(f"device index {index}: no profile {made.profile} with id {record['profileID']}")
        if sum(one.size for one in self.instances.values() if one.index == index) + made.size > SLICES:
            raise PluginError(f"device index {index}: no room for {made.profile}")
        uuid = f"7325501d-02bd-4da2-9289-{len(self.instances):012}"
        self.instances[uuid] = made
        return uuid


def _limits(pod: Pod) -> dict[str, int]:
    """App container → the slices that it asks for. Init containers are not seen."""
    amounts = {c.name: c.resources.limits.get(RESOURCE) for c in pod.spec.containers}
    return {name: int(str(amount)) for name, amount in amounts.items() if amount is not None}
