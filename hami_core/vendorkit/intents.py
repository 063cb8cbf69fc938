"""Intents: what a node agent is about to make on a device, written to disk before it is made.

A vendor that makes things on a device for a container (a partition, a virtual device) first writes an intent, then
makes the thing. When the container is gone, it destroys the thing and then removes the intent. So a crash between any
two steps leaves nothing that nobody knows of: whatever exists and is the agent's has an intent.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

import msgspec

from hami_core.errors import DeviceError

if TYPE_CHECKING:
    from pathlib import Path

_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True)
class Owner:
    """A container, by its pod's UID and its name. It stays the same when the container starts again.

    Example:
        >>> Owner("3f1c", "main") == Owner("3f1c", "main")
        True
    """

    pod_uid: str
    container: str


class Intent(Protocol):
    """A frozen dataclass of texts, numbers and other dataclasses.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Half:
        ...     device: str
        ...     owner: Owner
        ...
        ...     @property
        ...     def key(self):
        ...         return self.device
        >>> Half("ACME-0", Owner("3f1c", "main")).key
        'ACME-0'
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def key(self) -> str:
        """The name of what it claims. Two intents with one key can't exist."""


_T = TypeVar("_T", bound=Intent)


class Intents(Generic[_T]):
    """The intents on disk: one file ``<key>.json`` each, complete as soon as it exists.

    Args:
        folder: The folder, which is made when first needed.
        kind: The intents' class.
        what: What is made, such as ``MIG instance``, for messages.

    Example:
        >>> import tempfile
        >>> from dataclasses import dataclass
        >>> from pathlib import Path
        >>> @dataclass(frozen=True)
        ... class Half:
        ...     key: str
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     intents = Intents(Path(folder), Half, "half card")
        ...     intents.add(Half("ACME-0")), intents.add(Half("ACME-0")), intents.load()
        (True, False, [Half(key='ACME-0')])
    """

    def __init__(self, folder: Path, kind: type[_T], what: str) -> None:
        self._folder = folder
        self._decoder = msgspec.json.Decoder(kind)
        self._what = what

    def load(self) -> list[_T]:
        """All intents.

        Raises:
            DeviceError: A file can't be read. What it claims could belong to a container, so nothing may be decided.
        """
        try:
            paths = sorted(path for path in self._folder.iterdir() if path.suffix == _SUFFIX)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise DeviceError(f"{self._folder}: the intents can't be read: {error}") from error
        return [self._read(path) for path in paths]

    def _read(self, path: Path) -> _T:
        fix = f"remove the file if no container uses this {self._what}"
        try:
            found = self._decoder.decode(path.read_bytes())
        except (OSError, msgspec.MsgspecError) as error:
            raise DeviceError(f"{path}: is no intent: {error}; {fix}") from error
        if path.name != f"{found.key}{_SUFFIX}":
            raise DeviceError(f"{path}: is the intent of {self._what} {found.key}; {fix}")
        return found

    def add(self, intent: _T) -> bool:
        """Write an intent durably. Returns False if its key has one already, perhaps of another process.

        Raises:
            DeviceError: It can't be written.
        """
        target = self._folder / f"{intent.key}{_SUFFIX}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, prefix=".") as file:
                file.write(msgspec.json.encode(intent))
                file.flush()
                os.fsync(file.fileno())
                os.link(file.name, target)  # fails if the target exists
            self._sync()
        except FileExistsError:
            return False
        except OSError as error:
            raise DeviceError(f"{target}: can't be written: {error}") from error
        return True

    def remove(self, intent: _T) -> None:
        """Remove an intent durably. It may be gone already.

        Raises:
            DeviceError: It can't be removed.
        """
        try:
            (self._folder / f"{intent.key}{_SUFFIX}").unlink(missing_ok=True)
            self._sync()
        except OSError as error:
            raise DeviceError(f"{self._folder}: an intent can't be removed: {error}") from error

    def _sync(self) -> None:
        fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
