"""The chart's DaemonSet of NVIDIA's MPS control daemon (``devicePlugin.mps``)."""

from __future__ import annotations

import pytest

from hami_core.errors import ConfigError
from hami_core.manifests import Chart, Release
from hami_core.tests.manifests.registry import render

CHART = Chart.read()
NAME = "DaemonSet/hami-nvidia-mps"


def made(device_plugin=None, **values):
    mps = {"enabled": True, **values}
    rendered = render(CHART, {"devicePlugin": {"mps": mps, **(device_plugin or {})}}, Release(kube_version="1.36.3"))
    return {f"{m.content['kind']}/{m.content['metadata']['name']}": m.content for m in rendered}


def pod(objects, name=NAME):
    return objects[name]["spec"]["template"]["spec"]


def env(container):
    return {variable["name"]: variable.get("value") for variable in container["env"]}


def mounts(container):
    return {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}


def test_mps_is_off_by_default_and_leaves_no_trace():
    objects = made(enabled=False)
    assert NAME not in objects
    agent = pod(objects, "DaemonSet/hami-device-plugin")["containers"][0]
    assert env(agent)["NVIDIA_DRIVER_CAPABILITIES"] == "utility"
    assert "HAMI_NVIDIA_MPS_DIR" not in env(agent)
    assert NAME not in made({"enabled": False}), "not without the agent"


def test_daemon_and_agent_share_one_folder_of_the_node():
    objects = made(root="/run/mine/mps")
    daemon = pod(objects)["containers"][0]
    agent = pod(objects, "DaemonSet/hami-device-plugin")["containers"][0]
    assert daemon["command"] == ["python3", "-m", "hami_nvidia.mps"]
    assert daemon["image"] == agent["image"]
    assert env(daemon)["HAMI_MPS_DIR"] == env(agent)["HAMI_NVIDIA_MPS_DIR"] == "/run/mine/mps"
    assert env(agent)["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert mounts(daemon) == {"/run/mine/mps": "mps", "/dev/shm": "mps-shm"}
    assert mounts(agent)["/run/mine/mps"] == "mps"
    for each in (pod(objects), pod(objects, "DaemonSet/hami-device-plugin")):
        paths = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in each["volumes"]}
        assert paths["mps"] == "/run/mine/mps"
        assert paths.get("mps-shm", "/run/mine/mps/shm") == "/run/mine/mps/shm"


@pytest.mark.parametrize("root", ["/", "/run/nvidia/driver"])
def test_daemon_sees_its_folders_below_the_drivers_root(root):
    objects = made({"nvidiaDriverRoot": root})
    daemon = pod(objects)["containers"][0]
    assert env(daemon)["HAMI_MPS_DRIVER_ROOT"] == "/driver-root"
    assert mounts(daemon) == {
        "/run/hami/mps": "mps",
        "/driver-root": "driver-root",
        "/driver-root/run/hami/mps": "mps",
        "/driver-root/dev/shm": "mps-shm",
    }
    assert {"name": "driver-root", "hostPath": {"path": root}} in pod(objects)["volumes"]


def test_daemon_outlives_upgrades_and_calls_no_api():
    objects = made(quitSeconds=40)
    assert objects[NAME]["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert pod(objects)["automountServiceAccountToken"] is False
    assert pod(objects)["hostPID"] is True
    assert "hostIPC" not in pod(objects)
    assert pod(objects)["terminationGracePeriodSeconds"] == 60
    assert env(pod(objects)["containers"][0])["HAMI_MPS_QUIT_LIMIT_S"] == "40"
    assert "livenessProbe" not in pod(objects)["containers"][0]


def test_daemon_runs_on_the_agents_nodes_or_fewer():
    own = made(nodeSelector={"mps": "on"})
    assert pod(own)["nodeSelector"] == {"gpu": "on", "mps": "on"}
    assert pod(own, "DaemonSet/hami-device-plugin")["nodeSelector"] == {"gpu": "on"}


def test_limits_and_variables_reach_the_daemon():
    plain = env(pod(made())["containers"][0])
    assert {name for name in plain if name.startswith(("CUDA_", "HAMI_"))} == {"HAMI_MPS_DIR", "HAMI_MPS_QUIT_LIMIT_S"}
    switches = {"exclusive": True, "multiUser": True}
    limits = {"activeThreadPercentage": 50, "pinnedDeviceMemLimit": "0=16384M,1=8G"}
    limited = made(**switches, **limits, extraEnvs={"CUDA_X": 1})
    found = env(pod(limited)["containers"][0])
    assert found["HAMI_MPS_EXCLUSIVE"] == found["HAMI_MPS_MULTIUSER"] == "true"
    assert found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "50"
    assert found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=16384M,1=8G"
    assert found["CUDA_X"] == "1"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"activeThreadPercentage": 0}, "activeThreadPercentage"),
        ({"activeThreadPercentage": 101}, "activeThreadPercentage"),
        ({"pinnedDeviceMemLimit": "16G"}, "pinnedDeviceMemLimit"),
        ({"root": "run/mps"}, "root"),
        ({"quitSeconds": 0}, "quitSeconds"),
        ({"exclusiv": True}, "exclusiv"),
    ],
)
def test_wrong_values_are_refused_by_name(values, words):
    with pytest.raises(ConfigError, match=words):
        made(**values)
