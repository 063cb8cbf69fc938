"""The API server through the official client, kubectl and plain HTTP."""

from __future__ import annotations

import asyncio
import base64
import signal
import ssl
import tempfile

import aiohttp
import orjson
import pytest
import pytest_asyncio
import trustme
from aiohttp import web
from kubernetes import client, config, watch

from hami_core.sim import Cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster():
    with tempfile.TemporaryDirectory(prefix="sim-") as name:
        async with Cluster(name, nodes=[], api_args=["--bookmark-seconds", "0.5"]) as running:
            yield running


@pytest_asyncio.fixture(loop_scope="module")
async def core(cluster):
    with config.new_client_from_config(str(cluster.kubeconfig)) as api:
        yield client.CoreV1Api(api)


@pytest_asyncio.fixture(loop_scope="module")
async def http(cluster):
    async with aiohttp.ClientSession(base_url=cluster.url) as session:
        yield session


def pod(name: str, **meta) -> dict:
    spec = {"schedulerName": "none", "containers": [{"name": "c", "image": "none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": spec}


async def on_thread(function, *arguments, **options):
    return await asyncio.to_thread(function, *arguments, **options)


async def test_official_client_creates_reads_replaces_and_deletes(core) -> None:
    made = await on_thread(core.create_namespaced_pod, "default", pod("crud", labels={"a": "b"}))
    assert made.status.phase == "Pending"
    assert made.metadata.uid
    assert made.spec.restart_policy == "Always"
    with pytest.raises(client.ApiException) as twice:
        await on_thread(core.create_namespaced_pod, "default", pod("crud"))
    assert (twice.value.status, orjson.loads(twice.value.body)["reason"]) == (409, "AlreadyExists")
    made.metadata.labels = {"a": "c"}
    changed = await on_thread(core.replace_namespaced_pod, "crud", "default", made)
    assert changed.metadata.labels == {"a": "c"}
    assert int(changed.metadata.resource_version) > int(made.metadata.resource_version)
    with pytest.raises(client.ApiException) as stale:
        await on_thread(core.replace_namespaced_pod, "crud", "default", made)
    assert stale.value.status == 409
    await on_thread(core.delete_namespaced_pod, "crud", "default")
    with pytest.raises(client.ApiException) as gone:
        await on_thread(core.read_namespaced_pod, "crud", "default")
    assert gone.value.status == 404


async def test_selectors_filter_lists_and_bad_ones_are_refused(core) -> None:
    for name, label in (("sel-1", "x"), ("sel-2", "y"), ("sel-3", "z")):
        await on_thread(core.create_namespaced_pod, "default", pod(name, labels={"sel": label}))

    async def names(**query) -> list[str]:
        found = await on_thread(core.list_namespaced_pod, "default", **query)
        return [p.metadata.name for p in found.items if p.metadata.name.startswith("sel-")]

    assert await names(label_selector="sel in (x,y)") == ["sel-1", "sel-2"]
    assert await names(label_selector="sel,sel!=x") == ["sel-2", "sel-3"]
    assert await names(label_selector="sel notin (x, z)") == ["sel-2"]
    assert await names(label_selector="!sel") == []
    assert await names(field_selector="metadata.name=sel-3") == ["sel-3"]
    assert await names(field_selector="spec.nodeName!=,status.phase=Pending") == []
    with pytest.raises(client.ApiException) as refused:
        await names(field_selector="spec.priority=1")
    assert refused.value.status == 400


async def test_lists_come_in_pages(core) -> None:
    for index in range(5):
        await on_thread(core.create_namespaced_config_map, "kube-public", {"metadata": {"name": f"page-{index}"}})
    first = await on_thread(core.list_namespaced_config_map, "kube-public", limit=3)
    rest = await on_thread(core.list_namespaced_config_map, "kube-public", limit=3, _continue=first.metadata._continue)
    assert [c.metadata.name for c in [*first.items, *rest.items]] == [f"page-{i}" for i in range(5)]
    assert rest.metadata._continue is None


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("merge", {"metadata": {"annotations": {"a": None, "c": "3"}}}, {"b": "2", "c": "3"}),
        ("strategic-merge", {"metadata": {"annotations": {"a": "9"}}}, {"a": "9", "b": "2"}),
        ("json", [{"op": "test", "path": "/metadata/annotations/a", "value": "1"},
                  {"op": "add", "path": "/metadata/annotations/x~1y", "value": "4"},
                  {"op": "remove", "path": "/metadata/annotations/b"}], {"a": "1", "x/y": "4"}),
    ],
)  # fmt: skip
async def test_each_kind_of_patch_changes_the_annotations(http, core, kind, body, expected) -> None:
    name = f"patch-{kind}"
    await on_thread(core.create_namespaced_pod, "default", pod(name, annotations={"a": "1", "b": "2"}))
    headers = {"Content-Type": f"application/{kind}-patch+json"}
    path = f"/api/v1/namespaces/default/pods/{name}"
    async with http.patch(path, data=orjson.dumps(body), headers=headers) as answer:
        assert answer.status == 200
        assert (await answer.json())["metadata"]["annotations"] == expected
    stale = {"metadata": {"resourceVersion": "1", "annotations": {"z": "1"}}}
    headers = {"Content-Type": "application/merge-patch+json"}
    async with http.patch(path, data=orjson.dumps(stale), headers=headers) as answer:
        assert answer.status == 409


async def test_failed_json_patch_changes_nothing(http, core) -> None:
    await on_thread(core.create_namespaced_pod, "default", pod("patch-test", annotations={"a": "1"}))
    operations = [
        {"op": "add", "path": "/metadata/annotations/b", "value": "2"},
        {"op": "test", "path": "/metadata/annotations/a", "value": "other"},
    ]
    headers = {"Content-Type": "application/json-patch+json"}
    path = "/api/v1/namespaces/default/pods/patch-test"
    async with http.patch(path, data=orjson.dumps(operations), headers=headers) as answer:
        assert answer.status == 422
    found = await on_thread(core.read_namespaced_pod, "patch-test", "default")
    assert found.metadata.annotations == {"a": "1"}


async def test_status_and_spec_are_written_separately(http, core) -> None:
    made = await on_thread(core.create_namespaced_pod, "default", pod("apart"))
    headers = {"Content-Type": "application/merge-patch+json"}
    body = {"spec": {"nodeName": "elsewhere"}, "status": {"phase": "Running"}}
    path = "/api/v1/namespaces/default/pods/apart"
    async with http.patch(f"{path}/status", data=orjson.dumps(body), headers=headers) as answer:
        assert answer.status == 200
    found = await on_thread(core.read_namespaced_pod, "apart", "default")
    assert (found.status.phase, found.spec.node_name) == ("Running", None)
    async with http.patch(path, data=orjson.dumps(body), headers=headers) as answer:
        assert answer.status == 422
        assert "pod updates may not change fields" in (await answer.json())["message"]
    assert made.metadata.uid == found.metadata.uid


async def test_watch_resumes_and_gets_410_after_compaction(cluster, core) -> None:
    listed = await on_thread(core.list_namespaced_pod, "default")
    await on_thread(core.create_namespaced_pod, "default", pod("watched", labels={"watched": "1"}))
    await on_thread(core.patch_namespaced_pod, "watched", "default", {"metadata": {"labels": {"watched": "0"}}})
    await on_thread(core.delete_namespaced_pod, "watched", "default")

    def follow(**query) -> list[str]:
        stream = watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=1, **query)
        return [e["type"] for e in stream if e["object"].metadata.name == "watched"]

    version = listed.metadata.resource_version
    assert await on_thread(follow, resource_version=version) == ["ADDED", "MODIFIED", "DELETED"]
    # A watch with a selector shows DELETED when an object leaves the selection, and nothing when it ends later.
    assert await on_thread(follow, resource_version=version, label_selector="watched=1") == ["ADDED", "DELETED"]
    await cluster.compact()
    with pytest.raises(client.ApiException) as expired:
        await on_thread(follow, resource_version=version)
    assert expired.value.status == 410


async def test_watch_sends_bookmarks(http) -> None:
    query = {"watch": "true", "allowWatchBookmarks": "true"}
    async with http.get("/api/v1/namespaces/kube-system/secrets", params=query) as answer:
        event = orjson.loads(await answer.content.readline())
    assert event["type"] == "BOOKMARK"
    assert int(event["object"]["metadata"]["resourceVersion"]) > 0


def binding(name: str, node: str, **meta) -> dict:
    return {
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **meta},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }  # fmt: skip


async def test_binding_is_one_write_with_annotations(http, core) -> None:
    made = await on_thread(core.create_namespaced_pod, "default", pod("bound", annotations={"old": "1"}))
    path = "/api/v1/namespaces/default/pods/bound/binding"
    async with http.post(path, json=binding("bound", "n9", uid="another")) as answer:
        assert answer.status == 409
        assert "UID in precondition" in (await answer.json())["message"]
    meta = {"uid": made.metadata.uid, "annotations": {"new": "2"}, "labels": {"l": "3"}}
    version = made.metadata.resource_version
    async with http.post(path, json=binding("bound", "n9", **meta)) as answer:
        assert answer.status == 201
    query = {"watch": "true", "resourceVersion": version, "fieldSelector": "metadata.name=bound"}
    async with http.get("/api/v1/namespaces/default/pods", params=query) as answer:
        event = orjson.loads(await answer.content.readline())["object"]
    assert event["spec"]["nodeName"] == "n9"  # the first event after the creation already has node and annotations
    assert event["metadata"]["annotations"] == {"old": "1", "new": "2"}
    assert event["metadata"]["labels"] == {"l": "3"}
    async with http.post(path, json=binding("bound", "n8", **meta)) as answer:
        assert answer.status == 409
        assert 'pod bound is already assigned to node "n9"' in (await answer.json())["message"]


async def test_binding_refuses_deleting_and_gated_pods(http, core) -> None:
    body = pod("leaving", finalizers=["example.test/wait"])
    await on_thread(core.create_namespaced_pod, "default", body)
    await on_thread(core.delete_namespaced_pod, "leaving", "default")
    gated = pod("gated")
    gated["spec"]["schedulingGates"] = [{"name": "example.test/gate"}]
    await on_thread(core.create_namespaced_pod, "default", gated)
    for name, why in (("leaving", "is being deleted"), ("gated", "has non-empty .spec.schedulingGates")):
        async with http.post(f"/api/v1/namespaces/default/pods/{name}/binding", json=binding(name, "n1")) as answer:
            assert answer.status == 409
            assert why in (await answer.json())["message"]
    await on_thread(core.patch_namespaced_pod, "leaving", "default", {"metadata": {"finalizers": None}})
    with pytest.raises(client.ApiException) as gone:
        await on_thread(core.read_namespaced_pod, "leaving", "default")
    assert gone.value.status == 404


async def test_delete_obeys_grace_period_and_preconditions(http, core) -> None:
    await on_thread(core.create_namespaced_pod, "default", pod("graceful"))
    async with http.post(
        "/api/v1/namespaces/default/pods/graceful/binding", json=binding("graceful", "none")
    ) as answer:
        assert answer.status == 201
    path = "/api/v1/namespaces/default/pods/graceful"
    async with http.delete(path, json={"preconditions": {"uid": "another"}}) as answer:
        assert answer.status == 409
    async with http.delete(path, json={"gracePeriodSeconds": 20}) as answer:
        meta = (await answer.json())["metadata"]
        assert meta["deletionGracePeriodSeconds"] == 20
        assert meta["deletionTimestamp"]
    async with http.post(f"{path}/eviction", json={"deleteOptions": {"gracePeriodSeconds": 0}}) as answer:
        assert answer.status == 201
    async with http.get(path) as answer:
        assert answer.status == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"not json", 400),
        (b"[]", 400),
        (b'{"metadata": {}, "spec": {"containers": [{"name": "c"}]}}', 422),
        (b'{"metadata": {"name": "x"}, "spec": {"containers": []}}', 422),
        (b'{"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c"}, {"name": "c"}]}}', 422),
        (b'{"kind": "Node", "metadata": {"name": "x"}}', 400),
        (b'{"metadata": {"name": "x", "namespace": "other"}}', 400),
    ],
)
async def test_malformed_objects_are_refused(http, body, status) -> None:
    async with http.post("/api/v1/namespaces/default/pods", data=body) as answer:
        assert answer.status == status
        assert (await answer.json())["message"]


async def test_create_in_a_missing_namespace_is_refused_by_name(http) -> None:
    async with http.post("/api/v1/namespaces/nowhere/pods", json=pod("x")) as answer:
        assert answer.status == 404
        assert 'namespaces "nowhere" not found' in (await answer.json())["message"]


async def test_faults_hit_the_named_requests_the_given_times(cluster, http, core) -> None:
    await on_thread(core.create_namespaced_pod, "default", pod("faulty"))
    path = "/api/v1/namespaces/default/pods/faulty"
    await cluster.fault("status", verb="get", resource="pods", name="faulty", code=429, count=2)
    codes = []
    for _ in range(3):
        async with http.get(path) as answer:
            codes.append((answer.status, answer.headers.get("Retry-After")))
    assert codes == [(429, "1"), (429, "1"), (200, None)]
    assert [f["hits"] for f in await cluster.faults()] == [2]
    await cluster.clear_faults()
    await cluster.fault("commit_then_timeout", verb="patch", resource="pods", seconds=0.05)
    headers = {"Content-Type": "application/merge-patch+json"}
    with pytest.raises(aiohttp.ClientError):
        await http.patch(path, data=b'{"metadata": {"annotations": {"done": "yes"}}}', headers=headers)
    async with http.get(path) as answer:
        assert (await answer.json())["metadata"]["annotations"] == {"done": "yes"}
    await cluster.fault("reset", verb="patch", resource="pods")
    with pytest.raises(aiohttp.ClientError):
        await http.patch(path, data=b'{"metadata": {"annotations": {"done": "no"}}}', headers=headers)
    async with http.get(path) as answer:
        assert (await answer.json())["metadata"]["annotations"] == {"done": "yes"}
    async with http.post("/sim/faults", json={"action": "explode"}) as answer:
        assert answer.status == 400
        assert "explode" in (await answer.json())["error"]


async def test_cut_watches_end(cluster, http) -> None:
    async with http.get("/api/v1/pods", params={"watch": "true", "resourceVersion": "0"}) as answer:
        await cluster.drop_watches()
        with pytest.raises(aiohttp.ClientError):
            await answer.content.read()


async def test_killed_server_restarts_with_all_objects(cluster, core, http) -> None:
    made = await on_thread(
        core.create_namespaced_config_map, "default", {"metadata": {"name": "kept"}, "data": {"a": "1"}}
    )
    await on_thread(core.create_namespaced_config_map, "default", {"metadata": {"name": "dropped"}})
    await on_thread(core.delete_namespaced_config_map, "dropped", "default")
    journal = cluster.directory / "apiserver" / "journal"
    await cluster.stop_part("apiserver", signal.SIGKILL)
    with journal.open("ab") as file:
        file.write(b'{"version": 99999, "type": "ADDED", "resou')  # killed in the middle of a write
    await cluster.start_part("apiserver")
    found = await on_thread(core.read_namespaced_config_map, "kept", "default")
    assert (found.metadata.uid, found.metadata.resource_version) == (made.metadata.uid, made.metadata.resource_version)
    names = [c.metadata.name for c in (await on_thread(core.list_namespaced_config_map, "default")).items]
    assert "dropped" not in names
    # History survives too: a watch resumes from its version.
    query = {"watch": "true", "resourceVersion": made.metadata.resource_version}
    async with http.get("/api/v1/namespaces/default/configmaps", params=query) as answer:
        events = [orjson.loads(await answer.content.readline()) for _ in range(2)]
    assert [(e["type"], e["object"]["metadata"]["name"]) for e in events] == [
        ("ADDED", "dropped"),
        ("DELETED", "dropped"),
    ]


class Webhook:
    def __init__(self) -> None:
        self.reviews: list[dict] = []
        self.answer: dict = {"allowed": True}
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        review = await request.json()
        self.reviews.append(review)
        response = {"uid": review["request"]["uid"], **self.answer}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


@pytest_asyncio.fixture(loop_scope="module")
async def webhook(core):
    authority = trustme.CA()
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(trust)
    hook, app = Webhook(), web.Application()
    app.router.add_post("/mutate", hook.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=trust).start()
    bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
    hook.url = f"https://127.0.0.1:{runner.addresses[0][1]}/mutate"
    body = {
        "metadata": {"name": "hook"},
        "webhooks": [{
            "name": "hook.example.test", "clientConfig": {"url": hook.url, "caBundle": bundle},
            "rules": [
                {"operations": [operation], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource]}
                for operation, resource in (("CREATE", "pods"), ("UPDATE", "pods/ephemeralcontainers"))
            ],
            "objectSelector": {"matchLabels": {"hooked": "yes"}}, "failurePolicy": "Fail", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": 2,
        }],
    }  # fmt: skip
    admission = client.AdmissionregistrationV1Api(core.api_client)
    await on_thread(admission.create_mutating_webhook_configuration, body)
    yield hook
    await runner.cleanup()
    await on_thread(admission.delete_mutating_webhook_configuration, "hook")


async def test_webhook_patches_new_pods_it_selects(webhook, core) -> None:
    operations = [{"op": "add", "path": "/spec/schedulerName", "value": "other"}]
    webhook.answer = {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(orjson.dumps(operations)).decode(),
    }
    made = await on_thread(core.create_namespaced_pod, "default", pod("hooked-1", labels={"hooked": "yes"}))
    assert made.spec.scheduler_name == "other"
    (review,) = webhook.reviews
    assert review["request"]["operation"] == "CREATE"
    assert review["request"]["object"]["metadata"]["name"] == "hooked-1"
    assert review["request"]["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    await on_thread(core.create_namespaced_pod, "default", pod("hooked-2"))
    assert len(webhook.reviews) == 1


async def test_webhook_patches_the_ephemeral_containers_of_an_update(webhook, core) -> None:
    webhook.answer = {"allowed": True}
    await on_thread(core.create_namespaced_pod, "default", pod("debugged", labels={"hooked": "yes"}))
    operations = [
        {"op": "add", "path": "/spec/ephemeralContainers/0/env", "value": [{"name": "A", "value": "1"}]},
        {"op": "add", "path": "/spec/schedulerName", "value": "dropped"},
    ]
    patch = base64.b64encode(orjson.dumps(operations)).decode()
    webhook.answer = {"allowed": True, "patchType": "JSONPatch", "patch": patch, "warnings": ["a word"]}
    body = {"spec": {"ephemeralContainers": [{"name": "shell", "image": "i"}]}}
    made = await on_thread(core.patch_namespaced_pod_ephemeralcontainers, "debugged", "default", body)
    (shell,) = made.spec.ephemeral_containers
    assert [(entry.name, entry.value) for entry in shell.env] == [("A", "1")]
    assert made.spec.scheduler_name == "none"
    request = webhook.reviews[-1]["request"]
    assert (request["operation"], request["subResource"], request["kind"]["kind"]) == (
        "UPDATE",
        "ephemeralcontainers",
        "Pod",
    )
    assert "ephemeralContainers" not in request["oldObject"]["spec"]
    assert request["object"]["spec"]["ephemeralContainers"][0]["name"] == "shell"


async def test_ephemeral_containers_have_no_resources_and_stay(core) -> None:
    await on_thread(core.create_namespaced_pod, "default", pod("watched"))

    async def change(verb: str, *containers: dict):
        call = getattr(core, f"{verb}_namespaced_pod_ephemeralcontainers")
        spec = {"containers": [{"name": "c"}], "ephemeralContainers": list(containers)}
        body = {"metadata": {"name": "watched"}, "spec": spec}
        return await on_thread(call, "watched", "default", body)

    await change("patch", {"name": "one", "image": "i"})
    found = await change("patch", {"name": "two", "image": "i"})
    assert [c.name for c in found.spec.ephemeral_containers] == ["two", "one"]
    kept = [core.api_client.sanitize_for_serialization(c) for c in found.spec.ephemeral_containers]
    found = await change("replace", *kept, {"name": "three", "image": "i"})
    assert [c.name for c in found.spec.ephemeral_containers] == ["two", "one", "three"]
    read = await on_thread(core.read_namespaced_pod_ephemeralcontainers, "watched", "default")
    assert len(read.spec.ephemeral_containers) == 3
    for containers, words in [
        (kept[:1], 'existing ephemeral containers "one" may not be removed'),
        ([kept[0] | {"image": "j"}, kept[1]], 'existing ephemeral containers "two" may not be changed'),
        ([{"name": "four", "resources": {"limits": {"example.com/gpu": "1"}}}], "cannot be set for an Ephemeral"),
        ([{"name": "c"}], 'Duplicate value: "c"'),
    ]:
        with pytest.raises(client.ApiException) as refused:
            await change("replace", *containers)
        assert refused.value.status == 422
        assert words in orjson.loads(refused.value.body)["message"]
    debugged = pod("debugged-from-birth")
    debugged["spec"]["ephemeralContainers"] = [{"name": "e"}]
    with pytest.raises(client.ApiException, match="cannot be set on create"):
        await on_thread(core.create_namespaced_pod, "default", debugged)


async def test_pod_refused_by_a_webhook_is_not_created(webhook, core) -> None:
    webhook.answer = {"allowed": False, "status": {"code": 403, "message": "too greedy"}}
    with pytest.raises(client.ApiException) as refused:
        await on_thread(core.create_namespaced_pod, "default", pod("hooked-3", labels={"hooked": "yes"}))
    assert refused.value.status == 403
    text = orjson.loads(refused.value.body)["message"]
    assert text == 'admission webhook "hook.example.test" denied the request: too greedy'


async def test_failing_webhook_is_handled_by_its_failure_policy(webhook, core) -> None:
    webhook.answer = {"allowed": True, "patchType": "JSONPatch", "patch": "!"}
    with pytest.raises(client.ApiException) as refused:
        await on_thread(core.create_namespaced_pod, "default", pod("hooked-4", labels={"hooked": "yes"}))
    assert refused.value.status == 500
    admission = client.AdmissionregistrationV1Api(core.api_client)
    ignore = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
    await on_thread(admission.patch_mutating_webhook_configuration, "hook", ignore)
    made = await on_thread(core.create_namespaced_pod, "default", pod("hooked-4", labels={"hooked": "yes"}))
    assert made.spec.scheduler_name == "none"


async def test_amounts_given_as_numbers_are_stored_as_text(http) -> None:
    path = "/api/v1/namespaces/default/resourcequotas"
    made = {"metadata": {"name": "numbers"}, "spec": {"hard": {"limits.x.com/mem": 2000, "pods": 5}}}
    async with http.post(path, json=made) as response:
        assert (await response.json())["spec"]["hard"] == {"limits.x.com/mem": "2k", "pods": "5"}
    headers = {"Content-Type": "application/merge-patch+json"}
    body = orjson.dumps({"spec": {"hard": {"limits.x.com/mem": 1000000}}})
    async with http.patch(f"{path}/numbers", data=body, headers=headers) as response:
        assert (await response.json())["spec"]["hard"] == {"limits.x.com/mem": "1M", "pods": "5"}
    async with http.post(
        path, json={**made, "metadata": {"name": "bad"}, "spec": {"hard": {"pods": True}}}
    ) as response:
        assert response.status == 400
