"""``hami agent --vendor nvidia`` as a process, beside an embedded API server and kubelet, on simulated cards."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

import aiohttp
import hami_gpusim as sim
import hami_interpose
import pytest
from hami_interpose import feedback, region, turn
from hami_nvidia import rules
from hami_nvidia.health import REMAP_FAILED

from hami_core.manifests import Chart, Release, render
from hami_core.sim.cluster import Cluster, NodeSpec
from hami_core.wire import keys
from hami_core.wire.mig import MigReservation, encode_reservations
from hami_core.wire.node import decode_devices_json
from hami_core.wire.signature import generate_private_key, public_key_pem, sign, statement_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

pytestmark = pytest.mark.timeout(120)


CONFINE = """
import ctypes, json, os, sys
capabilities, root, mounts = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    if getattr(libc, name)(*args) != 0:
        raise OSError(ctypes.get_errno(), name, str(args))
class Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "namespace")]
def read_only(path, on, flags=0):
    attributes = Attributes(1, 0) if on else Attributes(0, 1)
    call("syscall", 442, -100, path.encode(), flags, ctypes.byref(attributes), ctypes.sizeof(attributes))
call("unshare", 0x20000)  # CLONE_NEWNS
call("mount", None, b"/", None, 0x44000, None)  # MS_REC | MS_PRIVATE
read_only("/", True, 0x8000)  # AT_RECURSIVE
devices = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"]
shown = dict.fromkeys(devices, True) | mounts
kept = {path: os.open(path, os.O_PATH) for path in shown}
for hidden in (root, "/dev"):
    call("mount", b"tmpfs", hidden.encode(), b"tmpfs", 0, None)
for path, fd in kept.items():
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.isdir(f"/proc/self/fd/{fd}"):
        os.makedirs(path)
    else:
        os.mknod(path)
    call("mount", f"/proc/self/fd/{fd}".encode(), path.encode(), None, 0x1000, None)  # MS_BIND
    os.close(fd)
    read_only(path, not shown[path])
for hidden in (root, "/dev"):
    read_only(hidden, True)
for number in range(64):
    if number not in capabilities and libc.prctl(23, number, 0, 0, 0) == 1:  # PR_CAPBSET_READ
        call("prctl", 24, number, 0, 0, 0)  # PR_CAPBSET_DROP
call("prctl", 38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes another program, as a container's runtime would start it. Arguments: rights, and the program's command."""
CAPABILITIES = {"DAC_OVERRIDE": 1, "SYS_ADMIN": 21}
"""Numbers of the capabilities that the agent may have, from linux/capability.h."""


def confined(capabilities: Sequence[str], root: Path, mounts: Mapping[str, bool], command: Sequence[str]) -> list[str]:
    """A command that runs another one with these capabilities alone, on a read-only root, without new privileges.

    Args:
        capabilities: Names without ``CAP_``.
        root: A folder that is hidden.
        mounts: What is shown below it or elsewhere, and whether it may be written.
        command: The command.
    """
    rights = [CAPABILITIES[name] for name in capabilities], str(root), dict(mounts)
    return [sys.executable, "-I", "-S", "-c", CONFINE, json.dumps(rights), *command]


@cache
def chart_agent() -> dict:
    """The agent's container in the chart."""
    release = Release(kube_version="1.36.3")
    made = render(Chart.read(), {"global": {"imageRegistry": "registry.example"}}, release)
    (found,) = (
        m.content
        for m in made
        if m.content["metadata"]["name"] == "hami-device-plugin" and m.content["kind"] == "DaemonSet"
    )
    return found["spec"]["template"]["spec"]["containers"][0]


class Bed:
    """One node with two simulated cards, an agent, and a scheduler played by the test."""

    def __init__(
        self, root: Path, *, reduced: bool = False, capabilities: Sequence[str] | None = None, **env: str | None
    ) -> None:
        self.root = root
        self.capabilities = capabilities
        """If given, the agent has these alone, and sees of the node's folders only what the chart mounts."""
        self.reduced = reduced
        self.env = env
        self.gpus = root / "gpus"
        self.sockets = root / "s"
        self.key = generate_private_key()
        self.agent: subprocess.Popen | None = None
        self.address = ""

    async def __aenter__(self) -> Self:
        sim.create(self.gpus, "a100x2")
        self.sockets.mkdir()
        (self.root / "state").mkdir()
        (self.root / "signing.pub").write_bytes(public_key_pem(self.key.public_key()))
        spec = NodeSpec(
            "n1",
            image_env={"HAMI_SIM_STATE": str(self.gpus), "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"},
            shared=[self.gpus],
            resync_seconds=1.0,
            settle_seconds=4.0,
            reduced=self.reduced,
        )
        self.cluster = Cluster(self.root / "c", nodes=[spec], scheduler_config=None)
        await self.cluster.__aenter__()
        self.http = aiohttp.ClientSession(self.cluster.url)
        self.place = self.cluster.node("n1")
        self.start()
        await self.until(self.ready, "the agent to be ready")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await self.http.close()
        await self.cluster.__aexit__(None, None, None)

    def start(self) -> None:
        libraries = sim.library_dir()
        keep = {k: v for k, v in os.environ.items() if not k.startswith("HAMI_")}
        more = {
            "HAMI_SIM_STATE": str(self.gpus),
            "LD_LIBRARY_PATH": str(libraries),
            "HAMI_NVIDIA_DEV_ROOT": str(self.gpus / "dev"),
            "HAMI_NVIDIA_DRIVER_LIBRARIES": f"{libraries}/libcuda.so.1,{libraries}/libnvidia-ml.so.1",
            "HAMI_NVIDIA_CONTAINER_LIBRARY_DIR": "/usr/local/nvidia/lib64",
            "HAMI_NVIDIA_SPLIT_COUNT": "4",
            "HAMI_NVIDIA_XID_RECOVERY_S": "1",
        }
        env = {key: value for key, value in {**keep, **more, **self.env}.items() if value is not None}
        command = [
            *(sys.executable, "-m", "hami_core", "agent", "--vendor=nvidia", "--node-name=n1"),
            f"--kubeconfig={self.cluster.kubeconfig}",
            f"--state-dir={self.root / 'state'}",
            f"--kubelet-plugin-dir={self.place.plugin_dir}",
            f"--cdi-dir={self.place.cdi_dir}",
            f"--signing-keys={self.root / 'signing.pub'}",
            f"--metrics-bind-address=unix:{self.sockets / 'm.sock'}",
            "--health-interval=0.2",
            "--log-format=json",
        ]
        (self.sockets / "m.sock").unlink(missing_ok=True)
        if self.capabilities is not None:
            command = confined(self.capabilities, self.root, self._mounts(), command)
        with (self.root / "agent.log").open("ab") as log:
            self.agent = subprocess.Popen(command, env=env, stderr=log, stdout=log)

    def _mounts(self) -> dict[str, bool]:
        """What the agent sees below the bed's folder, by the chart's mounts, and whether it may write there."""
        seen = {
            "/var/lib/kubelet/device-plugins": self.place.plugin_dir,
            "/var/lib/hami": self.root / "state",
            "/var/run/cdi": self.place.cdi_dir,
            "/signing-keys": self.root / "signing.pub",
            # These three are not used here.
            "/etc/cdi": None,
            "/device-config": None,
            "/config": None,
        }
        found = {}
        for mount in chart_agent()["volumeMounts"]:
            if seen[mount["mountPath"]] is not None:
                found[str(seen[mount["mountPath"]])] = not mount.get("readOnly", False)
        # In place of the ServiceAccount's token, the driver with its cards, and the port of the metrics:
        return found | {str(self.cluster.kubeconfig): False, str(self.gpus): True, str(self.sockets): True}

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.agent is None:
            return 0
        self.agent.send_signal(number)
        code = self.agent.wait(15)
        self.agent = None
        return code

    async def get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(self.sockets / "m.sock"))) as session:
            try:
                async with session.get(f"http://agent{path}") as answer:
                    return answer.status, await answer.text()
            except aiohttp.ClientError as error:
                return 0, str(error)

    async def ready(self) -> bool:
        return (await self.get("/readyz"))[0] == 200

    async def until(self, what, name: str, seconds: float = 100.0, seen=lambda: "") -> None:
        try:
            async with asyncio.timeout(seconds):
                while not await what():
                    await asyncio.sleep(0.05)
        except TimeoutError:
            log = (self.root / "agent.log").read_text()[-6000:]
            pytest.fail(f"waited in vain for {name}\n{seen()}\n{await self.get('/readyz')}\n{log}")

    async def api(self, method: str, path: str, body=None, kind: str = "application/json"):
        async with self.http.request(method, path, json=body, headers={"Content-Type": kind}) as answer:
            assert answer.status < 400, await answer.text()
            return await answer.json() if "json" in answer.content_type else await answer.text()

    async def devices(self):
        node = await self.api("GET", "/api/v1/nodes/n1")
        text = node["metadata"]["annotations"][rules.REGISTER]
        return decode_devices_json(text, key="k", family="NVIDIA"), node

    async def run(
        self,
        name: str,
        slices: list[tuple[str, int] | tuple[str, int, int]],
        script: str,
        *,
        instances: list[MigReservation] | None = None,
        created=None,
        **more,
    ) -> str:
        """Create a pod and bind it with a signed allocation, as the scheduler does. Returns its UID.

        Args:
            slices: Card, MiB and percent (left out: no limit).
            instances: Planned MIG instances.
            created: Called with the UID before the pod is bound.
            more: Further limits, by the words behind ``nvidia.com/``.
        """
        limits = {"nvidia.com/gpu": str(len(slices))} | {f"nvidia.com/{key}": value for key, value in more.items()}
        container = {"name": "main", "image": "x", "command": ["sh", "-c", script], "resources": {"limits": limits}}
        spec = {"containers": [container], "restartPolicy": "Never", "schedulerName": "hami-scheduler"}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        made = await self.api("POST", "/api/v1/namespaces/default/pods", body)
        uid = made["metadata"]["uid"]
        if created:
            created(uid)
        text = "".join(f"{card},NVIDIA,{mib},{cores[0] if cores else 0}:" for card, mib, *cores in slices) + ";"
        annotations = {keys.NODE: "n1", rules.ALLOCATED: text}
        if instances:
            annotations[keys.MIG_ALLOCATIONS] = encode_reservations(instances)
        annotations[keys.SIGNATURE] = sign(self.key, statement_of(uid, annotations, epoch=1))
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": "default", "uid": uid, "annotations": annotations},
            "target": {"kind": "Node", "name": "n1"},
        }
        await self.api("POST", f"/api/v1/namespaces/default/pods/{name}/binding", binding)
        return uid

    def region(self, uid: str) -> region.Region:
        """The container's region."""
        (path,) = (self.root / "state/containers").glob(f"{uid}_main_*/region/vgpu.cache")
        return region.read(path)

    def beat(self, uid: str) -> int:
        """Time of the agent's last heartbeat in a container's region."""
        (path,) = (self.root / "state/containers").glob(f"{uid}_main_*/region/vgpu.cache")
        (found,) = struct.unpack_from("<Q", path.read_bytes(), region.AGENT_BEAT_OFFSET)
        return found

    def libraries(self) -> set[str]:
        """Names of the libraries that agents installed on the node."""
        return {path.name for path in (self.root / "state/lib").glob("libvgpu-*")}

    def words(self, uid: str) -> feedback.Words:
        (path,) = (self.root / "state/containers").glob(f"{uid}_main_*/region/vgpu.cache")
        with path.open("rb") as file:
            return feedback.read(file.fileno())

    async def phase(self, name: str) -> str:
        return (await self.api("GET", f"/api/v1/namespaces/default/pods/{name}"))["status"].get("phase", "")

    async def log(self, name: str) -> str:
        """The container's output; empty before it runs."""
        async with self.http.get(f"/api/v1/namespaces/default/pods/{name}/log?container=main") as answer:
            return await answer.text() if answer.status == 200 else ""

    async def done(self, name: str) -> str:
        async def over() -> bool:
            return await self.phase(name) in {"Succeeded", "Failed"}

        await self.until(over, f"pod {name} to end")
        assert await self.phase(name) == "Succeeded", await self.log(name)
        return await self.log(name)


@pytest.fixture
def root():
    folder = Path(tempfile.mkdtemp(prefix="hami-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def bed(root):
    async with Bed(root) as made:
        yield made


SHOW = "cat ${HAMI_VGPU_ROOT:-/usr/local/vgpu}/limits/limits; env | grep -E '^(NVIDIA|CUDA)'"


async def test_from_registration_to_limits_and_through_restarts(bed):
    devices, node = await bed.devices()
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == str(sum(d.slots for d in devices)) == "8"
    first, second = devices
    await bed.run("a", [(first.id, 1000)], SHOW)
    text = await bed.done("a")
    assert f"device {first.id} {1000 << 20} {1000 << 20} 0" in text
    assert "NVIDIA_VISIBLE_DEVICES=void" in text
    assert "CUDA_DEVICE_MEMORY_LIMIT_0=1000m" in text

    await bed.run("b", [(second.id, 500)], f"{SHOW}; sleep 300")

    async def runs() -> bool:
        return f"device {second.id} {500 << 20}" in await bed.log("b")

    await bed.until(runs, "pod b to run")
    bed.stop(signal.SIGKILL)
    bed.start()
    await bed.until(bed.ready, "the agent to be ready again")
    await bed.cluster.restart("kubelet:n1")
    await bed.run("c", [(first.id, 300), (second.id, 400)], SHOW)
    text = await bed.done("c")
    assert f"device {first.id} {300 << 20}" in text
    assert f"device {second.id} {400 << 20}" in text

    assert await bed.phase("b") == "Running"
    status, metrics = await bed.get("/metrics")
    assert status == 200
    assert 'hami_vgpu_memory_limit_bytes{container="main"' in metrics
    assert "hami_host_gpu_memory_used_bytes{" in metrics
    assert bed.stop() == 0


async def test_a_pod_that_does_not_fit_gets_an_event(bed):
    devices, _ = await bed.devices()
    first = devices[0]
    await bed.run("a", [(first.id, first.memory_mib - 10)], "sleep 300")

    async def runs() -> bool:
        return await bed.phase("a") == "Running"

    await bed.until(runs, "the first pod to run")  # the agent gives the memory to the one that comes first
    await bed.run("b", [(first.id, 11)], SHOW)

    async def told() -> bool:
        events = await bed.api("GET", "/api/v1/namespaces/default/events")
        return any(
            "needs 11 MiB, 10 of" in e["message"] and e["involvedObject"]["name"] == "b" for e in events["items"]
        )

    await bed.until(told, "an event that says why")
    await bed.api("DELETE", "/api/v1/namespaces/default/pods/a?gracePeriodSeconds=1")
    assert f"device {first.id} {11 << 20}" in await bed.done("b")


async def test_a_lost_card_is_withdrawn_and_the_other_stays(bed):
    devices, _ = await bed.devices()
    with sim.State(bed.gpus) as state:
        state.lose(0)

        async def fewer() -> bool:
            now, node = await bed.devices()
            return [d.healthy for d in now] == [False, True] and node["status"]["allocatable"]["nvidia.com/gpu"] == "4"

        await bed.until(fewer, "the card to be taken off")
        await bed.run("a", [(devices[1].id, 100)], SHOW)
        assert f"device {devices[1].id}" in await bed.done("a")
        state.restore(0)

        async def back() -> bool:
            return [d.healthy for d in (await bed.devices())[0]] == [True, True]

        await bed.until(back, "the card to be back")


async def seen(bed, *lines: str) -> bool:
    """Whether the agent's metrics have these lines. It asks its vendors at most every 5 s."""
    text = (await bed.get("/metrics"))[1]
    return all(line in text for line in lines)


async def events_of_node(bed) -> set[tuple[str, str]]:
    found = (await bed.api("GET", "/api/v1/events"))["items"]
    return {(e["reason"], e["message"]) for e in found if e["involvedObject"]["kind"] == "Node"}


async def test_both_edges_of_health_reach_kubelet_node_events_and_metrics(bed):
    (first, other), _ = await bed.devices()

    async def offered(*cards: bool) -> bool:
        now, node = await bed.devices()
        slots = node["status"]["allocatable"]["nvidia.com/gpu"]
        return [d.healthy for d in now] == list(cards) and slots == str(4 * sum(cards))

    def state_of(card, state: str) -> str:
        return f'hami_device_state{{device_uuid="{card.id}",node="n1",state="{state}"}} 1.0'

    with sim.State(bed.gpus) as state:
        state.set_memory_repair(0, failed=True)
        await bed.until(lambda: offered(False, True), "the card to be taken off")
        lines = (
            state_of(first, "unhealthy"),
            state_of(other, "healthy"),
            f'hami_device_problem{{device_uuid="{first.id}"',
        )
        await bed.until(lambda: seen(bed, *lines), "its state in the metrics")
        assert f'hami_device_problem{{device_uuid="{other.id}"' not in (await bed.get("/metrics"))[1]

        async def told(*wanted: tuple[str, str]) -> bool:
            return set(wanted) <= await events_of_node(bed)

        await bed.until(lambda: told(("DeviceUnhealthy", f"{first.id}: {REMAP_FAILED}")), "the event")
        state.set_memory_repair(0)
        await bed.until(lambda: offered(True, True), "the card to be back")
        await bed.until(lambda: told(("DeviceHealthy", f"{first.id} is healthy again")), "the event")
        assert await seen(bed, state_of(first, "healthy"))
        assert not await seen(bed, "hami_device_problem{")
        # The driver is unloaded: no call works, and NVML can't be opened again.
        for call in ("nvmlInitWithFlags", "nvmlDeviceGetCount_v2", "nvmlDeviceGetMemoryInfo", "nvmlEventSetWait_v2"):
            state.inject(sim.Fault(call, 9))
        await bed.until(lambda: offered(False, False), "both cards to be taken off")
        assert bed.agent.poll() is None
        assert "Driver Not Loaded" in (await bed.get("/metrics"))[1]
        state.clear()
        await bed.until(lambda: offered(True, True), "both cards to be back")


async def test_a_cordon_is_shown_and_concerns_neither_kubelet_nor_running_pods(bed):
    (first, other), _ = await bed.devices()
    await bed.run("a", [(first.id, 100)], SHOW)

    async def cordon(text: str | None) -> None:
        patch = {"metadata": {"annotations": {keys.DEVICE_CORDON: text}}}
        await bed.api("PATCH", "/api/v1/nodes/n1", patch, "application/merge-patch+json")

    def line(state: str) -> str:
        return f'hami_device_state{{device_uuid="{first.id}",node="n1",state="{state}"}} 1.0'

    await cordon(f"{first.id}, {other.id[:-1]}")
    await bed.until(lambda: seen(bed, line("cordoned")), "the cordon in the metrics")

    async def told() -> bool:
        message = f"hami.io/device-cordon: no device {other.id[:-1]} is registered on this node"
        return {found for found in await events_of_node(bed) if "Cordon" in found[0]} == {
            ("CordonUnknownDevice", message)
        }

    await bed.until(told, "the event about the unknown id")
    devices, node = await bed.devices()
    assert [d.healthy for d in devices] == [True, True]
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8", "as in HAMi, only the scheduler obeys a cordon"
    assert f"device {first.id}" in await bed.done("a")
    await cordon(None)
    await bed.until(lambda: seen(bed, line("healthy")), "the end of the cordon")


async def test_a_card_in_mig_mode_is_not_offered_until_it_is_off(bed):
    devices, _ = await bed.devices()
    with sim.State(bed.gpus) as state:
        state.set_modes(0, mig=True)

        async def kept() -> bool:
            now, node = await bed.devices()
            return [d.healthy for d in now] == [False, True] and node["status"]["allocatable"]["nvidia.com/gpu"] == "4"

        await bed.until(kept, "the card to be kept from pods", 20)
        reason = (
            "card is in MIG mode, which only operatingmode mig or migStrategy serves (administrator: nvidia-smi -mig 0)"
        )
        assert [d.not_offered for d in (await bed.devices())[0]] == [reason, ""]
        wanted = f'hami_device_not_offered{{device_uuid="{devices[0].id}",node="n1",reason="{reason}"}} 1.0'
        assert wanted in (await bed.get("/metrics"))[1]
        # The scheduler may have bound a pod to this card before it saw the change.
        await bed.run("late", [(devices[0].id, 100)], SHOW)

        async def told() -> bool:
            events = (await bed.api("GET", "/api/v1/events"))["items"]
            found = {
                (e["involvedObject"]["kind"], e["involvedObject"]["name"]) for e in events if reason in e["message"]
            }
            return {("Node", "n1"), ("Pod", "late")} <= found

        await bed.until(told, "events on node and pod", 20)
        state.set_modes(0, mig=False)

        async def back() -> bool:
            return (await bed.devices())[0] == devices

        await bed.until(back, "the card to be offered again", 20)
        assert "hami_device_not_offered{" not in (await bed.get("/metrics"))[1]
        assert f"device {devices[0].id}" in await bed.done("late")


LIMIT = f"""export HAMI_SIM_MEMORY_LIMITS=misc; exec {sys.executable} - <<'END'
import ctypes, time
class Limits(ctypes.Structure):
    _fields_ = [("cgroup", ctypes.c_char_p), *((name, ctypes.c_ulonglong) for name in ("soft", "hard", "used"))]
nvml, card = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlDeviceGetHandleByUUID(b"CARD", ctypes.byref(card)) == 0
limits = Limits(b"CGROUP")
code = nvml.nvmlDeviceGetMemoryLimits_v1(card, ctypes.byref(limits))
print("limit", limits.hard >> 20, "code", code, flush=True)
time.sleep(300)
END"""
"""Prints the driver's limit of a cgroup as soon as it runs."""


async def test_the_driver_limits_pods_before_their_first_process(root):
    cgroups = root / "gpus/cgroup"
    env = {"HAMI_SIM_MEMORY_LIMITS": "misc", "HAMI_NVIDIA_CGROUP_ROOT": str(cgroups)}
    async with Bed(root, **env) as bed:
        (first, _), _ = await bed.devices()
        for name, mib in (("a", 1000), ("b", 2000), ("c", 3000)):
            folder = cgroups / f"kubepods/pod{name}"

            def created(uid: str, folder: Path = folder) -> None:
                (cgroups / f"kubepods/pod{uid}").mkdir(parents=True)
                folder.symlink_to(f"pod{uid}")

            script = LIMIT.replace("CARD", first.id).replace("CGROUP", str(folder))
            await bed.run(name, [(first.id, mib)], script, created=created)

            async def tells(name: str = name) -> bool:
                text = await bed.log(name)
                assert "Error" not in text, text
                return "limit" in text

            await bed.until(tells, "the limit")
            assert f"limit {mib} code 0" in await bed.log(name)
        _, metrics = await bed.get("/metrics")
        shown = [line for line in metrics.splitlines() if line.startswith("hami_container_enforcement_info{")]
        assert len(shown) == 3
        assert all('mechanism="driver"' in line for line in shown)


async def test_mps_daemon_outlives_the_agent_and_decides_what_is_offered(root, mps):
    env = {"OPERATING_MODE": "mps", "MPS_DIR": str(mps.folder), "MPS_CONTROL": str(mps.control)}
    async with Bed(root, **{f"HAMI_NVIDIA_{name}": value for name, value in env.items()}) as bed:

        async def offered() -> set[bool]:
            return {d.healthy for d in (await bed.devices())[0]}

        async def all_offered() -> bool:
            return await offered() == {True}

        async def none_offered() -> bool:
            return await offered() == {False}

        assert await none_offered()
        mps.start()
        await bed.until(all_offered, "cards while the daemon answers", 30)
        (first, _), _ = await bed.devices()
        assert first.mode == "mps"
        await bed.run("a", [(first.id, 1000, 30)], f"{SHOW}; ls -d /dev/shm ${{CUDA_MPS_PIPE_DIRECTORY}}/control")
        text = await bed.done("a")
        assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30" in text
        assert "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1000M" in text
        assert "/usr/local/vgpu/mps/control" in text, "the daemon's socket is in the container"

        before = mps.pid()
        for number in (signal.SIGKILL, signal.SIGTERM):
            bed.stop(number)
            assert mps.ask().stdout == "100.0\n", "no agent, and the daemon goes on"
            bed.start()
            await bed.until(bed.ready, "the agent to be ready again")
            assert await all_offered(), "a restart withdraws nothing"
        assert mps.pid() == before
        mps.kill()
        await bed.until(none_offered, "cards to be withdrawn", 30)
        assert 'reason="no MPS control daemon answers' in (await bed.get("/metrics"))[1]


async def test_a_second_agent_on_one_state_folder_is_refused(bed):
    log = bed.root / "agent.log"
    first = bed.agent
    bed.start()
    second, bed.agent = bed.agent, first
    assert second.wait(30) != 0
    assert "another agent runs on" in log.read_text()


async def mounts_of_a_running_pod(bed: Bed) -> dict[str, str]:
    """Run a pod that sees its slice. Returns host paths by container paths of its spec's mounts."""
    first, _ = (await bed.devices())[0]
    await bed.run("a", [(first.id, 1000)], f"{SHOW}; sleep 300")

    async def runs() -> bool:
        return f"device {first.id} {1000 << 20}" in await bed.log("a")

    await bed.until(runs, "pod a to run")
    (spec,) = bed.place.cdi_dir.glob("hami-*.json")
    (device,) = json.loads(spec.read_text())["devices"]
    return {m["containerPath"]: m["hostPath"] for m in device["containerEdits"]["mounts"]}


async def test_the_driver_is_found_below_a_mounted_host_root(root):
    """No runtime gives the agent a driver. It finds the host's driver below a mount, and uses the host's paths."""
    host, seen = root / "host", root / "driver-root"
    libraries = host / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        shutil.copy(sim.library_dir() / name, libraries / name)
    seen.symlink_to(host)  # as a mount would show it
    env = {
        "LD_LIBRARY_PATH": None,
        "HAMI_NVIDIA_DRIVER_LIBRARIES": None,
        "HAMI_CDI_SEARCH_DIRS": str(root / "none"),
        "HAMI_NVIDIA_DRIVER_ROOT": str(host),
        "HAMI_NVIDIA_AGENT_DRIVER_ROOT": str(seen),
    }
    async with Bed(root, **env) as bed:
        mounts = await mounts_of_a_running_pod(bed)
    assert mounts["/usr/local/nvidia/lib64/libcuda.so.1"] == str(libraries / "libcuda.so.1")
    assert not [path for path in mounts.values() if path.startswith(str(seen))]


async def test_auto_finds_the_driver_that_the_gpu_operator_installs_late(root):
    """The agent starts on a node without a driver. The operator installs it and writes its file."""
    driver, seen = root / "driver", root / "host-root"
    inside = seen / str(driver).lstrip("/")
    inside.parent.mkdir(parents=True)
    inside.symlink_to(driver)  # as a mount of the host's / would show it
    (driver / "usr/lib64").mkdir(parents=True)

    async def install() -> None:
        await asyncio.sleep(2)
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            shutil.copy(sim.library_dir() / name, driver / "usr/lib64" / name)
        ready = seen / "run/nvidia/validations/driver-ready"
        ready.parent.mkdir(parents=True)
        ready.write_text(f"IS_HOST_DRIVER=false\nNVIDIA_DRIVER_ROOT={driver}\nNVIDIA_DEV_ROOT=/\n")

    env = {
        "LD_LIBRARY_PATH": None,
        "HAMI_NVIDIA_DRIVER_LIBRARIES": None,
        "HAMI_CDI_SEARCH_DIRS": str(root / "none"),
        "HAMI_NVIDIA_DRIVER_ROOT": "auto",
        "HAMI_NVIDIA_AGENT_DRIVER_ROOT": str(seen),
    }
    installing = asyncio.ensure_future(install())
    async with Bed(root, **env) as bed:
        await installing
        mounts = await mounts_of_a_running_pod(bed)
    assert mounts["/usr/local/nvidia/lib64/libcuda.so.1"] == str(driver / "usr/lib64/libcuda.so.1")


async def test_serial_mode_can_leave_the_drivers_files_to_nvidias_runtime(root):
    """Allocate names the cards to NVIDIA's runtime, and the container still has its limits."""
    env = {"HAMI_SERIAL": "always", "DEVICE_LIST_STRATEGY": "envvar"}
    async with Bed(root, **env) as bed:
        _, second = (await bed.devices())[0]
        show = "echo sees $NVIDIA_VISIBLE_DEVICES; ls ${HAMI_VGPU_ROOT:-/usr/local/vgpu}/limits"
        await bed.run("a", [(second.id, 1000)], show)
        lines = (await bed.done("a")).splitlines()
    assert lines == [f"sees {second.id}", "limits"]


WORK = f"""exec {sys.executable} - <<'END'
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
def made(name, *arguments):
    found = ctypes.c_void_p()
    status = getattr(cuda, name)(ctypes.byref(found), *arguments)
    assert status == 0, (name, status)
    return found
assert cuda.cuInit(0) == 0
context = made("cuCtxCreate_v2", 0, 0)
kernel = made("cuModuleGetFunction", made("cuModuleLoadData", b"any image"), b"k_2ms")
print("works", flush=True)
while True:
    assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, None, None) == 0
    assert cuda.cuCtxSynchronize() == 0
END"""
"""Keeps the first card busy until it is killed."""


@pytest.mark.parametrize("reduced", [False, True], ids=["mounted", "linked"])
async def test_limited_containers_take_turns_and_get_heartbeats(root, reduced):
    async with Bed(root, reduced=reduced) as bed:
        await take_turns(bed)


async def take_turns(bed):
    first, _ = (await bed.devices())[0]
    page = bed.root / "state/turns" / first.id
    uids = [await bed.run(name, [(first.id, 8000, cores)], WORK) for name, cores in (("a", 30), ("b", 40))]
    free = await bed.run("c", [(first.id, 500)], "ls -R ${HAMI_VGPU_ROOT:-/usr/local/vgpu}/turns || echo none")
    assert "none" in await bed.done("c")
    assert not bed.region(free).devices[0].cores

    async def both_work() -> bool:
        return all(["works" in await bed.log(name) for name in "ab"])

    await bed.until(both_work, "both to work")

    def turns() -> list[int]:
        return [bed.region(uid).devices[0].compute.turns for uid in uids]

    async def both_take_turns() -> bool:
        return min(turns()) > 3

    await bed.until(both_take_turns, "turns")
    assert page.read_bytes()[:8] == turn.initial()[:8]
    inode = page.stat().st_ino
    bed.stop(signal.SIGKILL)
    bed.start()
    await bed.until(bed.ready, "the agent to be ready again")
    before = turns()

    async def both_go_on() -> bool:
        return all(now > then for now, then in zip(turns(), before, strict=True))

    await bed.until(both_go_on, "turns after the agent's restart")

    async def lives() -> bool:
        return all(abs(time.time() - bed.beat(uid)) < 60 for uid in uids)

    await bed.until(lives, "the agent's heartbeat")
    assert page.stat().st_ino == inode
    _, metrics = await bed.get("/metrics")
    shown = [line for line in metrics.splitlines() if line.startswith("hami_vgpu_compute_turns_total{")]
    assert len(shown) == 2
    assert all(float(line.rpartition(" ")[2]) > 3 for line in shown)


async def test_the_lower_priority_waits_until_the_higher_is_gone(bed):
    first, _ = (await bed.devices())[0]
    low = await bed.run("low", [(first.id, 8000)], WORK, priority="1")
    high = await bed.run("high", [(first.id, 8000)], WORK, priority="0")

    def seen() -> str:
        return f"low: {bed.words(low)}, {bed.region(low)}"

    async def waits() -> bool:
        return bed.words(low).recent_kernel < 0

    async def works() -> bool:
        assert await bed.phase("low") == "Running", await bed.log("low")
        return bed.words(low).recent_kernel == 2

    await bed.until(lambda: exists(bed, low, high), "both to have regions")
    await bed.until(waits, "the lower priority to wait", seen=seen)
    assert bed.words(high).recent_kernel >= 0
    await bed.api("DELETE", "/api/v1/namespaces/default/pods/high?gracePeriodSeconds=1")
    await bed.until(works, "the lower priority to go on", seen=seen)


HOLDS = f"""exec {sys.executable} - <<'END'
import ctypes, struct, time
cuda = ctypes.CDLL("libcuda.so.1")
made, at = ctypes.c_void_p(), ctypes.c_uint64()
image = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, (50 << 20) - 16)  # a fat binary of 50 MiB, by its header
for status in (
    cuda.cuInit(0),
    cuda.cuCtxCreate_v2(ctypes.byref(made), 0, 0),
    cuda.cuModuleLoadData(ctypes.byref(made), image),
    cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(30 << 20)),
):
    assert status == 0, status
print("holds", flush=True)
time.sleep(300)
END"""
"""Holds a context, 50 MiB of code and a buffer of 30 MiB on the first card."""


async def test_metrics_show_the_parts_of_a_containers_memory(bed):
    first, second = (await bed.devices())[0]
    # Start one after the other: the library measures the growth of a card's memory, which two loads at once would mix.
    two = f"({HOLDS}\n) | (read -r said; echo $said\n{HOLDS}\n)"
    uid = await bed.run("a", [(first.id, 8000), (second.id, 1000)], two)

    async def both_hold() -> bool:
        return (await bed.log("a")).count("holds") == 2

    async def seen(card: str) -> dict[str, float]:
        """The container's memory metrics for a card, by the distinguishing part of their names."""
        found = {}
        for line in (await bed.get("/metrics"))[1].splitlines():
            name, _, rest = line.partition("{")
            if name.startswith("hami_vgpu_memory_") and f'device_uuid="{card}"' in rest and 'pod="a"' in rest:
                found[name.removeprefix("hami_vgpu_memory_").removesuffix("_bytes")] = float(rest.rpartition(" ")[2])
        return found

    await bed.until(both_hold, "both processes to hold their memory")
    device, other = bed.region(uid).devices
    held = {"context": 2 * device.context_bytes, "module": 2 * (50 << 20), "buffer": 2 * (30 << 20)}
    assert device.context_bytes > 0
    found = await seen(first.id)
    assert {name: found[name] for name in held} == held
    assert found["used"] == sum(held.values())
    assert (await seen(second.id)) == {
        "used": other.used_bytes,
        "limit": 1000 << 20,
        "denied_total": 0,
        **dict.fromkeys(held, 0),
    }


async def exists(bed, *uids) -> bool:
    return all(list((bed.root / "state/containers").glob(f"{uid}_main_*/region/vgpu.cache")) for uid in uids)


def other_image(folder: Path) -> Path:
    """A folder for PYTHONPATH whose libvgpu.so is another build than the installed one, by content and build id."""
    shutil.copytree(Path(hami_interpose.__file__).parent, folder / "hami_interpose")
    library = folder / "hami_interpose/lib/libvgpu.so"
    mark = b"hami-build-id=" + hami_interpose.build_id().encode()
    library.write_bytes(library.read_bytes().replace(mark, mark[:-4] + b"0the"))
    return folder


@pytest.mark.parametrize(
    "rounds", [1, pytest.param(100, marks=[pytest.mark.soak, pytest.mark.timeout(3600)])], ids=["once", "often"]
)
async def test_agents_with_other_libraries_follow_each_other_under_load(root, rounds):
    """A pod keeps its library. A later pod has the next agent's, and takes turns with it. No counter goes back."""
    images = str(other_image(root / "image")), None
    async with Bed(root, PYTHONPATH=images[0], HAMI_HANDOVER_TIME="0") as bed:
        first, _ = (await bed.devices())[0]
        kept = await bed.run("kept", [(first.id, 8000, 30)], WORK)
        pods, turns = ["kept"], 0

        async def all_work() -> bool:
            return all(["works" in await bed.log(name) for name in pods])

        async def more_turns() -> bool:
            return bed.region(kept).devices[0].compute.turns > turns

        async def used_once() -> bool:
            found = [s for s in (await bed.get("/metrics"))[1].splitlines() if s.startswith("hami_vgpu_memory_used_b")]
            names = [line.split('pod="')[1].split('"')[0] for line in found if f'device_uuid="{first.id}"' in line]
            return sorted(names) == sorted(pods) and all(float(line.split()[-1]) == context for line in found)

        await bed.until(all_work, "the first pod to work")
        (old,) = bed.libraries()
        context = bed.region(kept).devices[0].context_bytes
        for number in range(1, rounds + 1):
            turns = bed.region(kept).devices[0].compute.turns
            assert bed.stop(signal.SIGKILL if number % 3 == 0 else signal.SIGTERM) in {0, -signal.SIGKILL}
            bed.env["PYTHONPATH"] = images[number % 2]
            bed.start()
            await bed.until(bed.ready, f"agent {number} to be ready")
            await bed.run(f"p{number}", [(first.id, 4000, 30)], WORK)
            pods.append(f"p{number}")
            await bed.until(all_work, f"pod {number} to work")
            await bed.until(more_turns, f"the oldest pod to go on beside pod {number}")
            await bed.until(used_once, f"each pod's memory to be shown once in round {number}")
            assert old in bed.libraries()
            assert len(bed.libraries()) == 2
            if number > 1:
                name = pods.pop(1)
                await end(bed, name)
        assert await bed.phase("kept") == "Running"
        assert bed.region(kept).devices[0].denied == 0
        for name in pods:
            await end(bed, name)
        bed.stop()
        bed.env["PYTHONPATH"] = images[1]
        bed.start()
        await bed.until(bed.ready, "the last agent to be ready")
        await bed.run("last", [(first.id, 1000)], WORK)

        async def removed() -> bool:
            return len(bed.libraries()) == 1 and old not in bed.libraries()

        await bed.until(removed, "the library that no pod has any more to be removed")


async def end(bed, name: str) -> None:
    """Delete a pod and wait until the API server has it no more."""
    await bed.api("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=1")

    async def gone() -> bool:
        found = await bed.api("GET", "/api/v1/namespaces/default/pods")
        return name not in {pod["metadata"]["name"] for pod in found["items"]}

    await bed.until(gone, f"pod {name} to be gone")


async def test_the_agent_works_with_the_rights_of_the_chart_alone(root):
    """Discovery, registration, Allocate, specs, heartbeats, metrics and clean-up. Containers may close their files."""
    context = chart_agent()["securityContext"]
    assert context["capabilities"]["drop"] == ["ALL"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["allowPrivilegeEscalation"] is False
    async with Bed(root, capabilities=context["capabilities"]["add"]) as bed:
        status = Path(f"/proc/{bed.agent.pid}/status").read_text()
        assert f"CapEff:\t{1 << CAPABILITIES['DAC_OVERRIDE']:016x}\n" in status
        assert "NoNewPrivs:\t1\n" in status
        first, _ = (await bed.devices())[0]
        uid = await bed.run("a", [(first.id, 1000, 30)], WORK)

        async def works() -> bool:
            return "works" in await bed.log("a")

        await bed.until(works, "the pod to work")
        region_file = bed.root / "state/containers" / record_of(bed, uid) / "region/vgpu.cache"
        os.chown(region_file, 1000, 1000)
        region_file.chmod(0)
        before = bed.beat(uid)

        async def beats() -> bool:
            return bed.beat(uid) > before

        await bed.until(beats, "a heartbeat in a region that its container closed")
        _, metrics = await bed.get("/metrics")
        assert f'hami_vgpu_memory_used_bytes{{container="main",device_uuid="{first.id}"' in metrics
        assert "hami_vgpu_region_unreadable{" not in metrics
        await end(bed, "a")
        await bed.run("b", [(first.id, 1000)], SHOW)  # the kubelet forgets the first pod now
        assert f"device {first.id}" in await bed.done("b")

        async def cleaned() -> bool:
            return not list((bed.root / "state/containers").glob(f"{uid}_*"))

        await bed.until(cleaned, "the first container's files to be removed")
        assert bed.stop() == 0


async def test_instances_are_made_with_the_rights_of_the_chart_and_sys_admin(root):
    """MIG mode, a planned instance, its device nodes in the container, and its end."""
    added = [*chart_agent()["securityContext"]["capabilities"]["add"], "SYS_ADMIN"]
    async with Bed(root, capabilities=added, HAMI_NVIDIA_OPERATING_MODE="mig") as bed:

        async def offered() -> bool:
            return all(device.healthy and device.mig_profiles for device in (await bed.devices())[0])

        await bed.until(offered, "the cards to be in MIG mode")
        first, _ = (await bed.devices())[0]
        profile = next(found for found in first.mig_profiles if found.slice_count == 1)
        plan = MigReservation(0, 0, first.id, profile.name, profile.placements[0])
        caps = bed.gpus / "dev/nvidia-caps"
        caps.mkdir()
        for number in range(3, 3 + 135):
            (caps / f"nvidia-cap{number}").touch()
        uid = await bed.run("a", [(first.id, profile.memory_mib)], "sleep 300", instances=[plan])

        async def runs() -> bool:
            return await bed.phase("a") == "Running"

        await bed.until(runs, "the pod to run")
        with sim.State(bed.gpus) as state:
            (instance,) = state.mig_devices
        (spec,) = bed.place.cdi_dir.glob("hami-*.json")
        assert spec.read_text().count(f"{caps}/nvidia-cap") == 2
        await end(bed, "a")
        await bed.run("b", [(first.id, profile.memory_mib)], "true", instances=[plan])

        async def destroyed() -> bool:
            with sim.State(bed.gpus) as state:
                return instance.uuid not in {device.uuid for device in state.mig_devices}

        await bed.until(destroyed, "the first pod's instance to be destroyed", seen=lambda: uid)


async def test_without_dac_override_a_container_can_hide_its_use(root):
    """What the capability is for."""
    async with Bed(root, capabilities=[]) as bed:
        first, _ = (await bed.devices())[0]
        uid = await bed.run("a", [(first.id, 1000)], "sleep 300")
        await bed.until(lambda: exists(bed, uid), "the region")
        region_file = bed.root / "state/containers" / record_of(bed, uid) / "region/vgpu.cache"
        os.chown(region_file, 1000, 1000)
        region_file.chmod(0)

        async def unreadable() -> bool:
            return 'hami_vgpu_region_unreadable{container="main"' in (await bed.get("/metrics"))[1]

        await bed.until(unreadable, "the region to be unreadable")


def test_processes_of_others_are_seen_without_capabilities(root):
    """The agent reads these to prove that limits reached a container, and to find a process's pid on the host."""
    files = [f"/proc/{os.getpid()}/{name}" for name in ("mountinfo", "cgroup", "stat", "status")]
    read = f"print([len(open(name).read()) > 0 for name in {files}])"
    command = confined([], root, {}, [sys.executable, "-I", "-S", "-c", read])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "[True, True, True, True]\n", done.stderr


def record_of(bed, uid: str) -> str:
    (found,) = (bed.root / "state/containers").glob(f"{uid}_main_*")
    return found.name


async def test_feature_labels_follow_the_setting_and_select_entries_of_the_node_file(root):
    """An entry by label also sees the labels that the agent writes."""
    file = root / "config.json"
    selector = {"matchLabels": {"nvidia.com/gpu.family": "ampere"}}
    file.write_text(json.dumps({"nodeconfig": [{"nodelabelselector": selector, "devicecorescaling": 2}]}))

    async def labels():
        return (await bed.api("GET", "/api/v1/nodes/n1"))["metadata"]["labels"]

    async with Bed(root, HAMI_NVIDIA_FEATURE_LABELS="true", HAMI_NODE_CONFIG_FILE=str(file)) as bed:
        found = await labels()
        assert (found["nvidia.com/gpu.count"], found["nvidia.com/gpu.replicas"]) == ("2", "4")
        assert [device.cores for device in (await bed.devices())[0]] == [100, 100]
        bed.stop()
        bed.start()
        await bed.until(bed.ready, "the agent to be ready again")
        assert [device.cores for device in (await bed.devices())[0]] == [200, 200]
        assert {k: v for k, v in (await labels()).items() if k.startswith("nvidia.com/")} == {
            k: v for k, v in found.items() if k.startswith("nvidia.com/")
        }
        bed.stop()
        bed.env["HAMI_NVIDIA_FEATURE_LABELS"] = "false"
        bed.start()
        await bed.until(bed.ready, "the agent to be ready without labels")
        assert not [key for key in await labels() if key.startswith("nvidia.com/") or "feature-labels" in key]
