"""The checks on a sound cluster, in special cases, and with missing rights."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hami_core import Capability, Caution, DoctorNotes, Family, Grade, Neighbour, Resources, Support, hookimpl
from hami_core.doctor.examine import CHECKS
from hami_core.doctor.facts import Lookup, Seen
from hami_core.doctor.on_node.checks import CHECKS as ON_NODE
from hami_core.errors import WireError
from hami_core.model import Device
from hami_core.plugins import load
from hami_core.tests.doctor import sound
from hami_core.tests.doctor.conftest import facts_of, look, said, words
from hami_core.tests.doctor.spoil import add, foreign_plugin, info, other_webhook, pending, quota
from hami_core.tests.scheduler.conftest import load as assembled
from hami_core.wire import keys


def test_sound_cluster_has_only_ok_findings(cluster):
    report = look(cluster)
    assert [f for f in report.findings if f.level != "ok"] == []
    assert report.exit_status(strict=True) == 0


def test_every_check_reports_on_a_sound_cluster(cluster):
    quiet = {c.name for c in CHECKS} - {f.check for f in look(cluster).findings}
    assert quiet <= {"scheduler.role"}  # no pod is labelled


def test_missing_installation_fails_scheduler_pods():
    report = look({"Node/n1": sound.node("n1")})
    assert "no pod runs `hami scheduler`" in words(said(report, "scheduler.pods"))
    assert report.exit_status() == 1


@pytest.mark.parametrize(
    ("version", "level"),
    [("v1.30.14", "ok"), ("v1.36.3", "ok"), ("v1.29.9", "fail"), ("v1.37.0", "warn"), ("", "unknown")],
)
def test_kubernetes_version_sets_the_level(cluster, version, level):
    assert said(look(cluster, version=version), "cluster.version", level)


def test_two_pods_labelled_leader_are_warned_of(cluster):
    for name in ("hami-scheduler-1", "hami-scheduler-2"):
        cluster[f"Pod/{name}"] = {**sound.scheduler_pod(name)}
        cluster[f"Pod/{name}"]["metadata"]["labels"] = {keys.SCHEDULER_ROLE_LABEL: keys.ROLE_LEADER}
    assert "hami-scheduler-1, hami-system/hami-scheduler-2" in words(said(look(cluster), "scheduler.role", "warn"))


@pytest.mark.parametrize(
    ("entry", "amount"),
    [("limits.nvidia.com/gpumem", "1M"), ("limits.nvidia.com/gpu", "2"), ("limits.nvidia.com/gpucores", 200)],
)
def test_quota_that_our_scheduler_sums_is_ok(cluster, entry, amount):
    add(cluster, quota(entry, amount))
    assert said(look(cluster), "quota.names", "ok")


def test_new_pod_is_not_reported_as_pending(cluster):
    pending(cluster)
    cluster["Pod/waiting"]["metadata"]["creationTimestamp"] = sound.stamp(1)
    assert not said(look(cluster), "pods.pending")


def test_later_webhooks_are_ok_if_ours_is_called_again(cluster):
    other_webhook(cluster, "istio-injector", "IfNeeded")
    assert not said(look(cluster), "webhook.order")


def test_containerd_1_7_is_ok_if_a_container_has_its_mounts(cluster):
    info(cluster, "n1", containerRuntimeVersion="containerd://1.7.24")
    assert not said(look(cluster), "node.runtime")


def test_labelled_node_without_register_or_slots_is_a_warning(cluster):
    bare = sound.node("n3")
    bare["metadata"] = sound.meta("n3", "", labels={"feature.node.kubernetes.io/pci-10de.present": "true"})
    bare["status"]["capacity"] = bare["status"]["allocatable"] = {"cpu": "8"}
    add(cluster, bare)
    assert "kubectl label node n3 gpu=on" in words(said(look(cluster), "agents.coverage", "warn"))


def test_named_node_that_does_not_exist_is_reported(cluster):
    nodes = {key: value for key, value in cluster.items() if not key.startswith("Node/")}
    assert "there is no node nosuch" in words(said(look(nodes, node="nosuch"), "agents.coverage", "fail"))


def test_feature_discovery_does_not_count_as_device_plugin(cluster):
    foreign_plugin(cluster, name="gpu-feature-discovery")
    container = {"name": "gpu-feature-discovery", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"}
    cluster["DaemonSet/gpu-feature-discovery"]["spec"]["template"]["spec"]["containers"] = [container]
    assert not said(look(cluster), "collision.device-plugin")


def test_device_plugins_and_cautions_of_a_vendor_are_found(cluster):
    """Another device plugin collides only if our agent serves the family. A caution's check has the vendor's name."""

    def vendors(support):
        notes = DoctorNotes(
            neighbours=(Neighbour(("npu-plugin",), "Zeta's device plugin"),),
            cautions=(Caution("zeta-meter", ("zeta-meter",), "by pod", "Zeta's meter runs", "stop it"),),
        )
        family = Family("ZETA", Resources("zeta.example/npu"), "hami.io/zeta-devices-allocated", doctor=notes,
                        capabilities={Capability.NODE_AGENT: Grade(support, "why")})  # fmt: skip

        class Zeta:
            @hookimpl
            def families(self):
                return [family]

        return assembled(Zeta)

    foreign_plugin(cluster, image="zeta/npu-plugin:1", name="npu-plugin")
    add(cluster, sound.pod("meter", {"containers": [{"name": "m", "image": "zeta-meter:1"}]}, namespace="zeta"))
    report = look(cluster, vendors=vendors(Support.FULL))
    assert "Zeta's device plugin runs beside our agent on n1" in words(said(report, "collision.device-plugin", "fail"))
    assert "stop it" in words(said(report, "collision.zeta-meter", "warn"))
    assert not said(look(cluster, vendors=vendors(Support.PLANNED)), "collision.device-plugin", "fail")


@pytest.mark.parametrize(
    ("text", "offered", "level", "told"),
    [
        ("two", "2", "ok", "2 ZETA devices, 2 slots"),
        ("two", "0", "warn", "the kubelet offers no zeta.example/npu: look at the node's device plugin"),
        ("zwei", "2", "fail", "zeta.example/register: no number: restart the node's device plugin"),
    ],
)
@pytest.mark.parametrize("name", ["n1", "zeta"])
def test_registers_of_other_plugins_are_read_by_their_vendor(cluster, name, text, offered, level, told):
    """n1 also has our agent, which serves NVIDIA's cards there."""

    class Zeta:
        @hookimpl
        def families(self):
            return [
                Family(
                    "ZETA",
                    Resources("zeta.example/npu"),
                    "hami.io/zeta-devices-allocated",
                    register_key="zeta.example/register",
                    offered_resource="zeta.example/npu",
                    capabilities={Capability.NODE_AGENT: Grade(Support.UNSUPPORTED, "Zeta's plugin serves the nodes")},
                )
            ]

        @hookimpl
        def register(self, node):
            told = node.annotations.get("zeta.example/register")
            if told is None:
                return None
            if told != "two":
                raise WireError("zeta.example/register", -1, "no number")
            return [Device(f"Z-{i}", i, 1, 1024, 100, "Z1", "ZETA") for i in range(2)]

    node = cluster.setdefault(f"Node/{name}", sound.node(name))
    node["metadata"].setdefault("annotations", {})["zeta.example/register"] = text
    node["status"]["allocatable"]["zeta.example/npu"] = offered
    (found,) = said(look(cluster, vendors=assembled(Zeta)), "agents.register", level)
    assert told in f"{found.seen}: {found.fix}"


def test_nodes_of_other_plugins_need_no_agent(cluster):
    family = Family("ZETA", Resources("zeta.example/npu"), "hami.io/zeta-devices-allocated")

    class Zeta:
        @hookimpl
        def families(self):
            return [family]

    node = sound.node("zeta")
    node["metadata"] = sound.meta("zeta", "")
    node["status"]["capacity"] = node["status"]["allocatable"] = {"zeta.example/npu": "2"}
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"zeta.example/npu": "1"}}}]}
    pod = sound.pod("user", {**spec, "nodeName": "zeta"}, namespace="default")
    pod["metadata"]["annotations"] = {family.allocated_key: "Z-0,ZETA,1024,100:;", "hami.io/vgpu-node": "zeta"}
    add(cluster, node, pod)
    report = look(cluster, vendors=assembled(Zeta))
    assert "none is needed: other device plugins serve ZETA" in words(said(report, "agents.coverage", "ok"))
    assert not said(report, "agents.left-behind")


# --- missing rights ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted({need for check in CHECKS for need in check.needs}))
def test_forbidden_kind_makes_only_its_checks_unknown(cluster, kind):
    report = look(cluster, **{kind: Seen(problem=f"not allowed to list {kind}")})
    unknown = {f.check for f in report.findings if f.level == "unknown"}
    # `webhook.service` reads endpoints, too.
    assert unknown == {check.name for check in CHECKS if kind in check.needs}
    assert f"not allowed to list {kind}" in words(report.findings)


def test_forbidden_secrets_make_checks_unknown(cluster):
    hidden = {f"{sound.NS}/hami-scheduler-tls": "not allowed to get secrets"}
    report = look(
        cluster, tls_secrets=Lookup({}, hidden), signing_keys=Lookup({}, {f"{sound.NS}/hami-signing": "not allowed"})
    )
    assert {f.check for f in report.findings if f.level == "unknown"} == {"webhook.certificates", "signing.keys"}
    assert report.exit_status() == 0
    assert report.exit_status(strict=True) == 1


def test_missing_vendor_packages_are_unknown(cluster):
    report = look(cluster, vendors=None)
    assert "no vendor package" in words(said(report, "doctor.vendors", "unknown"))


def test_facts_never_hold_a_private_key(cluster):
    shown = repr(facts_of(cluster))
    for name in ("Secret/hami-signing", "Secret/hami-scheduler-tls"):
        for key, value in cluster[name]["data"].items():
            if key.endswith(".key"):
                assert value not in shown


def test_the_documentation_lists_every_check():
    page = (Path(__file__).parents[3] / "docs/reference/doctor.md").read_text()
    listed = set(re.findall(r"^\| `([a-z-]+\.[a-z-]+)` \|", page, re.MULTILINE))
    assert listed == {check.name for check in CHECKS} | {name for name, _ in ON_NODE} | {"doctor.vendors"}


@pytest.mark.parametrize(
    ("limits", "annotations", "told"),
    [
        ({"nvidia.com/gpumem": "10Gi"}, {}, "in MiB that is 10240"),
        ({"nvidia.com/gpumem-percentage": "101"}, {}, "between 0 and 100"),
        ({"nvidia.com/gpumem": "2.5"}, {}, "not a whole number"),
        ({"nvidia.com/gpumem": "3000"}, {"nvidia.com/vgpu-mode": "mig"}, "CardTypeMismatch"),
    ],
)
def test_pods_that_this_version_would_refuse_are_listed(cluster, limits, annotations, told):
    spec = cluster["Pod/train"]["spec"]
    spec["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": "1"} | limits
    cluster["Pod/train"]["metadata"]["annotations"] |= annotations
    found = said(look(cluster), "upgrade.pods", "warn")
    assert "default/train" in words(found)
    assert told in words(found)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("securityContext", {"privileged": True}, "container main is privileged"),
        ("volumeMounts", [{"name": "v", "mountPath": "/usr/local/vgpu/limits"}], "at /usr/local/vgpu/limits"),
    ],
)
def test_pods_that_the_node_would_refuse_are_listed(cluster, field, value, told):
    cluster["Pod/train"]["spec"]["containers"][0][field] = value
    assert told in words(said(look(cluster), "upgrade.pods", "warn"))


def test_upgrade_check_uses_the_clusters_device_config(cluster):
    vendors = load({"nvidia": {"resourceMemoryName": "example.com/mem"}}, only=["nvidia"])
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "10Gi", "example.com/mem": "3Gi"}
    cluster["Pod/train"]["spec"]["containers"][0]["resources"]["limits"] = limits
    found = words(said(look(cluster, vendors=vendors), "upgrade.pods", "warn"))
    assert "example.com/mem" in found
    assert "nvidia.com/gpumem" not in found
