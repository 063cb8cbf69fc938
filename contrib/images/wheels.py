"""Wheels: this repository's own, built from a copy of their sources, and their dependencies at pinned versions."""

from __future__ import annotations

import contextlib
import email
import hashlib
import importlib.util
import re
import shutil
import sys
import tempfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from contrib import vendor_folders
from contrib.images.command import run
from contrib.images.errors import BuildError
from contrib.images.sbom import Component

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from contrib.images.oci import Files

SITE: Final = "/usr/local/lib/python3.11/dist-packages"
"""Folder where Debian's Python 3.11 looks for packages that are not Debian's."""
PYTHON: Final = "3.11"
GLIBC: Final = 36
"""Minor version of the image's glibc: 2.36."""
UV: Final = "`pip install uv`"
_EPOCH: Final = "315532800"  # 1980, the earliest time in a zip file
_CORE: Final = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "CHANGELOG.md", "hami_core", "contrib")
_NOT_SOURCE: Final = re.compile(r"/(__pycache__|build|dist|tests|lib/[^/]+\.so(\.1)?|\.[^/]+|[^/]+\.egg-info)(/|$)")
DISTRIBUTIONS: Final = {
    "hami": ".",
    "hami-interpose": "interpose",
    "hami-gpusim": "interpose/gpusim",
    **{
        vendor.distribution: vendor.folder.relative_to(vendor_folders.ROOT).as_posix()
        for vendor in vendor_folders.in_tree()
    },
}
"""Folder of each distribution of this repository."""


def sources(root: Path, distribution: str) -> Iterator[Path]:
    """The sources of a distribution's wheel, sorted."""
    folder = root / DISTRIBUTIONS[distribution]
    starts = [folder]
    nested = [root / other for other in DISTRIBUTIONS.values() if folder in (root / other).parents]
    if distribution == "hami":
        starts, nested = [*(root / part for part in _CORE), *vendor_folders.pyprojects(root)], []
    for start in starts:
        for path in sorted(start.rglob("*")) if start.is_dir() else [start]:
            inside = f"/{path.relative_to(root).as_posix()}"
            if any(map(path.is_relative_to, nested)):
                continue
            if path.is_file() and not _NOT_SOURCE.search(inside) and not inside.startswith("/contrib/images/"):
                yield path


def build(root: Path, distribution: str, out: Path) -> Path:
    """Build one wheel of this repository from a copy of the working tree.

    Raises:
        MissingTool: uv is not installed.
        BuildError: The build failed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "source"
        for path in sources(root, distribution):
            target = copy / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            target.chmod(path.stat().st_mode & 0o777)
        fresh = Path(scratch) / "wheel"
        # Without this the compiler would write the random path of the copy into the library.
        flags = f"-ffile-prefix-map={scratch}=/src"
        command: list[str | Path] = [*_uv(), "build", "--quiet", "--wheel", "--no-config", "--out-dir", fresh]
        command += ["--build-constraints", root / "constraints.txt", copy / DISTRIBUTIONS[distribution]]
        run(command, needs=UV, env={"SOURCE_DATE_EPOCH": _EPOCH, "CFLAGS": flags})
        wheel = next(fresh.glob("*.whl"))
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, out / wheel.name))


def requirements(root: Path, distributions: Iterable[str]) -> list[str]:
    """Third-party requirements of distributions of this repository."""
    needed = {line for name in distributions for line in _dependencies(root, name)}
    return sorted(line for line in needed if distribution_of(line) not in DISTRIBUTIONS)


def with_ours(root: Path, distributions: Iterable[str]) -> tuple[str, ...]:
    """The given distributions and those of this repository that they need, in the order of `DISTRIBUTIONS`."""
    found: set[str] = set()
    waiting = list(distributions)
    while waiting:
        name = waiting.pop()
        if name in DISTRIBUTIONS and name not in found:
            found.add(name)
            waiting += map(distribution_of, _dependencies(root, name))
    return tuple(name for name in DISTRIBUTIONS if name in found)


def _dependencies(root: Path, distribution: str) -> list[str]:
    project = tomllib.loads((root / DISTRIBUTIONS[distribution] / "pyproject.toml").read_text())["project"]
    return list(project.get("dependencies", ()))


def download(root: Path, wanted: Sequence[str], out: Path) -> list[Path]:
    """Fetch the wheels of requirements and of all their dependencies, at the versions of constraints.txt.

    Raises:
        MissingTool: uv is not installed.
        BuildError: A version has no wheel for the image's Python.
    """
    resolve: list[str | Path] = [*_uv(), "pip", "compile", "--quiet", "--no-config", "--no-header", "--no-annotate"]
    resolve += ["--python-version", PYTHON, "--python-platform", f"x86_64-manylinux_2_{GLIBC}"]
    resolve += ["--constraint", root / "constraints.txt", "-"]
    pins = [line for line in run(resolve, needs=UV, stdin="\n".join(wanted)).splitlines() if "==" in line]
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(GLIBC, 4, -1)] + ["manylinux2014_x86_64"]
    fetch: list[str | Path] = [*_pip(), "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    fetch += ["--only-binary", ":all:", "--python-version", PYTHON, "--implementation", "cp", "--dest", out]
    for platform in platforms:
        fetch += ["--platform", platform]
    run([*fetch, *pins])
    found = sorted(out.glob("*.whl"))
    if len(found) != len(pins):
        raise BuildError(f"{len(pins)} wheels were requested, {len(found)} were fetched: {', '.join(pins)}")
    return found


@dataclass(frozen=True, slots=True)
class Given:
    """A finished wheel of a third party.

    Attributes:
        path: The file.
        name: Name of the distribution.
        needs: Requirements without those of extras.
        node_sides: Vendors whose node side the wheel contains.
    """

    path: Path
    name: str
    needs: tuple[str, ...]
    node_sides: tuple[str, ...]


def given(path: Path) -> Given:
    """Read the metadata of a wheel.

    Raises:
        BuildError: The file is not a wheel, or not for the image's machine.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            info = next(name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
            metadata = email.message_from_bytes(archive.read(info))
            points = ""
            with contextlib.suppress(KeyError):
                points = archive.read(info.replace("METADATA", "entry_points.txt")).decode()
    except StopIteration as error:
        raise BuildError(f"{path}: is not a wheel: it has no METADATA") from error
    except (OSError, zipfile.BadZipFile) as error:
        raise BuildError(f"{path}: is not a readable wheel: {error}") from error
    if not re.search(r"-(none-any|[^-]+-[^-]*x86_64)\.whl$", path.name):
        raise BuildError(f"{path.name}: is not for the image's machine; build it for any, or for Linux on x86_64")
    needs = tuple(line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line)
    sides = tuple(name for name, _ in _entry_points(points, "hami.node"))
    return Given(path, str(metadata["Name"]), needs, sides)


def distribution_of(requirement: str) -> str:
    """The distribution that a requirement names, in the form of `DISTRIBUTIONS`."""
    found = re.match(r"[A-Za-z0-9][-A-Za-z0-9._]*", requirement.strip())
    return re.sub(r"[-_.]+", "-", found[0] if found else requirement).lower()


def unpack(wheel: Path, files: Files, site: Path) -> Component:
    """Write a wheel's modules into a folder and its commands into the layer; return it as a component.

    Raises:
        BuildError: The wheel has files outside the folder.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = next(name for name in names if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
        for name in names:
            target = _target(name)
            if target is None or name.endswith("/"):
                continue
            if ".." in target or target.startswith("/"):
                raise BuildError(f"{wheel.name}: {name} would leave {SITE}")
            path = site / target
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(name))
        points = info.replace("METADATA", "entry_points.txt")
        if wheel.name.startswith(("hami-", "hami_")) and points in names:
            _commands(archive.read(points).decode(), files)
        metadata = email.message_from_bytes(archive.read(info))
    checksum = hashlib.sha256(wheel.read_bytes()).hexdigest()
    license_ = str(metadata["License-Expression"] or "")
    return Component("pypi", str(metadata["Name"]), str(metadata["Version"]), checksum, license_, wheel.name)


def _target(name: str) -> str | None:
    """Path of a wheel's member in the site folder; None for members that are left out, such as scripts and headers."""
    found = re.match(r"[^/]+\.data/([^/]+)/(.*)", name)
    if found is None:
        return name
    return found[2] if found[1] in {"purelib", "platlib"} else None


def _entry_points(text: str, group: str) -> Iterator[tuple[str, str]]:
    """Name and target of each entry point of a group."""
    section = re.search(rf"^\[{re.escape(group)}\]\n((?:[^\[].*\n?)*)", text, re.MULTILINE)
    for line in (section[1] if section else "").splitlines():
        name, _, point = (part.strip() for part in line.partition("="))
        if name and point:
            yield name, point


def _commands(entry_points: str, files: Files) -> None:
    for name, point in _entry_points(entry_points, "console_scripts"):
        module, _, function = point.partition(":")
        if name and function:
            text = (
                f"#!/usr/bin/python{PYTHON}\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"
            )
            files.file(f"/usr/local/bin/{name}", text, 0o755)


def _uv() -> list[str]:
    beside = Path(sys.executable).parent / "uv"
    return [str(beside)] if beside.exists() else ["uv"]


def _pip() -> list[str]:
    return [sys.executable, "-m", "pip"] if importlib.util.find_spec("pip") else [*_uv(), "tool", "run", "pip"]
