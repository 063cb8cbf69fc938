"""Admission: HAMi's pipeline by vectors, then our additions."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from hami_core import hookimpl
from hami_core.errors import RequestError
from hami_core.model import ContainerSpec, Mutation, PodFacts
from hami_core.tests.kube.apiserver import pod as plain_pod
from hami_core.tests.scheduler.conftest import load
from hami_core.tests.scheduler.test_patch_reference import apply
from hami_core.tests.scheduler.vendor import ALLOCATED, Acme, pod
from hami_core.wire import keys


def patched(pod_: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    if "patch" not in response:
        return pod_
    assert response["patchType"] == "JSONPatch"
    return dict(apply(pod_, json.loads(base64.b64decode(response["patch"]))))


@pytest.mark.parametrize("version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
async def test_answers_in_the_version_it_was_asked_in(start, version):
    client = await start()
    request = {"uid": "u-7", "object": pod("a"), "namespace": "default"}
    answer = await client.post("/webhook", {"apiVersion": version, "kind": "AdmissionReview", "request": request})
    assert (answer["apiVersion"], answer["response"]["uid"]) == (version, "u-7")


@pytest.mark.parametrize("containers", [None, []])
async def test_a_pod_without_containers_is_refused(start, containers):
    client = await start()
    response = await client.admit({"metadata": {"name": "a"}, "spec": {"containers": containers}})
    assert (response["allowed"], response["status"]["message"]) == (False, "pod has no containers")


OTHERS = "hami.io/dcu-devices-allocated"
"""The allocation of a vendor that is not loaded here; its node plugin may still go by it."""


@pytest.mark.parametrize("key", [ALLOCATED, keys.SIGNATURE, keys.NODE, keys.MIG_ALLOCATIONS, OTHERS])
async def test_keys_only_the_system_may_set_are_refused_by_name(start, key):
    client = await start()
    response = await client.admit(pod("a", metadata={"annotations": {key: "x"}}))
    assert not response["allowed"]
    assert key in response["status"]["message"]
    assert "remove it" in response["status"]["message"]


@pytest.mark.parametrize("amount", ["-1", "1.5", "99999999999999999999", "1e40", "abc", ""])
async def test_amounts_that_make_no_sense_name_container_and_field(start, amount):
    client = await start()
    response = await client.admit(pod("a", mem=amount))
    assert not response["allowed"], amount
    assert "container c" in response["status"]["message"]
    assert "acme.com/mem" in response["status"]["message"]


async def test_quota_is_checked_in_the_namespace_of_the_review(server, start):
    quota = {"metadata": {"name": "q", "namespace": "team"}, "spec": {"hard": {"limits.acme.com/mem": "1500"}}}
    await server.put("resourcequotas", quota)
    client = await start()
    made = pod("a", mem=1000)
    del made["metadata"]["namespace"]
    assert (await client.admit(made, namespace="team"))["allowed"]
    made["spec"]["containers"][0]["resources"]["limits"]["acme.com/mem"] = "2000"
    response = await client.admit(made, namespace="team")
    assert not response["allowed"]
    assert response["status"]["message"].startswith("exceeding resource quota: 2000 asked for, 1500 ")
    assert (await client.admit(made, namespace="other"))["allowed"]


async def test_init_containers_count_as_a_maximum(server, start):
    quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"limits.acme.com/mem": "1500"}}}
    await server.put("resourcequotas", quota)
    client = await start()
    made = pod("a", mem=1000)
    limits = {"acme.com/gpu": "1", "acme.com/mem": "1400"}
    made["spec"]["initContainers"] = [{"name": f"i{n}", "resources": {"limits": limits}} for n in range(3)]
    assert (await client.admit(made))["allowed"]
    limits["acme.com/mem"] = "1501"
    assert not (await client.admit(made))["allowed"]


class Mutating(Acme):
    """Changes everything that a vendor may change."""

    @hookimpl
    def mutate_admission(self, container: ContainerSpec, pod: PodFacts) -> Mutation | None:
        if "acme.com/gpu" not in container.limits:
            return Mutation(uses_devices=False, env=(("ACME_VISIBLE_DEVICES", "none"),))
        if container.limits["acme.com/gpu"] == "13":
            raise RequestError(f"container {container.name}", "acme.com/gpu", "13 is unlucky", "ask for 12")
        if container.limits["acme.com/gpu"] == "14":
            raise RuntimeError("a bug in the plugin")
        return Mutation(
            uses_devices=True,
            limits={"acme.com/cores": "100"},
            requests={"acme.com/cores": "100"},
            env=(("PRIORITY", "1"), ("SET", "theirs")),
            pod_annotations={"acme.com/qos": "best-effort"},
            runtime_class="acme",
        )


async def test_what_a_vendor_wants_is_in_the_patch(start):
    client = await start(loaded=load(Mutating))
    made = pod("a")
    first = made["spec"]["containers"][0]
    first["env"] = [{"name": "SET", "value": "ours"}]
    del first["resources"]["limits"]["acme.com/cores"]
    made["spec"]["containers"].append({"name": "side"})
    response = await client.admit(made)
    after = patched(made, response)
    one, two = after["spec"]["containers"]
    assert one["resources"]["limits"] == {"acme.com/gpu": "1", "acme.com/mem": "1000", "acme.com/cores": "100"}
    assert one["resources"]["requests"] == {"acme.com/cores": "100"}
    assert one["env"] == [{"name": "PRIORITY", "value": "1"}, {"name": "SET", "value": "theirs"}]
    assert two["env"] == [{"name": "ACME_VISIBLE_DEVICES", "value": "none"}]
    assert after["metadata"]["annotations"] == {"acme.com/qos": "best-effort"}
    assert after["spec"]["runtimeClassName"] == "acme"
    assert after["spec"]["schedulerName"] == "hami-scheduler"


async def test_present_runtime_class_is_kept(start):
    client = await start(loaded=load(Mutating))
    made = pod("a", spec={"runtimeClassName": "mine"})
    assert patched(made, await client.admit(made))["spec"]["runtimeClassName"] == "mine"


async def test_pod_without_devices_keeps_its_scheduler(start):
    client = await start(loaded=load(Mutating))
    made = plain_pod("a")
    after = patched(made, await client.admit(made))
    assert after["spec"]["containers"][0]["env"] == [{"name": "ACME_VISIBLE_DEVICES", "value": "none"}]
    assert "schedulerName" not in after["spec"]


@pytest.mark.parametrize(("count", "code", "words"), [(13, 400, "ask for 12"), (14, 500, "a bug in the plugin")])
async def test_a_vendors_refusal_and_a_vendors_bug_both_deny(start, count, code, words):
    client = await start(loaded=load(Mutating))
    response = await client.admit(pod("a", gpu=count))
    assert not response["allowed"]
    assert response["status"]["code"] == code
    assert words in response["status"]["message"]
    assert (await client.raw("GET", "/healthz"))[0] == 200


async def test_an_undecodable_pod_is_refused_with_the_place(start):
    client = await start()
    response = await client.admit({"metadata": {"name": "a"}, "spec": {"containers": [{"name": 7}]}})
    assert (response["allowed"], response["status"]["code"]) == (False, 400)
    assert "$.spec.containers[0].name" in response["status"]["message"]
