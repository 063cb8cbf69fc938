"""The chart on disk: part of the installed package, or of the checkout."""

from __future__ import annotations

import fnmatch
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hami_core.documents import load_yaml
from hami_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


def folder() -> Path:
    """The chart's folder.

    Raises:
        ConfigError: The package is damaged.
    """
    package = Path(__file__).resolve().parent
    for candidate in (package / "chart", package.parent.parent / "contrib" / "helm" / "hami"):
        if (candidate / "Chart.yaml").is_file():
            return candidate
    raise ConfigError("manifests", "the chart is not where it was installed", "reinstall hami")


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart's content.

    Attributes:
        meta: Chart.yaml.
        values: The defaults.
        schema: What values must be like (JSON Schema).
        templates: Path → text.
        files: Path → text of what is neither of these.
    """

    meta: Mapping[str, Any]
    values: Mapping[str, Any]
    schema: Mapping[str, Any]
    templates: Mapping[str, str]
    files: Mapping[str, str]

    @classmethod
    def read(cls, path: Path | None = None) -> Chart:
        """Read a chart; ours if no folder is named.

        Raises:
            ConfigError: A file can't be read.
        """
        root = path or folder()
        texts = {str(file.relative_to(root)): _read(file) for file in sorted(root.rglob("*")) if file.is_file()}
        special = {"Chart.yaml", "values.yaml", "values.schema.json"}
        templates = {name: text for name, text in texts.items() if name.startswith("templates/")}
        return cls(
            meta=load_yaml(texts["Chart.yaml"], "Chart.yaml"),
            values=load_yaml(texts["values.yaml"], "values.yaml"),
            schema=json.loads(texts["values.schema.json"]),
            templates=templates,
            files={name: text for name, text in texts.items() if name not in {*special, *templates}},
        )

    def file(self, name: str) -> str:
        """A file's text; empty where there is none."""
        return self.files.get(name, "")

    def glob(self, form: str) -> dict[str, str]:
        """Files whose path has a form."""
        return {name: text for name, text in self.files.items() if fnmatch.fnmatch(name, form)}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), f"can't be read: {error}") from error
