"""Read example manifests, and say what each of their containers asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hami_core.errors import ConfigError

COUNT, MEMORY, CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """What one container's manifest asks for.

    Attributes:
        container: Its name.
        count: Devices.
        memory_mib: MiB on each, None: a whole card.
        cores: Percent, 0: not said.
    """

    container: str
    count: int
    memory_mib: int | None
    cores: int


def folder() -> Path:
    """The folder of the example manifests: inside an installed package, or in the checkout."""
    package = Path(__file__).resolve().parent.parent
    for candidate in (package / "examples" / "demo", package.parent / "contrib" / "examples" / "demo"):
        if candidate.is_dir():
            return candidate
    raise ConfigError("demo", "the example manifests are not where they were installed", "reinstall hami")


def load(path: Path) -> list[Manifest]:
    """All pod manifests of a file or folder, in the order of the file names.

    Raises:
        ConfigError: Not YAML, or not a Pod.
    """
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    pods: list[Manifest] = []
    for file in files:
        try:
            documents = [d for d in yaml.safe_load_all(file.read_text()) if d]
        except (OSError, yaml.YAMLError) as error:
            raise ConfigError(str(file), f"cannot be read: {error}") from error
        for document in documents:
            if not isinstance(document, dict) or document.get("kind") != "Pod":
                raise ConfigError(str(file), "holds something else than a Pod", "the demo submits pods only")
            pods.append(document)
    if not pods:
        raise ConfigError(str(path), "holds no pod manifest")
    return pods


def asks(pod: Manifest) -> list[Ask]:
    """What the containers of a pod ask for, init containers first; containers without devices are left out."""
    found = []
    for container in [*pod["spec"].get("initContainers", []), *pod["spec"].get("containers", [])]:
        limits = container.get("resources", {}).get("limits", {})
        if COUNT not in limits:
            continue
        memory = limits.get(MEMORY)
        found.append(
            Ask(
                container["name"],
                int(limits[COUNT]),
                None if memory is None else int(memory),
                int(limits.get(CORES, 0)),
            )
        )
    return found
