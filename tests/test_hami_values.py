"""Values files of HAMi's charts, of its main branch and of its users: they render, or fail with the reason."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_core.errors import ConfigError
from hami_core.manifests import Chart, Release, render, warnings
from hami_core.manifests.values import joined
from hami_core.settings import AgentSettings, SchedulerSettings, load_device_config

ROOT = Path(__file__).parent.parent
CHART = Chart.read()
RELEASE = Release(kube_version="1.36.3")
SHIPPED = set(json.loads((CHART.path / "files/vendors.json").read_text()))
REGISTRY = {"global": {"imageRegistry": "registry.example"}}
FACTS = (ROOT / "tests/vectors/hami-values-keys.tsv").read_text().splitlines()
VERSIONS = FACTS[0].split("(of ")[1].split(")")[0].split(", ")
KEYS = [line.split("\t") for line in FACTS[1:]]
NEWEST = yaml.safe_load((ROOT / "hami_core/tests/manifests/data/hami-2.10.yaml").read_text())
FORMER: dict[str, Any] = {
    "imagePullSecrets": [],
    "devicePlugin.image": "projecthami/hami",
    "devicePlugin.imagePullPolicy": "IfNotPresent",
    "devicePlugin.monitorimage": "projecthami/hami",
    "devicePlugin.monitorctrPath": "/usr/local/vgpu/containers",
    "devicePlugin.nvidianodeSelector.gpu": "on",
    "devicePlugin.vgpuMonitor.resources": {},
    "devices.ascend.resources": ["huawei.com/Ascend910A", "huawei.com/Ascend910A-memory"],
    "dra.enabled": False,
    "enflameResourceNameVGCU": "enflame.com/vgcu",
    "enflameResourceNameVGCUPercentage": "enflame.com/vgcu-percentage",
    "hami-dra.drivers.nvidia.containerDriver": True,
    "hami-dra.drivers.nvidia.enabled": True,
    "hami-dra.drivers.nvidia.image.repository": "ghcr.io/projecthami/k8s-dra-driver",
    "hami-dra.drivers.nvidia.image.tag": "v0.0.1-dev",
    "hami-dra.monitor.enabled": True,
    "iluvatarResourceCore": "iluvatar.ai/vcuda-core",
    "iluvatarResourceMem": "iluvatar.ai/vcuda-memory",
    "iluvatarResourceName": "iluvatar.ai/vgpu",
    "scheduler.customWebhook.enabled": False,
    "scheduler.customWebhook.host": "127.0.0.1",
    "scheduler.customWebhook.path": "/webhook",
    "scheduler.customWebhook.port": 31998,
    "scheduler.customWebhook.whitelistNamespaces": None,
    "scheduler.defaultCores": 0,
    "scheduler.defaultGPUNum": 1,
    "scheduler.defaultMem": 0,
    "scheduler.extender.image": "projecthami/hami",
    "scheduler.extender.imagePullPolicy": "IfNotPresent",
    "scheduler.kubeScheduler.image": "registry.cn-hangzhou.aliyuncs.com/google_containers/kube-scheduler",
    "scheduler.kubeScheduler.imagePullPolicy": "IfNotPresent",
    "scheduler.kubeScheduler.imageTag": "",
    "scheduler.mutatingWebhookConfiguration.failurePolicy": "Ignore",
    "scheduler.patch.image": "docker.io/jettech/kube-webhook-certgen:v1.5.2",
    "scheduler.patch.imageNew": "liangjw/kube-webhook-certgen:v1.1.1",
    "scheduler.patch.imagePullPolicy": "IfNotPresent",
}
"""Defaults of keys that HAMi's chart 2.10 lacks, or has in another form."""


def put(values: dict[str, Any], key: str, value: Any) -> None:
    *above, last = key.split(".")
    for part in above:
        values = values.setdefault(part, {})
    values[last] = value


def default(key: str, kind: str, version: str) -> Any:
    """HAMi's default."""
    if key in {"version", "global.imageTag"}:
        return f"v{version}"
    if key == "devicePlugin.extraArgs" and VERSIONS.index(version) < VERSIONS.index("2.6.0"):
        return ["-v=false"]
    if key in FORMER and kind != "dict":
        return FORMER[key]
    found: Any = NEWEST
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def complete(version: str) -> dict[str, Any]:
    """A values file with every key of one version of HAMi's chart."""
    values: dict[str, Any] = {}
    at = VERSIONS.index(version)
    for key, first, last, kind in KEYS:
        if VERSIONS.index(first) <= at <= VERSIONS.index(last):
            put(values, key, default(key, kind, version))
    if version == "2.4.0":
        put(values, "scheduler.kubeScheduler.imageTag", "v1.20.0")
    return values


def made(given: dict[str, Any]) -> dict[str, Any]:
    given = joined(given, REGISTRY)
    objects = [manifest.content for manifest in render(CHART, given, RELEASE)]
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in objects}


def told(given: dict[str, Any]) -> list[str]:
    return warnings(CHART, joined(given, REGISTRY), RELEASE)


def container(objects: dict[str, Any], name: str) -> dict[str, Any]:
    pods = [
        each["spec"]["template"]["spec"] for each in objects.values() if each["kind"] in {"Deployment", "DaemonSet"}
    ]
    return next(each for pod in pods for each in pod["containers"] if each["name"] == name)


def refusal(given: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as refused:
        made(given)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_every_template_takes_hamis_keys_first():
    for path in (CHART.path / "templates").iterdir():
        if path.suffix != ".tpl":
            assert path.read_text().startswith('{{- include "hami.values" . -}}\n'), path.name


@pytest.mark.parametrize("version", VERSIONS)
def test_complete_values_of_a_version_make_startable_processes(version, monkeypatch):
    monkeypatch.setenv("NODE_NAME", "n1")
    objects = made(complete(version))
    scheduler, agent = container(objects, "vgpu-scheduler-extender"), container(objects, "device-plugin")
    assert scheduler["image"] == f"registry.example/hami/scheduler:{CHART.meta['appVersion']}"
    assert agent["image"] == f"registry.example/hami/agent-nvidia:{CHART.meta['appVersion']}"
    assert container(objects, "kube-scheduler")["image"].endswith("google_containers/kube-scheduler:v1.36.3")
    settings, _ = SchedulerSettings.from_arguments(scheduler["args"][1:])
    assert set(settings.vendors) == SHIPPED - {"ascend", "iluvatar"}
    AgentSettings.from_arguments(agent["args"][1:])
    load_device_config(objects["ConfigMap/hami-scheduler-device"]["data"]["device-config.yaml"])


@pytest.mark.parametrize("version", VERSIONS)
def test_hamis_defaults_are_not_named_as_ignored(version):
    lines = told(complete(version))
    assert not [line for line in lines if line.startswith("Ignored keys")]
    assert [line for line in lines if "is HAMi's image" in line]
    assert [line for line in lines if f"v{version} is a version of HAMi's" in line]


def other(value: Any) -> Any:
    """A value of the same kind that is no default."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, list):
        return [*value, "other"]
    return {"other": "other"} if isinstance(value, dict) else "other"


def keys_of_hami(group: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "contrib/helm/hami-keys.yaml").read_text())[group]
    return content


def test_ignored_keys_that_were_set_are_named_in_one_line():
    values = {"devicePlugin": {"libPath": "/opt/vgpu", "monitor": {"ctrPath": "/opt"}, "nvidiaHookPath": "/opt/ctk"}}
    [line] = told(values)
    assert line.startswith("Ignored keys: devicePlugin.libPath, devicePlugin.monitor, devicePlugin.nvidiaHookPath (")


@pytest.mark.parametrize("key", [key for key, each in keys_of_hami("ignored").items() if each.get("defaults")])
def test_ignored_key_is_silent_at_hamis_default_only(key):
    entry = keys_of_hami("ignored")[key]
    for value in entry["defaults"]:
        values: dict[str, Any] = {}
        put(values, key, value)
        assert told(values) == []
    if key in {"devicePlugin.deviceListStrategy", "devices.ascend.imagePullPolicy"}:
        put(values, key, {"envvar": "cdi-cri", "IfNotPresent": "Never"}[value])
    elif entry.get("type") == "resource":
        put(values, key, "other/name")
    elif entry["defaults"] != [False, True]:
        put(values, key, other(value))
    else:
        return
    [line] = told(values)
    assert line.startswith(f"Ignored keys: {key} (")


def test_values_of_former_keys_reach_the_objects():
    values: dict[str, Any] = {"imagePullSecrets": [{"name": "pull"}], "version": "1.2.3"}
    put(values, "devicePlugin.nvidianodeSelector", {"a": "b"})
    put(values, "devicePlugin.imagePullPolicy", "Always")
    put(values, "scheduler.kubeScheduler.imageTag", "v1.36.4")
    put(values, "scheduler.customWebhook", {"enabled": True, "host": "10.0.0.1", "port": 31998, "path": "/webhook"})
    put(values, "scheduler.mutatingWebhookConfiguration.failurePolicy", "Ignore")
    put(values, "scheduler.defaultMem", 5000)
    put(values, "hcuResourceName", "hygon.com/hcunum")
    put(values, "devices.hygon.enabled", True)
    put(values, "devices.nvidia.deviceSplitCount", 7)
    objects = made(values)
    agent = objects["DaemonSet/hami-device-plugin"]["spec"]["template"]["spec"]
    assert agent["nodeSelector"] == {"gpu": "on", "a": "b"}
    assert agent["imagePullSecrets"] == [{"name": "pull"}]
    assert agent["containers"][0]["image"].endswith("hami/agent-nvidia:1.2.3")
    assert agent["containers"][0]["imagePullPolicy"] == "Always"
    assert container(objects, "kube-scheduler")["image"].endswith(":v1.36.4")
    webhook = objects["MutatingWebhookConfiguration/hami-webhook"]["webhooks"][0]
    assert webhook["clientConfig"]["url"].startswith("https://10.0.0.1:31998/webhook")
    assert webhook["failurePolicy"] == "Ignore"
    config = load_device_config(objects["ConfigMap/hami-scheduler-device"]["data"]["device-config.yaml"])
    assert config["nvidia"]["defaultMemory"] == 5000
    assert config["nvidia"]["deviceSplitCount"] == 7
    assert "hygon.com/hcunum" in str(container(objects, "vgpu-scheduler-extender")["args"])
    [line] = [line for line in told(values) if line.startswith("Keys with a new name: ")]
    assert "devicePlugin.nvidianodeSelector is now devicePlugin.nvidiaNodeSelector" in line
    assert line.count(" is now ") == 11


def test_old_and_new_key_with_different_values_are_refused():
    values = {"devicePlugin": {"nvidianodeSelector": {"a": "b"}, "nvidiaNodeSelector": {"c": "d"}}}
    assert "devicePlugin.nvidianodeSelector is now devicePlugin.nvidiaNodeSelector" in refusal(values)
    values = {"scheduler": {"kubeScheduler": {"imageTag": "v1.36.4", "image": {"tag": "v1.36.4"}}}}
    assert container(made(values), "kube-scheduler")["image"].endswith(":v1.36.4")


COZYSTACK = {"devicePlugin": {"runtimeClassName": "nvidia", "deviceSplitCount": 10}, "scheduler": {"replicas": 1}}
CONTROL_PLANE = [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}]
LAB_18 = {
    "devicePlugin": {
        "runtimeClassName": "nvidia",
        "createRuntimeClass": False,
        "nvidiaDriverRoot": "/",
        "nvidiaNodeSelector": {"gpu": "on"},
        "tolerations": CONTROL_PLANE,
    },
    "scheduler": {
        "tolerations": CONTROL_PLANE,
        "patch": {"tolerations": CONTROL_PLANE},
        "kubeScheduler": {"image": {"tag": "v1.36.5"}},
    },
}
AKS = {"scheduler": {"admissionWebhook": {"manageNamespaceSelector": False}}}
VLLM = {
    "devicePlugin": {
        "deviceListStrategy": "cdi-annotations",
        "monitor": {"extraArgs": ["-v=4", "--metrics-bind-address=:9394"]},
        "nvidiaDriverRoot": "/run/nvidia/driver",
        "nvidiaHookPath": "/usr/local/nvidia/toolkit/nvidia-ctk",
        "runtimeClassName": "nvidia",
    },
    "prometheus": {"enabled": True},
    "scheduler": {"kubeScheduler": {"imageTag": "v1.36.4"}},
}
GKE = {
    "devicePlugin": {
        "runtimeClassName": "nvidia-cdi",
        "nvidiaDriverRoot": "/home/kubernetes/bin/nvidia",
        "nvidiaNodeSelector": {"gpu": "on", "nvidia.com/gpu.present": "true"},
        "libPath": "/var/lib/hami-vgpu",
    },
    "global": {"gpuHookPath": "/var/lib/hami-vgpu"},
    "monitor": {"ctrPath": "/var/lib/hami-vgpu"},
}


@pytest.mark.parametrize(
    ("values", "ignored"),
    [
        (COZYSTACK, ""),
        (LAB_18, "scheduler.patch"),
        (AKS, ""),
        (VLLM, "devicePlugin.deviceListStrategy, devicePlugin.monitor, devicePlugin.nvidiaHookPath"),
        (GKE, "devicePlugin.libPath, global.gpuHookPath, monitor"),
    ],
    ids=["cozystack", "lab-18", "aks", "k3s-vllm", "gke"],
)
def test_public_values_file_renders_and_names_ignored_keys(values, ignored):
    assert made(copy.deepcopy(values))
    lines = [line for line in told(copy.deepcopy(values)) if line.startswith("Ignored keys: ")]
    assert [line.removeprefix("Ignored keys: ").partition(" (")[0] for line in lines] == ([ignored] if ignored else [])


def test_values_of_hamis_openshift_guide_render():
    constraints = {"securityContextConstraints": {"create": True, "name": "hami-device-plugin"}}
    selinux = {"enabled": True, "type": "container_file_t", "level": "s0"}
    values = {"platform": {"openshift": True}, "openshift": constraints, "selinux": selinux}
    assert told(copy.deepcopy(values)) == []
    assert "SecurityContextConstraints/hami-device-plugin" in made(values)


def test_keys_of_hamis_main_branch_render():
    values = {
        "scheduler": {
            "kubeQPS": 50,
            "kubeBurst": "60",
            "kubeTimeout": "",
            "nodeLockRetryTimeout": "20s",
            "extenderHTTPTimeout": 40,
            "extenderPort": 9444,
            "replicas": 2,
            "podDisruptionBudget": {"minAvailable": 1},
            "networkPolicy": {"enabled": True},
            "service": {"type": "ClusterIP", "monitorTargetPort": "metrics", "httpTargetPort": 9443},
        },
        "devicePlugin": {
            "nvidiaDriverRoot": "auto",
            "numaRefit": {"enabled": False, "schedulerEndpoint": "", "tlsInsecure": True, "caFile": "", "caSecret": ""},
            "hostPIDBroker": {"enabled": False},
        },
        "devices": {"mthreads": {"memoryPerCard": [96, 160]}, "hygon": {"memoryFactor": 2}},
    }
    objects = made(copy.deepcopy(values))
    arguments = container(objects, "vgpu-scheduler-extender")["args"]
    settings, _ = SchedulerSettings.from_arguments(arguments[1:])
    assert (settings.kube_qps, settings.kube_burst) == (50, 60)
    assert (settings.node_lock_retry_timeout, settings.extender_timeout) == (20, 40)
    config = yaml.safe_load(objects["ConfigMap/hami-scheduler"]["data"]["config.yaml"])
    [extender] = config["extenders"]
    assert extender["httpTimeout"] == "40s"
    assert extender["urlPrefix"].endswith(":9444")
    budget = objects["PodDisruptionBudget/hami-scheduler"]["spec"]
    assert budget["minAvailable"] == 1
    assert "maxUnavailable" not in budget
    assert "NetworkPolicy/hami-scheduler" in objects
    assert {"name": "HAMI_NVIDIA_DRIVER_ROOT", "value": "auto"} in container(objects, "device-plugin")["env"]
    assert [line.partition(":")[0] for line in told(values)] == [
        "devicePlugin.nvidiaDriverRoot",
        "Keys with a new name",
    ]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("devicePlugin.image", {"registry": "harbor.example", "repository": "projecthami/hami"}, "an image of HAMi's"),
        ("devicePlugin.image", {"repository": "mirror/projecthami/hami"}, "an image of HAMi's"),
        ("devicePlugin.image", {"repository": "projecthami/hami", "tag": "v2.9.0"}, "an image of HAMi's"),
        ("devicePlugin.image", "radondb/hami", "name a copy of the image hami/agent-nvidia"),
        ("scheduler.extender.image", {"tag": "v2.10.0"}, "a version of HAMi's, not of the image hami/scheduler"),
        ("devicePlugin.mode", "adopt", "needs devicePlugin.adoptBefore"),
        ("devicePlugin.mode", "trust", "needs devicePlugin.trustSchedulers"),
        ("devicePlugin.nodeConfiguration.config", "nodeconfig: []", "is not a JSON object"),
        ("scheduler.metricsBindAddress", ":8443", "port 8443 is also scheduler.metricsBindAddress"),
        ("devices.ascend", {"enabled": True, "configs": []}, "devices.ascend.configs: is empty"),
        ("devices.iluvatar", {"enabled": True, "configs": []}, "devices.iluvatar.configs: is empty"),
        ("dra.enabled", True, "the chart has no DRA driver"),
        ("resourceName", "nvidia", "resourceName: 'nvidia' does not match"),
    ],
)
def test_value_that_would_stop_a_process_is_refused(key, value, words):
    values: dict[str, Any] = {}
    put(values, key, value)
    text = refusal(values)
    assert words in text
    assert "execution error" not in text


def test_old_kube_scheduler_gives_way_to_the_clusters_version():
    values = {"scheduler": {"kubeScheduler": {"image": "registry.example/kube-scheduler", "imageTag": "v1.20.0"}}}
    assert container(made(values), "kube-scheduler")["image"] == "registry.example/kube-scheduler:v1.36.3"
    assert any("v1.20.0 can't read this chart's configuration" in line for line in told(values))


def test_any_port_below_1024_comes_with_its_sysctl():
    pod = made({"scheduler": {"metricsBindAddress": ":80"}})["Deployment/hami-scheduler"]["spec"]["template"]["spec"]
    assert [each["value"] for each in pod["securityContext"]["sysctls"]] == ["80"]
