"""Ways to break a sound cluster."""

from __future__ import annotations

import copy

import yaml
from hami_nvidia import rules

from hami_core.tests.doctor import sound
from hami_core.wire.signature import generate_private_key, private_key_pem, public_key_pem

SCHEDULER = "Pod/hami-scheduler-1"
HOOKS = "MutatingWebhookConfiguration/hami-webhook"


def configure(cluster, **changes):
    """Change settings of kube-scheduler."""
    config = yaml.safe_load(cluster["ConfigMap/hami-scheduler"]["data"]["config.yaml"])
    cluster["ConfigMap/hami-scheduler"]["data"]["config.yaml"] = yaml.safe_dump(config | changes)


def extender(cluster, **changes):
    """Change settings of the extender."""
    configure(cluster, extenders=[sound.scheduler_config()["extenders"][0] | changes])


def argument(cluster, pod, flag, value):
    for container in cluster[pod]["spec"]["containers"]:
        args = container.get("args", [])
        args[:] = [a for a in args if not a.startswith(f"--{flag}=")]
        if container["name"] != "kube-scheduler" and value is not None:
            args.append(f"--{flag}={value}")


def every_agent(cluster, flag, value):
    for name in ("n1", "n2"):
        argument(cluster, f"Pod/agent-{name}", flag, value)


def add(cluster, *bodies):
    for body in bodies:
        cluster[f"{body['kind']}/{body['metadata']['name']}"] = body


def foreign_plugin(
    cluster, node="n1", image="nvcr.io/nvidia/k8s-device-plugin:v0.17.0", name="nvidia-device-plugin-daemonset"
):
    template = {"containers": [{"name": "nvidia-device-plugin-ctr", "image": image}]}
    pod = sound.pod(f"{name}-x", {**template, "nodeName": node}, namespace="gpu-operator", owner=f"DaemonSet/{name}")
    add(cluster, sound.daemon_set(name, template, "gpu-operator"), pod)


def hami_itself(cluster):
    container = {"name": "vgpu-scheduler-extender", "image": "docker.io/projecthami/hami:v2.10.0",
                 "command": ["scheduler", "--http_bind=0.0.0.0:443"]}  # fmt: skip
    add(
        cluster,
        sound.pod("old-scheduler", {"containers": [container]}, namespace="kube-system", owner="ReplicaSet/hami-1"),
    )


def hamis_plugin(cluster, node):
    """Run HAMi's device plugin on a node; the node is made if it does not exist."""
    image, owner = "docker.io/projecthami/hami:v2.10.0", "DaemonSet/hami-device-plugin"
    spec = {"containers": [{"name": "device-plugin", "image": image, "command": ["nvidia-device-plugin"]}]}
    if f"Node/{node}" not in cluster:
        add(cluster, sound.node(node))
    add(cluster, sound.pod("old-plugin", {**spec, "nodeName": node}, namespace="kube-system", owner=owner))


def other_webhook(cluster, name, policy="Never"):
    rules = sound.webhook()["rules"]
    add(cluster, sound.webhook_configuration(name, {"name": "sidecar.example.com", "rules": rules}))
    cluster[HOOKS]["webhooks"][0]["reinvocationPolicy"] = policy


def managed(*counted):
    """The extender's managed resources; kube-scheduler counts those named in ``counted``."""
    listed = sound.scheduler_config()["extenders"][0]["managedResources"]
    return [r | {"ignoredByScheduler": r["name"] not in counted} for r in listed]


def second_kube_scheduler(cluster, *counted):
    """Add another kube-scheduler that serves our schedulerName, with its own Lease."""
    twin = copy.deepcopy(cluster[SCHEDULER])
    twin["metadata"].update(name="other", namespace="kube-system", uid="uid-other")
    twin["spec"]["containers"] = twin["spec"]["containers"][:1]
    config = sound.scheduler_config()
    config["leaderElection"] = {"leaderElect": True, "resourceName": "other", "resourceNamespace": "kube-system"}
    config["extenders"][0]["managedResources"] = managed(*counted)
    twin["spec"]["volumes"][0]["configMap"]["name"] = "other-config"
    body = sound.config_map("other-config", {"config.yaml": yaml.safe_dump(config)})
    body["metadata"]["namespace"] = "kube-system"
    add(cluster, twin, body)


def counting_kube_scheduler_elsewhere(cluster):
    """Remove our kube-scheduler; one in another pod places our pods and counts slots."""
    second_kube_scheduler(cluster, "nvidia.com/gpu")
    no_kube_scheduler(cluster)


def no_kube_scheduler(cluster):
    """Remove kube-scheduler from our scheduler's pod."""
    containers = cluster[SCHEDULER]["spec"]["containers"]
    containers[:] = [c for c in containers if c["name"] != "kube-scheduler"]


def tampered(cluster):
    cluster["Pod/train"]["metadata"]["annotations"][rules.ALLOCATED] = "GPU-0,NVIDIA,40000,100:;"


def event(reason, kind, name, message="seen", namespace="default"):
    about = {"kind": kind, "name": name, "namespace": namespace}
    return {"kind": "Event", "metadata": sound.meta(f"e-{name}", namespace), "involvedObject": about,
            "reason": reason, "message": message}  # fmt: skip


def pending(cluster, reason="Unschedulable", message="0/2 nodes are available: 2 3/8 CardInsufficientMemory."):
    pod = sound.user_pod("waiting", "")
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    pod["status"] = {"phase": "Pending", "conditions": [condition] if message else []}
    add(cluster, pod)


def device_config(cluster, text):
    """Set the scheduler's device-config."""
    cluster["ConfigMap/hami-scheduler-device"]["data"]["device-config.yaml"] = text


def ask(cluster, memory):
    """Set the memory that the user's pod requests."""
    cluster["Pod/train"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] = memory


def waiting(cluster, message):
    state = {"waiting": {"reason": "CreateContainerConfigError", "message": message}}
    cluster["Pod/train"]["status"] = {"phase": "Pending", "containerStatuses": [{"name": "main", "state": state}]}


def info(cluster, node="n1", **changes):
    cluster[f"Node/{node}"]["status"]["nodeInfo"].update(changes)


def keyless(cluster):
    other = generate_private_key()
    cluster["Secret/hami-signing"] = sound.secret("hami-signing", {"20260201T000000Z-k.key": private_key_pem(other)})


def foreign_keys(cluster):
    other = public_key_pem(generate_private_key().public_key()).decode()
    cluster["ConfigMap/hami-signing-keys"]["data"] = {"a.pem": other}


def hook(cluster, **changes):
    cluster[HOOKS]["webhooks"][0].update(changes)


def service(cluster, **changes):
    hook(cluster, clientConfig={**sound.webhook()["clientConfig"], **changes})


def dead(cluster):
    statuses = [
        {"name": "vgpu-scheduler-extender", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "x"}}}
    ]
    cluster[SCHEDULER]["status"] = {**sound.ready(well=False), "containerStatuses": statuses}


def quota(entry, amount="4"):
    return {"kind": "ResourceQuota", "metadata": sound.meta("q", "team"), "spec": {"hard": {entry: amount}}}


def runtime_class(name, handler):
    return {"kind": "RuntimeClass", "metadata": sound.meta(name, ""), "handler": handler}
