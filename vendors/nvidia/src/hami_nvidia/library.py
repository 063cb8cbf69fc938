"""The folder with `libvgpu.so` on the host: installs the agent's own library, and removes those that nobody uses.

A library's name is made of its content. So a library never changes below a container: an agent with another one, newer
or older, puts it beside. A container keeps the library of its spec until the pod ends or the node boots.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

import structlog

from hami_core import DeviceError
from hami_nvidia.allocate import PRELOAD, Interposer

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet
    from pathlib import Path

log = structlog.get_logger(__name__)

SWEEP_INTERVAL_S: Final = 60.0
"""Pause between two searches for unused libraries."""
_LIBRARY: Final = re.compile(r"libvgpu-[0-9a-f]{16}\.so")


class LibraryFolder:
    """The libraries in one folder of the host. One agent at a time works on it.

    Args:
        path: The folder; made when first needed.
        clock: Monotonic seconds.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.path = path
        self._clock = clock
        self._installed: Interposer | None = None
        self._due = float("-inf")

    def install(self) -> Interposer:
        """Install the library of this package, unless it is there. Containers may be prepared in parallel.

        Raises:
            DeviceError: It can't be written.
        """
        if self._installed is not None and self._installed.library.is_file():
            return self._installed
        from hami_interpose import library  # noqa: PLC0415 - the wheel with the library, needed only here

        try:
            content = library().read_bytes()
            self.path.mkdir(mode=0o755, parents=True, exist_ok=True)
            name = f"libvgpu-{hashlib.sha256(content).hexdigest()[:16]}.so"
            _install(self.path / name, content, 0o755)
            preload = self.path / "ld.so.preload"
            _install(preload, PRELOAD, 0o644)
        except OSError as error:
            raise DeviceError(f"can't install libvgpu.so in {self.path}: {error}") from error
        self._installed = Interposer(self.path / name, preload)
        return self._installed

    def remove_unused(self, mounted: Callable[[], AbstractSet[str]] | None) -> None:
        """Remove libraries of other agents that no container mounts. Searches once in a minute.

        A process that still has a removed library mapped is not affected, since the kernel keeps the file for it.

        Args:
            mounted: Host paths that containers mount (`NodeContext.mounted`).

        Raises:
            DeviceError: The list of mounted paths is not complete. Nothing is removed.
        """
        if mounted is None or self._installed is None or self._clock() < self._due:
            return
        self._due = self._clock() + SWEEP_INTERVAL_S
        try:
            others = {file.name for file in self.path.iterdir() if _LIBRARY.fullmatch(file.name)}
            others.discard(self._installed.library.name)
            if not others:
                return
            for name in sorted(others - {PurePath(path).name for path in mounted()}):
                (self.path / name).unlink(missing_ok=True)
                log.info("removed a library that no container uses", library=name)
        except OSError as error:
            log.warning("can't remove unused libraries", folder=str(self.path), error=str(error))


def _install(path: Path, content: bytes, mode: int) -> None:
    """Write a file atomically, unless it already has this content. Several threads may do this at the same time."""
    if path.is_file() and path.read_bytes() == content:
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with temporary.open("wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())
    temporary.rename(path)
