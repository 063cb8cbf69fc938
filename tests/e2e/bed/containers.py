"""What containerd handed to runc for each container: its OCI specification, as it lies in the container's bundle."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tests.e2e.bed.node import RUNTIME_SOCKET

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.bed.machine import Machine

BUNDLES = "run/containerd/io.containerd.runtime.v2.task/k8s.io"
_CRI = "io.kubernetes.cri"


@dataclass(frozen=True)
class Container:
    """One container of a pod.

    Attributes:
        id: containerd's name for it.
        spec: The OCI specification, whole.
        live: Whether its bundle is still there; an ended container is known only to containerd's own records.
    """

    id: str
    spec: dict[str, Any]
    live: bool = True

    @property
    def annotations(self) -> dict[str, str]:
        """Of the specification; containerd says here what the container is to Kubernetes."""
        return self.spec.get("annotations") or {}

    @property
    def pod_uid(self) -> str:
        """UID of its pod."""
        return self.annotations.get(f"{_CRI}.sandbox-uid", "")

    @property
    def pod(self) -> str:
        """Its pod, as namespace/name."""
        return f"{self.annotations.get(f'{_CRI}.sandbox-namespace')}/{self.annotations.get(f'{_CRI}.sandbox-name')}"

    @property
    def name(self) -> str:
        """Its name in the pod; "" for a sandbox."""
        return self.annotations.get(f"{_CRI}.container-name", "")

    @cached_property
    def environment(self) -> dict[str, str]:
        """Of its process; where a name is set twice, the later one, as runc takes it."""
        return dict(entry.split("=", 1) for entry in self.spec["process"].get("env", []))

    @cached_property
    def mounts(self) -> dict[str, dict[str, Any]]:
        """By place in the container."""
        return {entry["destination"]: entry for entry in self.spec.get("mounts", [])}

    @cached_property
    def devices(self) -> dict[str, dict[str, Any]]:
        """Device nodes by path in the container."""
        return {entry["path"]: entry for entry in self.spec["linux"].get("devices") or []}

    @property
    def hooks(self) -> dict[str, list[dict[str, Any]]]:
        """By kind, such as ``createRuntime``."""
        return self.spec.get("hooks") or {}


def read(machine: Machine, ctr: Path) -> dict[tuple[str, str], Container]:
    """All containers a node knows, sandboxes apart, by pod UID and name; of several tries the latest, or the live one.

    Args:
        machine: The node.
        ctr: containerd's own client.
    """
    found: dict[tuple[str, str], Container] = {}
    live = {path.parent.name: path for path in (machine.root / BUNDLES).glob("*/config.json")}
    for container in [*_ended(machine, ctr, set(live)), *filter(None, map(_bundle, live.values()))]:
        if container.name:
            found[container.pod_uid, container.name] = container
    return found


def _bundle(path: Path) -> Container | None:
    try:
        return Container(path.parent.name, json.loads(path.read_bytes()))
    except FileNotFoundError:  # ended this moment
        return None


def _ended(machine: Machine, ctr: Path, live: set[str]) -> list[Container]:
    """Containers without a task: their specification is in containerd's records until the kubelet removes them."""
    base = (str(ctr), "-a", RUNTIME_SOCKET, "-n", "k8s.io", "containers")
    found = []
    for name in machine.run(*base, "list", "-q").stdout.split():
        done = machine.run(*base, "info", name, check=False) if name not in live else None
        if done and not done.returncode:
            record = json.loads(done.stdout)
            found.append((record["CreatedAt"], Container(name, record["Spec"], live=False)))
    return [container for _, container in sorted(found, key=lambda pair: pair[0])]
