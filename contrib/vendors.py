"""The vendors of this repository: a folder of ``vendors/`` with a pyproject.toml is one, and no list names it.

Packaging (``hatch_build.py``), images, the chart's generator, the import linter and the docs ask `in_tree`. This module
needs the standard library alone, since a build has no more.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).resolve().parents[1]
VENDORS: Final = "hami.vendors"
"""Entry-point group of the scheduler sides."""
NODE: Final = "hami.node"
"""Entry-point group of the node sides."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """One vendor.

    Attributes:
        folder: Its folder, whose name is the vendor's.
        pyproject: What its pyproject.toml says.
    """

    folder: Path
    pyproject: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of the folder, of the entry points and of the extra, such as ``nvidia``."""
        return self.folder.name

    @property
    def distribution(self) -> str:
        """What pip calls it: ``hami-nvidia``."""
        return f"hami-{self.name}"

    @property
    def package(self) -> str:
        """What Python imports: ``hami_nvidia``."""
        return self.distribution.replace("-", "_")

    @property
    def source(self) -> Path:
        """The folder with the package."""
        return self.folder / "src"

    @property
    def version(self) -> str:
        """Its version, which `hami`'s extra pins."""
        return str(self.pyproject["project"]["version"])

    @property
    def page(self) -> Path:
        """Its page in the docs: ``docs.md``, or the README where it has none."""
        own = self.folder / "docs.md"
        return own if own.is_file() else self.folder / "README.md"

    @property
    def debian_packages(self) -> tuple[str, ...]:
        """Debian packages of its agent's image: ``debian-packages`` of ``[tool.hami.image]``."""
        return tuple(self.pyproject.get("tool", {}).get("hami", {}).get("image", {}).get("debian-packages", ()))

    def target(self, group: str) -> str:
        """The class that the vendor's entry point in a group names, ``module:Class``; empty where there is none."""
        return str(self.pyproject["project"].get("entry-points", {}).get(group, {}).get(self.name, ""))


def in_tree(root: Path = ROOT) -> list[Vendor]:
    """The vendors below a source tree, by name.

    Raises:
        ValueError: A pyproject.toml does not follow the rules; names file, field and what is expected.
    """
    found = []
    for file in sorted(root.glob("vendors/*/pyproject.toml")):
        vendor = Vendor(file.parent, tomllib.loads(file.read_text("utf-8")))
        project = vendor.pyproject.get("project", {})
        where = file.relative_to(root).as_posix()
        if project.get("name") != vendor.distribution:
            raise ValueError(f"{where}: project.name: write {vendor.distribution!r}, as the folder is called")
        if "version" not in project:
            raise ValueError(f"{where}: project.version: write the version; an extra of hami pins it")
        if not vendor.target(VENDORS):
            raise ValueError(f'{where}: project.entry-points."{VENDORS}": add {vendor.name}, as the folder is called')
        found.append(vendor)
    return found
