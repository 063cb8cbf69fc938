"""Finds our pods, HAMi's pods and their settings by looking at containers' images and command lines. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import yaml

from hami_core.compatibility import HAMI

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hami_core.doctor.objects import Container, Pod
    from hami_core.kube.objects import ConfigMap

_LAUNCHERS: Final = frozenset({"hami", "kubectl-hami"})
_HAMI_IMAGE: Final = "projecthami/"


def program(container: Container) -> str:
    """``scheduler`` or ``agent`` if the container runs ``hami scheduler`` or ``hami agent``, else empty."""
    words = [*container.command, *container.args]
    if words and PurePosixPath(words[0]).name.startswith("python"):
        words = words[words.index("hami_core") + 1 :] if "hami_core" in words else []
    elif words and PurePosixPath(words[0]).name in _LAUNCHERS:
        words = words[1:]
    elif container.command:
        return ""
    return words[0] if words and words[0] in {"scheduler", "agent"} else ""


def is_hami(container: Container) -> bool:
    """Whether the container runs one of HAMi's own programs (the Go implementation)."""
    if _HAMI_IMAGE in container.image and not program(container):
        return True
    first = PurePosixPath(container.command[0]).name if container.command else ""
    return first in HAMI.programs or (first == "scheduler" and container.name == "vgpu-scheduler-extender")


def is_kube_scheduler(container: Container) -> bool:
    """Whether the container runs kube-scheduler."""
    first = PurePosixPath(container.command[0]).name if container.command else ""
    repository = container.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    return first == "kube-scheduler" or (not first and repository.startswith("kube-scheduler"))


def setting(container: Container, name: str, default: str = "") -> str:
    """A container's setting from its flag (``--some-name``, ``--some_name``), else from its environment.

    Args:
        container: The container.
        name: Name in the settings model, such as ``signing_keys``.
        default: Returned when neither flag nor environment sets it.
    """
    words = [*container.command, *container.args]
    forms = {f"{dashes}{form}" for dashes in ("--", "-") for form in (name, name.replace("_", "-"))}
    for index, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag in forms:
            if equals:
                return value
            following = words[index + 1] if index + 1 < len(words) else ""
            return "true" if not following or following.startswith("-") else following
    variable = f"HAMI_{name.upper()}"
    return next((e.value for e in container.env if e.name == variable), default)


@dataclass(frozen=True, slots=True)
class Part:
    """A pod, and the container in it that runs the program we look for."""

    pod: Pod
    container: Container

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return self.pod.metadata.namespace

    def setting(self, name: str, default: str = "") -> str:
        """A setting of the container."""
        return setting(self.container, name, default)

    def volume_of(self, path: str) -> tuple[str, str] | None:
        """The source of a path in the container: kind (``ConfigMap``, ``Secret``, ``hostPath``) and name or path."""
        return _source(self.pod, self.container, path)


def _source(pod: Pod, container: Container, path: str) -> tuple[str, str] | None:
    target = PurePosixPath(path)
    fitting = [m for m in container.volume_mounts if target.is_relative_to(m.mount_path or "/dev/null/none")]
    if not fitting:
        return None
    name = max(fitting, key=lambda m: len(m.mount_path)).name
    volume = next((v for v in pod.spec.volumes if v.name == name), None)
    if volume is None:
        return None
    if volume.config_map is not None:
        return "ConfigMap", volume.config_map.name
    if volume.secret is not None:
        return "Secret", volume.secret.secret_name
    return ("hostPath", volume.host_path.path) if volume.host_path is not None else None


@dataclass(frozen=True, slots=True)
class Install:
    """The programs of an installation, and those beside it.

    Attributes:
        schedulers: Pods that run ``hami scheduler``.
        agents: Pods that run ``hami agent``.
        kube_schedulers: Every kube-scheduler that runs as a pod.
        originals: Pods that run HAMi's own programs.
    """

    schedulers: tuple[Part, ...]
    agents: tuple[Part, ...]
    kube_schedulers: tuple[Part, ...]
    originals: tuple[Part, ...]

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Namespaces of our scheduler's pods; if there are none, of our agents' pods."""
        return tuple(sorted({p.namespace for p in self.schedulers or self.agents}))

    @property
    def companions(self) -> tuple[Part, ...]:
        """kube-schedulers in our scheduler's pods."""
        ours = {part.pod.metadata.uid for part in self.schedulers}
        return tuple(part for part in self.kube_schedulers if part.pod.metadata.uid in ours)

    @property
    def scheduler_names(self) -> frozenset[str]:
        """The ``schedulerName`` values that our webhook writes."""
        return frozenset(part.setting("scheduler_name", "hami-scheduler") for part in self.schedulers)


def find(pods: Iterable[Pod], namespace: str = "") -> Install:
    """Find the installation.

    Args:
        pods: Pods of the whole cluster, as far as they could be read.
        namespace: Take our scheduler and agents from this namespace only; empty: from any.
    """
    parts = [Part(pod, c) for pod in pods if not pod.is_over for c in pod.spec.containers]
    ours = [part for part in parts if not namespace or part.namespace == namespace]
    return Install(
        schedulers=tuple(p for p in ours if program(p.container) == "scheduler"),
        agents=tuple(p for p in ours if program(p.container) == "agent"),
        kube_schedulers=tuple(p for p in parts if is_kube_scheduler(p.container)),
        originals=tuple(p for p in parts if is_hami(p.container)),
    )


# --- kube-scheduler's configuration ----------------------------------------------------------------------------------


def config_source(part: Part) -> tuple[str, str] | None:
    """The source of a kube-scheduler's ``--config``; None if it has no such flag, or no volume of a known kind."""
    path = part.setting("config")
    return part.volume_of(path) if path else None


def config_text(part: Part, config_map: ConfigMap) -> str:
    """The text of a kube-scheduler's configuration in its ConfigMap."""
    name = PurePosixPath(part.setting("config")).name
    for volume in part.pod.spec.volumes:
        if volume.config_map is not None and volume.config_map.name == config_map.metadata.name:
            renamed = {item.path: item.key for item in volume.config_map.items}
            name = renamed.get(name, name)
    return config_map.data.get(name, "")


def parse_config(text: str) -> dict[str, Any]:
    """A KubeSchedulerConfiguration as plain data.

    Raises:
        ValueError: It is no YAML object.
    """
    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(parsed, dict):
        raise ValueError("not a YAML object")  # noqa: TRY004 - the text's value is wrong, not a type in our code
    return parsed


def items(value: object) -> Sequence[dict[str, Any]]:
    """The mappings in a list of parsed YAML; everything else is skipped."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def served_names(config: Mapping[str, Any]) -> set[str]:
    """The ``schedulerName`` of each profile; without profiles, kube-scheduler serves ``default-scheduler``."""
    profiles = items(config.get("profiles"))
    return {str(p.get("schedulerName", "default-scheduler")) for p in profiles} or {"default-scheduler"}


def extenders(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Extenders that can be ours: those with ``filterVerb: filter`` or with managed resources."""
    return [e for e in items(config.get("extenders")) if e.get("filterVerb") == "filter" or e.get("managedResources")]


def managed_resources(config: Mapping[str, Any]) -> dict[str, bool]:
    """Resource name → whether kube-scheduler ignores it (``ignoredByScheduler``), for all extenders."""
    listed = [r for e in extenders(config) for r in items(e.get("managedResources"))]
    return {str(r.get("name", "")): r.get("ignoredByScheduler") is True for r in listed if r.get("name")}
