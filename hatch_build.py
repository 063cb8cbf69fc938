"""Add to the metadata of `hami` an extra for each vendor of the repository, and the extra ``all``.

Only a build from the tree runs this. An sdist has no vendors: its wheel gets the extras from PKG-INFO.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent))

from contrib.vendor_folders import in_tree


class Extras(MetadataHookInterface):
    """Adds the extras to those of pyproject.toml's ``[tool.hatch.metadata.hooks.custom.optional-dependencies]``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``optional-dependencies``; each vendor is pinned to the version its folder states."""
        pins = {vendor.name: [f"{vendor.distribution}=={vendor.version}"] for vendor in in_tree(Path(self.root))}
        everything = [pin for pinned in pins.values() for pin in pinned]
        metadata["optional-dependencies"] = {**pins, "all": everything, **self.config["optional-dependencies"]}
