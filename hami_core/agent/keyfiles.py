"""Loads the public keys that verify allocations, and reloads them when their file or folder changes.

The kubelet updates a folder mounted from a ConfigMap by replacing the link ``..data``. The link is resolved once for
each reload, so old and new files never mix. A file that does not load keeps its previous keys; other files still load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from hami_core.agent.watch import watch_folder
from hami_core.errors import ConfigError
from hami_core.wire.signature import load_public_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from hami_core.wire.signature import PublicKey

log = structlog.get_logger(__name__)

POLL_S: Final = 5.0
"""Keys are compared at this interval even without a notification."""
_CURRENT: Final = "..data"
"""Link in a mounted ConfigMap to the folder with the current files."""


class KeyFiles:
    """Public keys of a PEM file, or of every ``*.pem`` and ``*.pub`` file of a folder.

    Args:
        path: File or folder; None: there are never any keys.

    Raises:
        ConfigError: The file or folder does not exist, or the file holds no key. A folder without keys is no error: the
            scheduler may not have made them yet.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._content: dict[str, bytes] = {}
        self._of_file: dict[str, tuple[PublicKey, ...]] = {}
        if path is not None:
            self._content = _read(path)
            if not path.is_dir():
                load_public_keys(self._content[path.name], where=f"signing_keys {path}")
            self._of_file = self._load(self._content)

    @property
    def keys(self) -> tuple[PublicKey, ...]:
        """The keys that are valid now."""
        return tuple(key for found in self._of_file.values() for key in found)

    @property
    def may_change(self) -> bool:
        """Whether there is anything to watch."""
        return self._path is not None

    def problem(self) -> str:
        """For readiness: why no allocation can be verified; empty if one can, or if none need be."""
        if self._path is None or self.keys:
            return ""
        return f"no public key in {self._path} yet; the scheduler publishes it in the ConfigMap mounted there"

    def refresh(self) -> bool:
        """Load the current files. Returns whether the keys changed."""
        if self._path is None:
            return False
        try:
            content = _read(self._path)
        except ConfigError as error:
            log.warning("can't read the signing keys; keeping the previous ones", error=str(error))
            return False
        if content == self._content:
            return False
        self._content = content
        found = self._load(content)
        if not found and self._of_file:
            log.warning("the signing keys are gone; keeping the previous ones", path=str(self._path))
            return False
        before, self._of_file = _raw(self.keys), found
        changed = _raw(self.keys) != before
        if changed:
            log.info("signing keys loaded", path=str(self._path), keys=len(self.keys))
        return changed

    def _load(self, content: Mapping[str, bytes]) -> dict[str, tuple[PublicKey, ...]]:
        """The keys of each file. A file that does not load keeps its previous keys."""
        found = {}
        for name, text in content.items():
            try:
                found[name] = load_public_keys(text, where=f"signing_keys {self._path}: {name}")
            except ConfigError as error:
                log.warning("can't load a file of signing keys", error=str(error))
                if name in self._of_file:
                    found[name] = self._of_file[name]
        return found

    async def watch(self, changed: Callable[[], None]) -> None:
        """Refresh on every change until cancelled, and call ``changed`` when the keys differ.

        Raises:
            ValueError: There is nothing to watch.
        """
        if self._path is None:
            raise ValueError("no file or folder with keys was named")
        folder = self._path if self._path.is_dir() else self._path.parent

        def reload() -> None:
            if self.refresh():
                changed()

        await watch_folder(folder, reload, poll_s=POLL_S)


def _read(path: Path) -> dict[str, bytes]:
    """The files with keys, by name."""
    try:
        if not path.is_dir():
            return {path.name: path.read_bytes()}
        folder = (path / _CURRENT).resolve() if (path / _CURRENT).is_symlink() else path
        return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.suffix in {".pem", ".pub"}}
    except OSError as error:
        problem = f"{error.filename or path} can't be read: {error.strerror}"
        raise ConfigError("signing_keys", problem, "name a file this process can read") from error


def _raw(keys: Iterable[PublicKey]) -> list[bytes]:
    return [key.public_bytes_raw() for key in keys]
