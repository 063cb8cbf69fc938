"""The OCI specifications of containers, as containerd passed them to runc in the containers' bundles."""

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
        id: Name of the container in containerd.
        spec: The whole OCI specification.
        live: Whether the bundle still exists. After its end, a container is only in containerd's records.
    """

    id: str
    spec: dict[str, Any]
    live: bool = True

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of the specification. In them containerd names pod and container."""
        return self.spec.get("annotations") or {}

    @property
    def pod_uid(self) -> str:
        """UID of the pod."""
        return self.annotations.get(f"{_CRI}.sandbox-uid", "")

    @property
    def pod(self) -> str:
        """The pod as namespace/name."""
        return f"{self.annotations.get(f'{_CRI}.sandbox-namespace')}/{self.annotations.get(f'{_CRI}.sandbox-name')}"

    @property
    def name(self) -> str:
        """Name of the container in the pod; "" for a sandbox."""
        return self.annotations.get(f"{_CRI}.container-name", "")

    @cached_property
    def environment(self) -> dict[str, str]:
        """Environment of the process. If a name is set twice, the later value counts, as in runc."""
        return dict(entry.split("=", 1) for entry in self.spec["process"].get("env", []))

    @cached_property
    def mounts(self) -> dict[str, dict[str, Any]]:
        """Mounts by path in the container."""
        return {entry["destination"]: entry for entry in self.spec.get("mounts", [])}

    @cached_property
    def devices(self) -> dict[str, dict[str, Any]]:
        """Device nodes by path in the container."""
        return {entry["path"]: entry for entry in self.spec["linux"].get("devices") or []}

    @property
    def hooks(self) -> dict[str, list[dict[str, Any]]]:
        """Hooks by kind, such as ``createRuntime``."""
        return self.spec.get("hooks") or {}


def read(machine: Machine, ctr: Path) -> dict[tuple[str, str], Container]:
    """All containers of a node except sandboxes, by pod UID and name. Of several attempts, the live or latest counts.

    Args:
        machine: The node.
        ctr: Path of containerd's client.
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
    except FileNotFoundError:  # the container has just ended
        return None


def _ended(machine: Machine, ctr: Path, live: set[str]) -> list[Container]:
    """Ended containers. containerd's records have their specifications until the kubelet removes them."""
    base = (str(ctr), "-a", RUNTIME_SOCKET, "-n", "k8s.io", "containers")
    found = []
    for name in machine.run(*base, "list", "-q").stdout.split():
        done = machine.run(*base, "info", name, check=False) if name not in live else None
        if done and not done.returncode:
            record = json.loads(done.stdout)
            found.append((record["CreatedAt"], Container(name, record["Spec"], live=False)))
    return [container for _, container in sorted(found, key=lambda pair: pair[0])]
