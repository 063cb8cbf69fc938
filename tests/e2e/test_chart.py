"""Tests of the chart: Helm 3, Helm 4 and `hami manifests` render it, and a real API server accepts the objects.

The cluster of this module has no nodes: it admits objects and applies policies, but runs no pods. All other modules
test the chart's processes.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from hami_core.documents import load_all_yaml as load_all
from hami_core.manifests import Chart, Release, render
from hami_core.manifests.render import ORDER
from tests.e2e.bed.bed import Bed
from tests.e2e.bed.errors import ApiRefused, BedError
from tests.e2e.bed.recipes import RECIPES
from tests.e2e.bed.tools import locate
from tests.e2e.values import merged, values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bed.tools import Tools

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "contrib/helm/hami"
CHART = Chart.read(FOLDER)
NAMESPACE = "kube-system"
MONITOR = "monitoring.coreos.com/v1"
OURS = {"registry": "registry.example"}
REGISTRY = {"scheduler": {"extender": {"image": OURS}}, "devicePlugin": {"image": OURS}}
"""Our images have no registry by default, and the chart refuses that."""
HAMIS = yaml.safe_load((ROOT / "hami_core/tests/manifests/data/hami-2.10.yaml").read_text())
VENDORS = (
    "amd",
    "ascend",
    "awsneuron",
    "biren",
    "enflame",
    "hygon",
    "iluvatar",
    "kunlun",
    "metax",
    "mthreads",
    "vastai",
)

MATRIX: dict[str, dict[str, Any]] = {
    "defaults": {},
    "hami-2.10": merged(HAMIS, {"global": {"imageRegistry": "registry.example"}}),
    "bed": values("v1.36.3"),
    "agents": {
        "prometheus": {"enabled": True},
        "networkPolicy": {"enabled": True},
        "global": {"managedNodeSelectorEnable": True},
        "agents": [
            {
                "name": "acme",
                "vendor": "acme",
                "resourceNames": ["acme.example/npu", "acme.example/npu-memory"],
                "image": {"registry": "registry.example", "repository": "acme/agent", "pullSecrets": ["pull"]},
                "nodeSelector": {"acme.example/npu": "present"},
                "env": {"HAMI_ACME_SYSFS": "/sys/class/acme", "DEBUG": 1},
                "mounts": [{"hostPath": "/sys/class/acme"}, {"hostPath": "/a", "mountPath": "/b", "readOnly": False}],
                "systemKeys": ["acme.example/allocated"],
                "deviceConfig": {"acme": {"resourceCountName": "acme.example/npu"}},
                "securityContext": {"privileged": True},
                "tolerations": [{"operator": "Exists"}],
                "extraArgs": ["--log-format=json"],
            },
            {"name": "z", "vendor": "z", "resourceNames": ["z.example/npu"], "image": {"repository": "z"}},
        ],
    },
    "agents-alone": {
        "devicePlugin": {"enabled": False},
        "agents": [{"name": "z", "vendor": "z", "resourceNames": ["z.example/npu"], "image": {"repository": "z"}}],
    },
    "everything": {
        "global": {
            "imageRegistry": "registry.example:5000",
            "imagePullSecrets": ["one", {"name": "two"}],
            "labels": {"team": "ml", "on": "yes"},
            "annotations": {"note": "a: b # c"},
            "managedNodeSelectorEnable": True,
        },
        "schedulerName": "cards",
        "legacyMetrics": True,
        "scheduler": {
            "replicas": 3,
            "vendorPackages": ["kunlun", "metax", "acme"],
            "overwriteEnv": True,
            "nodeName": "node1",
            "nodeLabelSelector": {"gpu": "on", "zone": "a"},
            "podAnnotations": {"x": "1"},
            "podLabels": {"y": "2"},
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
            "tolerations": [{"operator": "Exists"}],
            "nodeSelector": {"a": "b"},
            "extender": {"resources": {"limits": {"cpu": 2, "memory": "1Gi"}}, "extraArgs": ["-v=5"]},
            "admissionWebhook": {
                "whitelistNamespaces": ["a", "b"],
                "namespaceSelector": {"matchLabels": {"gpu": "true"}},
                "objectSelector": {"matchExpressions": [{"key": "k", "operator": "Exists"}]},
                "customURL": {"enabled": True, "host": "10.0.0.1"},
            },
            "certManager": {"enabled": True},
            "service": {
                "type": "NodePort",
                "httpTargetPort": 443,
                "labels": {"l": "1"},
                "annotations": {"a": "2"},
            },
        },
        "devicePlugin": {
            "deviceMemoryScaling": 1.5,
            "deviceCoreScaling": 2.0,
            "preConfiguredDeviceMemory": 12345678,
            "runtimeClassName": "nvidia",
            "createRuntimeClass": True,
            "nvidiaDriverRoot": "/run/nvidia/driver",
            "nodeConfiguration": {"config": '{"nodeconfig": [{"name": "n1", "devicesplitcount": 5}]}\n'},
            "gpuOperatorToolkitReady": {"enabled": True},
            "hostNetwork": False,
            "extraEnvs": {"A": 1, "B": "x y", "C": True},
            "mode": "trust",
            "trustSchedulers": ["a", "b"],
            "service": {"type": "NodePort"},
        },
        "devices": {name: {"enabled": True} for name in VENDORS} | {"nvidia": {"gpuCorePolicy": "force"}},
        "admissionPolicy": {"allowedUsers": ["system:serviceaccount:volcano-system:volcano"]},
        "networkPolicy": {"enabled": True, "metricsFrom": [{"namespaceSelector": {}}]},
        "prometheus": {
            "enabled": True,
            "alerts": {"enabled": True, "labels": {"team": "ml"}},
            "labels": {"release": "kps"},
            "interval": "30s",
            "tokenSecret": "t",
        },
        "grafana": {"dashboards": {"enabled": True}},
    },
    "alone": {
        "fullnameOverride": "cards",
        "namespaceOverride": "elsewhere",
        "scheduler": {
            "kubeScheduler": {"enabled": False},
            "extender": {"clientCASecret": "ca"},
            "certManager": {"enabled": True},
            "leaderElect": True,
            "serviceAccountName": "mine",
        },
        "devicePlugin": {"nodeConfiguration": {"externalConfigName": "theirs"}, "serviceAccountName": "other"},
        "networkPolicy": {"enabled": True},
    },
    "least": {
        "scheduler": {"admissionWebhook": {"enabled": False}, "leaderElect": False, "livenessProbe": False},
        "devicePlugin": {"enabled": False},
        "devices": {"cambricon": {"enabled": False}},
        "admissionPolicy": {"enabled": False},
    },
    "own device-config": {"device-config": {"content": "nvidia:\n  deviceSplitCount: 3\n# end"}},
    "nothing": {
        "scheduler": {"nodeSelector": None, "podSecurityContext": None},
        "devicePlugin": {"updateStrategy": None},
    },
}


@pytest.fixture(scope="module", params=[pytest.param("4", marks=pytest.mark.smoke), "3"])
def helm(request: pytest.FixtureRequest) -> Path:
    """A helm program of each release line."""
    return locate(RECIPES[f"helm-{request.param}"]) / "helm"


def run(helm: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run helm with a home folder of its own."""
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    return subprocess.run([helm, *words], capture_output=True, text=True, check=False, env=environment, timeout=120)


def by_name(objects: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    found = {}
    for each in objects:
        meta = each["metadata"]
        key = (each["kind"], meta.get("namespace", ""), meta["name"])
        assert key not in found
        found[key] = each
    return found


def ours(given: dict[str, Any]) -> list[dict[str, Any]]:
    release = Release("hami", NAMESPACE, "1.36.3", [MONITOR])
    return [dict(manifest.content) for manifest in render(CHART, merged(REGISTRY, given), release)]


@pytest.mark.parametrize("case", MATRIX)
def test_helm_and_hami_manifests_make_the_same_objects(helm, case, tmp_path):
    file = tmp_path / "values.json"
    file.write_text(json.dumps(merged(REGISTRY, MATRIX[case])))
    words = [
        "template",
        "hami",
        str(FOLDER),
        "-n",
        NAMESPACE,
        "--kube-version",
        "1.36.3",
        "-a",
        MONITOR,
        "-f",
        str(file),
    ]
    done = run(helm, tmp_path, *words)
    assert done.returncode == 0, done.stderr
    theirs = [document for document in load_all(done.stdout, "helm") if document]
    mine = ours(MATRIX[case])
    assert by_name(mine) == by_name(theirs)
    # Helm 3 does not know newer kinds.
    early = ORDER[: ORDER.index("MutatingWebhookConfiguration")]
    assert [e["kind"] for e in mine if e["kind"] in early] == [e["kind"] for e in theirs if e["kind"] in early]


def test_helm_finds_nothing_to_say_against_it(helm, tmp_path):
    done = run(helm, tmp_path, "lint", "--strict", str(FOLDER))
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize(
    ("setting", "place"),
    [("agents[0].name=a", "vendor"),
     ("scheduler.replica=2", "replica"), ("nosuch=1", "nosuch"), ("devicePlugin.mode=any", "mode"),
     ("devicePlugin.nvidiaNodeSelector.gpu=true", "gpu"), ("scheduler.replicas=0", "replicas")],
)  # fmt: skip
def test_helm_refuses_what_the_schema_does(helm, setting, place, tmp_path):
    done = run(helm, tmp_path, "template", "hami", str(FOLDER), "--set", setting)
    assert done.returncode != 0
    assert place in done.stderr


def test_helm_refuses_our_images_without_a_registry(helm, tmp_path):
    done = run(helm, tmp_path, "template", "hami", str(FOLDER), "--kube-version", "1.36.3")
    assert done.returncode != 0
    assert "has no registry" in done.stderr
    assert "docs/how-to/images.md" in done.stderr


# --- on a real API server


@pytest.fixture(scope="module")
def bed(tools: Tools, module_work: Path) -> Iterator[Bed]:
    """A bed without nodes: only a control plane."""
    with Bed(module_work, tools, ()) as running:
        yield running


@pytest.mark.parametrize("case", MATRIX)
def test_the_api_server_takes_every_object(bed, case):
    served = [
        each for each in ours(MATRIX[case]) if not each["apiVersion"].startswith(("monitoring.", "cert-manager."))
    ]
    for each in served:
        each["metadata"].pop("namespace", None) if each["metadata"].get("namespace") == "elsewhere" else None
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": served})
    told = bed.kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)
    assert told.count("serverside-applied") == len(served)


HAMIS_RELEASE = """
{{- range $kind, $name := dict "Deployment" "hami-scheduler" "DaemonSet" "hami-device-plugin" }}
---
apiVersion: apps/v1
kind: {{ $kind }}
metadata:
  name: {{ $name | replace "hami" $.Release.Name }}
spec:
  selector:
    matchLabels: &labels
      app.kubernetes.io/name: hami
      app.kubernetes.io/instance: {{ $.Release.Name }}
      app.kubernetes.io/component: {{ $name }}
  template:
    metadata: {labels: *labels}
    spec:
      containers: [{name: main, image: registry.example/projecthami/hami:v2.10.0, command: [scheduler]}]
{{- end }}
"""
"""Workloads with the names, labels and selectors of HAMi's chart."""


def test_helm_does_not_replace_hamis_release(bed: Bed, tmp_path: Path) -> None:
    """helm upgrade stops over HAMi's release, and goes on over ours. HAMi's chart over ours is not stopped."""
    release, where = "old-hami", ("-n", "taken")
    theirs = tmp_path / "hami"
    (theirs / "templates").mkdir(parents=True)
    (theirs / "Chart.yaml").write_text("{apiVersion: v2, name: hami, version: 2.10.0}")
    (theirs / "templates/parts.yaml").write_text(HAMIS_RELEASE)
    bed.helm("install", release, str(theirs), *where, "--create-namespace")
    ours = ("upgrade", release, str(FOLDER), *where, "--set", "global.imageRegistry=registry.example")
    with pytest.raises(BedError) as stopped:
        bed.helm(*ours)
    for word in (f"taken/{release}-", "docs/how-to/migrate-from-hami.md", "devicePlugin.mode=adopt"):
        assert word in str(stopped.value)
    kept = bed.call("GET", f"/apis/apps/v1/namespaces/taken/deployments/{release}-scheduler")
    assert kept["metadata"]["generation"] == 1
    bed.helm("uninstall", release, *where, "--wait")
    bed.helm(*ours, "--install")
    bed.helm(*ours)
    bed.helm("upgrade", release, str(theirs), *where)
    replaced = bed.call("GET", f"/apis/apps/v1/namespaces/taken/deployments/{release}-scheduler")
    assert [c["command"] for c in replaced["spec"]["template"]["spec"]["containers"]] == [["scheduler"]]
    bed.helm("uninstall", release, *where, "--wait")


@pytest.fixture(scope="module")
def installed(bed: Bed) -> Bed:
    """A bed with the objects of ``hami manifests``. No program serves the webhook."""
    bed.apply(*ours({"scheduler": {"overwriteEnv": True}}))
    bed.wait("the policies hold", lambda: refused(bed, plain("probe", **{"hami.io/vgpu-node": "n"})))
    return bed


def plain(name: str, **annotations: str) -> dict[str, Any]:
    spec = {"automountServiceAccountToken": False, "containers": [{"name": "main", "image": "none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations}, "spec": spec}


def refused(bed: Bed, pod: dict[str, Any]) -> str:
    """Why the API server refuses a pod; empty if it accepts it."""
    try:
        bed.call("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
    except ApiRefused as error:
        return str(error)
    return ""


def asks(kind: str, section: str, resource: str) -> dict[str, Any]:
    pod = plain("asks")
    container = {"name": "c", "image": "none", "resources": {section: {resource: "1"}}}
    if section == "requests":
        # The API server refuses extended resources with a request but without a limit. The container also requests cpu.
        container["resources"]["limits"] = {resource: "1"}
    if kind == "sidecar":
        container["restartPolicy"] = "Always"
    pod["spec"].setdefault("containers" if kind == "app" else "initContainers", []).append(container)
    return pod


@pytest.mark.parametrize("kind", ["app", "init", "sidecar"])
@pytest.mark.parametrize("section", ["limits", "requests"])
@pytest.mark.parametrize(
    "resource", ["nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/priority", "cambricon.com/vmlu"]
)
def test_pod_with_devices_is_refused_without_webhook(installed, kind, section, resource):
    assert "failed calling webhook" in refused(installed, asks(kind, section, resource))


def test_other_pods_are_admitted_without_webhook(installed):
    assert refused(installed, plain("a")) == ""
    assert refused(installed, asks("app", "limits", "cpu")) == ""
    assert refused(installed, asks("app", "limits", "example.com/gpu")) == ""
    excepted = asks("app", "limits", "nvidia.com/gpu")
    excepted["metadata"]["labels"] = {"hami.io/webhook": "ignore"}
    assert refused(installed, excepted) == ""


SYSTEM = json.loads((FOLDER / "files/system-keys.json").read_text())


def test_policies_are_without_type_errors(installed):
    def checked() -> list[dict[str, Any]]:
        path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
        found = [each.get("status", {}) for each in installed.call("GET", path)["items"]]
        return found if all("typeChecking" in each for each in found) else []

    for status in installed.wait("the policies are checked", checked):
        assert not status["typeChecking"].get("expressionWarnings")


@pytest.mark.parametrize("key", [*SYSTEM["keys"], "hami.io/new-devices-allocated"])
def test_users_cannot_set_system_annotations(installed, key):
    told = refused(installed, plain("forged", **{key: "x", "other": "y"}))
    assert key in told
    assert "only the scheduler and the node agents set this" in told


@pytest.fixture
def pod(installed: Bed) -> Iterator[str]:
    """A pod with an annotation that the scheduler wrote."""
    path = "/api/v1/namespaces/default/pods"
    installed.call("POST", path, plain("held"))
    grant(installed, "agents-may-get")
    mark(installed, "held", {"hami.io/bind-phase": "success"}, who="hami-scheduler")
    yield "held"
    installed.call("DELETE", f"{path}/held?gracePeriodSeconds=0")


def grant(bed: Bed, name: str) -> None:
    """A role that lets our accounts read, because kubectl reads before it patches. Our agents do not."""
    rules = [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get"]}]
    meta = {"name": name}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules}
    subjects = [
        {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": each}
        for each in ("hami-device-plugin", "hami-scheduler")
    ]
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {**role, "kind": "ClusterRoleBinding", "roleRef": ref, "subjects": subjects}
    binding.pop("rules")
    bed.apply(role, binding)


def mark(
    bed: Bed, pod: str, annotations: dict[str, str | None], who: str = "", node: str = "", kind: str = "pod"
) -> None:
    """Patch annotations, as cluster admin or as one of our service accounts on a node."""
    impersonated = [f"--as=system:serviceaccount:{NAMESPACE}:{who}"] if who else []
    if node:
        impersonated.append(f"--as-user-extra=authentication.kubernetes.io/node-name={node}")
    patch = json.dumps({"metadata": {"annotations": annotations}})
    bed.kubectl("patch", kind, pod, "--type=merge", "-p", patch, *impersonated)


@pytest.mark.parametrize("value", ["failed", None])
def test_system_annotations_cannot_be_changed_or_removed(installed, pod, value):
    with pytest.raises(BedError, match="only the scheduler and the node agents set this"):
        mark(installed, pod, {"hami.io/bind-phase": value})
    mark(installed, pod, {"mine": "too"})
    mark(installed, pod, {"hami.io/bind-phase": value}, who="hami-scheduler")


def test_an_agent_writes_its_own_node_and_its_pods_only(installed, pod):
    for name in ("n1", "n2"):
        installed.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    here = plain("here")
    here["spec"]["nodeName"] = "n1"
    installed.call("POST", "/api/v1/namespaces/default/pods", here)
    agent = {"who": "hami-device-plugin", "node": "n1"}
    mark(installed, "n1", {"hami.io/agent-mode-nvidia": "cdi"}, kind="node", **agent)
    mark(installed, "here", {"hami.io/bind-phase": "success"}, **agent)
    for name, kind in (("n2", "node"), (pod, "pod")):
        with pytest.raises(BedError, match="an agent writes"):
            mark(installed, name, {"hami.io/agent-mode-nvidia": "cdi"}, kind=kind, **agent)
    with pytest.raises(BedError, match="names no node"):
        mark(installed, "n1", {"hami.io/agent-mode-nvidia": "serial"}, kind="node", who="hami-device-plugin")
    impersonated = (f"--as=system:serviceaccount:{NAMESPACE}:hami-device-plugin",
                    "--as-user-extra=authentication.kubernetes.io/node-name=n1")  # fmt: skip
    with pytest.raises(BedError, match="its own node, nothing else"):
        installed.kubectl("patch", "node", "n1", "--type=merge", "-p", '{"spec":{"unschedulable":true}}', *impersonated)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    own = lease | {"metadata": {"name": "hami-agent-nvidia.n1", "namespace": NAMESPACE}}
    installed.kubectl("create", "-f", "-", *impersonated, stdin=json.dumps(own))
    other = lease | {"metadata": {"name": "hami-agent-nvidia.n2", "namespace": NAMESPACE}}
    with pytest.raises(BedError, match="the lease of its own node"):
        installed.kubectl("create", "-f", "-", *impersonated, stdin=json.dumps(other))
    installed.call("DELETE", "/api/v1/namespaces/default/pods/here?gracePeriodSeconds=0")


# --- install, upgrade, rollback, uninstall


WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/life-hami-webhook"
DEPLOYMENT = "/apis/apps/v1/namespaces/life/deployments/life-hami-scheduler"


def test_install_upgrade_rollback_uninstall(bed, helm, tmp_path):
    """An upgrade keeps the CA that the scheduler wrote into the webhook configuration. Uninstalling removes all."""

    def helm_(*words: str) -> str:
        command = (str(helm), *words)
        environment = {"HOME": str(tmp_path), "KUBECONFIG": str(bed.work / "kubeconfig/admin")}
        return str(bed.run("cp", *command, timeout=120, env=environment).stdout)

    settings = "scheduler.kubeScheduler.image.tag=v1,global.imageRegistry=registry.example"
    common = ("-n", "life", "--set", settings)
    helm_("install", "life", str(FOLDER), "--create-namespace", *common)
    hooks = bed.call("GET", WEBHOOKS)["webhooks"]
    assert [hook["failurePolicy"] for hook in hooks] == ["Fail"]
    patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "Y2E="}]
    bed.call("PATCH", WEBHOOKS, patch, "application/json-patch+json")

    helm_("upgrade", "life", str(FOLDER), *common, "--set", "scheduler.replicas=2,scheduler.overwriteEnv=true")
    hooks = {hook["name"]: hook for hook in bed.call("GET", WEBHOOKS)["webhooks"]}
    assert hooks["vgpu.hami.io"]["clientConfig"]["caBundle"] == "Y2E="
    assert set(hooks) == {"vgpu.hami.io", "others.vgpu.hami.io"}
    assert bed.call("GET", DEPLOYMENT)["spec"]["replicas"] == 2

    helm_("rollback", "life", "1", "-n", "life")
    hooks = bed.call("GET", WEBHOOKS)["webhooks"]
    assert [(hook["name"], hook["clientConfig"]["caBundle"]) for hook in hooks] == [("vgpu.hami.io", "Y2E=")]
    assert bed.call("GET", DEPLOYMENT)["spec"]["replicas"] == 1

    helm_("uninstall", "life", "-n", "life")
    listed = bed.kubectl(
        "get", "deployments,daemonsets,services,configmaps,serviceaccounts,roles,rolebindings,clusterroles,"
        "clusterrolebindings,mutatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings,"
        "poddisruptionbudgets,networkpolicies", "-A", "-l", "app.kubernetes.io/instance=life", "-o", "name",
    )  # fmt: skip
    assert listed.strip() == ""
