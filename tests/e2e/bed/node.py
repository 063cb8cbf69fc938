"""Files and command lines of a node's containerd and kubelet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.e2e.bed import cgroups, disk
from tests.e2e.bed.control_plane import write_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.e2e.bed.state import Placed
    from tests.e2e.bed.tools import Tools

SANDBOX_IMAGE = "localhost/pause:1"
RUNTIME_SOCKET = "/run/containerd/containerd.sock"

# Without CAP_SYS_RESOURCE root must not lower oom_score_adj. With restrict_oom_score_adj sandboxes start nevertheless.
_CONTAINERD_2 = """\
version = 3
root = "{root}"
state = "/run/containerd"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{sandbox}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  enable_cdi = {cdi}
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["{cni}"]
  conf_dir = "/etc/cni/net.d"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
"""
_CONTAINERD_1 = """\
version = 2
root = "{root}"
state = "/run/containerd"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{sandbox}"
  restrict_oom_score_adj = true
  enable_cdi = {cdi}
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{cni}"
  conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
"""


def write_network(folder: Path, node: Placed) -> None:
    """Write the CNI configuration: a bridge on the node, with routed pod addresses."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isDefaultGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam", "ranges": [[{"subnet": node.pods}]]},
    }
    body = {"cniVersion": "0.4.0", "name": "bed", "plugins": [bridge]}
    write_json(disk.bound(folder, "/etc/cni/net.d") / "10-bed.conflist", body)


def containerd(tools: Tools, folder: Path, *, cdi: bool) -> list[str]:
    """Command line of containerd. A reboot keeps its images and snapshots, but not its state in /run."""
    template = _CONTAINERD_2 if tools.containerd_major >= 2 else _CONTAINERD_1
    values = {"root": folder / "containerd", "sandbox": SANDBOX_IMAGE, "cni": tools.cni_bin, "cdi": str(cdi).lower()}
    config = folder / "containerd.toml"
    config.write_text(template.format(**values))
    return [str(tools.containerd_bin / "containerd"), f"--config={config}"]


def kubelet(tools: Tools, work: Path, bed: str, node: Placed, more: Mapping[str, Any]) -> list[str]:
    """Command line of the kubelet. It reports its status more often than usual. Settings of ``more`` replace ours."""
    name, pki, folder = node.node.name, work / "pki", work / "nodes" / node.node.name
    (folder / "resolv.conf").write_text("")
    body: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{pki}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{pki}/{name}.crt",
        "tlsPrivateKeyFile": f"{pki}/{name}.key",
        "containerRuntimeEndpoint": f"unix://{RUNTIME_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroups.path(bed, name),
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "readOnlyPort": 0,
        "maxPods": 220,
        "clusterDomain": "cluster.local",
        "clusterDNS": ["10.96.0.10"],
        "resolvConf": str(folder / "resolv.conf"),
        # The disk is the host's, and other programs fill it too. So pods are evicted only when very little is left.
        "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": "50Mi"},
        "imageGCHighThresholdPercent": 99,
        "imageGCLowThresholdPercent": 98,
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "10s",
    }
    if tools.minor >= 31:
        body["failCgroupV1"] = False  # since 1.35 the kubelet would refuse cgroup v1 otherwise
    config = write_json(folder / "kubelet.json", {**body, **more})
    flags = [f"--kubeconfig={work}/kubeconfig/{name}", f"--hostname-override={name}", f"--node-ip={node.address}"]
    return [str(tools.kubernetes_bin / "kubelet"), f"--config={config}", *flags, "-v=2"]
