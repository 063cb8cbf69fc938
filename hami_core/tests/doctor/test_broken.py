"""Breaks one thing of a sound cluster in each case, and checks the finding's level and text."""

from __future__ import annotations

import copy
from datetime import timedelta

import pytest
import trustme
from hami_nvidia import rules

from hami_core.doctor.examine import CHECKS
from hami_core.tests.doctor import sound
from hami_core.tests.doctor.conftest import look, said, words
from hami_core.tests.doctor.spoil import (
    HOOKS,
    SCHEDULER,
    add,
    argument,
    ask,
    configure,
    counting_kube_scheduler_elsewhere,
    dead,
    device_config,
    event,
    every_agent,
    extender,
    foreign_keys,
    foreign_plugin,
    hami_itself,
    hamis_plugin,
    hook,
    info,
    keyless,
    managed,
    no_kube_scheduler,
    other_webhook,
    pending,
    quota,
    runtime_class,
    second_kube_scheduler,
    service,
    tampered,
    waiting,
)
from hami_core.wire import keys


def garbled(cluster, text):
    cluster["Pod/train"]["metadata"]["annotations"][rules.ALLOCATED] = text


BROKEN = [
    # check, level, text that the finding must contain, function that breaks the cluster
    ("scheduler.pods", "fail", "CrashLoopBackOff", dead),
    ("scheduler.leader", "fail", "does not exist, so no replica binds", lambda c: c.pop("Lease/hami-scheduler")),
    (
        "scheduler.leader",
        "fail",
        "renewed 300 s ago",
        lambda c: add(c, sound.lease("hami-scheduler", "hami-scheduler-1_a", 300)),
    ),
    (
        "scheduler.leader",
        "fail",
        "none of our scheduler's pods",
        lambda c: add(c, sound.lease("hami-scheduler", "elsewhere_a")),
    ),
    (
        "scheduler.leader",
        "fail",
        "2 replicas bind at once",
        lambda c: (
            argument(c, SCHEDULER, "leader-elect", "false"),
            add(c, {**copy.deepcopy(c[SCHEDULER]), "metadata": sound.meta("second", uid="uid-second")}),
        ),
    ),
    (
        "install.versions",
        "warn",
        "0.2.0 (1)",
        lambda c: c["Pod/agent-n1"]["spec"]["containers"][0].update(image="hami/agent-nvidia:0.2.0"),
    ),
    ("kube-scheduler.settings", "fail", "hami-scheduler does not exist", lambda c: c.pop("ConfigMap/hami-scheduler")),
    (
        "kube-scheduler.settings",
        "fail",
        "not YAML",
        lambda c: c["ConfigMap/hami-scheduler"]["data"].update({"config.yaml": "a: [b"}),
    ),
    (
        "kube-scheduler.settings",
        "warn",
        "percentageOfNodesToScore 50",
        lambda c: configure(c, percentageOfNodesToScore=50),
    ),
    ("kube-scheduler.settings", "warn", "podMaxBackoffSeconds 10", lambda c: configure(c, podMaxBackoffSeconds=10)),
    ("kube-scheduler.settings", "fail", "nodeCacheCapable False", lambda c: extender(c, nodeCacheCapable=False)),
    ("kube-scheduler.settings", "fail", "bindVerb not set", lambda c: extender(c, bindVerb="")),
    ("kube-scheduler.settings", "warn", "prioritizeVerb not set", lambda c: extender(c, prioritizeVerb="")),
    ("kube-scheduler.settings", "warn", "httpTimeout 5s", lambda c: extender(c, httpTimeout="5s")),
    (
        "kube-scheduler.settings",
        "fail",
        "managedResources[nvidia.com/gpumem] ignoredByScheduler is not true",
        lambda c: extender(c, managedResources=[{"name": "nvidia.com/gpu"}, {"name": "nvidia.com/gpumem"}]),
    ),
    (
        "kube-scheduler.settings",
        "warn",
        "managedResources[nvidia.com/gpu] ignoredByScheduler is not true set ignoredByScheduler: true;",
        lambda c: extender(c, managedResources=managed("nvidia.com/gpu")),
    ),
    (
        "kube-scheduler.settings",
        "warn",
        "ConfigMap kube-system/other-config extenders[0].managedResources[nvidia.com/gpu]",
        counting_kube_scheduler_elsewhere,
    ),
    ("kube-scheduler.settings", "unknown", "no other pod's kube-scheduler was seen", no_kube_scheduler),
    (
        "kube-scheduler.settings",
        "fail",
        "missing: nvidia.com/gpucores",
        lambda c: extender(c, managedResources=[{"name": "nvidia.com/gpu"}]),
    ),
    (
        "kube-scheduler.settings",
        "warn",
        "mthreads.com/vgpu: no vendor known here serves it",
        lambda c: extender(c, managedResources=[*managed(), {"name": "mthreads.com/vgpu", "ignoredByScheduler": True}]),
    ),
    (
        "kube-scheduler.settings",
        "fail",
        "no extender manages",
        lambda c: c["ConfigMap/hami-scheduler"]["data"].update(
            {"config.yaml": "profiles: [{schedulerName: hami-scheduler}]"}
        ),
    ),
    (
        "kube-scheduler.settings",
        "fail",
        "the webhook writes hami-scheduler",
        lambda c: configure(c, profiles=[{"schedulerName": "gpu"}]),
    ),
    ("kube-scheduler.profiles", "fail", "hami-scheduler is served by", second_kube_scheduler),
    ("webhook.present", "fail", "no webhook is named vgpu.hami.io", lambda c: c.pop(HOOKS)),
    ("webhook.present", "fail", "does not cover CREATE", lambda c: hook(c, rules=[])),
    (
        "webhook.present",
        "warn",
        "does not cover UPDATE of pods/ephemeralcontainers",
        lambda c: c[HOOKS]["webhooks"][0]["rules"].pop(),
    ),
    (
        "webhook.present",
        "warn",
        "a second webhook, served by kube-system/old",
        lambda c: add(
            c,
            sound.webhook_configuration(
                "old",
                sound.webhook(
                    clientConfig={"service": {"namespace": "kube-system", "name": "old", "path": "/webhook"}}
                ),
            ),
        ),
    ),
    ("webhook.failure-policy", "fail", "failurePolicy Ignore", lambda c: hook(c, failurePolicy="Ignore")),
    ("webhook.failure-policy", "warn", "matchConditions none", lambda c: hook(c, matchConditions=[])),
    (
        "webhook.failure-policy",
        "warn",
        "do not name nvidia.com/gpu",
        lambda c: hook(c, matchConditions=[{"name": "x", "expression": "'nvidia.com/gpumem-percentage' in object"}]),
    ),
    (
        "webhook.failure-policy",
        "warn",
        "Ignore, for pods that name none of our resources",
        lambda c: c[HOOKS]["webhooks"].append(sound.webhook("others.vgpu.hami.io", failurePolicy="Ignore")),
    ),
    ("webhook.service", "fail", "does not exist", lambda c: c.pop("Service/hami-scheduler")),
    (
        "webhook.service",
        "fail",
        "has no port 444",
        lambda c: service(c, service={"namespace": sound.NS, "name": "hami-scheduler", "port": 444}),
    ),
    ("webhook.service", "fail", "endpoints none", lambda c: c.pop("EndpointSlice/hami-scheduler-x")),
    (
        "webhook.service",
        "fail",
        "none ready",
        lambda c: c["EndpointSlice/hami-scheduler-x"]["endpoints"][0].update(conditions={"ready": False}),
    ),
    ("webhook.certificates", "fail", "caBundle empty", lambda c: service(c, caBundle="")),
    ("webhook.certificates", "fail", "holds no certificate", lambda c: service(c, caBundle="bm9uZQ==")),
    (
        "webhook.certificates",
        "fail",
        "not issued by",
        lambda c: service(c, caBundle=sound.b64(trustme.CA().cert_pem.bytes())),
    ),
    ("webhook.certificates", "fail", "does not exist", lambda c: c.pop("Secret/hami-scheduler-tls")),
    (
        "webhook.certificates",
        "fail",
        "not for hami-scheduler.hami-system.svc",
        lambda c: add(c, sound.tls_secret("elsewhere.svc")),
    ),
    (
        "webhook.certificates",
        "fail",
        "expired",
        lambda c: add(
            c, sound.tls_secret(not_before=sound.NOW - timedelta(days=9), not_after=sound.NOW - timedelta(days=1))
        ),
    ),
    (
        "webhook.certificates",
        "warn",
        "expires",
        lambda c: add(
            c, sound.tls_secret(not_before=sound.NOW - timedelta(days=90), not_after=sound.NOW + timedelta(days=2))
        ),
    ),
    ("webhook.order", "warn", "istio-injector change pods after ours", lambda c: other_webhook(c, "istio-injector")),
    ("policy.system-keys", "fail", "none protects", lambda c: c.pop("ValidatingAdmissionPolicy/hami-system-keys")),
    (
        "policy.system-keys",
        "fail",
        "binding does not exist",
        lambda c: c.pop("ValidatingAdmissionPolicyBinding/hami-system-keys"),
    ),
    (
        "policy.system-keys",
        "fail",
        "nothing is refused",
        lambda c: c["ValidatingAdmissionPolicyBinding/hami-system-keys"]["spec"].update(validationActions=["Audit"]),
    ),
    (
        "policy.system-keys",
        "warn",
        "UPDATE pods/status",
        lambda c: c["ValidatingAdmissionPolicy/hami-system-keys"]["spec"]["matchConstraints"]["resourceRules"][
            0
        ].update(resources=["pods"]),
    ),
    (
        "agents.coverage",
        "fail",
        "kubectl label node n3 gpu=on",
        lambda c: add(
            c, {**sound.node("n3"), "metadata": sound.meta("n3", "", labels={"nvidia.com/gpu.present": "true"})}
        ),
    ),
    (
        "agents.coverage",
        "fail",
        "agent-n1 is not ready",
        lambda c: c["Pod/agent-n1"].update(status=sound.ready(well=False)),
    ),
    ("agents.lease", "warn", "hami-agent-nvidia.n1", lambda c: c.pop("Lease/hami-agent-nvidia.n1")),
    ("agents.lease", "fail", "renewed 900 s ago", lambda c: add(c, sound.lease("hami-agent-nvidia.n1", "n1", 900))),
    ("agents.lease", "warn", "in the future", lambda c: add(c, sound.lease("hami-agent-nvidia.n1", "n1", -3600))),
    (
        "agents.mode",
        "warn",
        "serial",
        lambda c: c["Node/n1"]["metadata"]["annotations"].update({keys.agent_mode("nvidia"): "serial"}),
    ),
    (
        "agents.mode",
        "warn",
        "not set",
        lambda c: c["Node/n1"]["metadata"]["annotations"].pop(keys.agent_mode("nvidia")),
    ),
    (
        "agents.standing",
        "warn",
        "unregistered: the node gets no pods until",
        lambda c: c["Node/n1"]["metadata"]["labels"].update({"hami.io/agent-nvidia": "unregistered"}),
    ),
    (
        "agents.standing",
        "fail",
        "no agent has come back",
        lambda c: (
            c["Node/n1"]["metadata"]["labels"].update({"hami.io/agent-nvidia": "stopping"}),
            c.pop("Pod/agent-n1"),
        ),
    ),
    ("agents.trust", "warn", "adopt", lambda c: every_agent(c, "mode", "adopt")),
    ("agents.trust", "warn", "trust:hami-scheduler", lambda c: every_agent(c, "mode", "trust:hami-scheduler")),
    ("agents.trust", "warn", "limits do not bind", lambda c: every_agent(c, "enforcement", "observe")),
    (
        "agents.register",
        "fail",
        "the kubelet offers 0 nvidia.com/gpu",
        lambda c: c["Node/n1"]["status"]["allocatable"].update({"nvidia.com/gpu": "0"}),
    ),
    (
        "agents.register",
        "warn",
        "unhealthy: GPU-0",
        lambda c: c["Node/n1"]["metadata"]["annotations"].update({rules.REGISTER: sound.register(health=False)}),
    ),
    (
        "agents.register",
        "warn",
        "not offered: GPU-0, GPU-1: card is in MIG mode",
        lambda c: c["Node/n1"]["metadata"]["annotations"].update(
            {rules.REGISTER: sound.register(not_offered="card is in MIG mode")}
        ),
    ),
    (
        "agents.register",
        "warn",
        "GPU-0, GPU-1 in mode mig: our agent gives out no partition",
        lambda c: (
            c.pop("Pod/agent-n1"),
            c["Node/n1"]["metadata"]["annotations"].update({rules.REGISTER: sound.register(mode="mig")}),
        ),
    ),
    (
        "agents.register",
        "fail",
        rules.REGISTER,
        lambda c: c["Node/n1"]["metadata"]["annotations"].update({rules.REGISTER: "[{"}),
    ),
    ("agents.left-behind", "warn", "default/train", lambda c: c.pop("Pod/agent-n1")),
    ("signing.keys", "fail", "lacks the scheduler's key", keyless),
    ("signing.keys", "fail", "does not exist", lambda c: c.pop("ConfigMap/hami-signing-keys")),
    ("signing.keys", "fail", "--signing-keys not set", lambda c: every_agent(c, "signing-keys", None)),
    ("signing.keys", "fail", "allocations are not signed", lambda c: argument(c, SCHEDULER, "signing-secret", None)),
    ("pods.signatures", "fail", "valid keys", foreign_keys),
    ("pods.signatures", "unknown", "1 signed allocations", lambda c: c.pop("ConfigMap/hami-signing-keys")),
    ("pods.signatures", "fail", "does not belong to this allocation", tampered),
    ("pods.signatures", "warn", "1 unsigned: default/old", lambda c: add(c, sound.user_pod("old", signed=False))),
    ("node.ready", "warn", "cordoned", lambda c: c["Node/n1"].update(spec={"unschedulable": True})),
    (
        "node.ready",
        "fail",
        "KubeletNotReady",
        lambda c: c["Node/n1"]["status"].update(
            conditions=[{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]
        ),
    ),
    (
        "node.ready",
        "warn",
        "DiskPressure",
        lambda c: c["Node/n1"]["status"]["conditions"].append({"type": "DiskPressure", "status": "True"}),
    ),
    ("node.kubelet", "fail", "v1.28.9", lambda c: info(c, kubeletVersion="v1.28.9")),
    ("node.kubelet", "warn", "v1.37.0 is not tested", lambda c: info(c, kubeletVersion="v1.37.0")),
    (
        "node.runtime",
        "fail",
        "containerd://1.6.20 has no CDI",
        lambda c: info(c, containerRuntimeVersion="containerd://1.6.20"),
    ),
    (
        "node.runtime",
        "warn",
        "enable_cdi = true",
        lambda c: info(c, "n2", containerRuntimeVersion="containerd://1.7.24"),
    ),
    ("node.runtime", "fail", "use containerd or cri-o", lambda c: info(c, containerRuntimeVersion="docker://24.0.7")),
    ("node.runtime", "fail", "upgrade to cri-o 1.23", lambda c: info(c, containerRuntimeVersion="cri-o://1.22.1")),
    ("node.runtime", "unknown", "youki", lambda c: info(c, containerRuntimeVersion="youki://1.0")),
    ("node.cgroups", "warn", "version 1 on n1", lambda c: add(c, event("CgroupV1", "Node", "n1"))),
    ("collision.hami", "fail", "ReplicaSet/hami-1", hami_itself),
    ("collision.hami", "fail", "DaemonSet/hami-device-plugin", lambda c: hamis_plugin(c, "n1")),
    ("collision.hami", "warn", "serves nodes without our agent (n3)", lambda c: hamis_plugin(c, "n3")),
    ("agents.coverage", "warn", "HAMi's own device plugin serves it", lambda c: hamis_plugin(c, "n3")),
    (
        "agents.coverage",
        "fail",
        "no agent runs there",
        lambda c: (
            hamis_plugin(c, "n3"),
            c["Node/n3"]["metadata"]["labels"].update({"hami.io/agent-nvidia": "stopping"}),
        ),
    ),
    ("collision.device-plugin", "fail", "runs beside our agent on n1", foreign_plugin),
    ("collision.device-plugin", "warn", "runs on n9", lambda c: foreign_plugin(c, "n9")),
    (
        "collision.gpu-operator",
        "fail",
        "devicePlugin.enabled=false",
        lambda c: (
            foreign_plugin(c),
            add(
                c,
                sound.pod(
                    "gpu-operator-1",
                    {"containers": [{"name": "gpu-operator", "image": "nvcr.io/nvidia/gpu-operator:v25"}]},
                    namespace="gpu-operator",
                ),
            ),
        ),
    ),
    (
        "collision.dcgm-exporter",
        "warn",
        "DCGM_EXPORTER_KUBERNETES=false",
        lambda c: add(
            c,
            sound.pod(
                "dcgm-1",
                {"containers": [{"name": "exporter", "image": "nvcr.io/nvidia/k8s/dcgm-exporter:4.2"}]},
                namespace="gpu-operator",
            ),
        ),
    ),
    (
        "collision.nested-containers",
        "warn",
        "default/train",
        lambda c: c["Pod/train"]["spec"]["containers"].append({"name": "d", "image": "docker:dind"}),
    ),
    (
        "collision.nested-containers",
        "warn",
        "default/train",
        lambda c: c["Pod/train"]["spec"].update(volumes=[{"name": "s", "hostPath": {"path": "/var/run/docker.sock"}}]),
    ),
    (
        "collision.sandbox",
        "fail",
        "handler kata-qemu",
        lambda c: (
            c["Pod/train"]["spec"].update(runtimeClassName="secure"),
            add(c, runtime_class("secure", "kata-qemu")),
        ),
    ),
    ("pods.pending", "warn", "CardInsufficientMemory", pending),
    ("pods.pending", "fail", "has not tried it", lambda c: pending(c, message="")),
    (
        "pods.scheduler",
        "warn",
        "volcano: default/elsewhere",
        lambda c: add(c, sound.user_pod("elsewhere", scheduler="volcano")),
    ),
    ("pods.unallocated", "fail", "default/train", lambda c: c["Pod/train"]["metadata"].update(annotations={})),
    ("pods.allocations", "fail", "invalid memory field", lambda c: garbled(c, "GPU-0,NVIDIA,sixty,0:;")),
    ("pods.allocations", "fail", "0 devices in the list, the pod asks for 1", lambda c: garbled(c, "")),
    ("pods.allocations", "fail", "the node has no device 'GPU-9'", lambda c: garbled(c, "GPU-9,NVIDIA,1000,30:;")),
    (
        "pods.allocations",
        "fail",
        "until then n1 takes no new NVIDIA pods",
        lambda c: c["Pod/train"]["metadata"]["annotations"].update({keys.MIG_ALLOCATIONS: "[{"}),
    ),
    (
        "pods.refused",
        "fail",
        "no allocation",
        lambda c: waiting(c, "device plugin PreStartContainer rpc failed: no allocation"),
    ),
    (
        "pods.refused",
        "warn",
        "UnexpectedAdmissionError",
        lambda c: c["Pod/train"].update(status={"phase": "Failed", "reason": "UnexpectedAdmissionError"}),
    ),
    (
        "pods.unlimited",
        "fail",
        "runs without its limits",
        lambda c: add(c, event("DevicesUnlimited", "Pod", "train", "main runs without its limits")),
    ),
    (
        "scheduler.device-config",
        "fail",
        "nvidia.gpuCorePolicy: 'farce' is none of",
        lambda c: device_config(c, "nvidia: {gpuCorePolicy: farce}\n"),
    ),
    ("scheduler.device-config", "fail", "duplicate key", lambda c: device_config(c, "nvidia: {}\nnvidia: {}\n")),
    ("upgrade.pods", "warn", "main: nvidia.com/gpumem", lambda c: ask(c, "8Gi")),
    ("quota.names", "warn", "limits.nvidia.com/gpumem", lambda c: add(c, quota("requests.nvidia.com/gpumem"))),
    ("quota.names", "warn", "limits.nvidia.com/gpumem?", lambda c: add(c, quota("limits.nvidia.com/gpumemory"))),
    ("quota.names", "warn", "limits.nvidia.com/gpucores?", lambda c: add(c, quota("requests.nvidia.com/gpucore"))),
    ("quota.names", "warn", "gpumem-percentage", lambda c: add(c, quota("limits.nvidia.com/gpumem-percentage"))),
    ("quota.names", "warn", "limits.nvidia.com/gpu", lambda c: add(c, quota("nvidia.com/gpu"))),
    ("quota.names", "fail", "10240", lambda c: add(c, quota("limits.nvidia.com/gpumem", "10Gi"))),
    ("quota.names", "fail", "477", lambda c: add(c, quota("limits.nvidia.com/gpumem", "500M"))),
]


@pytest.mark.parametrize(
    ("check", "level", "expected", "spoil"), BROKEN, ids=[f"{b[0]}-{i}" for i, b in enumerate(BROKEN)]
)
def test_broken_object_is_named_with_field_and_fix(cluster, check, level, expected, spoil):
    spoil(cluster)
    report = look(cluster)
    found = said(report, check, level)
    assert expected in words(found), words(report.findings)
    assert all(f.fix for f in found if f.level in {"fail", "warn"})
    assert report.exit_status(strict=True) == 1
    assert report.exit_status() == (1 if any(f.level == "fail" for f in report.findings) else 0)


def test_every_check_has_a_case_that_breaks_it():
    whole = {"cluster.version", "scheduler.role", "collision.programs"}  # findings about programs have their own names
    assert {c.name for c in CHECKS} - {b[0] for b in BROKEN} == whole


def test_unserved_resource_in_managed_resources_is_accepted(cluster):
    mthreads = {"name": "mthreads.com/vgpu", "ignoredByScheduler": True}
    extender(cluster, managedResources=[*managed(), mthreads])
    argument(cluster, SCHEDULER, "managed-resources", "nvidia.com/gpu,mthreads.com/vgpu")
    assert "mthreads" not in words(look(cluster).findings)
