"""Imitations of other device plugins, as small programs that run on a node of the bed.

The simple plugin offers slots of a resource and gives each container their ids in the variable FOO. With ``hami`` it
imitates the plugin of HAMi v2.10 with simulated cards. It offers slots ``<uuid>-<k>``, finds the pod that is being
bound by its annotations, sets HAMi's variables and mounts, and writes the annotations back.

::

    python -m tests.e2e.lifecycle.device_plugin SETTINGS.json
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

import grpc
import msgspec

from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.agent.proto import deviceplugin_pb2_grpc as services
from tests.e2e.bed import client

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDER = Path("/var/lib/kubelet/device-plugins")
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
PHASE = "hami.io/bind-phase"
HOOK = "/usr/local/vgpu"
MERGE = "application/merge-patch+json"


class Settings(msgspec.Struct):
    """Settings of a plugin.

    Attributes:
        resource: Name of the resource that it offers.
        slots: Ids of its slots.
        hami: Whether to answer like HAMi's plugin; otherwise with the variable FOO.
        node: Name of the node.
        socket: Unix socket of the Kubernetes API.
        cards: Card → device path, for ``hami``.
        env: Variables that NVIDIA's runtime would add.
        mounts: Container path → host path of mounts that NVIDIA's runtime would add.
    """

    resource: str
    slots: list[str]
    hami: bool = False
    node: str = ""
    socket: str = ""
    cards: dict[str, str] = {}
    env: dict[str, str] = {}
    mounts: dict[str, str] = {}


def card_of(slot: str) -> str:
    """The card of a slot ``<uuid>-<k>``."""
    return slot.rpartition("-")[0]


@dataclass
class Pending:
    """The pod for which HAMi's plugin assumes an Allocate: it is being bound to this node and lacks devices."""

    pod: dict[str, Any]
    entries: list[str]
    position: int = field(init=False)

    def __post_init__(self) -> None:
        self.position = next(i for i, entry in enumerate(self.entries) if entry)

    @property
    def devices(self) -> list[tuple[str, int, int]]:
        """Card, MiB and percent of each device of the first container without devices."""
        pieces = [piece.split(",") for piece in self.entries[self.position].split(":") if piece]
        return [(uuid, int(memory), int(cores)) for uuid, _, memory, cores in pieces]


class Plugin(services.DevicePluginServicer):
    """The plugin's gRPC service."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.over = threading.Event()
        self._one = threading.Lock()

    def GetDevicePluginOptions(self, request: api.Empty, context: Any) -> api.DevicePluginOptions:  # noqa: N802
        """HAMi's plugin answers calls of GetPreferredAllocation."""
        return api.DevicePluginOptions(get_preferred_allocation_available=self.settings.hami)

    def ListAndWatch(self, request: api.Empty, context: Any) -> Iterator[api.ListAndWatchResponse]:  # noqa: N802
        """Send the list of slots once."""
        yield api.ListAndWatchResponse(devices=[api.Device(ID=slot, health="Healthy") for slot in self.settings.slots])
        self.over.wait()

    def GetPreferredAllocation(  # noqa: N802
        self, request: api.PreferredAllocationRequest, context: Any
    ) -> api.PreferredAllocationResponse:
        """Prefer slots of the booked cards."""
        answer = api.PreferredAllocationResponse()
        for wanted in request.container_requests:
            free, chosen = sorted(wanted.available_deviceIDs), list(wanted.must_include_deviceIDs)
            for uuid, _, _ in self._pending().devices[len(chosen) :]:
                chosen.append(next(slot for slot in free if card_of(slot) == uuid and slot not in chosen))
            answer.container_responses.add(deviceIDs=chosen)
        return answer

    def Allocate(self, request: api.AllocateRequest, context: Any) -> api.AllocateResponse:  # noqa: N802
        """Answer for each container. Calls are served one after the other."""
        with self._one:
            answers = [self._answer(list(wanted.devices_ids)) for wanted in request.container_requests]
        return api.AllocateResponse(container_responses=answers)

    def _answer(self, slots: Sequence[str]) -> api.ContainerAllocateResponse:
        if not self.settings.hami:
            return api.ContainerAllocateResponse(envs={"FOO": ",".join(sorted(slots))})
        pending = self._pending()
        name = _containers(pending.pod)[pending.position]
        answer = self._hami(pending.devices, f"{pending.pod['metadata']['uid']}_{name}")
        self._served(pending)
        return answer

    def _hami(self, devices: list[tuple[str, int, int]], folder: str) -> api.ContainerAllocateResponse:
        """HAMi's variables and mounts, and those that NVIDIA's runtime adds because of NVIDIA_VISIBLE_DEVICES."""
        limits = {f"CUDA_DEVICE_MEMORY_LIMIT_{i}": f"{memory}m" for i, (_, memory, _) in enumerate(devices)}
        own = {
            "NVIDIA_VISIBLE_DEVICES": ",".join(uuid for uuid, _, _ in devices),
            "CUDA_DEVICE_SM_LIMIT": str(devices[0][2]),
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": f"{HOOK}/{uuid4()}.cache",
        }
        answer = api.ContainerAllocateResponse(envs=self.settings.env | limits | own)
        home = Path(HOOK, "containers", folder)
        home.mkdir(mode=0o777, parents=True, exist_ok=True)
        home.chmod(0o777)
        answer.mounts.add(container_path=f"{HOOK}/libvgpu.so", host_path=f"{HOOK}/libvgpu.so", read_only=True)
        answer.mounts.add(container_path=HOOK, host_path=str(home))
        answer.mounts.add(container_path="/etc/ld.so.preload", host_path=f"{HOOK}/ld.so.preload", read_only=True)
        for inside, outside in self.settings.mounts.items():
            answer.mounts.add(container_path=inside, host_path=outside)
        control = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
        for path in (*(self.settings.cards[uuid] for uuid, _, _ in devices), *control):
            answer.devices.add(container_path=path, host_path=path, permissions="rw")
        return answer

    def _pending(self) -> Pending:
        fields = quote(f"spec.nodeName={self.settings.node},status.phase=Pending")
        for pod in client.call(Path(self.settings.socket), "GET", f"/api/v1/pods?fieldSelector={fields}")["items"]:
            annotations = pod["metadata"].get("annotations", {})
            entries = annotations.get(TO_ALLOCATE, "").split(";")[:-1]
            if annotations.get(PHASE) == "allocating" and any(entries):
                return Pending(pod, entries)
        raise RuntimeError(f"no binding pod found on node {self.settings.node}")

    def _served(self, pending: Pending) -> None:
        """Remove the container's entry from the annotation. If none is left, set the bind phase to success."""
        pending.entries[pending.position] = ""
        annotations = {TO_ALLOCATE: "".join(f"{entry};" for entry in pending.entries)}
        if not any(pending.entries):
            annotations[PHASE] = "success"
        meta = pending.pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        client.call(Path(self.settings.socket), "PATCH", path, {"metadata": {"annotations": annotations}}, MERGE)


def _containers(pod: dict[str, Any]) -> list[str]:
    """Names of containers in the order of HAMi's list. The list has only containers that ask for cards."""
    every = [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
    return [c["name"] for c in every if "nvidia.com/gpu" in c.get("resources", {}).get("limits", {})]


def main() -> None:
    """Serve, register, and run until SIGTERM."""
    plugin = Plugin(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Settings))
    resource = plugin.settings.resource
    socket = FOLDER / f"{resource.replace('/', '-')}-other.sock"
    socket.unlink(missing_ok=True)
    server = grpc.server(futures.ThreadPoolExecutor(8))
    services.add_DevicePluginServicer_to_server(plugin, server)  # type: ignore[no-untyped-call]  # generated
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: plugin.over.set())
    with grpc.insecure_channel(f"unix:{FOLDER}/kubelet.sock") as channel:
        request = api.RegisterRequest(
            version="v1beta1",
            endpoint=socket.name,
            resource_name=resource,
            options=plugin.GetDevicePluginOptions(api.Empty(), None),
        )
        services.RegistrationStub(channel).Register(request, timeout=10)  # type: ignore[no-untyped-call]  # generated
    print(json.dumps({"registered": resource}), flush=True)
    plugin.over.wait()
    server.stop(0.5).wait()
    socket.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
