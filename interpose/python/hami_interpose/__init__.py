"""Limits for CUDA programs inside one container: `libvgpu.so` and its files.

The names here are the whole public interface, with `hami_interpose.limits` (the limits file) and
`hami_interpose.region` (the shared region).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from hami_interpose._moved import gpusim
from hami_interpose._version import __version__

__all__ = ["LibraryMissingError", "__version__", "build_id", "library", "sim_library_dir"]

_LIBRARIES = Path(__file__).resolve().parent / "lib"


class LibraryMissingError(FileNotFoundError):
    """`libvgpu.so` is not beside the package."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is not there: install the hami-interpose wheel, or in a source tree run "
            "`cmake -S interpose -B interpose/build/dev -G Ninja && cmake --build interpose/build/dev`"
        )


def library() -> Path:
    """Returns the path of `libvgpu.so`.

    Raises:
        LibraryMissingError: it was not built.
    """
    path = _LIBRARIES / "libvgpu.so"
    if not path.exists():
        raise LibraryMissingError(path)
    return path


def sim_library_dir() -> Path:
    """Deprecated: `hami_gpusim.library_dir`, under its old name."""
    package = gpusim("hami_interpose.sim_library_dir", "hami_gpusim.library_dir")
    folder: Path = package.library_dir()
    return folder


@cache
def build_id() -> str:
    """Returns the build of `libvgpu.so`, as it also stands in the regions of containers that run it.

    It names the sources: the same sources give the same id wherever they are built.

    Raises:
        LibraryMissingError: it was not built.
        ValueError: the file is not one of ours.
    """
    found = re.search(rb"hami-build-id=([0-9a-z]{1,47})\0", library().read_bytes())
    if found is None:
        raise ValueError(f"{library()}: no build id in it, so not a libvgpu.so of this project")
    return found[1].decode("ascii")
