"""Debian packages. apt fetches them and checks their signatures; they are unpacked but not installed."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from contrib.images.command import run
from contrib.images.errors import BuildError, MissingTool
from contrib.images.sbom import Component

if TYPE_CHECKING:
    from collections.abc import Sequence

HOW: Final = (
    "images take their files from Debian 12 (bookworm) for amd64: build on such a machine, or in a container of it, "
    "after `apt-get update`"
)
_SPDX: Final = {
    "apache-2.0": "Apache-2.0",
    "bsd-3-clause": "BSD-3-Clause",
    "bzip2": "bzip2-1.0.6",
    "expat": "MIT",
    "gpl-2": "GPL-2.0-only",
    "gpl-2+": "GPL-2.0-or-later",
    "gpl-3+": "GPL-3.0-or-later",
    "lgpl-2.1": "LGPL-2.1-only",
    "lgpl-2.1+": "LGPL-2.1-or-later",
    "mit": "MIT",
    "zlib": "Zlib",
}


@dataclass(frozen=True, slots=True)
class Package:
    """A binary package that apt would install now."""

    name: str
    version: str
    sha256: str
    control: str

    @property
    def file(self) -> str:
        """Name of its file in the cache. It contains the checksum."""
        return f"{self.name}_{self.version.replace(':', '%3a')}_{self.sha256[:16]}.deb"


def candidates(names: Sequence[str]) -> list[Package]:
    """The versions that apt would install now.

    Raises:
        MissingTool: apt is not installed or does not know a package.
    """
    found = _show(names)
    if len(found) < len(names) and os.geteuid() == 0:
        run(["apt-get", "-q", "update"], needs=HOW)  # a new machine has no lists, or old ones
        found = _show(names)
    for name in names:
        if name not in found:
            raise MissingTool(f"Debian package {name}", HOW)
    return [found[name] for name in names]


def _show(names: Sequence[str]) -> dict[str, Package]:
    """The packages in apt's lists, by name. Unknown packages are left out."""
    try:
        text = run(["apt-cache", "show", "--no-all-versions", *(f"{name}:amd64" for name in names)], needs=HOW)
    except BuildError:  # apt knows none of them
        return {}
    found: dict[str, Package] = {}
    for control in text.strip().split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*)$", control, re.MULTILINE))
        if "SHA256" in fields:
            found[fields["Package"]] = Package(fields["Package"], fields["Version"], fields["SHA256"], control)
    return found


def fetch(package: Package, cache: Path) -> Path:
    """The package's file, from the cache or by apt."""
    path = cache / package.file
    if not path.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            wanted = f"{package.name}:amd64={package.version}"
            # apt's sandbox user must not write into a private folder.
            run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", wanted], needs=HOW, cwd=Path(folder))
            got = next(Path(folder).glob("*.deb"))
            if hashlib.sha256(got.read_bytes()).hexdigest() != package.sha256:
                raise MissingTool(f"{wanted} with checksum {package.sha256}", "run `apt-get update` and try again")
            got.rename(path)
    return path


def unpack(packages: Sequence[Package], cache: Path, into: Path) -> list[Component]:
    """Unpack packages into one folder; return them as components."""
    components = []
    for package in packages:
        path = fetch(package, cache)
        run(["dpkg", "-x", path, into], needs=HOW)
        license_ = _license(into / "usr/share/doc" / package.name / "copyright")
        components.append(Component("deb", package.name, package.version, package.sha256, license_, path.name))
    return components


def _license(path: Path) -> str:
    """Licence of most files by Debian's machine-readable copyright file; empty without such a file."""
    if not path.is_file():
        return ""
    text = path.read_text(errors="replace")
    if "packaging-manuals/copyright-format" not in text and "dep5" not in text:
        return ""
    found = re.search(r"^Files: \*\n(?:.+\n)*?License: (\S+)[ ]*$", text, re.MULTILINE)
    return _SPDX.get(found[1].lower(), "") if found else ""
