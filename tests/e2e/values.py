"""Chart values of the bed: local names of images, short intervals, simulated GPUs."""

from __future__ import annotations

from typing import Any

EXTENDER_ARGS = ["--drift-interval=3s"]
"""The scheduler checks its sums every 3 s, so that tests need not wait for minutes."""


def values(kubernetes: str, **more: Any) -> dict[str, Any]:
    """Values for a bed with this Kubernetes version. `more` is merged into them, key by key."""
    base: dict[str, Any] = {
        "global": {"imageRegistry": "localhost", "imageTag": "dev"},
        "scheduler": {
            "kubeScheduler": {
                "image": {
                    "registry": "localhost",
                    "repository": "hami/kube-scheduler",
                    "tag": kubernetes,
                    "pullPolicy": "Never",
                },
            },
            "extender": {"image": {"pullPolicy": "Never"}, "extraArgs": EXTENDER_ARGS},
        },
        "devicePlugin": {
            "image": {"pullPolicy": "Never"},
            "nvidiaNodeSelector": {"gpu": "on"},
            "nvidiaDriverRoot": "/opt/nvidia-sim",
            "deviceSplitCount": 100,
            "extraEnvs": {"HAMI_SIM_STATE": "/opt/nvidia-sim/state"},
            "extraVolumes": [{"name": "sim-state", "hostPath": {"path": "/opt/nvidia-sim/state"}}],
            "extraVolumeMounts": [{"name": "sim-state", "mountPath": "/opt/nvidia-sim/state"}],
        },
    }
    return merged(base, more)


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`base` with the values of `over`. Dictionaries are merged key by key, as Helm does."""
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result
