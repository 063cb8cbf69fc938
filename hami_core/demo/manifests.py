"""Read manifests of pods and workloads, and let the vendors' rules say what each container requests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hami_core.documents import load_all_yaml, read_text
from hami_core.errors import ConfigError
from hami_core.kube.objects import Pod
from hami_core.scheduler.pods import container_specs, facts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from hami_core.scheduler.pods import Parse

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Workload:
    """A kind whose controller makes pods: the path of its objects, and the field with the number of pods."""

    path: str
    count: str


WORKLOADS: Final = {
    "Deployment": Workload("/apis/apps/v1/namespaces/default/deployments", "replicas"),
    "Job": Workload("/apis/batch/v1/namespaces/default/jobs", "parallelism"),
}


@dataclass(frozen=True, slots=True)
class Ask:
    """What one container asks of one family of devices.

    Attributes:
        container: Name of the container.
        count: Number of devices.
        memory_mib: MiB of memory on each device. None: ``memory_percent`` says it.
        cores: Percent of each device's compute. 0: the manifest does not say.
        memory_percent: Percent of each device's memory. If ``memory_mib`` is None too, the request names no memory.
        family: Common word of the family.
        reports: Whether the container's program prints what it measured.
        cores_are_units: Whether ``cores`` are compute units of the device, and not percent.
    """

    container: str
    count: int
    memory_mib: int | None
    cores: int
    memory_percent: int | None = None
    family: str = ""
    reports: bool = False
    cores_are_units: bool = False

    def memory_on(self, device_mib: int) -> int:
        """MiB requested of a device of this size; 0 where no memory is booked, or where the vendor decides how much."""
        return self.memory_mib if self.memory_mib is not None else device_mib * (self.memory_percent or 0) // 100


def load(path: Path) -> list[Manifest]:
    """All Pods, Deployments and Jobs of a file or folder, in the order of the file names.

    Raises:
        ConfigError: A file is not YAML, or a document is nothing that the demo can submit.
    """
    fix = "the demo submits Pods, Deployments and Jobs: run it with --keep, and apply others with kubectl"
    found = documents(path, ("Pod", *WORKLOADS), fix)
    names: set[str] = set()
    for manifest in found:
        meta, what = manifest["metadata"], f"{manifest['kind']} {manifest['metadata']['name']}"
        if meta.get("namespace", "default") != "default":
            problem = f"{what} is of namespace {meta['namespace']}"
            raise ConfigError(str(path), problem, "the demo has the namespace default only: leave the field out")
        try:
            containers_of = pod_spec(manifest)["containers"]
        except (KeyError, TypeError):
            containers_of = None
        if not containers_of:
            place = "spec.template.spec" if manifest["kind"] in WORKLOADS else "spec"
            raise ConfigError(str(path), f"{what} has no {place}.containers")
        if meta["name"] in names:
            raise ConfigError(str(path), f"two objects are named {meta['name']}", "give each its own name")
        names.add(meta["name"])
    return found


def documents(path: Path, kinds: Sequence[str], fix: str) -> list[Manifest]:
    """The documents of a file or folder, each of one of the kinds and with a name.

    Raises:
        ConfigError: A file can't be read or is not YAML (with line and column), or a document has no name or another
            kind. ``fix`` says what to do about the kind.
    """
    found: list[Manifest] = []
    for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
        for document in filter(None, load_all_yaml(read_text(file), str(file))):
            said = document.get("kind") if isinstance(document, dict) else None
            if said not in kinds:
                raise ConfigError(str(file), f"holds {f'a {said}' if said else 'a document without a kind'}", fix)
            meta = document.get("metadata")
            if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
                raise ConfigError(str(file), f"holds a {said} without metadata.name", "give it a name")
            found.append(document)
    if not found:
        fix = "give a .yaml file with one, or a folder with such files"
        raise ConfigError(str(path), f"holds no manifest of kind {' or '.join(kinds)}", fix)
    return found


def pod_spec(manifest: Manifest) -> dict[str, Any]:
    """The pod's spec in the manifest of a pod, or in the template of a workload."""
    spec: dict[str, Any] = manifest["spec"]["template"]["spec"] if manifest["kind"] in WORKLOADS else manifest["spec"]
    return spec


def pods_of(manifest: Manifest, seen: Mapping[str, Manifest]) -> list[Manifest]:
    """Manifests of the pods that a manifest makes: the pod itself, or those that a controller has made so far.

    Args:
        manifest: A Pod, a Deployment or a Job.
        seen: All pods of the cluster by name.
    """
    if manifest["kind"] not in WORKLOADS:
        return [manifest]
    made = [name for name, pod in seen.items() if _workload(pod) == (manifest["kind"], manifest["metadata"]["name"])]
    return [{"kind": "Pod", "metadata": {"name": name}, "spec": pod_spec(manifest)} for name in made]


def count_of(manifest: Manifest) -> int:
    """The number of pods that a manifest makes at a time."""
    workload = WORKLOADS.get(manifest["kind"])
    return int(manifest["spec"].get(workload.count, 1)) if workload else 1


def _workload(pod: Manifest) -> tuple[str, str]:
    """Kind and name of the Deployment or Job that a pod belongs to. A Deployment's ReplicaSet is named NAME-HASH."""
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner["kind"] == "ReplicaSet":
            return "Deployment", owner["name"].rpartition("-")[0]
        return owner["kind"], owner["name"]
    return "", ""


def asks(pod: Manifest, parse: Parse, programs: tuple[str, ...] = (), units: Collection[str] = ()) -> list[Ask]:
    """What the containers of a pod ask for, init containers first; containers without devices are left out.

    Args:
        pod: The manifest, or the pod as the API server has it after admission.
        parse: Reads a container's requests (`hami_core.plugins.Loaded.parse`).
        programs: Prefixes of the commands whose programs print what they measured.
        units: Common words of the families whose cores are compute units.

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
            request.family in units,
        )
        for spec in container_specs(typed)
        for request in parse(spec, facts(typed))
    ]


def containers(pod: Manifest) -> list[dict[str, Any]]:
    """All containers of a pod, init containers first."""
    return [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]
