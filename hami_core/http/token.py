"""A bearer token in a file, read again when the file changes: a Secret's does, when it is renewed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from hami_core.documents import read_text
from hami_core.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

log = structlog.get_logger(__name__)


class TokenFile:
    """The token as it is now.

    Args:
        path: The file.
        setting: Name of the setting that names it, for messages.

    Raises:
        ConfigError: It can't be read, or holds nothing: that would let in everybody, or nobody.
    """

    def __init__(self, path: Path, setting: str) -> None:
        self._path = path
        self._setting = setting
        self._problem = ""
        self._seen: tuple[int, int, int] | None = None
        self._token = ""
        self._refresh()

    def __call__(self) -> str:
        """The token; the one before while the file can't be read or is empty."""
        try:
            self._refresh()
        except ConfigError as error:
            if str(error) != self._problem:
                log.warning("the token before stays", error=str(error))
            self._problem = str(error)
        else:
            self._problem = ""
        return self._token

    def _refresh(self) -> None:
        try:
            # The kubelet swaps a link on the way to the file, so a new one is another file.
            status = self._path.stat()
            seen = status.st_ino, status.st_mtime_ns, status.st_size
            if seen == self._seen:
                return
        except OSError as error:
            raise ConfigError(self._setting, f"{self._path} can't be read: {error.strerror}") from error
        try:
            text = read_text(self._path).strip()
        except ConfigError as error:
            raise ConfigError(self._setting, f"{self._path} {error.problem}", "write a token into it") from error
        if not text:
            raise ConfigError(self._setting, f"{self._path} is empty", "write a token into it")
        if not all("!" <= character <= "~" for character in text):
            problem = f"{self._path} holds more than one word of ASCII, which no HTTP header can carry"
            raise ConfigError(self._setting, problem, "write the token alone into it")
        if self._seen is not None:
            log.info("token read again", setting=self._setting)
        self._seen, self._token = seen, text
