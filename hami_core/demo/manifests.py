"""Read pod manifests, and let the vendors' rules say what each container requests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from hami_core.errors import ConfigError
from hami_core.kube.objects import Pod
from hami_core.scheduler.pods import container_specs, facts

if TYPE_CHECKING:
    from pathlib import Path

    from hami_core.scheduler.pods import Parse

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """What one container asks of one family of devices.

    Attributes:
        container: Name of the container.
        count: Number of devices.
        memory_mib: MiB of memory on each device. None: ``memory_percent`` says it.
        cores: Percent of each device's compute. 0: the manifest does not say.
        memory_percent: Percent of each device's memory. If ``memory_mib`` is None too, no memory is booked.
        family: Common word of the family.
        reports: Whether the container's program prints what it measured.
    """

    container: str
    count: int
    memory_mib: int | None
    cores: int
    memory_percent: int | None = None
    family: str = ""
    reports: bool = False

    def memory_on(self, device_mib: int) -> int:
        """MiB requested of a device of this size. A request without an amount is for the whole device."""
        if self.memory_mib is not None:
            return self.memory_mib
        return device_mib if self.memory_percent is None else device_mib * self.memory_percent // 100


def load(path: Path) -> list[Manifest]:
    """All pod manifests of a file or folder, in the order of the file names.

    Raises:
        ConfigError: A file is not YAML, or a document is not a pod that the demo can submit.
    """
    fix = "the demo submits pods only: run it with --keep, and apply the file with kubectl"
    pods = documents(path, "Pod", fix)
    names: set[str] = set()
    for pod in pods:
        meta = pod["metadata"]
        if meta.get("namespace", "default") != "default":
            problem = f"pod {meta['name']} is of namespace {meta['namespace']}"
            raise ConfigError(str(path), problem, "the demo has the namespace default only: leave the field out")
        if not isinstance(pod.get("spec"), dict) or not pod["spec"].get("containers"):
            raise ConfigError(str(path), f"pod {meta['name']} has no spec.containers")
        if meta["name"] in names:
            raise ConfigError(str(path), f"two pods are named {meta['name']}", "give each its own name")
        names.add(meta["name"])
    return pods


def documents(path: Path, kind: str, fix: str) -> list[Manifest]:
    """The documents of a file or folder, each of one kind and with a name.

    Raises:
        ConfigError: A file is not YAML, or a document has no name or another kind. ``fix`` says what to do about the
            kind.
    """
    found: list[Manifest] = []
    for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
        try:
            read = [d for d in yaml.safe_load_all(file.read_text("utf-8")) if d]
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise ConfigError(str(file), f"cannot be read: {error}") from error
        for document in read:
            said = document.get("kind") if isinstance(document, dict) else None
            if said != kind:
                raise ConfigError(str(file), f"holds {f'a {said}' if said else 'a document without a kind'}", fix)
            meta = document.get("metadata")
            if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
                raise ConfigError(str(file), f"holds a {kind} without metadata.name", "give it a name")
            found.append(document)
    if not found:
        raise ConfigError(str(path), f"holds no manifest of kind {kind}")
    return found


def asks(pod: Manifest, parse: Parse, programs: tuple[str, ...] = ()) -> list[Ask]:
    """What the containers of a pod ask for, init containers first; containers without devices are left out.

    Args:
        pod: The manifest, or the pod as the API server has it after admission.
        parse: Reads a container's requests (`hami_core.plugins.Loaded.parse`).
        programs: Prefixes of the commands whose programs print what they measured.

    Raises:
        RequestError: The manifest asks for something that cannot be granted as written.
        ConfigError: The manifest is not a pod.
    """
    try:
        typed = msgspec.json.decode(json.dumps(pod, default=str), type=Pod)
    except msgspec.ValidationError as error:
        raise ConfigError(f"pod {pod['metadata'].get('name')}", str(error)) from error
    commands = {c["name"]: [*(c.get("command") or []), *(c.get("args") or [])] for c in containers(pod)}
    return [
        Ask(
            spec.name,
            request.count,
            request.memory_mib or None,
            request.cores,
            request.memory_percent,
            request.family,
            any(str(word).startswith(programs) for word in commands[spec.name]),
        )
        for spec in container_specs(typed)
        for request in parse(spec, facts(typed))
    ]


def containers(pod: Manifest) -> list[dict[str, Any]]:
    """All containers of a pod, init containers first."""
    return [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]
