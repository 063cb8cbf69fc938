"""Command lines and files of etcd, kube-apiserver, kube-controller-manager and kube-scheduler."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.e2e.bed import certificates
from tests.e2e.bed.network import API_SERVICE, CONTROL_PLANE, PODS, SERVICES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.e2e.bed.state import Placed
    from tests.e2e.bed.tools import Tools

MACHINE = "cp"
_API_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")


def write_certificates(work: Path) -> None:
    """Create the authorities, and certificates and kubeconfig files for the parts of the control plane."""
    pki = work / "pki"
    pki.mkdir()
    authority, front = certificates.Authority.create(pki, "ca"), certificates.Authority.create(pki, "front-ca")
    addresses = ("localhost", "127.0.0.1", CONTROL_PLANE, API_SERVICE)
    authority.issue("apiserver", "kube-apiserver", names=(*_API_NAMES, *addresses), client=False)
    authority.issue("kubelet-client", "apiserver-kubelet", group="system:masters")
    front.issue("front", "front-proxy")
    certificates.token_keys(pki)
    users = {"admin": "system:masters", "system:kube-scheduler": "", "system:kube-controller-manager": ""}
    for user, group in users.items():
        file = user.removeprefix("system:")
        authority.issue(file, user, group=group)
        write_kubeconfig(work, file)


def write_node_certificate(work: Path, node: Placed) -> None:
    """Create a kubelet's certificate, for client and server, and its kubeconfig file."""
    name = node.node.name
    authority = certificates.Authority.load(work / "pki", "ca")
    authority.issue(name, f"system:node:{name}", group="system:nodes", names=(name, node.address))
    write_kubeconfig(work, name)


def write_kubeconfig(work: Path, user: str) -> None:
    """Write a kubeconfig file for the certificate of this name. It works only inside machines."""
    pki = work / "pki"
    server = {"server": f"https://{CONTROL_PLANE}", "certificate-authority": f"{pki}/ca.crt"}
    credentials = {"client-certificate": f"{pki}/{user}.crt", "client-key": f"{pki}/{user}.key"}
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bed",
        "clusters": [{"name": "bed", "cluster": server}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": user}}],
    }
    write_json(work / "kubeconfig" / user, body)


def write_json(path: Path, body: dict[str, Any]) -> Path:
    """Write a JSON file. Programs can read it as YAML."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body, indent=1) + "\n")
    return path


def etcd(tools: Tools, work: Path) -> list[str]:
    """Command line of etcd. It does not sync: data is lost only if the host stops, not if etcd is killed."""
    client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    return [
        str(tools.etcd),
        f"--data-dir={work}/etcd",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def apiserver(tools: Tools, work: Path, *, audit: bool, more: Sequence[str]) -> list[str]:
    """Command line of the API server, with the authorizers and admission plug-ins of a real cluster."""
    pki = work / "pki"
    flags = [
        "--etcd-servers=http://127.0.0.1:2379",
        "--secure-port=443",
        "--bind-address=0.0.0.0",
        f"--advertise-address={CONTROL_PLANE}",
        f"--service-cluster-ip-range={SERVICES}",
        "--allow-privileged=true",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--kubelet-client-certificate={pki}/kubelet-client.crt",
        f"--kubelet-client-key={pki}/kubelet-client.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        f"--requestheader-client-ca-file={pki}/front-ca.crt",
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki}/front.crt",
        f"--proxy-client-key-file={pki}/front.key",
        # The API server calls webhooks at their pods' addresses, so that no kube-proxy is needed.
        "--enable-aggregator-routing=true",
    ]
    if audit:
        rules = {"rules": [{"level": "Metadata"}], "omitStages": ["RequestReceived"]}
        policy = write_json(work / "config/audit.json", {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **rules})
        flags += [f"--audit-policy-file={policy}", f"--audit-log-path={work}/log/audit.log", "--audit-log-maxsize=2000"]
    return [str(tools.kubernetes_bin / "kube-apiserver"), *flags, *more]


def controller_manager(tools: Tools, work: Path) -> list[str]:
    """Command line of the controller manager, with default timings but without limits of its request rate."""
    pki = work / "pki"
    return [
        str(tools.kubernetes_bin / "kube-controller-manager"),
        f"--kubeconfig={work}/kubeconfig/kube-controller-manager",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={pki}/sa.key",
        f"--root-ca-file={pki}/ca.crt",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        f"--cluster-cidr={PODS}",
        "--allocate-node-cidrs=false",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
    ]


def scheduler(tools: Tools, work: Path) -> list[str]:
    """Command line of the cluster's own scheduler, for pods that name no other."""
    body = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": f"{work}/kubeconfig/kube-scheduler", "qps": 500, "burst": 1000},
    }
    config = write_json(work / "config/kube-scheduler.json", body)
    return [str(tools.kubernetes_bin / "kube-scheduler"), f"--config={config}", "-v=2"]


def proxy(tools: Tools, work: Path, socket: Path) -> list[str]:
    """Command line of kubectl proxy: the API for programs outside the bed, on a socket that only root can open."""
    return [
        str(tools.kubectl),
        f"--kubeconfig={work}/kubeconfig/admin",
        "proxy",
        f"--unix-socket={socket}",
        "--reject-paths=^$",
    ]
