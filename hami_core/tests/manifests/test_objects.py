"""The objects that values make."""

from __future__ import annotations

import copy
import itertools
import json
import re
from pathlib import Path

import pytest
import yaml
from hami_ascend.config import CHIPS, AscendConfig
from hami_nvidia.config import NvidiaConfig

from hami_core.compatibility import HAMI
from hami_core.errors import ConfigError
from hami_core.manifests import Chart, Release
from hami_core.manifests.helm import rendered
from hami_core.manifests.values import assign, joined
from hami_core.plugins import load
from hami_core.policies import DEVICE_POLICIES, NODE_POLICIES
from hami_core.settings import AgentSettings, SchedulerSettings, load_device_config
from hami_core.tests.manifests.registry import chart_of_image, render, warnings, with_registry
from hami_core.wire import keys

CHART = Chart.read()
HAMIS = Path(__file__).parent / "data/hami-2.10.yaml"
NVIDIA = [
    "nvidia.com/gpu",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    "nvidia.com/priority",
]
VENDORS = sorted(name for name, value in CHART.values["devices"].items() if isinstance(value, dict))
SHIPPED = json.loads((CHART.path / "files/vendors.json").read_text())
SWITCHED = [vendor for vendor in VENDORS if vendor != "nvidia"]
OFF = [f"devices.{vendor}.enabled=false" for vendor in SWITCHED]


def of_hami():
    """HAMi's complete values file, and our registry."""
    return joined(yaml.safe_load(HAMIS.read_text()), {"global": {"imageRegistry": "registry.example"}})


def made(*settings, **how):
    given, chart = how.pop("values", {}), how.pop("chart", CHART)
    for setting in settings:
        assign(given, setting)
    release = Release(**({"kube_version": "1.36.3"} | how))
    found = {}
    for manifest in render(chart, given, release):
        kind, meta = manifest.content["kind"], manifest.content["metadata"]
        key = f"{kind}/{meta['name']}"
        assert key not in found
        found[key] = manifest.content
    return found


def container(objects, kind, name):
    pods = [o["spec"]["template"]["spec"] for key, o in objects.items() if key.startswith(kind)]
    return next(c for pod in pods for c in pod["containers"] if c["name"] == name)


def test_names_are_hamis():
    assert {key for key in made() if key.split("/")[0] in {"Deployment", "DaemonSet", "Service", "ConfigMap"}} == {
        "Deployment/hami-scheduler",
        "DaemonSet/hami-device-plugin",
        "Service/hami-scheduler",
        "Service/hami-device-plugin-monitor",
        "ConfigMap/hami-scheduler",
        "ConfigMap/hami-scheduler-device",
        "ConfigMap/hami-device-plugin",
    }
    assert "Deployment/other-hami-scheduler" in made(name="other")
    assert "Deployment/mine-scheduler" in made("fullnameOverride=mine")


def test_a_values_file_of_hami_is_taken_as_it_is():
    objects = made(values=of_hami())
    assert container(objects, "Deployment", "kube-scheduler")["image"].endswith(":v1.36.3")
    service = objects["Service/hami-scheduler"]["spec"]
    assert [port["nodePort"] for port in service["ports"]] == [31998, 31993]
    webhook = objects["MutatingWebhookConfiguration/hami-webhook"]["webhooks"][0]
    assert webhook["failurePolicy"] == "Ignore"
    assert "ServiceAccount/hami-scheduler" not in objects


def test_every_key_of_hami_is_described():
    def walk(values, schema, path):
        for key, value in values.items():
            below = schema["properties"][key]
            if "description" not in below:
                walk(value, below, (*path, key))

    walk(yaml.safe_load(HAMIS.read_text()), CHART.schema, ())


# --- processes get settings they know


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("scheduler.certManager.enabled=true", "scheduler.leaderElect=false", "legacyMetrics=true"),
        (
            "scheduler.kubeScheduler.enabled=false",
            "scheduler.certManager.enabled=true",
            "scheduler.extender.clientCASecret=ca",
        ),
        ("scheduler.admissionWebhook.customURL.enabled=true", "scheduler.nodeLabelSelector.gpu=on"),
        ("scheduler.admissionWebhook.enabled=false", "scheduler.filterReturn=all"),
        ("prometheus.tokenSecret=token", "global.managedNodeSelectorEnable=true"),
        ("devicePlugin.mode=adopt", "devicePlugin.adoptBefore=2026-01-01T00:00:00Z"),
        ("devicePlugin.mode=trust", "devicePlugin.trustSchedulers={a,b}", "devicePlugin.serial=always"),
    ],
)
def test_the_processes_know_their_arguments(settings, monkeypatch):
    monkeypatch.setenv("NODE_NAME", "n1")
    objects = made(*settings)
    word, *arguments = container(objects, "Deployment", "vgpu-scheduler-extender")["args"]
    assert word == "scheduler"
    parsed, warnings = SchedulerSettings.from_arguments(arguments)
    assert not warnings
    assert parsed.scheduler_name == "hami-scheduler"
    word, *arguments = container(objects, "DaemonSet", "device-plugin")["args"]
    assert word == "agent"
    _, warnings = AgentSettings.from_arguments(arguments)
    assert not warnings


def test_the_device_config_is_one():
    objects = made("scheduler.overwriteEnv=true", "devicePlugin.disablecorelimit=true", "devices.ascend.enabled=true")
    config = load_device_config(objects["ConfigMap/hami-scheduler-device"]["data"]["device-config.yaml"])
    assert config["nvidia"]["resourceCountName"] == "nvidia.com/gpu"
    assert config["nvidia"]["overwriteEnv"] is True
    assert config["nvidia"]["disableCoreLimit"] is True
    sections = {"iluvatar": "iluvatars", "ascend": "vnpus"}
    assert set(config) == {sections.get(name, name) for name in SHIPPED if name != "iluvatar"}
    own = made(values={"device-config": {"content": "nvidia:\n  deviceSplitCount: 3\n"}})
    text = own["ConfigMap/hami-scheduler-device"]["data"]["device-config.yaml"]
    assert load_device_config(text)["nvidia"] == {"deviceSplitCount": 3}


# --- resource names


def scheduler_config(objects):
    return yaml.safe_load(objects["ConfigMap/hami-scheduler"]["data"]["config.yaml"])


def managed(objects):
    return scheduler_config(objects)["extenders"][0]["managedResources"]


def test_kube_scheduler_is_set_as_the_extender_needs_it():
    config = scheduler_config(made())
    assert config["percentageOfNodesToScore"] == 100
    assert config["podMaxBackoffSeconds"] == 3
    assert config["leaderElection"] == {
        "leaderElect": True, "resourceName": "hami-scheduler", "resourceNamespace": "kube-system"
    }  # fmt: skip
    extender = config["extenders"][0]
    assert extender["urlPrefix"] == "http://127.0.0.1:8080"
    assert extender["nodeCacheCapable"] is True
    assert {extender[verb] for verb in ("filterVerb", "prioritizeVerb", "bindVerb")} == {"filter", "prioritize", "bind"}


def test_kube_scheduler_counts_none_of_our_resources():
    for settings in (
        (),
        ("scheduler.vendorPackages={mthreads}", "devices.ascend.enabled=true", "devices.customresources={a/b}"),
    ):
        assert all(resource["ignoredByScheduler"] is True for resource in managed(made(*settings)))
    names = {resource["name"] for resource in managed(made("scheduler.vendorPackages={mthreads}"))}
    assert {"cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore"} <= names
    assert {"mthreads.com/vgpu", "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core"} <= names


def is_on(vendor):
    """Settings that let the scheduler serve a vendor, whose package our image may lack while it is being written."""
    packages = () if vendor in SHIPPED else (f"scheduler.vendorPackages={{{vendor}}}",)
    return (f"devices.{vendor}.enabled=true", *packages)


@pytest.mark.parametrize("vendor", SWITCHED)
def test_webhook_and_kube_scheduler_name_the_same_resources(vendor):
    plain, more = made(*OFF), made(*OFF, *is_on(vendor))
    added = {resource["name"] for resource in managed(more)} - {resource["name"] for resource in managed(plain)}
    assert added
    for objects, there in ((plain, False), (more, True)):
        hook = objects["MutatingWebhookConfiguration/hami-webhook"]["webhooks"][0]
        expression = hook["matchConditions"][0]["expression"]
        assert all((json.dumps(name) in expression) is there for name in added)
        assert all(json.dumps(name) in expression for name in NVIDIA)
        assert set(scheduler_settings(objects).vendors) == ({"nvidia", vendor} if there else {"nvidia"})


def names_of(objects):
    return {resource["name"] for resource in managed(objects)}


def scheduler_settings(objects):
    word, *arguments = container(objects, "Deployment", "vgpu-scheduler-extender")["args"]
    assert word == "scheduler"
    return SchedulerSettings.from_arguments(arguments)[0]


def served(objects):
    """Resources that the scheduler in these objects serves, with its vendors and device-config."""
    config = load_device_config(objects["ConfigMap/hami-scheduler-device"]["data"]["device-config.yaml"])
    loaded = load(config, only=scheduler_settings(objects).vendors)
    return {name for family in loaded.families.values() for name in family.resources.names()}


@pytest.mark.parametrize("vendor", SWITCHED)
def test_resources_of_a_vendor_without_a_package_are_refused(vendor, tmp_path):
    chart = chart_of_image(tmp_path / "chart", "nvidia")
    plain, more = made(*OFF, chart=chart), made(*OFF, f"devices.{vendor}.enabled=true", chart=chart)
    assert scheduler_settings(more).vendors == scheduler_settings(plain).vendors
    unserved = names_of(more) - served(more)
    assert unserved == names_of(more) - names_of(plain)
    assert unserved


CHIP = {
    "chipName": "BI-V200",
    "commonWord": "BI-V200",
    "resourceCountName": "a.b/c",
    "resourceMemoryName": "a.b/m",
    "resourceCoreName": "a.b/p",
}
RENAMED = {
    "amd": {
        "devices": {"amd": {"resourceCountName": "a.b/c", "resourceMemoryName": "a.b/m", "resourceCoreName": "a.b/p"}}
    },
    "awsneuron": {"devices": {"awsneuron": {"resourceCountName": "a.b/c", "resourceCoreName": "a.b/p"}}},
    "biren": {"birenResourceName": "a.b/c"},
    "cambricon": {"mluResourceName": "a.b/c", "mluResourceMem": "a.b/m", "mluResourceCores": "a.b/p"},
    "enflame": {
        "devices": {"enflame": {"resourceNameGCU": "a.b/whole"}},
        "enflameResourceNameDRSGCU": "a.b/c",
        "enflameResourceNameGCUMemory": "a.b/m",
        "enflameResourceNameGCUCore": "a.b/p",
    },
    "hygon": {"dcuResourceName": "a.b/c", "dcuResourceMem": "a.b/m", "dcuResourceCores": "a.b/p"},
    "iluvatar": {"devices": {"iluvatar": {"configs": [CHIP]}}},
    "kunlun": {
        "kunlunResourceName": "a.b/whole",
        "kunlunResourceVCountName": "a.b/c",
        "kunlunResourceVMemoryName": "a.b/m",
    },
    "metax": {
        "devices": {"metax": {"resourceCountName": "a.b/whole"}},
        "metaxResourceName": "a.b/c",
        "metaxResourceMem": "a.b/m",
        "metaxResourceCore": "a.b/p",
    },
    "mthreads": {
        "devices": {
            "mthreads": {"resourceCountName": "a.b/c", "resourceMemoryName": "a.b/m", "resourceCoreName": "a.b/p"}
        }
    },
    "vastai": {"vastaiResourceName": "a.b/c"},
    "ascend": {
        "devices": {
            "ascend": {
                "configs": [
                    {
                        "chipName": "910X",
                        "commonWord": "Ascend910X",
                        "resourceName": "a.b/c",
                        "resourceMemoryName": "a.b/m",
                        "memoryAllocatable": 4096,
                    }
                ]
            }
        }
    },
}
"""For each vendor, values that give all its resources other names."""


def device_config(objects):
    return load_device_config(objects["ConfigMap/hami-scheduler-device"]["data"]["device-config.yaml"])


@pytest.mark.parametrize("vendor", RENAMED)
def test_renamed_resources_are_managed_and_in_the_device_config(vendor):
    objects = made(*OFF, *is_on(vendor), values=copy.deepcopy(RENAMED[vendor]))
    names = {word for word in json.dumps(RENAMED[vendor]).split('"') if word.startswith("a.b/")}
    more = set(CHART.values["devices"][vendor].get("customresources", ()))
    assert names_of(objects) == {*NVIDIA, *names, *more}
    (section,) = device_config(objects).keys() - {"nvidia"}
    written = json.dumps(device_config(objects)[section])
    assert all(json.dumps(name) in written for name in names)
    if vendor in SHIPPED:
        assert {*NVIDIA, *names} <= served(objects) <= names_of(objects)


def test_every_vendors_resources_are_renamed_above():
    assert RENAMED.keys() == set(SWITCHED)


@pytest.mark.parametrize(
    ("vendor", "key", "value", "written"),
    [
        ("hygon", "memoryFactor", 1024, 1024),
        ("mthreads", "memoryPerCard", [96, 160], [96, 160]),
        ("mthreads", "memoryPerCard", 160, [160]),
    ],
)
def test_further_value_of_a_vendor_reaches_the_device_config(vendor, key, value, written):
    objects = made(*OFF, *is_on(vendor), values={"devices": {vendor: {key: value}}})
    assert device_config(objects)[vendor][key] == written
    if vendor in SHIPPED:
        assert served(objects) == names_of(objects)


def test_hamis_list_of_mig_profiles_reaches_the_device_config():
    assert device_config(made())["nvidia"]["migProfileAllowlist"] == []
    given = [
        {"models": ["A100-SXM4-40GB", "A100-PCIE-40GB"], "profiles": ["1g.5gb", "7g.40gb"]},
        {"models": ["H100"], "profiles": ["1g.10gb+me"]},
    ]
    found = device_config(made(values={"devices": {"nvidia": {"migProfileAllowlist": copy.deepcopy(given)}}}))
    assert found["nvidia"]["migProfileAllowlist"] == given
    (first, second) = NvidiaConfig.model_validate(found["nvidia"]).mig_profile_allowlist
    assert (first.models, second.profiles) == (("A100-SXM4-40GB", "A100-PCIE-40GB"), ("1g.10gb+me",))


@pytest.mark.parametrize("word", ["none", "single", "mixed"])
def test_hamis_mig_strategy_reaches_the_device_config(word):
    found = device_config(made(values={"devicePlugin": {"migStrategy": word}}))["nvidia"]
    assert NvidiaConfig.model_validate(found).mig_strategy == word
    assert device_config(made())["nvidia"]["migStrategy"] == "none"


@pytest.mark.parametrize("of_all", [{}, {"runtimeClassName": "ascend", "overwriteEnv": True}])
def test_ascends_chips_in_the_values_are_those_of_its_package(of_all):
    given = {"devices": {"ascend": {"enabled": True}}, "scheduler": {}}
    if of_all:
        given["devices"]["ascend"]["runtimeClassName"] = of_all["runtimeClassName"]
        given["scheduler"]["overwriteEnv"] = of_all["overwriteEnv"]
    changed = [chip.model_copy(update={snake(key): value for key, value in of_all.items()}) for chip in CHIPS]
    found = AscendConfig.model_validate(device_config(made(values=given))["vnpus"])
    assert list(found.configs) == changed


def snake(key):
    return re.sub(r"([A-Z])", r"_\1", key).lower()


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("devices.iluvatar.configs[0].chipName=BI-V200", r"devices\.iluvatar\.configs.*commonWord"),
        ("devices.mthreads.memoryPerCard={}", r"devices\.mthreads\.memoryPerCard"),
        ("devices.mthreads.memoryPerCard=0", r"devices\.mthreads\.memoryPerCard"),
        ("devices.nvidia.migProfileAllowlist[0].models={A100}", r"devices\.nvidia\.migProfileAllowlist.*profiles"),
        ("devices.nvidia.migProfileAllowlist[0]=1g.5gb", r"devices\.nvidia\.migProfileAllowlist"),
        ("devices.hygon.memoryFactor=0", r"devices\.hygon\.memoryFactor"),
        ("devices.metax.resourceCountName=gpu", r"devices\.metax\.resourceCountName"),
    ],
)
def test_bad_value_of_a_vendor_is_refused_by_its_key(setting, words):
    with pytest.raises(ConfigError, match=words):
        made(setting)


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("devices.ascend.enabled=true",),
        ("devices.cambricon.enabled=false",),
        ("devices.kunlun.enabled=true", "devices.customresources={a/b}"),
        ("scheduler.vendorPackages={acme}", "devices.customresources={acme.com/npu}"),
        ("resourceName=example.com/gpu", "resourcePriority=", "mluResourceMem=example.com/mem"),
        ("scheduler.admissionWebhook.enabled=false",),
    ],
)
def test_scheduler_knows_every_managed_resource(settings):
    objects = made(*settings)
    assert list(scheduler_settings(objects).managed_resources) == [r["name"] for r in managed(objects)]


@pytest.mark.parametrize("enabled", [[], *([name] for name in SHIPPED if name != "nvidia"), SHIPPED], ids="+".join)
def test_a_shipped_vendor_serves_all_that_is_managed_for_it(enabled):
    objects = made(*OFF, *(f"devices.{vendor}.enabled=true" for vendor in enabled if vendor != "nvidia"))
    assert set(scheduler_settings(objects).vendors) == {"nvidia", *enabled}
    assert names_of(objects) == served(objects)


@pytest.mark.parametrize(
    "setting", ["devices.customresources={npu}", "devices.amd.customresources={a/b/c}", "resourceName=nvidia"]
)
def test_a_name_that_is_no_extended_resource_is_refused(setting):
    with pytest.raises(ConfigError, match=setting.split("=", maxsplit=1)[0]):
        made(setting)


def test_each_vendor_of_hamis_device_config_has_a_switch():
    sections = {"iluvatars": "iluvatar", "vnpus": "ascend"}
    assert sorted(sections.get(section, section) for section in HAMI.sections) == VENDORS
    assert set(SHIPPED) <= set(VENDORS)


@pytest.mark.parametrize("values", [{}, of_hami()], ids=["ours", "hami-2.10"])
def test_vendors_that_hami_manages_are_served(values):
    """HAMi's chart has no switch for some vendors, switches others on, and leaves Ascend and Iluvatar off."""
    objects = made(values=values)
    assert set(scheduler_settings(objects).vendors) == set(SHIPPED) - {"ascend", "iluvatar"}
    of_missing = [f"devices.{vendor}.enabled=false" for vendor in SWITCHED if vendor not in SHIPPED]
    objects = made(*of_missing, values=values)
    assert names_of(objects) == served(objects)


def test_default_values_need_no_warning():
    assert not warnings(CHART, {}, Release(kube_version="1.36.3"))


def test_resources_of_others_need_a_vendor_that_serves_them():
    given = {"devices": {"customresources": ["a/b"]}}
    assert "a/b" in names_of(made(values=given)) - served(made(values=given))
    [warning] = warnings(CHART, given, Release(kube_version="1.36.3"))
    assert warning.startswith("devices.customresources:")
    assert "are refused" in warning


def test_hamis_image_is_replaced_by_ours_and_named():
    given = {"scheduler": {"extender": {"image": {"repository": "projecthami/hami"}}}}
    given["global"] = {"imageRegistry": "registry.example"}
    [warning] = warnings(CHART, given, Release(kube_version="1.36.3"))
    assert warning == "scheduler.extender.image: projecthami/hami is HAMi's image, so hami/scheduler takes its place"


def test_a_port_below_1024_comes_with_the_sysctl_it_needs():
    name = "net.ipv4.ip_unprivileged_port_start"
    pod = made("scheduler.service.httpTargetPort=443")["Deployment/hami-scheduler"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["sysctls"] == [{"name": name, "value": "443"}]
    assert pod["securityContext"]["runAsUser"] == 65532
    emptied = made("scheduler.service.httpTargetPort=443", values={"scheduler": {"podSecurityContext": None}})
    assert set(emptied["Deployment/hami-scheduler"]["spec"]["template"]["spec"]["securityContext"]) == {"sysctls"}
    assert "sysctls" not in made()["Deployment/hami-scheduler"]["spec"]["template"]["spec"]["securityContext"]


@pytest.mark.parametrize(
    ("key", "word", "words"),
    [
        ("scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy", "binpak", DEVICE_POLICIES),
        ("scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy", "mutex,binpak", DEVICE_POLICIES),
        ("scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy", "spred", NODE_POLICIES),
        ("scheduler.extender.image.pullPolicy", "Alwas", ("Always", "IfNotPresent", "Never")),
        ("scheduler.admissionWebhook.failurePolicy", "Fial", ("Fail", "Ignore")),
        ("scheduler.service.type", "NodPort", ("ClusterIP", "NodePort", "LoadBalancer")),
        ("devicePlugin.service.type", "nodeport", ("ClusterIP", "NodePort", "LoadBalancer")),
        ("devicePlugin.mode", "requird", ("required", "adopt", "trust")),
        ("devicePlugin.enforcement", "observ", ("enforce", "observe", "off")),
        ("devicePlugin.serial", "alway", ("auto", "always", "never")),
        ("devicePlugin.migStrategy", "singel", ("none", "single", "mixed")),
        ("devicePlugin.deviceListStrategy", "envar", ("envvar", "volume-mounts", "cdi-annotations", "cdi-cri")),
        ("devices.nvidia.gpuCorePolicy", "forse", ("default", "force", "disable")),
        ("devices.nvidia.libCudaLogLevel", "debug", ("0", "1", "2", "3", "4")),
        ("devices.ascend.imagePullPolicy", "IfNotpresent", ("Always", "IfNotPresent", "Never")),
    ],
)
def test_unknown_word_is_refused_with_the_known_ones(key, word, words):
    given = {}
    assign(given, f"{key}={word}".replace(",", "\\,"))
    with pytest.raises(ConfigError) as refused:
        render(CHART, given, Release(kube_version="1.36.3"), [("my.yaml", given)])
    assert f"my.yaml: {key}: '{word}' is none of {', '.join(words)}" in str(refused.value)


@pytest.mark.parametrize("policy", [*DEVICE_POLICIES, "mutex,binpack", "numa, topology-aware"])
def test_policies_of_the_chart_are_those_of_the_scheduler(policy):
    objects = made(values={"scheduler": {"defaultSchedulerPolicy": {"gpuSchedulerPolicy": policy}}})
    arguments = container(objects, "Deployment", "vgpu-scheduler-extender")["args"][1:]
    assert SchedulerSettings.from_arguments(arguments)[0].gpu_scheduler_policy == policy


@pytest.mark.parametrize("on", [True, False])
def test_mutex_value_of_the_chart_reaches_the_scheduler(on):
    objects = made(values={"scheduler": {"mutexKeepsDevices": on}})
    arguments = container(objects, "Deployment", "vgpu-scheduler-extender")["args"][1:]
    assert SchedulerSettings.from_arguments(arguments)[0].mutex_keeps_devices is on


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scheduler": {"replcas": 1}}, "my.yaml: scheduler.replcas: there is no such value, did you mean replicas?"),
        ({"schduler": {}}, "my.yaml: schduler: there is no such value, did you mean scheduler?"),
        ({"deviceSplitcount": 2}, "there is no such value, did you mean devicePlugin.deviceSplitCount?"),
        ({"devicePlugin": {"nodeselector": {}}}, "there is no such value, did you mean nvidiaNodeSelector?"),
        ({"devicePlugin": {"migstrategy": "none"}}, "there is no such value, did you mean migStrategy?"),
        ({"scheduler": {"replicas": 0}}, "my.yaml: scheduler.replicas: must be at least 1, got 0"),
        ({"scheduler": 5}, "my.yaml: scheduler: expected object, got 5"),
        ({"schedulerName": ""}, "my.yaml: schedulerName: '' does not match"),
        ({"scheduler": {"filterReturn": "many"}}, "scheduler.filterReturn: 'many' does not match"),
        ({"resourceName": "{{ fail }}"}, "my.yaml: resourceName: '{{ fail }}' does not match"),
        ({"scheduler": {"nodeName": "n1 # one"}}, "my.yaml: scheduler.nodeName: 'n1 # one' does not match"),
        ({"global": {"imageTag": "v1: latest"}}, "my.yaml: global.imageTag: 'v1: latest' does not match"),
        ({"devicePlugin": {"adoptBefore": "yesterday"}}, "devicePlugin.adoptBefore: 'yesterday' does not match"),
        ({"scheduler": {"replicas": 1e300}}, "scheduler.replicas: must be at most 2147483647"),
        ({"scheduler": {"zzquux": None}}, "my.yaml: scheduler.zzquux: there is no such value"),
        ({"scheduler": {"replicas": None}}, "my.yaml: scheduler.replicas: is null; leave the key out"),
        ({"global": None}, "my.yaml: global: is null; leave the key out"),
        ({"scheduler": {"nodeLockExpire": "soon"}}, "scheduler.nodeLockExpire: 'soon' does not match"),
    ],
)
def test_a_wrong_value_is_named_with_its_file(given, message):
    with pytest.raises(ConfigError) as refused:
        render(CHART, given, Release(kube_version="1.36.3"), [("base.yaml", {}), ("my.yaml", given)])
    assert message in str(refused.value)


def test_names_given_are_names_used():
    objects = made("resourceName=example.com/card", "resourcePriority=")
    assert "example.com/card" in {resource["name"] for resource in managed(objects)}
    assert '"nvidia.com/gpu\\' not in json.dumps(objects["MutatingWebhookConfiguration/hami-webhook"])
    assert all(resource["name"] for resource in managed(objects))


# --- admission


def test_the_webhook_fails_closed_and_sees_only_its_own_pods():
    (hook,) = made()["MutatingWebhookConfiguration/hami-webhook"]["webhooks"]
    assert hook["failurePolicy"] == "Fail"
    assert hook["matchConditions"]
    ignored = {"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}
    assert ignored in hook["objectSelector"]["matchExpressions"]
    assert ignored in hook["namespaceSelector"]["matchExpressions"]


NPU = "vnpus: {configs: [{commonWord: A, resourceName: a/b, memoryAllocatable: 1, overwriteEnv: %s}]}"


@pytest.mark.parametrize(
    "values",
    [
        {"scheduler": {"overwriteEnv": True}},
        {"devices": {"nvidia": {"gpuCorePolicy": "force"}}},
        {"device-config": {"content": "nvidia: {overwriteEnv: true}"}},
        {"device-config": {"content": "nvidia: {gpuCorePolicy: disable}"}},
        {"device-config": {"content": NPU % "'yes'"}},
    ],
)
def test_webhook_fails_open_for_pods_without_devices(values):
    first, second = made(values=values)["MutatingWebhookConfiguration/hami-webhook"]["webhooks"]
    assert (first["failurePolicy"], second["failurePolicy"]) == ("Fail", "Ignore")
    assert second["matchConditions"][0]["expression"] == f"!({first['matchConditions'][0]['expression']})"
    rules = [(rule["operations"], rule["resources"]) for rule in first["rules"]]
    assert rules == [(["CREATE"], ["pods"]), (["UPDATE"], ["pods/ephemeralcontainers"])]
    assert second["rules"] == first["rules"]


@pytest.mark.parametrize(
    "content", ["nvidia: {overwriteEnv: false}", "nvidia: {gpuCorePolicy: default}", NPU % "false"]
)
def test_no_second_webhook_if_vendors_impose_nothing(content):
    (hook,) = made(values={"device-config": {"content": content}})["MutatingWebhookConfiguration/hami-webhook"][
        "webhooks"
    ]
    assert hook["name"] == "vgpu.hami.io"


def test_selectors_add_up():
    hook = made(
        "scheduler.admissionWebhook.whitelistNamespaces={a,b}",
        "scheduler.admissionWebhook.objectSelector.matchLabels.x=y",
    )["MutatingWebhookConfiguration/hami-webhook"]["webhooks"][0]
    names = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["a", "b"]}
    assert names in hook["namespaceSelector"]["matchExpressions"]
    assert hook["objectSelector"]["matchLabels"] == {"x": "y"}
    without = made("scheduler.admissionWebhook.manageNamespaceSelector=false")
    assert "namespaceSelector" not in without["MutatingWebhookConfiguration/hami-webhook"]["webhooks"][0]


def test_disabled_webhook_leaves_no_objects():
    objects = made("scheduler.admissionWebhook.enabled=false")
    assert "MutatingWebhookConfiguration/hami-webhook" not in objects
    assert [port["name"] for port in objects["Service/hami-scheduler"]["spec"]["ports"]] == ["monitor"]
    assert "mutatingwebhookconfigurations" not in json.dumps(list(objects.values()))


def test_policy_protects_our_keys_and_admits_the_system():
    objects = made("admissionPolicy.allowedUsers={system:serviceaccount:a:b}", namespace="ns")
    spec = objects["ValidatingAdmissionPolicy/hami-system-keys"]["spec"]
    listed = next(v["expression"] for v in spec["variables"] if v["name"] == "listed")
    assert set(json.loads(listed)) >= keys.SYSTEM_POD_KEYS
    formed = next(v["expression"] for v in spec["variables"] if v["name"] == "formed")
    assert json.dumps(keys.ALLOCATED_SUFFIX) in formed
    assert spec["failurePolicy"] == "Fail"
    users = [f"system:serviceaccount:{who}" for who in ("ns:hami-scheduler", "ns:hami-device-plugin", "a:b")]
    assert json.dumps(users, separators=(",", ":")) in spec["matchConditions"][0]["expression"]
    assert not any("Policy" in key for key in made("admissionPolicy.enabled=false"))


# --- what runs


def test_nothing_runs_with_more_than_it_needs():
    objects = made("scheduler.certManager.enabled=true")
    pod = objects["Deployment/hami-scheduler"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    agent = container(objects, "DaemonSet", "device-plugin")
    for each in (*pod["containers"], agent):
        assert each["securityContext"]["readOnlyRootFilesystem"] is True
        assert each["securityContext"]["allowPrivilegeEscalation"] is False
        assert each["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert "privileged" not in agent["securityContext"]
    assert not any("MIG" in variable["name"] for variable in agent["env"])
    granted = made("devicePlugin.securityContext.privileged=true")
    agent = container(granted, "DaemonSet", "device-plugin")
    assert any("MIG" in variable["name"] for variable in agent["env"])
    # Kubernetes refuses both at once.
    assert "allowPrivilegeEscalation" not in agent["securityContext"]


MIG_NODE = '{"nodeconfig": [{"name": "n1", "OperatingMode": "mig"}]}'


@pytest.mark.parametrize(
    "mig", [{"nodeConfiguration": {"config": MIG_NODE}}, {"extraEnvs": {"HAMI_NVIDIA_OPERATING_MODE": "mig"}}]
)
def test_an_agent_that_is_to_make_instances_needs_sys_admin(mig):
    release = Release(kube_version="1.36.3")
    (told,) = warnings(CHART, {"devicePlugin": mig}, release)
    assert "can't make MIG instances without SYS_ADMIN" in told
    for context in ({"privileged": True}, {"capabilities": {"add": ["DAC_OVERRIDE", "SYS_ADMIN"]}}):
        values = {"devicePlugin": mig | {"securityContext": context}}
        assert warnings(CHART, values, release) == []
        agent = container(made(values=values), "DaemonSet", "device-plugin")
        assert {"NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES"} <= {v["name"] for v in agent["env"]}


@pytest.mark.parametrize(
    "mig", [{"migStrategy": "mixed"}, {"nodeConfiguration": {"config": '{"nodeconfig": [{"MigStrategy" : "single"}]}'}}]
)
def test_an_agent_that_is_to_read_instances_needs_sys_admin(mig):
    release = Release(kube_version="1.36.3")
    (told,) = warnings(CHART, {"devicePlugin": mig}, release)
    assert "NVML tells an administrator's MIG instances only to an agent with SYS_ADMIN" in told
    context = {"capabilities": {"add": ["DAC_OVERRIDE", "SYS_ADMIN"]}}
    assert warnings(CHART, {"devicePlugin": mig | {"securityContext": context}}, release) == []
    assert warnings(CHART, {"devicePlugin": {"migStrategy": "none"}}, release) == []


def test_mounts_have_their_volumes_and_each_only_one():
    variants = [
        (),
        ("devicePlugin.nvidiaDriverRoot=/run/nvidia/driver", "devicePlugin.gpuOperatorToolkitReady.enabled=true"),
        ("devicePlugin.mps.enabled=true", "devicePlugin.nvidiaDriverRoot=/run/nvidia/driver"),
        (
            "scheduler.kubeScheduler.enabled=false",
            "scheduler.extender.clientCASecret=x",
            "scheduler.certManager.enabled=true",
        ),
    ]
    for settings in variants:
        for key, each in made(*settings).items():
            if key.split("/")[0] not in {"Deployment", "DaemonSet"}:
                continue
            pod = each["spec"]["template"]["spec"]
            volumes = [volume["name"] for volume in pod["volumes"]]
            containers = [*pod["containers"], *pod.get("initContainers", ())]
            used = {mount["name"] for one in containers for mount in one.get("volumeMounts", ())}
            assert sorted(used) == sorted(volumes)
            for one in containers:
                paths = [mount["mountPath"] for mount in one.get("volumeMounts", ())]
                assert len(set(paths)) == len(paths)


@pytest.mark.parametrize(("root", "folder"), [("/", "/"), ("/run/nvidia/driver",) * 2, ("auto", "/")])
def test_agent_sees_the_drivers_root_at_its_mount(root, folder):
    objects = made(f"devicePlugin.nvidiaDriverRoot={root}")
    agent = container(objects, "DaemonSet", "device-plugin")
    told = {variable["name"]: variable.get("value") for variable in agent["env"]}
    (mount,) = [mount for mount in agent["volumeMounts"] if mount["name"] == "driver-root"]
    assert (told["HAMI_NVIDIA_DRIVER_ROOT"], told["HAMI_NVIDIA_AGENT_DRIVER_ROOT"]) == (root, mount["mountPath"])
    assert mount["readOnly"] is True
    assert mount["mountPropagation"] == "HostToContainer", "the driver may be mounted late"
    volumes = objects["DaemonSet/hami-device-plugin"]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "driver-root", "hostPath": {"path": folder}} in volumes


def test_mps_needs_a_driver_root_that_is_known():
    with pytest.raises(ConfigError, match=r"devicePlugin\.mps\.enabled: .*set devicePlugin\.nvidiaDriverRoot"):
        made("devicePlugin.nvidiaDriverRoot=auto", "devicePlugin.mps.enabled=true")


def test_agent_gives_the_devices_of_other_drivers_if_asked_for():
    def told(*settings):
        agent = container(made(*settings), "DaemonSet", "device-plugin")
        return {variable["name"]: variable.get("value") for variable in agent["env"]}

    names = {"gdsEnabled": "GDS", "mofedEnabled": "MOFED", "gdrcopyEnabled": "GDRCOPY"}
    assert not {f"HAMI_NVIDIA_{name}" for name in names.values()} & told().keys()
    for key, name in names.items():
        assert told(f"devicePlugin.{key}=true")[f"HAMI_NVIDIA_{name}"] == "true"


def test_verbs_go_to_the_leader_only_without_kube_scheduler():
    role = keys.SCHEDULER_ROLE_LABEL
    assert role not in made()["Service/hami-scheduler"]["spec"]["selector"]
    with pytest.raises(ConfigError, match="open to the network"):
        made("scheduler.kubeScheduler.enabled=false")
    alone = made(
        "scheduler.kubeScheduler.enabled=false",
        "scheduler.certManager.enabled=true",
        "scheduler.extender.clientCASecret=ca",
    )
    assert alone["Service/hami-scheduler-extender"]["spec"]["selector"][role] == keys.ROLE_LEADER
    assert "ConfigMap/hami-scheduler" not in alone
    arguments = container(alone, "Deployment", "vgpu-scheduler-extender")["args"]
    assert "--lease=own" in arguments
    assert all(
        c["name"] != "kube-scheduler"
        for c in alone["Deployment/hami-scheduler"]["spec"]["template"]["spec"]["containers"]
    )


def test_replicas_need_an_election():
    several = made("scheduler.replicas=3")
    assert several["Deployment/hami-scheduler"]["spec"]["replicas"] == 3
    assert several["PodDisruptionBudget/hami-scheduler"]["spec"]["maxUnavailable"] == 1
    one = made("scheduler.replicas=3", "scheduler.leaderElect=false")
    assert one["Deployment/hami-scheduler"]["spec"]["replicas"] == 1
    assert one["Deployment/hami-scheduler"]["spec"]["strategy"]["type"] == "Recreate"
    assert "PodDisruptionBudget/hami-scheduler" not in one
    assert "leases" not in json.dumps(one["Role/hami-scheduler"])


def test_a_change_of_configuration_starts_new_pods():
    def sums(*settings):
        pods = [
            o["spec"]["template"] for k, o in made(*settings).items() if k.startswith(("Deployment/", "DaemonSet/"))
        ]
        return [{k: v for k, v in p["metadata"]["annotations"].items() if k.startswith("checksum/")} for p in pods]

    agent, scheduler = sums()
    for settings in (("resourceName=a.b/c",), ("devicePlugin.deviceSplitCount=3",)):
        other_agent, other_scheduler = sums(*settings)
        assert other_agent != agent
        assert other_scheduler != scheduler


def test_unmanaged_nodes_neither_count_nor_have_an_agent():
    objects = made("global.managedNodeSelectorEnable=true", "scheduler.nodeLabelSelector.zone=a")
    arguments = container(objects, "Deployment", "vgpu-scheduler-extender")["args"]
    assert "--node-label-selector=usage=gpu,zone=a" in arguments
    pod = objects["DaemonSet/hami-device-plugin"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"gpu": "on", "usage": "gpu"}


def test_secrets_to_pull_with_are_named_once():
    objects = made(values={
        "global": {"imagePullSecrets": ["a", {"name": "b"}]},
        "devicePlugin": {"image": {"pullSecrets": ["b", "c"]}},
    })  # fmt: skip
    pod = objects["DaemonSet/hami-device-plugin"]["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}, {"name": "c"}]


def test_images():
    def images(*settings):
        return [
            container(made(*settings), "Deployment", name)["image"]
            for name in ("kube-scheduler", "vgpu-scheduler-extender")
        ]

    version = CHART.meta["appVersion"]
    assert images() == ["registry.k8s.io/kube-scheduler:v1.36.3", f"registry.example/hami/scheduler:{version}"]
    assert images("global.imageRegistry=localhost", "global.imageTag=dev") == [
        "localhost/kube-scheduler:v1.36.3", "localhost/hami/scheduler:dev"
    ]  # fmt: skip
    assert made("scheduler.kubeScheduler.image.tag=v1", kube_version="")
    assert container(made(kube_version="v1.34.1+k3s1"), "Deployment", "kube-scheduler")["image"].endswith(":v1.34.1")


@pytest.mark.parametrize("image", ["scheduler.extender.image", "devicePlugin.image"])
def test_our_image_without_a_registry_is_refused(image):
    with pytest.raises(ConfigError) as refused:
        made(f"{image}.registry=")
    for word in ("has no registry", "docs/how-to/images.md", "--set global.imageRegistry=registry.example"):
        assert word in str(refused.value)
    assert made(f"{image}.registry=", "global.imageRegistry=localhost")
    assert made(f"{image}.registry=", f"{image}.repository=mine/image")


def test_kube_schedulers_version_is_not_guessed():
    with pytest.raises(ConfigError, match="--kube-version"):
        made(kube_version="")


# --- rights

GRANTED = {
    "ClusterRole/hami-scheduler": {
        "pods": "get list watch patch", "pods/binding": "create", "nodes": "get list watch patch",
        "resourcequotas": "list watch", "events": "create patch",
        "mutatingwebhookconfigurations:hami-webhook": "get patch",
    },
    "Role/hami-scheduler": {
        "leases": "create", "leases:hami-scheduler": "get list watch update", "secrets": "create",
        "secrets:hami-scheduler-tls": "get patch", "secrets:hami-scheduler-signing": "get patch",
        "configmaps": "create", "configmaps:hami-signing-keys": "get patch",
    },
    "ClusterRole/hami-device-plugin": {
        "pods": "list watch patch delete", "nodes": "list watch patch", "events": "create patch",
    },
    "Role/hami-device-plugin": {"leases": "get create patch"},
    "Role/hami-scheduler-view": {"pods": "list", "pods/proxy": "get create"},
}  # fmt: skip


def test_roles_grant_what_is_used_and_nothing_else():
    objects = made("devices.cambricon.enabled=false")
    found = {}
    for key in GRANTED:
        rights = found[key] = {}
        for rule in objects[key]["rules"]:
            named = [f":{name}" for name in rule.get("resourceNames", ())] or [""]
            for resource, name in itertools.product(rule["resources"], named):
                rights[resource + name] = " ".join(rule["verbs"])
    assert found == GRANTED
    assert "*" not in json.dumps([objects[key]["rules"] for key in GRANTED])


def test_view_role_is_bound_to_the_subjects_of_the_values_only():
    objects = made()
    assert "RoleBinding/hami-scheduler-view" not in objects
    group = {"kind": "Group", "name": "platform", "apiGroup": "rbac.authorization.k8s.io"}
    bound = made(values={"viewRole": {"subjects": [group]}})["RoleBinding/hami-scheduler-view"]
    assert (bound["roleRef"]["name"], bound["subjects"]) == ("hami-scheduler-view", [group])
    assert "Role/hami-scheduler-view" not in made("viewRole.enabled=false")


AGENT = {"name": "far", "vendor": "far", "resourceNames": ["far.example/npu"], "image": {"repository": "far/agent"}}
GRANT = "ClusterRoleBinding/hami-openshift"


def subjects(binding):
    return [f"{each['namespace']}/{each['name']}" for each in binding["subjects"]]


def test_openshift_admits_scheduler_and_agents_with_no_more_than_they_need():
    objects = made(
        "platform.openshift=true", "selinux.enabled=true", values={"agents": [AGENT]}, namespace="hami-system"
    )
    constraints = objects["SecurityContextConstraints/hami-device-plugin"]
    agent = container(objects, "DaemonSet", "device-plugin")["securityContext"]
    assert constraints["allowedCapabilities"] == agent["capabilities"]["add"]
    assert constraints["requiredDropCapabilities"] == agent["capabilities"]["drop"] == ["ALL"]
    on = {key for key, value in constraints.items() if value is True}
    assert on == {"allowHostDirVolumePlugin", "allowHostPID"}
    pod = objects["DaemonSet/hami-device-plugin"]["spec"]["template"]["spec"]
    kinds = {kind for volume in pod["volumes"] for kind in volume if kind != "name"}
    assert kinds <= set(constraints["volumes"])
    (rule,) = objects["ClusterRole/system:openshift:scc:hami-device-plugin"]["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == (["hami-device-plugin"], ["use"])
    accounts = [f"hami-system/{name}" for name in ("hami-scheduler", "hami-device-plugin", "hami-agent-far")]
    assert subjects(objects[GRANT]) == accounts
    assert objects[GRANT]["roleRef"]["name"] == "system:openshift:scc:hami-device-plugin"
    own = objects["RoleBinding/hami-scheduler-openshift"]
    assert (own["roleRef"]["name"], subjects(own)) == ("system:openshift:scc:nonroot-v2", accounts[:1])


def test_openshift_constraints_follow_the_agents_pods():
    privileged = {**AGENT, "securityContext": {"privileged": True}}
    wide = made("platform.openshift=true", "devicePlugin.hostNetwork=true", values={"agents": [privileged]})
    constraints = wide["SecurityContextConstraints/hami-device-plugin"]
    on = {key for key, value in constraints.items() if value is True}
    assert on >= {"allowPrivilegedContainer", "allowPrivilegeEscalation", "allowHostNetwork", "allowHostPorts"}


def test_openshift_admits_the_mps_daemon_under_the_agents_account():
    objects = made("platform.openshift=true", "devicePlugin.mps.enabled=true", "devicePlugin.hostPID=false")
    constraints = objects["SecurityContextConstraints/hami-device-plugin"]
    (daemon,) = [pod for key, pod in objects.items() if key.startswith("DaemonSet/") and "mps" in key]
    spec = daemon["spec"]["template"]["spec"]
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("hami-device-plugin", False)
    assert spec["containers"][0]["securityContext"]["privileged"] is constraints["allowPrivilegedContainer"] is True
    assert constraints["allowHostPID"] is True


def test_openshift_constraints_that_exist_are_granted_and_not_made():
    name = "openshift.securityContextConstraints.name=privileged"
    objects = made("platform.openshift=true", "openshift.securityContextConstraints.create=false", name)
    assert not any("SecurityContextConstraints" in key or key.startswith("ClusterRole/system") for key in objects)
    assert objects[GRANT]["roleRef"]["name"] == "system:openshift:scc:privileged"
    with pytest.raises(ConfigError, match="privileged is OpenShift's own: set create to false"):
        made("platform.openshift=true", name)


def test_without_openshift_and_selinux_nothing_of_them_is_made():
    text = json.dumps(made(values={"agents": [AGENT]}))
    assert not [word for word in ("openshift", "selinux", "seLinux", "spc_t") if word in text]


def test_openshift_without_selinux_is_warned_of():
    told = warnings(CHART, {"platform": {"openshift": True}}, Release(kube_version="1.36.3"))
    assert any("set selinux.enabled to true" in line for line in told)


def test_every_agent_labels_files_and_may_do_so_under_selinux():
    settings = ("selinux.enabled=true", "selinux.type=hami_file_t", "selinux.level=s0:c1")
    objects = made(*settings, values={"agents": [AGENT]})
    for name in ("hami-device-plugin", "hami-agent-far"):
        (agent,) = objects[f"DaemonSet/{name}"]["spec"]["template"]["spec"]["containers"]
        told, _ = AgentSettings.from_arguments([*agent["args"][1:], "--node-name=n1"])
        assert (told.selinux_type, told.selinux_level) == ("hami_file_t", "s0:c1")
        assert agent["securityContext"]["seLinuxOptions"] == {"type": "spc_t", "level": "s0:c1"}
        assert agent["securityContext"]["capabilities"]["drop"] == ["ALL"]


def test_selinux_options_of_the_values_win():
    own = {"devicePlugin": {"securityContext": {"seLinuxOptions": {"type": "hami_t"}}}}
    agent = container(made("selinux.enabled=true", values=own), "DaemonSet", "device-plugin")
    assert agent["securityContext"]["seLinuxOptions"] == {"type": "hami_t", "level": "s0"}


def test_the_agent_labels_nodes_only_if_asked():
    assert '"HAMI_NVIDIA_FEATURE_LABELS"' not in json.dumps(made())
    agent = container(made("devicePlugin.featureLabels=true"), "DaemonSet", "device-plugin")
    assert {"name": "HAMI_NVIDIA_FEATURE_LABELS", "value": "true"} in agent["env"]


def test_with_cert_manager_the_scheduler_writes_no_certificate():
    objects = made("scheduler.certManager.enabled=true")
    rights = json.dumps([objects["ClusterRole/hami-scheduler"], objects["Role/hami-scheduler"]])
    assert "scheduler-tls" not in rights
    assert "mutatingwebhook" not in rights
    certificate = objects["Certificate/hami-scheduler"]["spec"]
    assert "hami-scheduler.kube-system.svc" in certificate["dnsNames"]


# --- what is optional


def test_monitors_where_their_kind_exists():
    assert not any("ServiceMonitor" in key for key in made("prometheus.enabled=true"))
    served = made("prometheus.enabled=true", api_versions=["monitoring.coreos.com/v1/ServiceMonitor"])
    for key in ("hami-scheduler", "hami-device-plugin"):
        monitor = served[f"ServiceMonitor/{key}"]["spec"]
        service = served["Service/" + {"hami-device-plugin": "hami-device-plugin-monitor"}.get(key, key)]
        assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert monitor["endpoints"][0]["port"] in {port["name"] for port in service["spec"]["ports"]}


def test_pods_get_labels_and_spread():
    zones = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
    own = zones | {"labelSelector": {"matchLabels": {"a": "b"}}}
    objects = made(values={
        "global": {"labels": {"team": "ml"}},
        "scheduler": {"podLabels": {"tier": "control"}, "topologySpreadConstraints": [zones, own]},
        "devicePlugin": {"podLabels": {"tier": "node", "team": "gpu"}},
    })  # fmt: skip
    deployment = objects["Deployment/hami-scheduler"]["spec"]
    template = deployment["template"]
    selector = {"labelSelector": deployment["selector"]}
    assert template["spec"]["topologySpreadConstraints"] == [zones | selector, own]
    assert template["metadata"]["labels"].items() >= {"tier": "control", "team": "ml"}.items()
    assert "tier" not in deployment["selector"]["matchLabels"]
    labels = objects["DaemonSet/hami-device-plugin"]["spec"]["template"]["metadata"]["labels"]
    assert labels.items() >= {"tier": "node", "team": "gpu"}.items()
    assert "topologySpreadConstraints" not in made()["Deployment/hami-scheduler"]["spec"]["template"]["spec"]


def test_alerts_where_their_kind_exists():
    assert not any("PrometheusRule" in key for key in made("prometheus.alerts.enabled=true"))
    settings = ("prometheus.alerts.enabled=true", "prometheus.labels.release=kps", "prometheus.alerts.labels.team=ml")
    served = made(*settings, api_versions=["monitoring.coreos.com/v1/PrometheusRule"])
    rule = served["PrometheusRule/hami"]
    assert rule["metadata"]["labels"].items() >= {"release": "kps", "team": "ml"}.items()
    assert rule["spec"] == yaml.safe_load((CHART.path / "files/alerts.yaml").read_text("utf-8"))


@pytest.mark.parametrize(
    ("served", "found"),
    [
        (["monitoring.coreos.com/v1"], {"ServiceMonitor", "PrometheusRule"}),
        (["monitoring.coreos.com/v1/ServiceMonitor"], {"ServiceMonitor"}),
        (["monitoring.coreos.com/v1", "monitoring.coreos.com/v1/PrometheusRule"], {"PrometheusRule"}),
        (["monitoring.coreos.com/v1", "monitoring.coreos.com/v1/Probe"], set()),
    ],
)
def test_api_without_kinds_stands_for_all_of_them(served, found):
    objects = made("prometheus.enabled=true", "prometheus.alerts.enabled=true", api_versions=served)
    assert {key.partition("/")[0] for key in objects} & {"ServiceMonitor", "PrometheusRule"} == found


@pytest.mark.parametrize(
    ("key", "kind"), [("prometheus.enabled", "ServiceMonitor"), ("prometheus.alerts.enabled", "PrometheusRule")]
)
def test_missing_kind_is_warned_of_with_the_flag_to_add(key, kind):
    given = {}
    assign(given, f"{key}=true")
    [warning] = warnings(CHART, given, Release(kube_version="1.36.3"))
    assert warning.startswith(f"{key}: the cluster has no CRD for {kind}")
    api = f"monitoring.coreos.com/v1/{kind}"
    assert f"--api-versions {api}" in warning
    assert warnings(CHART, given, Release(kube_version="1.36.3", api_versions=[api])) == []


def notes(given=None):
    texts = rendered(CHART.path, with_registry(given or {}), Release(namespace="hami-system", kube_version="1.36.3"))
    return texts["hami/templates/NOTES.txt"]


def test_notes_end_with_the_next_commands():
    assert notes().strip().splitlines()[-4:] == [
        "kubectl label node NODE gpu=on",
        "kubectl -n hami-system rollout status deployment/hami-scheduler",
        "kubectl -n hami-system rollout status daemonset/hami-device-plugin",
        "hami doctor",
    ]
    shown = notes({"scheduler": {"admissionWebhook": {"failurePolicy": "Ignore"}}})
    commands, _, warning = shown.partition("\nWARNING\n")
    assert commands.strip().endswith("hami doctor")
    assert warning.startswith("scheduler.admissionWebhook.failurePolicy: Ignore: while the webhook is away")


def test_notes_name_no_label_where_none_is_needed():
    for values in ({"nvidiaNodeSelector": None}, {"nvidiaNodeSelector": {"gpu": None}}, {"enabled": False}):
        assert "kubectl label" not in notes({"devicePlugin": values})
    every = made(values={"devicePlugin": {"nvidiaNodeSelector": None}})["DaemonSet/hami-device-plugin"]
    assert "nodeSelector" not in every["spec"]["template"]["spec"]


def test_first_pod_of_the_notes_requests_our_resources():
    def pod(given):
        return yaml.safe_load(notes(given).partition("<<'YAML'\n")[2].partition("\nYAML\n")[0])["spec"]["containers"][0]

    assert pod({})["resources"]["limits"] == {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}
    assert pod({"resourceName": "a.b/c", "resourceMem": ""})["resources"]["limits"] == {"a.b/c": 1}


def test_dashboards_and_the_rest():
    objects = made(
        "grafana.dashboards.enabled=true", "networkPolicy.enabled=true", "devicePlugin.runtimeClassName=nvidia",
        "devicePlugin.createRuntimeClass=true",
    )  # fmt: skip
    dashboards = objects["ConfigMap/hami-dashboards"]
    assert dashboards["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert all(json.loads(text)["panels"] for text in dashboards["data"].values())
    assert set(dashboards["data"]) == {"hami-cluster.json", "hami-containers.json"}
    assert objects["RuntimeClass/nvidia"]["handler"] == "nvidia"
    ports = [p["port"] for r in objects["NetworkPolicy/hami-scheduler"]["spec"]["ingress"] for p in r["ports"]]
    assert ports == [8443, 9395]


def test_bad_names_are_refused():
    for wrong in ({"name": "A_b"}, {"namespace": "a.b"}, {"kube_version": "new"}, {"kube_version": "1.29.9"}):
        with pytest.raises(ConfigError):
            made(**wrong)
