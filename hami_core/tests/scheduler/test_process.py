"""The process as deployed, with flags, files and signals, against the embedded API server and kube-scheduler loop."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import weakref
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from hami_core.http.tls import ensure_self_signed
from hami_core.scheduler.process import load_without_gc
from hami_core.sim.cluster import Cluster
from hami_core.tests.scheduler.vendor import ALLOCATED, node, pod
from hami_core.wire import keys
from hami_core.wire.signature import generate_private_key, private_key_pem

if TYPE_CHECKING:
    from pathlib import Path


def install_acme(folder: Path) -> None:
    """Install the test vendor into a folder as pip would."""
    folder.mkdir()
    (folder / "site_acme.py").write_text("from hami_core.tests.scheduler.vendor import Acme\n")
    info = folder / "hami_acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hami-acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hami.vendors]\nacme = site_acme:Acme\n")


class Process:
    """One `hami scheduler` with its log."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.log: list[dict[str, object]] = []
        self.addresses: list[str] = []

    async def listening(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log.append(_line(line))
            if self.log[-1]["event"] == "listening":
                self.addresses = list(self.log[-1]["addresses"])
                return
        raise AssertionError(self.log)

    async def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.returncode is None:
            self.process.send_signal(number)
        _, errors = await self.process.communicate()
        self.log += [_line(line) for line in errors.splitlines()]
        assert self.process.returncode is not None
        return self.process.returncode


def _line(text: bytes) -> dict[str, Any]:
    try:
        return json.loads(text)
    except ValueError:
        raise AssertionError(f"no JSON on stderr: {text!r}") from None


@asynccontextmanager
async def hami_scheduler(tmp_path: Path, *flags: str, signing_key: bool = True):
    if not (tmp_path / "site").exists():
        install_acme(tmp_path / "site")
        (tmp_path / "signing.key").write_bytes(private_key_pem(generate_private_key()))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HAMI_", "KUBE", "POD_"))}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hami_core",
        "scheduler",
        "--vendors=acme",
        *([f"--signing-key={tmp_path / 'signing.key'}"] if signing_key else []),
        "--metrics-bind-address=127.0.0.1:0",
        "--log-format=json",
        *flags,
        env=environment | {"PYTHONPATH": str(tmp_path / "site"), "PYTHONWARNINGS": "default"},
        stderr=asyncio.subprocess.PIPE,
    )
    running = Process(process)
    try:
        yield running
    finally:
        if process.returncode is None:
            await running.end(signal.SIGKILL)


async def ready(session: aiohttp.ClientSession, address: str) -> None:
    while True:
        async with session.get(f"http://{address}/readyz") as response:
            if response.status == 200:
                return
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("sync_s", [1, 3600])
async def test_garbage_of_a_slow_first_sync_is_collected(sync_s):
    class Garbage:
        pass

    async def synced():
        nonlocal now
        now += sync_s
        cycle = Garbage()
        cycle.itself = cycle
        left.append(weakref.ref(cycle))

    now, left = 0.0, []
    try:
        await load_without_gc(SimpleNamespace(synced=synced), lambda: now)
        assert gc.isenabled()
        gc.collect()
        assert (left[0]() is None) == (sync_s > 60)
    finally:
        gc.unfreeze()


KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: http://127.0.0.1:1}}]
users: [{name: u, user: {}}]
"""


def config(url: str) -> dict[str, object]:
    names = ["acme.com/gpu", "acme.com/mem", "acme.com/cores"]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "hami-scheduler"}],
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "extenders": [
            {
                "urlPrefix": url,
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "bindVerb": "bind",
                "weight": 1,
                "nodeCacheCapable": True,
                "managedResources": [{"name": name, "ignoredByScheduler": True} for name in names],
                "httpTimeout": "30s",
            }
        ],
    }


async def test_pods_find_their_nodes_through_kube_scheduler(tmp_path, free_port):
    extender = f"127.0.0.1:{free_port}"
    async with (
        Cluster(tmp_path / "c", nodes=[], scheduler_config=config(f"http://{extender}")) as cluster,
        hami_scheduler(
            tmp_path,
            f"--kubeconfig={cluster.kubeconfig}",
            f"--http_bind={extender}",
            "--leader-elect",
            "--leader-elect-resource-name=kube-scheduler",
            "--leader-elect-resource-namespace=kube-system",
        ) as hami,
        aiohttp.ClientSession() as session,
    ):
        await hami.listening()
        api = f"{cluster.url}/api/v1"
        for name in ("n1", "n2"):
            made = node(name, cards=2)
            condition = [{"type": "Ready", "status": "True"}]
            made["status"] = {"allocatable": {"pods": "110", "cpu": "64"}, "conditions": condition}
            async with session.post(f"{api}/nodes", json=made) as response:
                assert response.status == 201, await response.text()
        await ready(session, hami.addresses[-1])
        pods = f"{api}/namespaces/default/pods"
        # 4 cards of 10,000 MiB: eight halves fit, the ninth pod does not.
        for number in range(9):
            manifest = pod(f"p{number}", mem=5000, cores=50, spec={"schedulerName": "hami-scheduler"})
            manifest["metadata"].pop("uid")
            manifest.pop("status")
            async with session.post(pods, json=manifest) as response:
                assert response.status == 201, await response.text()
        bound: list[dict[str, object]] = []
        while len(bound) < 8:
            async with session.get(pods) as response:
                found = (await response.json())["items"]
            bound = [p for p in found if p["spec"].get("nodeName")]
            await asyncio.sleep(0.05)
        taken = sorted(p["metadata"]["annotations"][ALLOCATED].split(",")[0] for p in bound)
        assert taken == sorted(["n1-0", "n1-1", "n2-0", "n2-1"] * 2)
        assert all(keys.SIGNATURE in p["metadata"]["annotations"] for p in bound)
        (left,) = [p for p in found if not p["spec"].get("nodeName")]
        message = ""
        while "CardInsufficient" not in message:
            async with session.get(f"{pods}/{left['metadata']['name']}") as response:
                conditions = (await response.json())["status"].get("conditions", [])
            message = " ".join(c.get("message", "") for c in conditions)
            await asyncio.sleep(0.05)
        assert await hami.end() == 0
        assert not [line for line in hami.log if line["level"] == "error"], hami.log


async def test_killed_and_started_again_it_knows_what_is_booked(tmp_path):
    async with Cluster(tmp_path / "c", nodes=[]) as cluster, aiohttp.ClientSession() as session:
        async with session.post(f"{cluster.url}/api/v1/nodes", json=node("n1", cards=1)) as response:
            assert response.status == 201
        flags = (f"--kubeconfig={cluster.kubeconfig}", "--http_bind=127.0.0.1:0")
        uids = {}
        for name in ("a", "b"):
            manifest = pod(name, mem=6000)
            manifest["metadata"].pop("uid")
            async with session.post(f"{cluster.url}/api/v1/namespaces/default/pods", json=manifest) as response:
                uids[name] = (await response.json())["metadata"]["uid"]
        answers = []
        for name in ("a", "b"):
            async with hami_scheduler(tmp_path, *flags) as hami:
                await hami.listening()
                await ready(session, hami.addresses[0])
                body = {"PodName": name, "PodNamespace": "default", "PodUID": uids[name], "Node": "n1"}
                async with session.post(f"http://{hami.addresses[0]}/bind", json=body) as response:
                    answers.append((await response.json())["Error"])
                await hami.end(signal.SIGKILL)
        assert answers[0] == ""
        assert "CardInsufficientMemory" in answers[1]


async def test_webhook_over_tls_on_its_own_listener(tmp_path):
    files = ensure_self_signed(tmp_path / "tls", ["127.0.0.1"])
    async with (
        Cluster(tmp_path / "c", nodes=[]) as cluster,
        hami_scheduler(
            tmp_path,
            f"--kubeconfig={cluster.kubeconfig}",
            "--http_bind=127.0.0.1:0",
            "--webhook-bind=127.0.0.1:0",
            f"--cert_file={files.certificate}",
            f"--key_file={files.key}",
        ) as hami,
        aiohttp.ClientSession() as session,
    ):
        await hami.listening()
        import ssl

        trust = ssl.create_default_context(cafile=str(files.certificate))
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {"uid": "1", "namespace": "default", "object": pod("a")},
        }
        async with session.post(f"https://{hami.addresses[1]}/webhook", json=review, ssl=trust) as response:
            assert (await response.json())["response"]["allowed"]
        async with session.post(f"https://{hami.addresses[0]}/webhook", json=review, ssl=trust) as response:
            assert response.status == 404
        assert await hami.end() == 0


async def test_a_start_that_fails_says_why_and_nothing_else(tmp_path, free_port):
    files = ensure_self_signed(tmp_path / "tls", ["127.0.0.1"])
    pair = (f"--cert-file={files.certificate}", f"--key-file={files.key}")
    address = f"127.0.0.1:{free_port}"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    async with hami_scheduler(
        tmp_path, f"--kubeconfig={kubeconfig}", f"--http_bind={address}", f"--webhook-bind={address}", *pair
    ) as hami:
        _, errors = await asyncio.wait_for(hami.process.communicate(), 90)
    assert hami.process.returncode not in {0, None}
    assert f"--webhook-bind {address}: " in errors.decode()
    assert "never awaited" not in errors.decode()
    assert "Traceback" not in errors.decode()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--kubeconfig=/nonexistent"], "set KUBECONFIG or --kubeconfig"),
        (["--signing-key=/nonexistent"], "signing_key"),
        (["--vendors=nosuch"], "--vendors: 'nosuch' names no installed package of a vendor; installed: acme"),
        (["--vendors=acme,acmee"], "(did you mean acme?)"),
        (["--managed-resources=acme.com/gpu,cpu"], "'cpu' is no name of an extended resource"),
        (["--managed-resources=requests.nvidia.com"], "example.com/npu"),
        (["--managed-resources=node.kubernetes.io/x"], "'node.kubernetes.io/x' is no name"),
        (["--scheduler-name="], "--scheduler-name: is empty"),
        (["--gpu-scheduler-policy=binpak", "--node-scheduler-policy=spred"], "did you mean spread?"),
        (["--http_bind=nowhere"], "host:port"),
        (["--filter-return=0"], "filter-return"),
    ],
)
async def test_a_wrong_setting_ends_it_at_once_with_its_name(tmp_path, flags, words):
    async with hami_scheduler(tmp_path, *flags) as hami:
        _, errors = await asyncio.wait_for(hami.process.communicate(), 90)
        assert hami.process.returncode not in {0, None}
        assert words in errors.decode()
        assert "Traceback" not in errors.decode()
