"""What ``hami doctor`` must know: other device plugins for NVIDIA's cards, and other programs that use the cards."""

from __future__ import annotations

from typing import Final

from hami_core import Caution, DoctorNotes, Neighbour

_OWN: Final = "NVIDIA's device plugin"

DOCTOR: Final = DoctorNotes(
    neighbours=(
        Neighbour(("nvidia/k8s-device-plugin", "nvidia-device-plugin"), _OWN),
        Neighbour(("volcano-vgpu-device-plugin",), "Volcano's vGPU device plugin"),
        Neighbour(("gpushare-device-plugin",), "Aliyun's GPU-share device plugin"),
        Neighbour(("gpu-manager",), "TKE's GPU manager"),
        Neighbour(("nvidia-gpu-device-plugin",), "GKE's device plugin"),
    ),
    not_plugins=("gpu-feature-discovery", "mps-control-daemon", "config-manager"),
    take_off="GPU Operator: devicePlugin.enabled=false, or label them nvidia.com/gpu.deploy.device-plugin=false",
    cautions=(
        Caution(
            "gpu-operator",
            ("gpu-operator", "nvidia-operator-validator", "nvidia-container-toolkit-daemonset"),
            "devicePlugin.enabled",
            "its device plugin runs",
            "helm upgrade gpu-operator --set devicePlugin.enabled=false (docs: install); driver and toolkit may stay",
            where="GPU Operator",
            brings=_OWN,
        ),
        Caution(
            "gpu-operator",
            ("mig-manager",),
            "migManager.enabled",
            "its MIG manager runs",
            "set migManager.enabled=false where our agent's operating mode is mig: both would change the geometry",
            where="GPU Operator",
        ),
        Caution(
            "dcgm-exporter",
            ("dcgm-exporter",),
            "metrics by pod",
            "DCGM exporter runs",
            "use only its figures by device (DCGM_EXPORTER_KUBERNETES=false); for pods and containers use our agent's "
            "metrics, since the slot ids that the kubelet picked may belong to another card than booked",
        ),
    ),
    node_labels=(
        ("nvidia.com/gpu.present", "true"),
        ("feature.node.kubernetes.io/pci-10de.present", "true"),
        ("feature.node.kubernetes.io/pci-0302_10de.present", "true"),
        ("feature.node.kubernetes.io/pci-0300_10de.present", "true"),
        ("gpu", "on"),
    ),
    unhealthy="nvidia-smi or dmesg on the node says why",
)
"""The node labels are those of GPU Feature Discovery, Node Feature Discovery and HAMi's chart."""
