"""HAMi's own values switch on vendors whose packages the image lacks: pods that request their devices are refused."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from hami_core.http.tls import ensure_self_signed
from hami_core.manifests import Release, render
from hami_core.manifests.values import joined
from hami_core.settings import SchedulerSettings
from hami_core.sim.cluster import Cluster
from hami_core.testing.parts import free_port
from hami_core.tests.manifests.registry import chart_of_image

HAMI_VALUES = Path(__file__).parents[2] / "hami_core/tests/manifests/data/hami-2.10.yaml"
UNSERVED = ["birentech.com/gpu", "enflame.com/drs-gcu", "kunlunxin.com/vxpu", "mthreads.com/vgpu", "vastaitech.com/va"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> dict[str, dict[str, Any]]:
    """Objects of the rendered chart by kind and name."""
    chart = chart_of_image(tmp_path_factory.mktemp("chart") / "hami", "nvidia")
    given = joined(yaml.safe_load(HAMI_VALUES.read_text()), {"global": {"imageRegistry": "registry.example"}})
    objects = [m.content for m in render(chart, given, Release(kube_version="1.36.3"))]
    return {f"{o['kind']}/{o['metadata']['name']}": o for o in objects}


@asynccontextmanager
async def running(installed, short_folder: Path):
    """Run the embedded cluster with the chart's settings for kube-scheduler, webhook and scheduler."""
    verbs, admission = free_port(), free_port()
    files = ensure_self_signed(short_folder / "tls", ["127.0.0.1"])
    config = yaml.safe_load(installed["ConfigMap/hami-scheduler"]["data"]["config.yaml"])
    secured = {"enableHTTPS": True, "tlsConfig": {"caFile": str(files.certificate)}}
    config["extenders"][0] |= {"urlPrefix": f"https://127.0.0.1:{verbs}", **secured}
    device_config = short_folder / "device-config.yaml"
    device_config.write_text(installed["ConfigMap/hami-scheduler-device"]["data"]["device-config.yaml"])
    pod = installed["Deployment/hami-scheduler"]["spec"]["template"]["spec"]
    arguments = next(c for c in pod["containers"] if c["name"] == "vgpu-scheduler-extender")["args"][1:]
    settings, _ = SchedulerSettings.from_arguments(arguments)
    hook = installed["MutatingWebhookConfiguration/hami-webhook"]
    bundle = base64.b64encode(files.certificate.read_bytes()).decode()
    for webhook in hook["webhooks"]:
        webhook["clientConfig"] = {"url": f"https://127.0.0.1:{admission}/webhook", "caBundle": bundle}
        webhook["failurePolicy"] = "Fail"
    async with (
        Cluster(short_folder / "c", nodes=[], scheduler_config=config) as cluster,
        aiohttp.ClientSession(cluster.url) as session,
    ):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "hami_core", "scheduler", f"--kubeconfig={cluster.kubeconfig}"),
            *(f"--http-bind=127.0.0.1:{verbs}", f"--webhook-bind=127.0.0.1:{admission}", "--metrics-bind-address="),
            *(f"--cert-file={files.certificate}", f"--key-file={files.key}", f"--device-config-file={device_config}"),
            *(f"--{name}={','.join(getattr(settings, name.replace('-', '_')))}" for name in FORWARDED),
            env={k: v for k, v in os.environ.items() if not k.startswith(("HAMI_", "KUBE", "POD_"))},
        )
        try:
            await ready(f"https://127.0.0.1:{verbs}/readyz")
            node = {"allocatable": {"pods": "110", "cpu": "64"}, "conditions": [{"type": "Ready", "status": "True"}]}
            await call(session, "nodes", {"metadata": {"name": "n1"}, "status": node})
            await call(session, HOOKS, hook)
            yield session
        finally:
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0


FORWARDED = ("vendors", "managed-resources")
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
PODS = "namespaces/default/pods"


async def ready(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(url, ssl=False) as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientConnectorError:
                pass
            await asyncio.sleep(0.05)


async def call(session, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    url = path if path.startswith("/") else f"/api/v1/{path}"
    async with session.request("POST" if body else "GET", url, json=body) as response:
        return await response.json()


def pod(name: str, resource: str, amount: str = "1", labels: dict[str, str] | None = None, **spec: Any):
    resources = {"limits": {resource: amount}, "requests": {resource: amount}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": resources}], **spec},
    }


async def until(session, name: str, met) -> dict[str, Any]:
    async with asyncio.timeout(20):
        while not met(found := await call(session, f"{PODS}/{name}")):
            await asyncio.sleep(0.05)
    return found


def conditions_of(found: dict[str, Any]) -> str:
    return " ".join(c.get("message", "") for c in found["status"].get("conditions", []))


async def test_pods_of_vendors_without_package_are_refused_by_name(installed, short_folder):
    async with running(installed, short_folder) as session:
        for number, resource in enumerate(UNSERVED):
            denied = await call(session, PODS, pod(f"a{number}", resource))
            assert denied["kind"] == "Status"
            assert f"container main: {resource}: no loaded vendor serves it" in denied["message"]

        past_the_webhook = {"hami.io/webhook": "ignore"}
        for number, resource in enumerate(UNSERVED):
            mine = pod(f"f{number}", resource, labels=past_the_webhook, schedulerName="hami-scheduler")
            assert (await call(session, PODS, mine))["kind"] == "Pod"
        for number, resource in enumerate(UNSERVED):
            found = await until(session, f"f{number}", lambda found: "served by" in conditions_of(found))
            assert f"{resource} is served by no loaded vendor" in conditions_of(found)
            assert not found["spec"].get("nodeName")

        foreign = await call(session, PODS, pod("volcano", UNSERVED[0], schedulerName="volcano"))
        assert foreign["spec"]["schedulerName"] == "volcano"
        nothing = pod("zero", UNSERVED[0], "0", schedulerName="hami-scheduler")
        assert (await call(session, PODS, nothing))["kind"] == "Pod"
        assert (await until(session, "zero", lambda found: found["spec"].get("nodeName")))["spec"]["nodeName"] == "n1"
