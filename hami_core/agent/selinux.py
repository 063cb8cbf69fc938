"""SELinux labels of the files that containers mount from the agent's folder.

On a node with SELinux, a confined container (``container_t``) can't read files of the host without a type such as
``container_file_t``. glibc passes over an ``/etc/ld.so.preload`` that it can't read, so the container would run without
its limits. Therefore the agent sets the type at start, and proves it before a container's spec is written. New files
inherit the type of their folder.

A container may write into its region's folder. So no link is followed, nothing outside the agent's folder is labelled,
of a folder only the direct entries are, and files of other users stay as they are.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_core.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ATTRIBUTE: Final = "security.selinux"
_NEW: Final = "system_u:object_r"
"""User and role of a file that has no label."""
_MOST_ENTRIES: Final = 256
"""Largest number of entries of one folder that are labelled."""
_CONTEXT: Final = re.compile(r"[^:\s]+:[^:\s]+:[^:\s]+(:\S+)?")
FIX: Final = "run the agent with seLinuxOptions type spc_t and level s0 (chart: selinux.enabled)"


def is_on(proc: Path) -> bool:
    """Whether SELinux is on, enforcing or not. Its own file system can't be seen from a container.

    Args:
        proc: The node's ``/proc``.
    """
    try:
        text = (proc / "self/attr/current").read_text(errors="replace").strip("\0 \n")
    except OSError:
        return False
    return bool(_CONTEXT.fullmatch(text))


class FileLabels:
    """Gives files below the agent's folder their SELinux type.

    Args:
        folder: The agent's folder.
        kind: The type, such as ``container_file_t``; empty: no file is labelled.
        level: The level, such as ``s0``, which containers of every category may use.
        getxattr: Reads an extended attribute, as `os.getxattr`.
        setxattr: Writes one, as `os.setxattr`.
    """

    def __init__(
        self,
        folder: Path,
        kind: str,
        level: str,
        getxattr: Callable[..., bytes] = os.getxattr,
        setxattr: Callable[..., None] = os.setxattr,
    ) -> None:
        self._folder = folder
        self._kind = kind
        self._level = level
        self._getxattr = getxattr
        self._setxattr = setxattr

    def whole_folder(self) -> None:
        """Label the agent's folder, its subfolders and the files in these.

        Raises:
            DeviceError: A label can't be set.
        """
        if self._kind:
            self._label(self._folder)
            self.each(path for path in _entries(self._folder) if path.is_dir())

    def each(self, paths: Iterable[str | Path]) -> None:
        """Label the paths that lie in the agent's folder, and of folders the direct entries.

        Raises:
            DeviceError: A label can't be set.
        """
        for path in map(Path, paths) if self._kind else ():
            if self._folder not in path.parents or ".." in path.parts:
                continue
            self._label(path)
            for entry in _entries(path)[:_MOST_ENTRIES]:
                self._label(entry)

    def _label(self, path: Path) -> None:
        try:
            status = path.lstat()
            if status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode):
                self._set(path)
        except FileNotFoundError:
            pass  # the container is gone, or it removed a file of its own
        except OSError as error:
            raise DeviceError(f"can't give {path} the SELinux type {self._kind}: {error.strerror}; {FIX}") from error

    def _set(self, path: Path) -> None:
        try:
            there = self._getxattr(path, ATTRIBUTE, follow_symlinks=False).rstrip(b"\0").decode(errors="replace")
        except OSError as error:
            if error.errno != errno.ENODATA:
                raise
            there = ""
        user, role, *rest = there.split(":", 3) if there.count(":") >= 2 else [*_NEW.split(":"), "", ""]
        # A policy without levels has three parts.
        wanted = ":".join([user, role, self._kind, self._level][: 2 + len(rest)])
        if wanted != there:
            self._setxattr(path, ATTRIBUTE, wanted.encode() + b"\0", follow_symlinks=False)


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder; nothing if it is a link, no folder or gone."""
    if folder.is_symlink():
        return []
    try:
        return list(folder.iterdir())
    except (NotADirectoryError, FileNotFoundError):
        return []
