"""Agents of further vendors: all objects that one entry of the chart's key ``agents`` makes."""

from __future__ import annotations

import json

import pytest
import yaml

from hami_core.errors import ConfigError
from hami_core.manifests import Chart, Release
from hami_core.settings import AgentSettings
from hami_core.tests.manifests.registry import render, warnings

CHART = Chart.read()
MONITOR = "monitoring.coreos.com/v1/ServiceMonitor"
ACME = {
    "name": "acme",
    "vendor": "acme",
    "resourceNames": ["acme.example/npu", "acme.example/npu-memory"],
    "image": {"registry": "registry.example", "repository": "acme/agent", "tag": "1.0"},
    "nodeSelector": {"acme.example/npu": "present"},
    "env": {"HAMI_ACME_SYSFS": "/sys/class/acme"},
    "mounts": [{"hostPath": "/sys/class/acme"}, {"hostPath": "/opt/acme", "mountPath": "/acme", "readOnly": False}],
    "systemKeys": ["acme.example/allocated"],
    "deviceConfig": {"acme": {"resourceCountName": "acme.example/npu"}},
}
BARE = {"name": "zeta", "vendor": "zeta", "resourceNames": ["zeta.example/npu"], "image": {"repository": "zeta"}}
NAME = "hami-agent-acme"
ACCOUNT = f"system:serviceaccount:kube-system:{NAME}"


def made(*agents, **values):
    release = Release(kube_version="1.36.3", api_versions=[MONITOR])
    rendered = render(CHART, {"agents": list(agents), **values}, release)
    found = {f"{m.content['kind']}/{m.content['metadata']['name']}": m.content for m in rendered}
    assert len(found) == len(rendered)
    return found


def container(objects, name):
    return objects[f"DaemonSet/{name}"]["spec"]["template"]["spec"]["containers"][0]


def test_entry_gives_daemonset_access_and_monitoring():
    watched = {"prometheus": {"enabled": True}}
    without, objects = made(**watched), made(ACME, **watched)
    access = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    kinds = access | {"DaemonSet", "ServiceMonitor"}
    assert objects.keys() - without.keys() == {f"{kind}/{NAME}" for kind in kinds} | {f"Service/{NAME}-monitor"}
    assert objects[f"ClusterRole/{NAME}"]["rules"] == objects["ClusterRole/hami-device-plugin"]["rules"]
    labels = objects[f"DaemonSet/{NAME}"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        objects[f"DaemonSet/{NAME}"]["spec"]["selector"]["matchLabels"],
        objects[f"Service/{NAME}-monitor"]["spec"]["selector"],
    ):
        assert selector.items() <= labels.items()
        assert selector["app.kubernetes.io/component"] == "hami-agent-acme"
    subject = objects[f"ClusterRoleBinding/{NAME}"]["subjects"][0]
    assert subject == {"kind": "ServiceAccount", "name": NAME, "namespace": "kube-system"}


def test_agent_gets_image_environment_mounts_and_arguments(monkeypatch):
    monkeypatch.setenv("NODE_NAME", "n1")
    objects = made(ACME)
    agent, pod = container(objects, NAME), objects[f"DaemonSet/{NAME}"]["spec"]["template"]["spec"]
    assert agent["image"] == "registry.example/acme/agent:1.0"
    assert {"name": "HAMI_ACME_SYSFS", "value": "/sys/class/acme"} in agent["env"]
    assert pod["nodeSelector"] == {"acme.example/npu": "present"}
    mounts = {m["mountPath"]: m["readOnly"] for m in agent["volumeMounts"] if m["name"].startswith("mount-")}
    assert mounts == {"/sys/class/acme": True, "/acme": False}
    parsed, told = AgentSettings.from_arguments(agent["args"][1:])
    assert not told
    assert (parsed.vendor, str(parsed.state_dir)) == ("acme", "/var/lib/hami-acme")
    assert agent["securityContext"]["allowPrivilegeEscalation"] is False


def test_entry_with_required_fields_only_has_safe_defaults():
    agent = container(made(BARE), "hami-agent-zeta")
    assert agent["image"] == f"zeta:{CHART.meta['appVersion']}"
    assert agent["imagePullPolicy"] == "IfNotPresent"
    assert agent["securityContext"] == container(made(BARE), "hami-device-plugin")["securityContext"]
    assert "nodeSelector" not in made(BARE)["DaemonSet/hami-agent-zeta"]["spec"]["template"]["spec"]


def test_scheduler_webhook_and_policies_know_the_vendor():
    objects = made(ACME, BARE)
    containers = objects["Deployment/hami-scheduler"]["spec"]["template"]["spec"]["containers"]
    args = next(c["args"] for c in containers if "--vendors" in " ".join(c.get("args", [])))
    vendors = next(arg for arg in args if arg.startswith("--vendors="))
    assert vendors.startswith("--vendors=nvidia,")
    assert vendors.endswith(",acme,zeta")
    config = yaml.safe_load(objects["ConfigMap/hami-scheduler"]["data"]["config.yaml"])
    managed = {resource["name"] for resource in config["extenders"][0]["managedResources"]}
    assert {"acme.example/npu", "acme.example/npu-memory", "zeta.example/npu", "nvidia.com/gpu"} <= managed
    hook = json.dumps(objects["MutatingWebhookConfiguration/hami-webhook"])
    assert "acme.example/npu-memory" in hook
    keys = json.dumps(objects["ValidatingAdmissionPolicy/hami-system-keys"])
    assert ACCOUNT in keys
    assert "acme.example/allocated" in keys
    (by,) = objects["ValidatingAdmissionPolicy/hami-agents"]["spec"]["matchConditions"]
    assert ACCOUNT in by["expression"]
    device_config = yaml.safe_load(objects["ConfigMap/hami-scheduler-device"]["data"]["device-config.yaml"])
    assert device_config["acme"] == {"resourceCountName": "acme.example/npu"}
    assert "nvidia" in device_config


def test_agents_are_watched_over_without_nvidias():
    objects = made(ACME, devicePlugin={"enabled": False}, networkPolicy={"enabled": True})
    assert "DaemonSet/hami-device-plugin" not in objects
    (by,) = objects["ValidatingAdmissionPolicy/hami-agents"]["spec"]["matchConditions"]
    assert by["expression"] == f'request.userInfo.username in ["{ACCOUNT}"]'
    assert f"NetworkPolicy/{NAME}" in objects
    nobody = made(devicePlugin={"enabled": False})
    assert "ValidatingAdmissionPolicy/hami-agents" not in nobody


SWITCH = {"enabled": True, "image": {"registry": "registry.example"}}
DRIVERS = {
    "ascend": ["/usr/local/Ascend/driver", "/usr/local/dcmi"],
    "cambricon": ["/dev", "/usr/lib", "/usr/lib64"],
}


@pytest.mark.parametrize("vendor", DRIVERS)
def test_agent_of_a_vendor_in_tree_is_one_switch(monkeypatch, vendor):
    monkeypatch.setenv("NODE_NAME", "n1")
    on = {vendor: {"enabled": True, "agent": SWITCH}}
    without, objects = made(devices={vendor: {"enabled": True}}), made(devices=on)
    assert f"DaemonSet/hami-agent-{vendor}" not in without
    agent = container(objects, f"hami-agent-{vendor}")
    pod = objects[f"DaemonSet/hami-agent-{vendor}"]["spec"]["template"]["spec"]
    assert agent["image"].partition(":")[0].endswith(f"hami/agent-{vendor}")
    paths = {v["name"]: v["hostPath"]["path"] for v in pod["volumes"] if v["name"].startswith("mount-")}
    assert sorted(paths.values()) == DRIVERS[vendor]
    assert list(pod["nodeSelector"].values()) == ["on"]
    assert agent["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True, "runAsUser": 0}
    parsed, told = AgentSettings.from_arguments(agent["args"][1:])
    assert not told
    assert (parsed.vendor, str(parsed.state_dir)) == (vendor, f"/var/lib/hami-{vendor}")
    config = objects["ConfigMap/hami-scheduler"]
    assert config == without["ConfigMap/hami-scheduler"], "the scheduler serves the vendor in any case"


def test_agent_takes_the_fields_of_its_switch():
    agent = {
        **SWITCH,
        "nodeSelector": {"ascend": None, "npu": "910b"},
        "tolerations": [{"key": "huawei.com/npu", "operator": "Exists"}],
        "extraArgs": ["--log-level=debug"],
    }
    objects = made(devices={"ascend": {"enabled": True, "agent": agent}})
    pod = objects["DaemonSet/hami-agent-ascend"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"npu": "910b"}
    assert pod["tolerations"] == agent["tolerations"]
    assert "--log-level=debug" in pod["containers"][0]["args"]


@pytest.mark.parametrize(
    ("devices", "agents", "words"),
    [
        ({"ascend": {"agent": SWITCH}}, [], "devices.ascend.agent.enabled: devices.ascend.enabled is false"),
        (
            {"cambricon": {"agent": SWITCH}},
            [{**BARE, "name": "cambricon"}],
            "two entries are named cambricon",
        ),
        (
            {"ascend": {"enabled": True, "agent": {"mounts": [{"mountPath": "/x"}]}}},
            [],
            "ascend.agent.mounts.*hostPath",
        ),
    ],
)
def test_bad_switch_of_an_agent_is_refused_by_name(devices, agents, words):
    with pytest.raises(ConfigError, match=words):
        made(*agents, devices=devices)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "Acme NPU"}, "agents.*name"),
        ({"name": "a" * 30}, "agents.*name"),
        ({"vendor": ""}, "agents.*vendor"),
        ({"resourceNames": []}, "agents.*resourceNames"),
        ({"resourceNames": ["npu"]}, "agents.*resourceNames"),
        ({"image": {}}, "agents.*repository"),
        ({"image": {"repository": "a", "pullPolicy": "Sometimes"}}, "agents.*pullPolicy"),
        ({"mounts": [{"mountPath": "/x"}]}, "agents.*hostPath"),
        ({"mounts": [{"hostPath": "dev"}]}, "agents.*hostPath"),
        ({"nodeSelector": {"gpu": True}}, "agents.*nodeSelector"),
        ({"nodeselector": {}}, "agents.*nodeselector"),
        ({"resourceNames": None}, "agents.*resourceNames"),
        ({"vendor": "nvidia"}, "acme: vendor nvidia is served by devicePlugin.*leave the entry out"),
    ],
)
def test_bad_entry_is_refused_by_its_field(change, words):
    with pytest.raises(ConfigError, match=words):
        made({**ACME, **change})


def test_two_entries_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="two entries are named acme; give each its own name"):
        made(ACME, {**BARE, "name": "acme"})


def test_scheduler_image_without_the_package_is_warned_of():
    release = Release(kube_version="1.36.3")
    (told,) = warnings(CHART, {"agents": [ACME]}, release)
    assert "hami/scheduler does not hold the package of vendor acme" in told
    own = {"agents": [ACME], "scheduler": {"extender": {"image": {"repository": "mine/scheduler"}}}}
    assert warnings(CHART, own, release) == []
