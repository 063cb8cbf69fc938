"""HAMi's device-config.yaml and the per-node list of its NVIDIA agent, read strictly and kept by section.

The core knows no vendor: a section is validated by the model its vendor names (`hami_core.hookspecs.config_model`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hami_core.errors import ConfigError
from hami_core.settings.base import parse_yaml, read_yaml


class DeviceConfig(Mapping[str, Any]):
    """Sections of a device-config: name → raw content.

    Args:
        sections: The content.
        path: The file, for messages; empty when there is none.
    """

    def __init__(self, sections: Mapping[str, Any] | None = None, path: str = "") -> None:
        self._sections = dict(sections or {})
        self.path = path

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - raw YAML
        return self._sections[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sections)

    def __len__(self) -> int:
        return len(self._sections)

    def __repr__(self) -> str:
        return f"DeviceConfig({self.path or '-'}: {', '.join(self._sections) or 'empty'})"


def load_device_config(source: Path | str | None) -> DeviceConfig:
    """Read a device-config.

    Args:
        source: A path, or the YAML text itself (a string with a line break or a colon-space in it); None: no file,
            every vendor has its defaults.

    Raises:
        ConfigError: It cannot be read, is no YAML, or is not sections of mappings or lists.
    """
    if source is None:
        return DeviceConfig()
    is_text = isinstance(source, str) and ("\n" in source or ": " in source)
    path = "device-config" if is_text else str(source)
    content = parse_yaml(str(source), path) if is_text else read_yaml(Path(source))
    if not content:
        raise ConfigError(path, "all configurations are empty", "name at least one vendor's section, or no file at all")
    for name, section in content.items():
        if section is not None and not isinstance(section, dict | list):
            kind = type(section).__name__
            raise ConfigError(f"{path}: {name}", f"holds a {kind}, expected a mapping or a list", "indent its keys")
    return DeviceConfig({name: section for name, section in content.items() if section is not None}, path)
