"""The vendors of this repository: each folder below ``vendors/`` or ``contrib/vendors/`` with a pyproject.toml is one.

No list names them. Packaging (``hatch_build.py``), images, the chart's generator, the import linter and the docs call
`in_tree`. This module needs only the standard library, because a build has nothing else.
"""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = Path(__file__).resolve().parents[1]
HOMES: Final = ("vendors", "contrib/vendors")
"""Folders with a folder for each vendor. Those in ``vendors/`` have a node side. The nodes of those in
``contrib/vendors/`` are served by other people's device plugins."""
VENDORS: Final = "hami.vendors"
"""Entry-point group of the scheduler sides."""
NODE: Final = "hami.node"
"""Entry-point group of the node sides."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """One vendor.

    Attributes:
        folder: The vendor's folder. Its name is the vendor's name.
        pyproject: Content of its pyproject.toml.
    """

    folder: Path
    pyproject: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of the folder, the entry points and the extra, such as ``nvidia``."""
        return self.folder.name

    @property
    def distribution(self) -> str:
        """Name of the distribution, such as ``hami-nvidia``."""
        return f"hami-{self.name}"

    @property
    def package(self) -> str:
        """Name of the Python package, such as ``hami_nvidia``."""
        return self.distribution.replace("-", "_")

    @property
    def source(self) -> Path:
        """The folder with the package."""
        return self.folder / "src"

    @property
    def version(self) -> str:
        """Version of the distribution. The extra of `hami` pins it."""
        return str(self.pyproject["project"]["version"])

    @property
    def page(self) -> Path:
        """The vendor's page in the docs: ``docs.md``, or the README if there is no ``docs.md``."""
        own = self.folder / "docs.md"
        return own if own.is_file() else self.folder / "README.md"

    @property
    def debian_packages(self) -> tuple[str, ...]:
        """Debian packages in the image of its agent: ``debian-packages`` of ``[tool.hami.image]``."""
        return tuple(self.pyproject.get("tool", {}).get("hami", {}).get("image", {}).get("debian-packages", ()))

    def target(self, group: str) -> str:
        """The class that the vendor's entry point in a group names, ``module:Class``; empty without an entry point."""
        return str(self.pyproject["project"].get("entry-points", {}).get(group, {}).get(self.name, ""))


def pyprojects(root: Path = ROOT) -> list[Path]:
    """The pyproject.toml of every vendor of a source tree, sorted by the vendor's name."""
    return sorted(
        (file for home in HOMES for file in root.glob(f"{home}/*/pyproject.toml")), key=lambda f: f.parent.name
    )


def in_tree(root: Path = ROOT) -> list[Vendor]:
    """The vendors of a source tree, sorted by name.

    Raises:
        ValueError: A pyproject.toml breaks a rule. The text names the file, the field and what is expected.
    """
    found = []
    for file in pyprojects(root):
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


def copy_pages(root: Path = ROOT) -> dict[str, str]:
    """Copy each vendor's page from its folder to ``docs/vendors/``, since Sphinx reads pages below ``docs/`` only.

    Returns:
        Name of each copy for Sphinx, such as ``vendors/nvidia`` → path of the page in the repository.
    """
    pages = root / "docs/vendors"
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir()
    copied = {}
    for vendor in in_tree(root):
        shutil.copy2(vendor.page, pages / f"{vendor.name}.md")
        copied[f"vendors/{vendor.name}"] = vendor.page.relative_to(root).as_posix()
    return copied
