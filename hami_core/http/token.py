"""A token in a file, and handlers that need it. The file is read again when it changes, as a mounted Secret's does."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

import structlog

from hami_core.documents import read_text
from hami_core.errors import ConfigError
from hami_core.http.serve import Request, Response, text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hami_core.http.serve import Handler

log = structlog.get_logger(__name__)

TOKEN_HEADER: Final = "X-HAMI-Token"  # noqa: S105 - a name
"""May carry the token in place of ``Authorization``, which the API server's proxy to pods does not pass on."""


def no_token() -> str:
    """The empty token: every request is answered."""
    return ""


def guarded(handler: Handler, token: Callable[[], str]) -> Handler:
    """The handler, for requests with the token; every other request gets 401.

    Args:
        handler: The handler.
        token: Called at each request; returns the token that the request must carry, as ``Authorization: Bearer`` or in
            `TOKEN_HEADER`. Empty: none is needed.
    """

    async def checked(request: Request) -> Response:
        wanted = token()
        own = request.headers.get(TOKEN_HEADER.lower())
        given = request.headers.get("authorization", "") if own is None else f"Bearer {own}"
        if wanted and not hmac.compare_digest(given.encode(errors="surrogateescape"), f"Bearer {wanted}".encode()):
            return text(401, "send the bearer token that the setting metrics_token_file names\n")
        return await handler(request)

    return checked


class TokenFile:
    """The current token of a file.

    Args:
        path: The file.
        setting: The setting that names the file, for messages.

    Raises:
        ConfigError: The file can't be read or holds no token.
    """

    def __init__(self, path: Path, setting: str) -> None:
        self._path = path
        self._setting = setting
        self._problem = ""
        self._seen: tuple[int, int, int] | None = None
        self._token = ""
        self._refresh()

    def __call__(self) -> str:
        """The token; while the file can't be read or holds no token, the previous one."""
        try:
            self._refresh()
        except ConfigError as error:
            if str(error) != self._problem:
                log.warning("the token can't be read; the previous one stays", error=str(error))
            self._problem = str(error)
        else:
            self._problem = ""
        return self._token

    def _refresh(self) -> None:
        try:
            # The kubelet swaps a symbolic link in the path, so a new token is a new file (inode).
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
            problem = f"{self._path} holds more than one word of printable ASCII, which an HTTP header can't carry"
            raise ConfigError(self._setting, problem, "write only the token into it")
        if self._seen is not None:
            log.info("token read again", setting=self._setting)
        self._seen, self._token = seen, text
