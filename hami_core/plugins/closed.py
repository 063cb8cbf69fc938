"""The file of closed vendors: vendors whose hook blocked an earlier process, and which must not block the next one.

`hami_core.plugins.watchdog` writes the file when a blocked process ends, so it is a small local file and not an object
in the API server. An entry holds until the version of the distribution at fault changes or the file is removed.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import IO, TYPE_CHECKING, Final

import msgspec
import structlog

from hami_core.errors import ConfigError, VendorError
from hami_core.plugins import discovery

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from hami_core.plugins.discovery import Source
    from hami_core.plugins.running import Running
    from hami_core.plugins.vendor import LoadedVendor

log = structlog.get_logger(__name__)

_FRAME: Final = re.compile(r'^  File "(.*)", line \d+ in (.*)$', re.MULTILINE)
"""A line of `faulthandler`'s dump."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One closed vendor.

    Attributes:
        vendor: Entry-point name.
        version: Distribution and version of the vendor.
        culprit: Distribution and version of the plugin that blocked: the vendor, or a wrapper around its hook.
        hook: The hook; empty for the constructor.
        seconds: How long it had run.
        at_load: Whether it blocked while the vendor was loaded. Such a vendor is not imported again.
        stack: The stack of the blocked thread.
    """

    vendor: str
    version: str
    culprit: str
    hook: str
    seconds: float
    at_load: bool = False
    stack: str = ""


class ClosedVendors:
    """The file of closed vendors.

    Args:
        path: Path of the file, in a folder that outlives the process. None: nothing is remembered.

    Raises:
        ConfigError: The file exists and can't be read.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._entries: tuple[Entry, ...] = ()
        if path is None:
            return
        self._dump = path.with_name(f"{path.name}.stack")
        try:
            self._entries = msgspec.json.decode(path.read_bytes(), type=tuple[Entry, ...])
        except FileNotFoundError:
            pass
        except (OSError, msgspec.DecodeError) as error:
            problem = f"can't be read, so it is not known which vendors are closed: {error}"
            raise ConfigError(f"--closed-vendors-file {path}", problem, "remove the file to open all of them") from None

        self._take_in_dump()

    def of(self, source: Source) -> tuple[VendorError, bool] | None:
        """Return why a vendor is closed, and whether it must not be imported; None: it is open."""
        for entry in self._entries:
            if entry.vendor == source.name and self._holds(entry, source):
                return VendorError(source.name, source.label, entry.hook, self._text(entry)), entry.at_load
        return None

    def add(self, running: Running, seconds: float, stack: str) -> None:
        """Close a vendor from the next start on.

        Raises:
            OSError: The file can't be written.
        """
        if self.path is None:
            return
        entry = Entry(
            vendor=running.owner.name,
            version=running.owner.label,
            culprit=running.culprit.label,
            hook=running.hook,
            seconds=round(seconds, 1),
            at_load=running.at_load,
            stack=stack,
        )
        self._add(self.path, entry)

    def prepare_dump(self, vendors: Iterable[LoadedVendor], seconds: float) -> IO[bytes] | None:
        """Create the file to which `faulthandler` writes the stack when a call in C blocks the process.

        The dump names only files and functions. So the first line of the file says which function belongs to which
        hook.

        Args:
            vendors: The loaded vendors.
            seconds: Time after which the process is ended.

        Raises:
            OSError: The file can't be created.
        """
        if self.path is None:
            return None
        functions = [
            (
                file,
                name,
                Entry(
                    vendor=vendor.name, version=vendor.source.label, culprit=source.label, hook=hook, seconds=seconds
                ),
            )
            for vendor in vendors
            for hook, call in vendor.calls.items()
            for source, file, name in call.functions()
        ]
        file = self._dump.open("wb", buffering=0)
        file.write(msgspec.json.encode(functions) + b"\n")
        return file

    def _take_in_dump(self) -> None:
        """Close the vendor that the last process's stack names, if that process left one."""
        if self.path is None:
            return
        try:
            head, _, text = self._dump.read_bytes().partition(b"\n")
            known = msgspec.json.decode(head, type=list[tuple[str, str, Entry]])
        except (OSError, msgspec.DecodeError):
            return
        stack = text.decode(errors="replace")
        functions = {(file, name): entry for file, name, entry in known}
        found = [functions[place] for place in _FRAME.findall(stack) if place in functions]
        if stack.strip():
            log.error("the last process was ended because a call in C blocked Python", stack=stack)
        try:
            if found:
                self._add(self.path, msgspec.structs.replace(found[0], stack=stack))
            self._dump.unlink()
        except OSError as error:
            log.warning("the vendor that held up the last process can't be kept closed", error=str(error))

    def _add(self, path: Path, entry: Entry) -> None:
        self._entries = (*(other for other in self._entries if other.vendor != entry.vendor), entry)
        new = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with new.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(self._entries), indent=2))
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink()
            raise

    @staticmethod
    def _holds(entry: Entry, source: Source) -> bool:
        if entry.version != source.label:
            return False
        wrappers = {wrapper.label for wrapper, _ in discovery.installed(discovery.PLUGINS)}
        return entry.culprit == entry.version or entry.culprit in wrappers

    def _text(self, entry: Entry) -> str:
        who = f" ({entry.culprit} wraps it)" if entry.culprit != entry.version else ""
        return (
            f"held up the process for {entry.seconds:g} s before its last start{who}, so this vendor is closed; "
            f"install another version, or remove {self.path} and restart"
        )
