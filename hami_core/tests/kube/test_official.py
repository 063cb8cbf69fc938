"""The client against a real HTTP server: verbs, errors, partial decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hami_core.errors import ConfigError
from hami_core.kube.objects import Binding, BindingMeta
from hami_core.kube.official import connect
from hami_core.kube.patch import metadata_patch
from hami_core.kube.port import NODES, PODS, ApiError, NotSentError, Resource
from hami_core.tests.kube.apiserver import Fault, pod

if TYPE_CHECKING:
    from pathlib import Path


async def test_get_reads_the_parts_we_know_and_skips_the_rest(api, server):
    await server.put(
        "pods",
        pod(
            "a",
            spec={
                "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"limits": {"x/y": "1"}}}],
                "containers": [
                    {"name": "c", "securityContext": {"privileged": True}, "resources": {"limits": {"n": 2}}}
                ],
                "dnsPolicy": "ClusterFirst",
            },
        ),
    )
    got = await api.get(PODS, "a", "default")
    assert got.uid == "uid-a"
    assert got.spec.init_containers[0].restart_policy == "Always"
    assert got.spec.containers[0].is_privileged
    assert got.spec.containers[0].resources.limits == {"n": 2}


async def test_containers_are_listed_init_containers_first_then_app(api, server):
    init = [{"name": "fetch"}, {"name": "proxy", "restartPolicy": "Always"}, {"name": "warm"}]
    spec = {
        "containers": [{"name": "a"}, {"name": "b"}],
        "initContainers": init,
        "ephemeralContainers": [{"name": "e"}],
    }
    await server.put("pods", pod("a", spec=spec))
    listed = [(kind.value, c.name) for kind, c in (await api.get(PODS, "a", "default")).containers()]
    assert listed == [("init", "fetch"), ("sidecar", "proxy"), ("init", "warm"), ("app", "a"), ("app", "b")]


async def test_null_containers_read_as_none_at_all(api, server):
    await server.put("pods", {"metadata": {"name": "a", "namespace": "default"}, "spec": {"containers": None}})
    assert (await api.get(PODS, "a", "default")).spec.containers == []


async def test_missing_object_is_404_with_the_servers_words(api):
    with pytest.raises(ApiError, match='pods "a" not found') as caught:
        await api.get(PODS, "a", "default")
    assert (caught.value.status, caught.value.reason, caught.value.retryable) == (404, "NotFound", False)


async def test_list_leaves_out_only_the_undecodable_object(api, server):
    await server.put("pods", pod("good"))
    await server.put("pods", pod("bad", spec={"nodeName": 7}))
    page = await api.list(PODS)
    assert [p.metadata.name for p in page.items] == ["good"]
    assert [bad.key for bad in page.undecodable] == ["default/bad"]


async def test_a_list_of_metadata_sends_no_more_than_that(api, server):
    await server.put("pods", pod("a", spec={"nodeName": "n1"}))
    (sent,) = (await api.list(Resource("v1", "pods", dict, metadata_only=True))).items
    assert set(sent) == {"kind", "apiVersion", "metadata"}
    (whole,) = (await api.list(Resource("v1", "pods", dict))).items
    assert whole["metadata"] == sent["metadata"]


async def test_lists_come_in_pages(api, server):
    for n in range(5):
        await server.put("nodes", {"metadata": {"name": f"n{n}"}})
    first = await api.list(NODES, limit=2)
    second = await api.list(NODES, limit=2, continue_token=first.continue_token)
    assert [n.key for n in first.items + second.items] == ["n0", "n1", "n2", "n3"]


async def test_bind_carries_uid_annotations_and_labels_in_one_request(api, server):
    await server.put("pods", pod("a"))
    meta = BindingMeta("a", "default", "uid-a", {"k": "v"}, {"l": "w"})
    await api.bind(Binding.to_node(meta, "n1"))
    method, path, body = server.requests[-1]
    assert (method, path) == ("POST", "/api/v1/namespaces/default/pods/a/binding")
    assert body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "uid": "uid-a",
            "annotations": {"k": "v"},
            "labels": {"l": "w"},
        },
        "target": {"kind": "Node", "name": "n1"},
    }
    bound = await api.get(PODS, "a", "default")
    assert bound.spec.node_name == "n1"
    assert bound.metadata.annotations == {"k": "v"}


async def test_late_bind_is_not_sent(api, server):
    """``may_send`` is called last. A refused Bind does not reach the server, and the next one does."""
    await server.put("pods", pod("a"))
    binding = Binding.to_node(BindingMeta("a", "default", "uid-a"), "n1")
    await api.get(PODS, "a", "default")
    before = len(server.requests)
    asked = []
    with pytest.raises(NotSentError) as caught:
        await api.bind(binding, lambda: bool(asked.append(len(server.requests))))
    assert not caught.value.is_unknown_outcome
    assert asked == [before]
    assert len(server.requests) == before
    await api.bind(binding, lambda: True)
    assert (await api.get(PODS, "a", "default")).spec.node_name == "n1"


async def test_bind_with_another_uid_is_a_conflict(api, server):
    await server.put("pods", pod("a"))
    with pytest.raises(ApiError) as caught:
        await api.bind(Binding.to_node(BindingMeta("a", "default", "other"), "n1"))
    assert caught.value.status == 409
    assert not caught.value.is_unknown_outcome


@pytest.mark.parametrize(
    ("fault", "status", "unknown"),
    [
        (Fault(status=500), 500, True),
        (Fault(status=429, headers={"Retry-After": "7"}), 429, False),
        (Fault(drop=True), 0, True),
    ],
)
async def test_faults_say_whether_a_write_may_have_happened(api, server, fault, status, unknown):
    server.faults.append(lambda method, _: fault if method == "PATCH" else None)
    with pytest.raises(ApiError) as caught:
        await api.patch(PODS, "a", metadata_patch(annotations={"k": None}), "default")
    assert caught.value.status == status
    assert caught.value.is_unknown_outcome is unknown
    assert caught.value.retryable
    assert caught.value.retry_after_s == (7 if status == 429 else 0)


async def test_delete_only_the_object_with_that_uid(api, server):
    await server.put("pods", pod("a"))
    with pytest.raises(ApiError) as caught:
        await api.delete(PODS, "a", "default", uid="other")
    assert caught.value.status == 409
    await api.delete(PODS, "a", "default", uid="uid-a")
    assert not server.objects["pods"]


async def test_an_unreachable_server_is_an_api_error(tmp_path, server):
    path = server.kubeconfig(tmp_path)
    path.write_text(path.read_text().replace(server.url, "http://127.0.0.1:1"))
    api = await connect(path)
    with pytest.raises(ApiError) as caught:
        await api.server_version()
    assert (caught.value.status, caught.value.reason) == (0, "Unreachable")
    await api.close()


async def test_no_configuration_names_the_file_and_the_fix(tmp_path: Path):
    with pytest.raises(ConfigError, match="set KUBECONFIG") as caught:
        await connect(tmp_path / "missing")
    assert "missing" in str(caught.value)


@pytest.mark.parametrize(
    ("spared", "proxied"),
    [("", True), ("10.0.0.0/8, localhost", True), ("192.0.2.0/24", False), ("192.0.2.7", False), ("*", False)],
)
async def test_proxy_of_the_environment_is_used_unless_excluded(tmp_path, server, monkeypatch, spared, proxied):
    """Nothing answers at the address itself, only the proxy, for which the test server stands."""
    for name in ("NO_PROXY", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", spared)
    file = server.kubeconfig(tmp_path)
    file.write_text(file.read_text().replace(server.url, "http://192.0.2.7"))
    api = await connect(file, timeout_s=30 if proxied else 0.5)
    await server.put("pods", pod("a"))
    try:
        if proxied:
            assert (await api.get(PODS, "a", "default")).uid == "uid-a"
        else:
            with pytest.raises(ApiError):
                await api.get(PODS, "a", "default")
    finally:
        await api.close()
