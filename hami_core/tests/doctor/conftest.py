"""Makes facts of plain objects, and runs `hami doctor` against an API server that serves them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import aiohttp
import msgspec
import pytest
import pytest_asyncio

from hami_core.doctor import gather
from hami_core.doctor import objects as k8s
from hami_core.doctor.examine import examine
from hami_core.doctor.facts import Facts, Lookup, Seen
from hami_core.kube.port import CONFIG_MAPS, SECRETS
from hami_core.plugins import load
from hami_core.settings import load_device_config
from hami_core.sim import Cluster
from hami_core.tests.doctor import sound
from hami_core.wire import keys

LISTED = {
    "nodes": ("Node", k8s.NODES), "pods": ("Pod", k8s.PODS), "daemon_sets": ("DaemonSet", k8s.DAEMON_SETS),
    "services": ("Service", k8s.SERVICES), "endpoint_slices": ("EndpointSlice", k8s.ENDPOINT_SLICES),
    "webhooks": ("MutatingWebhookConfiguration", k8s.WEBHOOKS), "policies": ("ValidatingAdmissionPolicy", k8s.POLICIES),
    "policy_bindings": ("ValidatingAdmissionPolicyBinding", k8s.POLICY_BINDINGS),
    "runtime_classes": ("RuntimeClass", k8s.RUNTIME_CLASSES), "quotas": ("ResourceQuota", k8s.QUOTAS),
    "leases": ("Lease", k8s.LEASES), "events": ("Event", k8s.EVENTS),
}  # fmt: skip
NAMED = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}


@cache
def set_up(device_config: str):
    """The vendors, configured from a device-config, and why it is refused."""
    return gather.set_up(lambda text: load(load_device_config(text or None), only=["nvidia"]), device_config)


def named(cluster: dict[str, dict], kind: str, resource) -> Lookup:
    found = [msgspec.convert(o, resource.type) for o in cluster.values() if o["kind"] == kind]
    return Lookup({o.key: o for o in found})


def facts_of(cluster: dict[str, dict], **more) -> Facts:
    """Facts, as if exactly these objects had been read."""
    listed = {
        field: Seen(tuple(msgspec.convert(o, resource.type) for o in cluster.values() if o["kind"] == kind))
        for field, (kind, resource) in LISTED.items()
    }
    secrets = named(cluster, "Secret", SECRETS)
    vendors, problem = set_up(
        cluster.get("ConfigMap/hami-scheduler-device", {}).get("data", {}).get("device-config.yaml", "")
    )
    fixed = {
        "now": sound.NOW, "version": "v1.36.3", "vendors": vendors, "config_problem": problem,
        "config_maps": named(cluster, "ConfigMap", CONFIG_MAPS),
        "tls_secrets": named(cluster, "Secret", k8s.TLS_SECRETS), "signing_keys": gather.public_halves(secrets),
    }  # fmt: skip
    return Facts(**(listed | fixed | more))


def look(cluster: dict[str, dict], **more):
    """The doctor's report on these objects."""
    return examine(facts_of(cluster, **more))


def said(report, check: str, *levels: str) -> list:
    """Findings of one check with these levels; without levels, all findings except ok."""
    return [f for f in report.findings if f.check == check and (f.level in levels if levels else f.level != "ok")]


def words(findings) -> str:
    """The texts of all findings."""
    return "\n".join(f"{f.object} {f.field} {f.seen} {f.fix}" for f in findings)


@pytest.fixture
def cluster() -> dict[str, dict]:
    return sound.healthy()


# --- through the command line ----------------------------------------------------------------------------------------


def path_of(body: dict) -> str:
    """The API path for creating an object of this kind."""
    resource = dict((*LISTED.values(), *NAMED.items()))[body["kind"]]
    return resource.path(namespace=body["metadata"].get("namespace", ""))


class Server:
    """An API server with objects, and the doctor to look at it."""

    def __init__(self, running: Cluster) -> None:
        self.kubeconfig = running.kubeconfig
        self.running = running
        self._url = running.url

    async def create(self, cluster: dict[str, dict]) -> None:
        async with aiohttp.ClientSession(base_url=self._url) as http:
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": sound.NS}}
            async with http.post("/api/v1/namespaces", json=space) as answer:
                assert answer.status == 201, await answer.text()
            # Create admission objects last, because the server obeys them at once.
            for body in sorted(cluster.values(), key=lambda o: o["apiVersion"].startswith("admissionregistration")):
                await self._create(http, body)

    async def _create(self, http: aiohttp.ClientSession, body: dict) -> None:
        if body["kind"] == "Lease":  # renewed now, and valid for longer than a test takes
            body["spec"].update(renewTime=datetime.now(UTC).isoformat(), leaseDurationSeconds=600)
        async with http.post(path_of(body), json=body) as answer:
            assert answer.status == 201, await answer.text()
            uid = (await answer.json())["metadata"]["uid"]
        where = f"{path_of(body)}/{body['metadata']['name']}"
        patch = {"Content-Type": "application/merge-patch+json"}
        changes = [(f"{where}/status", {"status": body["status"]})] if "status" in body else []
        if keys.SIGNATURE in body["metadata"].get(
            "annotations", {}
        ):  # a signature covers the UID, which the server sets
            changes.append((where, {"metadata": {"annotations": {keys.SIGNATURE: sound.signature(body, uid)}}}))
        for path, change in changes:
            async with http.patch(path, data=json.dumps(change), headers=patch) as answer:
                assert answer.status == 200, await answer.text()

    def doctor(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "hami_core", "doctor", "--kubeconfig", str(self.kubeconfig), *arguments]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


@pytest_asyncio.fixture
async def server():
    with tempfile.TemporaryDirectory(prefix="sim-") as name:
        async with Cluster(Path(name), nodes=[]) as running:
            yield Server(running)
