"""Manifests for the tests: small pods whose containers print what they see of their devices."""

from __future__ import annotations

from typing import Any

CLIENT = "localhost/hami/client:dev"
STATIC = "localhost/hami/client-static:dev"
MUSL = "localhost/hami/client-musl:dev"

LOOK = ["cuda-probe", "look"]
"""Print one JSON line with the visible devices and end, without allocating memory."""
STAY = ["cuda-probe", "look", "100000"]
"""Print the same line as `LOOK`, and run on."""
FILL = ["cuda-probe", "100000"]
"""Allocate all memory, print how much it was, and run on."""


def container(
    name: str = "main",
    memory: int | None = 1000,
    cores: int | None = None,
    count: int = 1,
    *,
    command: list[str] | None = None,
    image: str = CLIENT,
    **more: Any,
) -> dict[str, Any]:
    """A container that asks for `count` slices of `memory` MiB. Without `memory` it asks for whole cards."""
    limits: dict[str, int] = {}
    if count:
        limits["nvidia.com/gpu"] = count
        if memory is not None:
            limits["nvidia.com/gpumem"] = memory
        if cores is not None:
            limits["nvidia.com/gpucores"] = cores
    body: dict[str, Any] = {
        "name": name,
        "image": image,
        "imagePullPolicy": "Never",
        "command": command or STAY,
        "resources": {"limits": limits},
    }
    return body | more


def sidecar(name: str, memory: int, **more: Any) -> dict[str, Any]:
    """A native sidecar: an init container that runs on."""
    return container(name, memory, restartPolicy="Always", **more)


def before(kubernetes_minor: int, *init: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The given init containers with devices, or none if the kubelet would reject them.

    Before 1.31 the kubelet rejects init containers and sidecars with amounts that no device plugin offers
    (kubernetes#124255). All of ours have such an amount: the webhook gives even whole cards 100 % of cores.
    """
    return init if kubernetes_minor >= 31 else ()


def spec(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, Any]:
    """A pod's spec. By default the pod does not restart, has no grace period and no token."""
    body: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": list(containers or (container(),)),
    }
    if init:
        body["initContainers"] = list(init)
    return body | more


def pod(
    name: str,
    *containers: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    node: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A pod. `node` sets a node selector, as a user would."""
    if node:
        more["nodeSelector"] = {"kubernetes.io/hostname": node}
    metadata = {"name": name, "annotations": annotations or {}, "labels": {"test": "e2e"} | (labels or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec(*containers, init=init, **more)}
