"""CDI: how a runtime resolves device names when it creates a container."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path

_LOG = logging.getLogger(__name__)


class UnresolvableError(Exception):
    """No specification has the name."""


@dataclass
class Edits:
    """What a container gets. In the environment, later edits replace earlier ones."""

    env: dict[str, str] = field(default_factory=dict)
    mounts: list[dict[str, Any]] = field(default_factory=list)
    devices: list[dict[str, str]] = field(default_factory=list)
    hooks: list[dict[str, Any]] = field(default_factory=list)

    def add(self, edits: dict[str, Any]) -> None:
        """Adds one `containerEdits`."""
        self.env.update(e.split("=", 1) for e in edits.get("env") or [])
        for mount in edits.get("mounts") or []:
            read_only = "ro" in (mount.get("options") or [])
            self.mounts.append({"source": mount["hostPath"], "target": mount["containerPath"], "read_only": read_only})
        for node in edits.get("deviceNodes") or []:
            self.devices.append({"source": node.get("hostPath") or node["path"], "target": node["path"]})
        for hook in edits.get("hooks") or []:
            found = {k: hook.get(k) or [] for k in ("args", "env")}
            self.hooks.append({"name": hook["hookName"], "path": hook["path"], "timeout": hook.get("timeout"), **found})


def _specs(folder: Path) -> list[dict[str, Any]]:
    found = []
    for path in sorted([*folder.glob("*.json"), *folder.glob("*.yaml")]):
        try:
            known = path.stat()
        except FileNotFoundError:
            continue
        spec = _spec(path, (known.st_ino, known.st_mtime_ns, known.st_size))
        if spec is not None:
            found.append(spec)
    return found


@lru_cache(maxsize=4096)
def _spec(path: Path, version: tuple[int, int, int]) -> dict[str, Any] | None:
    """One specification, cached until the file changes, as in a runtime; None if it is not valid."""
    del version
    try:
        text = path.read_text()
        spec = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        _LOG.warning("CDI specification %s ignored: %s", path, error)
        return None
    if not isinstance(spec, dict) or "kind" not in spec or not isinstance(spec.get("devices"), list):
        _LOG.warning("CDI specification %s ignored: kind or devices missing", path)
        return None
    return spec


def resolve(folder: Path, names: list[str]) -> Edits:
    """The edits for device names such as ``vendor.com/class=name``.

    Raises:
        UnresolvableError: No file of the folder has one of the names.
    """
    edits, missing = Edits(), []
    specs = _specs(folder) if names else []
    used: list[dict[str, Any]] = []
    for name in names:
        kind, _, device = name.partition("=")
        found = next(
            ((s, d) for s in specs if s["kind"] == kind for d in s["devices"] if d.get("name") == device), None
        )
        if found is None:
            missing.append(name)
            continue
        spec, entry = found
        if not any(spec is other for other in used):
            used.append(spec)
            edits.add(spec.get("containerEdits") or {})
        edits.add(entry.get("containerEdits") or {})
    if missing:
        raise UnresolvableError(f"CDI device injection failed: unresolvable CDI devices {', '.join(missing)}")
    return edits
