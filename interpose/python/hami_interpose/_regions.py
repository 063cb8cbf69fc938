"""Opening the regions of containers that run, with the care that files writable by a container ask for."""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_interpose import region

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_interpose.region import Region

STANDARD_ROOT: Final = Path("/usr/local/vgpu")
ROOT_VARIABLE: Final = "HAMI_VGPU_ROOT"
REGION_PART: Final = Path("region/vgpu.cache")
_AGENT_BEAT: Final = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Found:
    """A region as it was read.

    Attributes:
        identity: device and inode of the file: another one is another region.
        region: what it holds.
        agent_heartbeat: when a node agent last looked at it, seconds since 1970; 0 = none ever did.
    """

    identity: tuple[int, int]
    region: Region
    agent_heartbeat: int


def load(path: Path, *, follow: bool = False) -> Found:
    """Reads a region. A pipe or a link that a container put in its place neither blocks nor leads anywhere.

    Args:
        path: The region file.
        follow: Whether a symbolic link may be followed; `libvgpu.so` does not.

    Raises:
        RegionError: It is no region, truncated or damaged.
        OSError: It cannot be opened or read.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise region.RegionError(str(path), 0, "not a regular file")
        try:
            found = region.read(descriptor)
        except region.RegionError as error:
            raise region.RegionError(str(path), error.offset, error.what) from None
        (beat,) = _AGENT_BEAT.unpack(os.pread(descriptor, _AGENT_BEAT.size, region.AGENT_BEAT_OFFSET))
        return Found((status.st_dev, status.st_ino), found, beat)
    finally:
        os.close(descriptor)


def is_there(path: Path) -> bool:
    """Whether a path exists, as `libvgpu.so` asks: one that may not be looked at counts as there."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def library_root(environ: Mapping[str, str]) -> Path | None:
    """Where `libvgpu.so` takes limits and region from, or None: from HAMi's environment variables."""
    if is_there(STANDARD_ROOT / "limits"):
        return STANDARD_ROOT
    named = environ.get(ROOT_VARIABLE)
    return Path(named) if named else None


def root(given: Path | None, environ: Mapping[str, str]) -> Path:
    """The root to look at: the one given, else the library's, else where one would be mounted."""
    return given or library_root(environ) or STANDARD_ROOT
