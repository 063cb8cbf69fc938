"""Reads HAMi's device-config.yaml strictly, by section.

The core knows no vendor: the vendor's own model (`hami_core.hookspecs.config_model`) validates its section.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from hami_core.documents import kind_of, load_mapping, read_text
from hami_core.errors import ConfigError


class DeviceConfig(Mapping[str, Any]):
    """Sections of a device-config: name → raw content.

    Args:
        sections: The content.
        path: The file, for messages; empty: there is no file.
        empty: Names of sections without content, whose vendors use their defaults.
    """

    def __init__(self, sections: Mapping[str, Any] | None = None, path: str = "", empty: Collection[str] = ()) -> None:
        self._sections = dict(sections or {})
        self.path = path
        self.empty = frozenset(empty)

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
        source: A path, or the YAML text itself: a string with a line break or ``: `` in it. None: there is no file, and
            every vendor uses its defaults.

    Raises:
        ConfigError: The file cannot be read, is not YAML, or its sections are not mappings or lists.
    """
    if source is None:
        return DeviceConfig()
    is_text = isinstance(source, str) and ("\n" in source or ": " in source)
    path = "device-config" if is_text else str(source)
    content = load_mapping(str(source) if is_text else read_text(Path(source)), path)
    if not content:
        raise ConfigError(path, "all configurations are empty", "name at least one vendor's section, or no file at all")
    for name, section in content.items():
        if section is not None and not isinstance(section, dict | list):
            problem = f"holds a {kind_of(section)}, expected a mapping or a list"
            raise ConfigError(f"{path}: {name}", problem, "indent its keys")
    empty = {name for name, section in content.items() if section is None}
    return DeviceConfig({name: section for name, section in content.items() if name not in empty}, path, empty)
