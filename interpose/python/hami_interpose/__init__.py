"""Limits for CUDA programs inside one container: `libvgpu.so`, its files, and simulated GPUs to try it on.

The names here are the whole public interface, with `hami_interpose.limits` (the limits file),
`hami_interpose.region` (the shared region) and `hami_interpose.sim` (simulated GPUs).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from hami_interpose._version import __version__

__all__ = ["LibraryMissingError", "__version__", "build_id", "library", "sim_library_dir"]

_LIBRARIES = Path(__file__).resolve().parent / "lib"


class LibraryMissingError(FileNotFoundError):
    """The compiled libraries are not beside the package."""

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
    return _existing(_LIBRARIES / "libvgpu.so")


def sim_library_dir() -> Path:
    """Returns the folder with the simulated `libcuda.so.1` and `libnvidia-ml.so.1`.

    Raises:
        LibraryMissingError: they were not built.
    """
    return _existing(_LIBRARIES / "sim" / "libcuda.so.1").parent


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


def _existing(path: Path) -> Path:
    if not path.exists():
        raise LibraryMissingError(path)
    return path
