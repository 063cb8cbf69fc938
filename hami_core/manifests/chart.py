"""The chart on disk, in the installed package or in the checkout."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hami_core.documents import load_mapping, read_text
from hami_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


def folder() -> Path:
    """The chart's folder.

    Raises:
        ConfigError: There is no chart: the package is damaged.
    """
    package = Path(__file__).resolve().parent
    for candidate in (package / "chart", package.parent.parent / "contrib" / "helm" / "hami"):
        if (candidate / "Chart.yaml").is_file():
            return candidate
    raise ConfigError("manifests", "the chart is missing from the installed package", "reinstall hami")


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart without its templates, which helm's engine reads.

    Attributes:
        path: Its folder.
        meta: Content of Chart.yaml.
        values: The default values.
        schema: JSON Schema of the values.
    """

    path: Path
    meta: Mapping[str, Any]
    values: Mapping[str, Any]
    schema: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path | None = None) -> Chart:
        """Read a chart; without ``path``, read ours.

        Raises:
            ConfigError: A file can't be read.
        """
        root = path or folder()
        return cls(
            path=root,
            meta=load_mapping(read_text(root / "Chart.yaml"), "Chart.yaml"),
            values=load_mapping(read_text(root / "values.yaml"), "values.yaml"),
            schema=json.loads(read_text(root / "values.schema.json")),
        )
