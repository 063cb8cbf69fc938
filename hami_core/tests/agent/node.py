"""A node under test: a vendor with two shared cards, the agent's core behind real sockets, and a stub kubelet."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from hami_core.agent.authority import Authority, Policy
from hami_core.agent.bind_finisher import BindFinisher
from hami_core.agent.cdi import SpecFolder
from hami_core.agent.identity import CheckpointReader
from hami_core.agent.kubelet import Endpoint, KubeletLink
from hami_core.agent.mig_ids import MigIds
from hami_core.agent.options import from_settings
from hami_core.agent.pods import PodIndex
from hami_core.agent.process import Agent as Process
from hami_core.agent.reconcile import Reconciler
from hami_core.agent.records import RecordStore
from hami_core.agent.vendor import Vendor
from hami_core.agent.watch import watch_folder
from hami_core.kube.informer import Informer
from hami_core.kube.port import NODES, PODS, KubeApi
from hami_core.model import (
    Advertisement,
    ContainerEdits,
    ContainerKind,
    ContainerRef,
    ContainerSlices,
    Device,
    DeviceNode,
    Family,
    MetricSpec,
    Resources,
    Slice,
)
from hami_core.settings import AgentSettings
from hami_core.tests.agent.stub_kubelet import StubKubelet
from hami_core.tests.kube.apiserver import ApiServer
from hami_core.tests.kube.direct import DirectApi
from hami_core.wire import keys
from hami_core.wire.pod import encode_pod_devices
from hami_core.wire.signature import generate_private_key, sign, statement_of

GPU = "acme.io/card"
FAMILY = Family(
    "ACME",
    Resources(GPU, "acme.io/mem"),
    allocated_key="hami.io/acme-devices-allocated",
    to_allocate_key="hami.io/acme-devices-to-allocate",
    pod_keys=("acme.io/tune",),
)
KEY = generate_private_key()


@dataclass
class Acme:
    """A vendor whose limits file lists the container's slices."""

    name: str = "acme"
    families: tuple[Family, ...] = (FAMILY,)
    cards: int = 2
    slots: int = 10
    memory_mib: int = 1000
    allocations: list[ContainerRef] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    tended: dict[str, tuple[str, tuple[Slice, ...], str]] | None = None
    fail: Exception | None = None
    fail_to_tend: Exception | None = None
    tends: threading.Event = field(default_factory=threading.Event)
    """The hook `tend` hangs until this is set."""
    metric_specs: ClassVar[dict[str, MetricSpec]] = {}

    def discover(self) -> list[Device]:
        return [
            Device(f"card-{i:08d}", i, self.slots, self.memory_mib, 100, "ACME-1", "ACME") for i in range(self.cards)
        ]

    def advertise(self, devices) -> Advertisement:
        slots = {f"{d.id}-{k}": (d.healthy, d.numa) for d in devices for k in range(d.slots)}
        return Advertisement(slots={GPU: slots}, env={"ACME_VISIBLE": "void"}, annotations={"a": "b"})

    def allocate(self, slices: tuple[Slice, ...], container: ContainerRef) -> ContainerEdits:
        if self.fail:
            raise self.fail
        self.allocations.append(container)
        text = "\n".join(f"{container.pod_uid} {container.container} {s.device_id} {s.memory_mib}" for s in slices)
        return ContainerEdits(
            env={"ACME_VISIBLE": "void", "ACME_FOR": f"{container.pod_uid}/{container.container}"},
            device_nodes=tuple(DeviceNode(f"/dev/{s.device_id}") for s in slices),
            limits={"limits": text.encode()},
            limits_path="/usr/local/vgpu/limits",
            region={"vgpu.cache": bytes(4096)},
            region_path="/usr/local/vgpu/region",
        )

    def health(self, devices):
        return []

    def release(self, container: ContainerRef) -> None:
        self.released.append(container.container)

    def __post_init__(self) -> None:
        self.tends.set()

    def tend(self, records, slices, region_dirs):
        self.tends.wait()
        if self.fail_to_tend:
            raise self.fail_to_tend
        self.tended = {name: (ref.pod, slices[name], region_dirs[name]) for name, ref in records.items()}

    def metrics(self, records, region_dirs):
        return []


class RecordedActions:
    """Records the agent's actions instead of performing them."""

    def __init__(self, finisher: BindFinisher, api: KubeApi) -> None:
        self.finisher = finisher
        self.mig_ids = MigIds(api)
        self.refusals: list[tuple[str, str, str]] = []
        self.touched: list[str] = []
        self.unfit: set[str] = set()
        self.evicted: dict[str, str] = {}
        self.complete: list[str] = []
        self.hopeless: list[str] = []
        self.nudged = 0
        self.endpoints: dict[str, Endpoint] = {}

    def report_refusal(self, pod, container, reason):
        self.refusals.append((pod.key, container, reason))

    def retry_refused(self, pod):
        self.touched.append(pod.key)

    def report_misfit(self, pod):
        self.unfit.add(pod.key)

    def evict(self, pod, why):
        self.evicted[pod.key] = why

    def is_awaited(self, pod):
        return self.finisher.is_awaited(pod)

    def finish_bind(self, pod, *, well):
        self.finisher.finish(pod, well=well)
        (self.complete if well else self.hopeless).append(pod.key)

    def tell_instances(self, pod, made):
        self.mig_ids.write(pod, made)

    def nudge(self, resource):
        self.nudged += 1
        self.endpoints[resource].offer.nudge()


@dataclass
class Agent:
    """One run of the agent's process."""

    node: Node
    policy: Policy = field(default_factory=Policy)
    boot_id: str = "boot-1"
    prestart_wait_s: float = 5.0
    serial: bool = False
    clock: Any = time.monotonic

    async def start(self) -> Agent:
        n = self.node
        self.vendor = Vendor(n.vendor)
        nodes = Informer(n.api, NODES)
        self.actions = RecordedActions(BindFinisher(n.api, lambda: nodes.store.get("n1"), [FAMILY]), n.api)
        authority = Authority("n1", {"ACME": FAMILY}, (KEY.public_key(),), self.policy)
        informer = Informer(n.api, PODS)
        self.pods = PodIndex(informer, lambda: self.core.wake())  # noqa: PLW0108 - made below
        self.core = Reconciler(
            vendors=[self.vendor],
            reader=CheckpointReader(n.plugin_dir, frozenset({GPU})),
            store=RecordStore(n.state_dir),
            specs=SpecFolder(n.cdi_dir),
            pods=self.pods,
            authority=authority,
            actions=self.actions,
            boot_id=self.boot_id,
            prestart_wait_s=self.prestart_wait_s,
            serial=self.serial,
            clock=self.clock,
        )
        devices = await self.vendor.discover()
        self.core.devices.update({d.id: d for d in devices})
        advertised = await self.vendor.advertise(devices)
        self.vendor.default_env = dict(advertised.env)
        self.endpoint = Endpoint(n.plugin_dir, GPU, self.core)
        self.endpoint.offer.set(advertised.slots[GPU])
        self.actions.endpoints[GPU] = self.endpoint
        self.link = KubeletLink(n.plugin_dir, [self.endpoint])
        await self.core.start()
        nodes.on_change(lambda _old, _new: self.core.wake())
        loops = (informer.run(), nodes.run(), self.core.run(), self._watch())
        self.tasks = [asyncio.ensure_future(t) for t in loops]
        await asyncio.wait_for(informer.synced.wait(), 60)
        self.core.wake()  # as the process does at intervals: an empty list of pods causes no wake
        return self

    async def _watch(self) -> None:
        checking: set[asyncio.Task] = set()

        def changed() -> None:
            self.core.tick()
            if not checking:
                task = asyncio.ensure_future(self.link.check())
                checking.add(task)
                task.add_done_callback(checking.discard)

        await watch_folder(self.node.plugin_dir, changed, poll_s=0.1)

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.link.stop()
        self.vendor.close()


class Node:
    """A node's disk, its kubelet and the API server. Agents can be started and stopped on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.plugin_dir = root / "dp"
        self.cdi_dir = root / "cdi"
        self.state_dir = root / "state"
        self.server = ApiServer()
        self.api = DirectApi(self.server)
        self.vendor = Acme()
        self.kubelet = StubKubelet(self.plugin_dir, self.cdi_dir)
        self.agent: Agent | None = None

    async def up(self, **how) -> Agent:
        self.agent = await Agent(self, **how).start()
        return self.agent

    async def registered(self) -> None:
        await self.kubelet.until(lambda: self.kubelet.slots.get(GPU))

    async def down(self) -> None:
        if self.agent:
            await self.agent.stop()
            self.agent = None

    async def end(self) -> None:
        """End the agent, the kubelet and the API server."""
        await self.down()
        await self.kubelet.stop()
        self.server.close()

    async def pod(self, name: str, containers: list[tuple[str, ContainerKind, list[tuple[str, int]]]], **how) -> str:
        """Make a pod bound here: (container, kind, [(card, MiB)]). Returns its UID."""
        uid = how.get("uid", f"uid-{name}")
        slices = [
            ContainerSlices(n, k, tuple(Slice(card, "ACME", mib, 0, type="ACME") for card, mib in held))
            for n, k, held in containers
        ]
        annotations = {
            keys.NODE: how.get("node", "n1"),
            FAMILY.allocated_key: how.get("text") or encode_pod_devices([c.slices for c in slices]),
            **how.get("annotations", {}),
        }
        if how.get("signed", True):
            key = how.get("key", KEY)
            with contextlib.suppress(Exception) if how.get("text") else contextlib.nullcontext():
                statement = statement_of(uid, annotations, [FAMILY], epoch=how.get("epoch", 1))
                annotations[keys.SIGNATURE] = sign(key, statement)
        annotations.update(how.get("forged", {}))
        for drop in how.get("without", ()):
            annotations.pop(drop)
        spec: dict = {"nodeName": "n1", "schedulerName": "hami-scheduler", "containers": [], "initContainers": []}
        for n, k, held in containers:
            body: dict = {"name": n, "resources": {"limits": {GPU: str(len(held))} if held else {}}}
            body |= how.get("written", {}).get(n, {})
            if k is ContainerKind.SIDECAR:
                body["restartPolicy"] = "Always"
            spec["containers" if k is ContainerKind.APP else "initContainers"].append(body)
        meta = {
            "name": name,
            "namespace": "default",
            "uid": uid,
            "annotations": annotations,
            "creationTimestamp": how.get("created", "2026-01-01T00:00:00Z"),
            "ownerReferences": how.get("owners", []),
        }
        status = {"phase": how.get("phase", "Pending")}
        await self.server.put("pods", {"metadata": meta, "spec": spec, "status": status})
        return uid

    def limits_of(self, edits: dict) -> str:
        """Content of the limits file that a container has mounted."""
        mounts = {m["containerPath"]: m for m in edits["mounts"]}
        assert "ro" in mounts["/usr/local/vgpu/limits"]["options"]
        assert "rw" in mounts["/usr/local/vgpu/region"]["options"]
        return (Path(mounts["/usr/local/vgpu/limits"]["hostPath"]) / "limits").read_text()


LABEL = keys.agent_label("acme")


def agent_settings(node, **how) -> AgentSettings:
    """Settings of an agent on the node under test."""
    return AgentSettings(
        node_name="n1",
        mode="trust:hami-scheduler",
        kubelet_plugin_dir=node.plugin_dir,
        cdi_dir=node.cdi_dir,
        state_dir=node.state_dir,
        metrics_bind_address="",
        **how,
    )


class Life:
    """One run of the whole agent on the node under test."""

    def __init__(self, node, **how) -> None:
        node.server.objects["nodes"].setdefault("n1", {"metadata": {"name": "n1", "uid": "n1", "resourceVersion": "1"}})
        options = replace(from_settings(agent_settings(node, **how)), lease_namespace="")
        self.node = node
        self.agent = Process(node.api, [node.vendor], options)
        self.stop = asyncio.Event()
        self.task = asyncio.ensure_future(self.agent.run(self.stop))

    def label(self) -> str:
        return self.node.server.objects["nodes"]["n1"]["metadata"].get("labels", {}).get(LABEL, "")

    async def says(self, word: str) -> None:
        await self.node.kubelet.until(lambda: self.label() == word or self.task.done())
        assert self.label() == word

    async def end(self) -> None:
        """Stop the agent as SIGTERM does, and wait for its end."""
        self.stop.set()
        await self.task

    async def die(self) -> None:
        """End the agent as SIGKILL does: the label stays and the sockets are gone."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
