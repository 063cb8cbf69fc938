"""The objects of a sound cluster, as kubectl would show them. Tests break one thing in it."""

from __future__ import annotations

import base64
import copy
import json
from datetime import UTC, datetime, timedelta
from functools import cache

import trustme
import yaml
from hami_nvidia import rules

from hami_core.wire import keys
from hami_core.wire.signature import generate_private_key, private_key_pem, public_key_pem, sign, statement_of

NS = "hami-system"
NOW = datetime.now(UTC)
AMOUNTS = ("gpumem", "gpumem-percentage", "gpucores", "priority")
SERVICE = f"hami-scheduler.{NS}.svc"


def stamp(ago: float = 0.0) -> str:
    return (NOW - timedelta(seconds=ago)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@cache
def authority() -> trustme.CA:
    return trustme.CA()


@cache
def signing_key():
    return generate_private_key()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def meta(name: str, namespace: str = NS, **more) -> dict:
    return {"name": name, **({"namespace": namespace} if namespace else {}), **more}


def ready(*, well: bool = True) -> dict:
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if well else "False"}]}


def pod(name: str, spec: dict, *, namespace: str = NS, owner: str = "", status: dict | None = None, **more) -> dict:
    if owner:
        kind, _, owner_name = owner.partition("/")
        more["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": kind, "name": owner_name, "uid": f"uid-{owner_name}", "controller": True}
        ]
    more.setdefault("uid", f"uid-{name}")
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta(name, namespace, **more), "spec": spec}
    return {**body, "status": status or ready()}


def scheduler_config() -> dict:
    managed = [{"name": f"nvidia.com/{name}", "ignoredByScheduler": True} for name in ("gpu", *AMOUNTS)]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": True, "resourceName": "hami-scheduler", "resourceNamespace": NS},
        "percentageOfNodesToScore": 100,
        "podMaxBackoffSeconds": 3,
        "profiles": [{"schedulerName": "hami-scheduler"}],
        "extenders": [
            {
                "urlPrefix": "http://127.0.0.1:8080", "filterVerb": "filter", "prioritizeVerb": "prioritize",
                "bindVerb": "bind", "weight": 1, "nodeCacheCapable": True, "httpTimeout": "30s",
                "managedResources": managed,
            }
        ],
    }  # fmt: skip


def scheduler_pod(name: str = "hami-scheduler-1") -> dict:
    kube = {
        "name": "kube-scheduler", "image": "registry.example/kube-scheduler:v1.36.3", "command": ["kube-scheduler"],
        "args": ["--config=/config/config.yaml", "-v=4"],
        "volumeMounts": [{"name": "scheduler-config", "mountPath": "/config"}],
    }  # fmt: skip
    args = [
        "scheduler", "--scheduler-name=hami-scheduler", "--http-bind=127.0.0.1:8080", "--webhook-bind=:8443",
        "--tls-secret=hami-scheduler-tls", "--webhook-service=hami-scheduler", "--webhook-configuration=hami-webhook",
        "--signing-secret=hami-signing", "--signing-keys-configmap=hami-signing-keys", "--leader-elect=true",
        "--device-config-file=/device-config/device-config.yaml", "--leader-elect-resource-name=hami-scheduler",
        f"--leader-elect-resource-namespace={NS}",
    ]  # fmt: skip
    mounts = [{"name": "device-config", "mountPath": "/device-config"}]
    ours = {"name": "vgpu-scheduler-extender", "image": "hami/scheduler:0.1.0", "args": args, "volumeMounts": mounts}
    volumes = [
        {"name": "scheduler-config", "configMap": {"name": "hami-scheduler"}},
        {"name": "device-config", "configMap": {"name": "hami-scheduler-device"}},
    ]
    spec = {"containers": [kube, ours], "volumes": volumes, "nodeName": "cp", "schedulerName": "default-scheduler"}
    return pod(
        name, spec, owner="ReplicaSet/hami-scheduler-abc", labels={"app.kubernetes.io/component": "hami-scheduler"}
    )


def agent_template() -> dict:
    args = ["agent", "--vendor=nvidia", "--mode=required", "--signing-keys=/signing-keys", "--enforcement=enforce"]
    mounts = [{"name": "signing-keys", "mountPath": "/signing-keys"}]
    container = {"name": "device-plugin", "image": "hami/agent-nvidia:0.1.0", "args": args, "volumeMounts": mounts}
    volumes = [{"name": "signing-keys", "configMap": {"name": "hami-signing-keys", "optional": True}}]
    return {"containers": [container], "volumes": volumes, "nodeSelector": {"gpu": "on"}}


def agent_pod(node: str) -> dict:
    spec = {**agent_template(), "nodeName": node, "schedulerName": "default-scheduler"}
    return pod(f"agent-{node}", spec, owner="DaemonSet/hami-device-plugin")


def register(
    count: int = 2, slots: int = 10, *, health: bool = True, not_offered: str = "", mode: str = "hami-core"
) -> str:
    listed = [
        {"id": f"GPU-{i}", "index": i, "count": slots, "devmem": 40960, "devcore": 100, "type": "NVIDIA A100",
         "mode": mode} | ({"custominfo": {"notoffered": not_offered}} if not_offered else {"health": health})
        for i in range(count)
    ]  # fmt: skip
    return json.dumps(listed)


def node(name: str, **annotations: str) -> dict:
    info = {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://2.3.7"}
    amounts = {"cpu": "8", "nvidia.com/gpu": "20"}
    marks = {rules.REGISTER: register(), keys.agent_mode("nvidia"): "cdi", **annotations}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": meta(name, "", labels={"gpu": "on"}, annotations=marks),
        "status": {
            "capacity": amounts, "allocatable": amounts, "nodeInfo": info,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }  # fmt: skip


def lease(name: str, holder: str, ago: float = 2.0) -> dict:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": stamp(ago)}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta(name), "spec": spec}


def config_map(name: str, data: dict[str, str]) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(name), "data": data}


def secret(name: str, data: dict[str, bytes]) -> dict:
    encoded = {key: b64(value) for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta(name), "data": encoded}


def tls_secret(*names: str, **options) -> dict:
    issued = authority().issue_cert(*(names or (SERVICE,)), **options)
    chain = b"".join(c.bytes() for c in issued.cert_chain_pems)
    pem = {"tls.crt": chain, "tls.key": issued.private_key_pem.bytes(), "ca.crt": authority().cert_pem.bytes()}
    return secret("hami-scheduler-tls", pem)


def webhook(name: str = "vgpu.hami.io", **changes) -> dict:
    names = "', '".join(["nvidia.com/gpu", *(f"nvidia.com/{a}" for a in AMOUNTS)])
    conditions = [{"name": "names-a-device", "expression": f"object.spec.containers.exists(c, c in ['{names}'])"}]
    service = {"namespace": NS, "name": "hami-scheduler", "path": "/webhook", "port": 443}
    return {
        "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
        "reinvocationPolicy": "Never", "matchConditions": conditions,
        "clientConfig": {"service": service, "caBundle": b64(authority().cert_pem.bytes())},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}
            for operation, resource in (("CREATE", "pods"), ("UPDATE", "pods/ephemeralcontainers"))
        ],
        **changes,
    }  # fmt: skip


def webhook_configuration(name: str = "hami-webhook", *hooks: dict) -> dict:
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    return {**body, "metadata": meta(name, ""), "webhooks": list(hooks) or [webhook()]}


def policy() -> dict:
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
         "resources": ["pods", "pods/status", "pods/ephemeralcontainers"]},
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding", "bindings"]},
    ]  # fmt: skip
    variables = [
        {"name": "new", "expression": "object.metadata.?annotations.orValue({})"},
        {"name": "old", "expression": "oldObject == null ? {} : oldObject.metadata.?annotations.orValue({})"},
    ]
    expression = f"['{keys.SIGNATURE}', '{keys.NODE}'].all(k, variables.new[?k] == variables.old[?k])"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "variables": variables,
        "validations": [{"expression": expression}],
    }
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    return {**body, "metadata": meta("hami-system-keys", ""), "spec": spec}


def policy_binding() -> dict:
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding"}
    spec = {"policyName": "hami-system-keys", "validationActions": ["Deny"]}
    return {**body, "metadata": meta("hami-system-keys", ""), "spec": spec}


def signature(body: dict, uid: str) -> str:
    return sign(signing_key(), statement_of(uid, body["metadata"]["annotations"], epoch=1))


def user_pod(
    name: str, node_name: str = "n1", *, signed: bool = True, scheduler: str = "hami-scheduler", **spec
) -> dict:
    annotations = {keys.NODE: node_name, rules.ALLOCATED: "GPU-0,NVIDIA,1000,30:;"} if node_name else {}
    uid = f"uid-{name}"
    if node_name and signed:
        annotations[keys.SIGNATURE] = signature({"metadata": {"annotations": annotations}}, uid)
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}
    container = {"name": "main", "image": "example/train:1", "resources": {"limits": limits}}
    body = {
        "containers": [container],
        "schedulerName": scheduler,
        **({"nodeName": node_name} if node_name else {}),
        **spec,
    }
    status = ready() if node_name else {"phase": "Pending"}
    return pod(
        name, body, namespace="default", annotations=annotations, uid=uid, status=status, creationTimestamp=stamp(300)
    )


def daemon_set(name: str, template: dict, namespace: str = NS) -> dict:
    spec = {"template": {"spec": template}, "selector": {"matchLabels": {"a": "b"}}}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta(name, namespace), "spec": spec}


def healthy() -> dict[str, dict]:
    """Every object of a sound cluster, by ``Kind/name``."""
    private = private_key_pem(signing_key())
    public = public_key_pem(signing_key().public_key()).decode()
    slices = {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": meta("hami-scheduler-x", labels={"kubernetes.io/service-name": "hami-scheduler"}),
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}],
    }  # fmt: skip
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta("hami-scheduler"),
        "spec": {"ports": [{"port": 443}]},
    }
    every = [
        scheduler_pod(),
        *(node(name) for name in ("n1", "n2")),
        *(agent_pod(name) for name in ("n1", "n2")),
        *(lease(f"hami-agent-nvidia.{name}", name) for name in ("n1", "n2")),
        lease("hami-scheduler", "hami-scheduler-1_0b1c"),
        daemon_set("hami-device-plugin", agent_template()),
        config_map("hami-scheduler", {"config.yaml": yaml.safe_dump(scheduler_config())}),
        config_map("hami-scheduler-device", {"device-config.yaml": "nvidia:\n  deviceSplitCount: 10\n"}),
        config_map("hami-signing-keys", {"20260101T000000Z-k.pem": public}),
        secret("hami-signing", {"20260101T000000Z-k.key": private}),
        tls_secret(),
        webhook_configuration(),
        policy(),
        policy_binding(),
        service,
        slices,
        user_pod("train"),
    ]
    return {f"{o['kind']}/{o['metadata']['name']}": copy.deepcopy(o) for o in every}
