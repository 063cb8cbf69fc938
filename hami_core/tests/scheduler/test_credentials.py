"""Credentials the scheduler issues itself: issued, trusted, served, published, rotated, end to end."""

from __future__ import annotations

import asyncio
import base64
import ssl

import aiohttp
import pytest

from hami_core.sim.cluster import Cluster
from hami_core.tests.scheduler.test_process import hami_scheduler, ready
from hami_core.tests.scheduler.vendor import node, pod
from hami_core.wire import keys
from hami_core.wire.signature import load_public_keys, signer_of

ADMISSION = "apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


def webhook_configuration(name: str = "hami-webhook", url: str = "https://127.0.0.1:1/webhook"):
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "vgpu.hami.io",
                "clientConfig": {"url": url},
                "rules": [rule],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


class Api:
    """Objects of the embedded API server."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self.session = session

    async def call(self, method: str, path: str, body=None, *, patch: str = "", expect=(200, 201)):
        headers = {"Content-Type": f"application/{patch}-patch+json"} if patch else {}
        async with self.session.request(method, f"{self.url}/{path}", json=body, headers=headers) as response:
            answer = await response.json()
            assert response.status in expect, answer
            return answer

    async def secret(self, name: str):
        return await self.call("GET", f"api/v1/namespaces/hami/secrets/{name}", expect=(200, 404))

    async def config_map(self, name: str):
        return await self.call("GET", f"api/v1/namespaces/hami/configmaps/{name}", expect=(200, 404))

    async def bundle(self, name: str = "hami-webhook") -> bytes:
        found = await self.call("GET", f"{ADMISSION}/{name}")
        return base64.b64decode(found["webhooks"][0]["clientConfig"].get("caBundle", ""))


def flags(cluster: Cluster, port: int, *more: str) -> tuple[str, ...]:
    return (
        f"--kubeconfig={cluster.kubeconfig}",
        "--http_bind=127.0.0.1:0",
        f"--webhook-bind=127.0.0.1:{port}",
        "--namespace=hami",
        "--tls-secret=hami-webhook-tls",
        "--webhook-service=hami-scheduler",
        "--webhook-hosts=127.0.0.1",
        "--webhook-configuration=hami-webhook",
        "--signing-secret=hami-signing",
        "--signing-keys-configmap=hami-signing-keys",
        *more,
    )


@pytest.fixture
async def bed(tmp_path):
    async with Cluster(tmp_path / "c", nodes=[]) as cluster, aiohttp.ClientSession() as session:
        cluster.api = Api(cluster.url, session)  # a test's own convenience
        await cluster.api.call("POST", "api/v1/namespaces", {"metadata": {"name": "hami"}})
        yield cluster


async def test_from_nothing_to_an_admitted_bound_and_verifiable_pod(tmp_path, bed, free_port):
    api = bed.api
    async with hami_scheduler(tmp_path, *flags(bed, free_port), signing_key=False) as hami:
        await hami.listening()
        async with api.session.get(f"http://{hami.addresses[0]}/readyz") as response:
            assert response.status == 503
            assert "webhook-certificate: no certificate yet (Secret hami/hami-webhook-tls)" in await response.text()
        await api.call("POST", ADMISSION, webhook_configuration(url=f"https://127.0.0.1:{free_port}/webhook"))
        await ready(api.session, hami.addresses[0])

        trust = ssl.create_default_context(cadata=(await api.bundle()).decode())
        async with api.session.get(f"https://127.0.0.1:{free_port}/readyz", ssl=trust) as response:
            assert response.status == 200
        secret = await api.secret("hami-webhook-tls")
        assert secret["type"] == "kubernetes.io/tls"
        assert sorted(secret["data"]) == ["ca.crt", "tls.crt", "tls.key"]

        await api.call("POST", "api/v1/nodes", node("n1", cards=1))
        manifest = pod("a", mem=6000)
        manifest["metadata"].pop("uid")
        made = await api.call("POST", "api/v1/namespaces/default/pods", manifest)
        assert made["spec"]["schedulerName"] == "hami-scheduler", "the API server trusts the webhook"
        body = {"PodName": "a", "PodNamespace": "default", "PodUID": made["metadata"]["uid"], "Node": "n1"}
        error = "?"
        while error:  # the node is on its way
            async with api.session.post(f"http://{hami.addresses[0]}/bind", json=body) as response:
                error = (await response.json())["Error"]
            await asyncio.sleep(0.05)
        bound = await api.call("GET", "api/v1/namespaces/default/pods/a")
        published = (await api.config_map("hami-signing-keys"))["data"]
        (name,) = published
        assert name.endswith(".pem")
        assert signer_of(bound["metadata"]["annotations"][keys.SIGNATURE]) in name
        assert load_public_keys(published[name].encode(), where=name)
        assert await hami.end() == 0
        assert not [line for line in hami.log if line["level"] == "error" and "there is none" not in line["error"]]
