"""The Kubernetes API over a bed's unix socket, as plain JSON."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path  # noqa: TC003 - part of the public signature
from typing import Any

from tests.e2e.bed.errors import ApiRefused, BedError

JSON = "application/json"


class _Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket instead of a host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def call(
    path: Path, method: str, resource: str, body: object = None, content_type: str = JSON, timeout: float = 30
) -> Any:
    """Send a request and return the answer.

    Args:
        path: The socket.
        method: The HTTP method. PATCH needs the content type of the patch.
        resource: Path and query, such as ``/api/v1/nodes``.
        body: Body of the request. It is sent as JSON unless it is None, text or bytes.
        content_type: Content type of the body.
        timeout: Limit for connecting and for each read, in seconds.

    Returns:
        The decoded JSON, or text if the answer is not JSON (logs).

    Raises:
        ApiRefused: The answer has an error status.
        BedError: There was no answer.
    """
    data = body.encode() if isinstance(body, str) else body if isinstance(body, bytes | None) else json.dumps(body)
    connection = _Connection(path, timeout)
    try:
        connection.request(method, resource, data, {"Content-Type": content_type, "Accept": f"{JSON}, */*"})
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        kind = answer.headers.get("Content-Type", "")
    except (OSError, http.client.HTTPException) as error:
        raise BedError(f"{method} {resource}: no answer: {error!r}") from error
    finally:
        connection.close()
    content: Any = json.loads(text) if kind.startswith(JSON) and text else text
    if answer.status >= 400:
        message = content.get("message", text) if isinstance(content, dict) else text.strip()
        raise ApiRefused(answer.status, message, f"{method} {resource}")
    return content
