"""Credentials that the scheduler issues itself: issued, trusted, served, published and rotated, end to end."""

from __future__ import annotations

import asyncio
import base64
import ssl

import aiohttp
import pytest

from hami_core.scheduler.credentials.reconciler import CredentialReconciler
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


async def test_new_cluster_gets_an_admitted_bound_and_signed_pod(tmp_path, bed, free_port):
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


async def test_not_ready_before_the_webhook_listens():
    """The Service sends requests to a pod as soon as it is ready."""
    begun, listens = asyncio.Event(), asyncio.Event()

    class Issued:
        pace_s = 60.0

        def problem(self) -> str:
            return ""

        async def step(self) -> None:
            pass

    async def listen() -> None:
        begun.set()
        await listens.wait()

    reconciler = CredentialReconciler("webhook-certificate", Issued(), listen)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        task = group.create_task(reconciler.run())
        await begun.wait()
        assert reconciler.check() == "its use has not begun"
        listens.set()
        while reconciler.check():
            await asyncio.sleep(0)
        task.cancel()


async def until(condition, seconds: float = 90.0):
    """Wait until the awaited condition is true, and return its answer."""
    async with asyncio.timeout(seconds):
        while not (found := await condition()):
            await asyncio.sleep(0.05)
    return found


async def create(api: Api, manifest):
    manifest["metadata"].pop("uid", None)
    return await api.call("POST", "api/v1/namespaces/default/pods", manifest)


async def bind(api: Api, address: str, name: str, node_name: str = "n1") -> str:
    """Bind as kube-scheduler does, until the pod is bound. Returns the signature."""
    found = await api.call("GET", f"api/v1/namespaces/default/pods/{name}")
    body = {"PodName": name, "PodNamespace": "default", "PodUID": found["metadata"]["uid"], "Node": node_name}

    errors = [""]

    async def bound():
        async with api.session.post(f"http://{address}/bind", json=body) as response:
            errors.append((await response.json())["Error"])
            return not errors[-1]

    try:
        await until(bound)
    except TimeoutError:
        raise AssertionError(errors[-1]) from None
    found = await api.call("GET", f"api/v1/namespaces/default/pods/{name}")
    return found["metadata"]["annotations"][keys.SIGNATURE]


SHORT = (
    "--certificate-lifetime=12s",
    "--signing-key-lifetime=4s",
    "--signing-key-delay=1s",
)


async def test_two_replicas_rotate_under_load_and_nobody_notices(tmp_path, bed, free_port):
    api = bed.api
    await api.call("POST", ADMISSION, webhook_configuration(url=f"https://127.0.0.1:{free_port}/webhook"))
    await api.call("POST", "api/v1/nodes", node("n1", cards=2))
    bundles, certificates, signers = set(), set(), []
    async with (
        hami_scheduler(tmp_path, *flags(bed, free_port, *SHORT), signing_key=False) as one,
        hami_scheduler(tmp_path, *flags(bed, 0, *SHORT), signing_key=False) as two,
    ):
        await asyncio.gather(one.listening(), two.listening())
        await asyncio.gather(*(ready(api.session, hami.addresses[0]) for hami in (one, two)))
        secret = await api.secret("hami-signing")
        assert len(secret["data"]) == 1, "both replicas began at once, and one key was made"
        await create(api, pod("keeps", mem=100))
        kept = signer_of(await bind(api, one.addresses[0], "keeps"))
        number = 0
        while len(certificates) < 3 or len(set(signers)) < 4:
            number += 1
            assert number < 1000
            name = f"p{number}"
            await create(api, pod(name, mem=100))  # refused if the API server did not trust the webhook
            bundle = await api.bundle()
            bundles.add(bundle)
            trust = ssl.create_default_context(cadata=bundle.decode())
            _, writer = await asyncio.open_connection("127.0.0.1", free_port, ssl=trust)
            certificates.add(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
            writer.close()
            hami = (one, two)[number % 2]
            signers.append(signer_of(await bind(api, hami.addresses[0], name)))
            published = (await api.config_map("hami-signing-keys"))["data"]
            assert {kept, signers[-1]} <= {entry.rpartition("-")[2][:16] for entry in published}
            await api.call("DELETE", f"api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})
            await asyncio.sleep(0.2)
        assert any(bundle.count(b"BEGIN") == 2 for bundle in bundles), "old and new authority together"
        secret = (await api.secret("hami-signing"))["data"]
        assert [entry for entry in secret if kept in entry and entry.endswith(".pub")], "the private half is gone"
        await api.call("DELETE", "api/v1/namespaces/default/pods/keeps", {"gracePeriodSeconds": 0})

        async def dropped():
            return not any(kept in entry for entry in (await api.config_map("hami-signing-keys"))["data"])

        await until(dropped)
        for hami in (one, two):
            assert await hami.end() == 0
            assert not [line for line in hami.log if line["level"] == "error"]


async def test_replicas_with_different_lifetimes_work_together(tmp_path, bed, free_port):
    """A roll-out that changes the setting: the old replica goes only once the new one is ready."""
    api = bed.api
    await api.call("POST", ADMISSION, webhook_configuration())
    async with hami_scheduler(tmp_path, *flags(bed, free_port, *SHORT), signing_key=False) as one:
        await one.listening()
        await ready(api.session, one.addresses[0])
        first = await api.secret("hami-webhook-tls")

        async def renewed():
            return (await api.secret("hami-webhook-tls"))["data"] != first["data"]

        await until(renewed)
        async with hami_scheduler(tmp_path, *flags(bed, 0), signing_key=False) as two:
            await two.listening()
            await ready(api.session, two.addresses[0])


async def test_next_replica_continues_after_a_kill_at_any_write(tmp_path, bed, free_port):
    """The process is killed after its first write, its second write, and so on."""
    api = bed.api
    await api.call("POST", ADMISSION, webhook_configuration())
    for writes in (
        (("create", "secrets", 2),),  # the certificate's and the keys': neither is followed by its next write
        (("create", "configmaps", 1), ("patch", "mutatingwebhookconfigurations", 1)),
    ):
        for verb, resource, count in writes:
            await bed.fault("commit_then_timeout", verb=verb, resource=resource, count=count, seconds=60)
        async with hami_scheduler(tmp_path, *flags(bed, free_port), signing_key=False) as hami:
            await hami.listening()

            async def hit():
                return all(fault["hits"] == fault["count"] for fault in await bed.faults())

            await until(hit)
            await hami.end(9)
        await bed.clear_faults()
    async with hami_scheduler(tmp_path, *flags(bed, free_port), signing_key=False) as hami:
        await hami.listening()
        await ready(api.session, hami.addresses[0])
        assert len((await api.secret("hami-signing"))["data"]) == 1
        assert len((await api.config_map("hami-signing-keys"))["data"]) == 1
        assert (await api.bundle()).count(b"BEGIN") == 1


async def test_restarted_scheduler_keeps_its_credentials(tmp_path, bed, free_port):
    api = bed.api
    await api.call("POST", ADMISSION, webhook_configuration())
    kept = []
    for _ in range(2):
        async with hami_scheduler(tmp_path, *flags(bed, free_port), signing_key=False) as hami:
            await hami.listening()
            await ready(api.session, hami.addresses[0])
            kept.append(
                [
                    (await api.secret("hami-signing"))["data"],
                    (await api.secret("hami-webhook-tls"))["data"],
                    (await api.config_map("hami-signing-keys"))["data"],
                    await api.bundle(),
                ]
            )
    assert kept[0] == kept[1]


@pytest.mark.parametrize(
    ("plural", "name", "data"),
    [
        ("secrets", "hami-webhook-tls", {"tls.crt": "eA==", "tls.key": "eA=="}),
        ("secrets", "hami-signing", {"password": "eA=="}),
        ("configmaps", "hami-signing-keys", {"settings.yaml": "a: b"}),
    ],
)
async def test_objects_of_others_are_named_and_not_changed(tmp_path, bed, free_port, plural, name, data):
    api = bed.api
    await api.call("POST", ADMISSION, webhook_configuration())
    await api.call("POST", f"api/v1/namespaces/hami/{plural}", {"metadata": {"name": name}, "data": data})
    async with hami_scheduler(tmp_path, *flags(bed, free_port), signing_key=False) as hami:
        await hami.listening()

        async def named():
            async with api.session.get(f"http://{hami.addresses[0]}/readyz") as response:
                text = await response.text()
            return f"{name}: is not ours: it holds {', '.join(data)} and has no label hami.io/credentials" in text

        await until(named)
        assert (await api.call("GET", f"api/v1/namespaces/hami/{plural}/{name}"))["data"] == data
        # An empty object is taken over.
        await api.call("PATCH", f"api/v1/namespaces/hami/{plural}/{name}", {"data": dict.fromkeys(data)}, patch="merge")
        await ready(api.session, hami.addresses[0])


async def test_damaged_or_lost_credentials_are_replaced(tmp_path, bed, free_port):
    api = bed.api
    await api.call("POST", ADMISSION, webhook_configuration(url=f"https://127.0.0.1:{free_port}/webhook"))
    await api.call("POST", "api/v1/nodes", node("n1", cards=1))
    pace = "--signing-key-delay=4s"  # it looks every second
    async with hami_scheduler(tmp_path, *flags(bed, free_port, pace), signing_key=False) as hami:
        await hami.listening()
        await ready(api.session, hami.addresses[0])
        await create(api, pod("a", mem=100))
        first = signer_of(await bind(api, hami.addresses[0], "a"))
        # The Secret is deleted: there is a new key, and the old public key still counts.
        await api.call("DELETE", "api/v1/namespaces/hami/secrets/hami-signing")

        async def replaced():
            found = await api.secret("hami-signing")
            names = sorted((found.get("data") or {}).items())
            return len(names) == 2 and [name for name, _ in names]

        entries = await until(replaced)
        assert any(first in entry and entry.endswith(".pub") for entry in entries)
        published = (await api.config_map("hami-signing-keys"))["data"]
        assert any(first in entry for entry in published)
        # The new private key is damaged: it is reported and not changed, and another key is made.
        (fresh,) = (entry for entry in entries if entry.endswith(".key"))
        patch = {"data": {fresh: base64.b64encode(b"garbage").decode()}}
        await api.call("PATCH", "api/v1/namespaces/hami/secrets/hami-signing", patch, patch="merge")

        async def another():
            found = (await api.secret("hami-signing"))["data"]
            return len(found) == 3 and found

        found = await until(another)
        assert base64.b64decode(found[fresh]) == b"garbage"
        await create(api, pod("b", mem=100))
        assert signer_of(await bind(api, hami.addresses[0], "b")) not in fresh
        # The certificate is damaged: a new one is made.
        patch = {"data": {"tls.crt": base64.b64encode(b"garbage").decode()}}
        await api.call("PATCH", "api/v1/namespaces/hami/secrets/hami-webhook-tls", patch, patch="merge")
        # The process stays ready, because the loaded certificate is good.
        await ready(api.session, hami.addresses[0])
        assert await hami.end() == 0
        told = [line for line in hami.log if line["level"] == "error"]
        assert [line for line in told if line.get("entry") == fresh and line["secret"] == "Secret hami/hami-signing"]
