"""Variables that vendors impose at admission hold in every container, whatever the pod writes."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import orjson
import pytest

from hami_core import hookimpl
from hami_core.model import ContainerSpec, Mutation, PodFacts
from hami_core.plugins import load
from hami_core.policies import PolicyDefaults
from hami_core.scheduler.cluster import Cluster
from hami_core.scheduler.webhook import OTHER_SCHEDULER, Verdict, Webhook
from hami_core.tests.scheduler.conftest import load as load_classes
from hami_core.tests.scheduler.test_patch_reference import apply
from hami_core.tests.scheduler.vendor import Acme
from hami_core.wire.extender import AdmissionRequest


class Imposing(Acme):
    """A made-up vendor with two variables, one of them empty."""

    @hookimpl
    def mutate_admission(self, container: ContainerSpec, pod: PodFacts) -> Mutation | None:
        return Mutation(uses_devices=False, env=(("ACME_FIRST", "one"), ("ACME_EMPTY", "")))


NVIDIA = {"nvidia": {"overwriteEnv": True, "gpuCorePolicy": "force"}}
CHIP = {"commonWord": "Ascend910B", "resourceName": "huawei.com/Ascend910B", "memoryAllocatable": 65536}
ASCEND = {"vnpus": {"configs": [CHIP | {"resourceMemoryName": "huawei.com/Ascend910B-memory", "overwriteEnv": True}]}}
VENDORS = {
    "nvidia": lambda: load(NVIDIA, only=["nvidia"]),
    "ascend": lambda: load(ASCEND, only=["ascend"]),
    "made-up": lambda: load_classes(Imposing),
}
IMPOSED = [
    ("nvidia", "NVIDIA_VISIBLE_DEVICES", "none", {}),
    ("nvidia", "NVIDIA_VISIBLE_DEVICES", "none", {"nvidia.com/gpu": "0", "nvidia.com/gpumem": "1000"}),
    ("nvidia", "GPU_CORE_UTILIZATION_POLICY", "force", {}),
    ("nvidia", "GPU_CORE_UTILIZATION_POLICY", "force", {"nvidia.com/gpu": "1"}),
    ("nvidia", "CUDA_TASK_PRIORITY", "1", {"nvidia.com/gpu": "1", "nvidia.com/priority": "1"}),
    ("ascend", "ASCEND_VISIBLE_DEVICES", "", {}),
    ("ascend", "ASCEND_VISIBLE_DEVICES", "", {"huawei.com/Ascend910B": "0", "huawei.com/Ascend910B-memory": "9"}),
    ("made-up", "ACME_FIRST", "one", {}),
    ("made-up", "ACME_EMPTY", "", {}),
]
RIGHT = "<what is imposed>"
PLACES = ["init", "sidecar", "app", "ephemeral"]
WRITTEN: dict[str, Any] = {
    "absent": [],
    "a value": [{"value": "all"}],
    "empty": [{"value": ""}],
    "no value": [{}],
    "valueFrom": [{"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    "valueFrom beside the value": [{"value": "none", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}],
    "twice": [{"value": "all"}, {"value": "0"}],
    "twice, the right one first": [{"value": RIGHT}, {"value": "all"}],
    "three times": [{"value": "0"}, {"value": "all"}, {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
}


def entries(name: str, how: str, right: str = "") -> list[dict[str, Any]]:
    """How a pod may write a variable."""
    return [
        {"name": name, **entry, **({"value": right} if entry.get("value") == RIGHT else {})} for entry in WRITTEN[how]
    ]


def webhook(vendor: str, **options: Any) -> Webhook:
    loaded = VENDORS[vendor]()
    assert not loaded.problems
    cluster: Any = Cluster(None, loaded, PolicyDefaults())  # type: ignore[arg-type] # no API is asked
    return Webhook(cluster, scheduler_name="hami-scheduler", **options)


def pod_with(place: str, container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A pod whose second container of this kind is the given one."""
    parts: dict[str, list[dict[str, Any]]] = {"initContainers": [], "containers": [{"name": "main"}]}
    if place == "sidecar":
        container = {**container, "restartPolicy": "Always"}
    part = {"app": "containers", "ephemeral": "ephemeralContainers"}.get(place, "initContainers")
    parts.setdefault(part, []).append(container)
    return {"metadata": {"name": "p", "namespace": "default"}, "spec": {**parts, **spec}}


def review(hook: Webhook, pod: dict[str, Any], place: str = "app", **more: Any) -> Verdict:
    fields: dict[str, Any] = {"uid": "u", "namespace": "default", "operation": "CREATE"}
    if place == "ephemeral":
        old = copy.deepcopy(pod)
        old["spec"]["ephemeralContainers"].pop()
        fields |= {"operation": "UPDATE", "subResource": "ephemeralcontainers"}
        fields["oldObject"] = msgspec.Raw(orjson.dumps(old))
    return hook.review(AdmissionRequest(**{**fields, "object": msgspec.Raw(orjson.dumps(pod)), **more}))


def after(pod: dict[str, Any], verdict: Verdict) -> dict[str, Any]:
    assert verdict.allowed, verdict.message
    return dict(apply(pod, list(verdict.patch)))


def found(pod: dict[str, Any], name: str = "it") -> dict[str, Any]:
    spec = pod["spec"]
    parts = (spec.get(part) or [] for part in ("initContainers", "containers", "ephemeralContainers"))
    (container,) = [c for part in parts for c in part if c["name"] == name]
    return dict(container)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", WRITTEN)
def test_an_imposed_variable_replaces_what_the_pod_wrote(how, place):
    for vendor, name, value, limits in IMPOSED:
        if place == "ephemeral" and limits:
            continue  # an ephemeral container can't ask for anything
        hook = webhook(vendor)
        box = {
            "name": "it",
            "resources": {"limits": limits} if limits else {},
            "env": [
                {"name": "BEFORE", "value": "b"},
                *entries(name, how, value),
                {"name": "AFTER", "value": f"$({name})"},
            ],
            "envFrom": [{"configMapRef": {"name": "everything"}}],
        }
        made = pod_with(place, box)
        done = after(made, review(hook, made, place))
        env = found(done)["env"]
        assert [(e.get("value", ""), e.get("valueFrom")) for e in env if e["name"] == name] == [(value, None)], name
        others = [e for e in env if e["name"] in {"BEFORE", "AFTER"}]
        assert others == [e for e in box["env"] if e["name"] in {"BEFORE", "AFTER"}], name
        assert found(done)["envFrom"] == box["envFrom"]
        assert not review(hook, done, place).patch or place == "ephemeral", "a second review changes nothing"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("vendor", VENDORS)
def test_correct_environment_is_not_changed(vendor, place):
    hook = webhook(vendor)
    bare = pod_with(place, {"name": "it"})
    env = found(after(bare, review(hook, bare, place)))["env"]
    right = [{key: value for key, value in entry.items() if value} for entry in reversed(env)]
    made = pod_with(place, {"name": "it", "env": right})
    assert found(after(made, review(hook, made, place)))["env"] == right


def test_only_new_ephemeral_containers_of_a_pod_change():
    hook = webhook("nvidia")
    free = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    made = pod_with("ephemeral", {"name": "old", **free}, nodeName="n1", schedulerName="default-scheduler")
    made["metadata"]["annotations"] = {"hami.io/vgpu-devices-allocated": "GPU-1,NVIDIA,1,1:;"}
    made["spec"]["containers"][0] |= {**free, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    made["spec"]["ephemeralContainers"].append({"name": "new", **free, "securityContext": {"privileged": True}})
    verdict = review(hook, made, "ephemeral")
    assert verdict.allowed
    assert {operation["path"].rsplit("/env", 1)[0] for operation in verdict.patch} == {"/spec/ephemeralContainers/1"}
    assert {e["name"]: e["value"] for e in found(after(made, verdict), "new")["env"]} == {
        "NVIDIA_VISIBLE_DEVICES": "none",
        "GPU_CORE_UTILIZATION_POLICY": "force",
    }


@pytest.mark.parametrize("old", [b"null", b"{}", b'{"spec":{"ephemeralContainers":null}}'])
def test_without_old_object_all_ephemeral_containers_are_new(old):
    made = pod_with("ephemeral", {"name": "it"})
    verdict = review(webhook("nvidia"), made, "ephemeral", oldObject=msgspec.Raw(old))
    assert found(after(made, verdict))["env"][-1] == {"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}


@pytest.mark.parametrize("place", PLACES)
def test_a_pod_of_another_scheduler_is_left_alone(place):
    made = pod_with(place, {"name": "it"}, schedulerName="volcano")
    verdict = review(webhook("nvidia"), made, place)
    assert (verdict.allowed, verdict.message, verdict.patch) == (True, OTHER_SCHEDULER, ())


GIVEN = [
    ("nvidia", "NVIDIA_VISIBLE_DEVICES", {"nvidia.com/gpu": "1"}),
    ("nvidia", "NVIDIA_VISIBLE_DEVICES", {"nvidia.com/gpumem": "1000"}),
    ("ascend", "ASCEND_VISIBLE_DEVICES", {"huawei.com/Ascend910B": "1"}),
]


@pytest.mark.parametrize("place", ["init", "sidecar", "app"])
@pytest.mark.parametrize(("vendor", "name", "limits"), GIVEN)
def test_container_with_devices_can_not_name_its_devices(vendor, name, limits, place):
    hook = webhook(vendor)
    for how in WRITTEN:
        env = [{"name": "KEPT", "value": "k"}, *entries(name, how)]
        made = pod_with(place, {"name": "it", "resources": {"limits": limits}, "env": env})
        left = {entry["name"] for entry in found(after(made, review(hook, made, place)))["env"]}
        assert left - {"GPU_CORE_UTILIZATION_POLICY"} == {"KEPT"}, how


@pytest.mark.parametrize("vendor", ["nvidia", "ascend"])
def test_without_a_setting_nothing_is_imposed(vendor):
    cluster = webhook(vendor)._cluster
    cluster.loaded = load({}, only=[vendor])
    made = pod_with("app", {"name": "it", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]})
    hook = Webhook(cluster, scheduler_name="hami-scheduler")
    assert not review(hook, made).patch
