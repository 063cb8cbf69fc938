"""A raw HTTP client. Scenarios compare statuses, headers and bytes, which a Kubernetes client hides."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
PATIENCE = 90.0
"""Seconds until a wait fails. No test result depends on the value."""


@dataclass(frozen=True)
class Answer:
    """Status and body of an answer."""

    status: int
    body: Any
    warnings: tuple[str, ...] = ()

    def seen(self) -> dict[str, Any]:
        """The answer as a recording has it."""
        warnings = {"warnings": list(self.warnings)} if self.warnings else {}
        return {"status": self.status, "body": self.body, **warnings}


class Api:
    """Requests to one API server.

    Args:
        url: Base URL.
        socket: Unix socket to use instead of the URL's address.
    """

    def __init__(self, url: str, socket: Path | None = None) -> None:
        connector = aiohttp.UnixConnector(str(socket)) if socket else aiohttp.TCPConnector(limit=0)
        self._url = url
        self._session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60))

    async def close(self) -> None:
        """Closes all connections."""
        await self._session.close()

    async def ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", **headers: str
    ) -> Answer:
        """Send one request. A body that is not JSON is returned as text."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": kind, **{k.replace("_", "-"): v for k, v in headers.items()}}
        async with self._session.request(method, self._url + path, data=data, headers=sent) as answer:
            text = await answer.text()
            warnings = tuple(answer.headers.getall("Warning", []))
            try:
                return Answer(answer.status, json.loads(text), warnings)
            except json.JSONDecodeError:
                return Answer(answer.status, text, warnings)

    async def must(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", **headers: str
    ) -> Any:
        """Send one request that must succeed, and return its body."""
        answer = await self.ask(method, path, body, kind, **headers)
        assert answer.status < 300, f"{method} {path}: {answer}"
        return answer.body

    async def get(self, path: str) -> Any:
        """Read an object that must exist."""
        return await self.must("GET", path)

    async def until(self, what: str, test: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        """Repeat the test until its result is true, and return that result. The test may be a coroutine function."""
        last: Any = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    last = test()
                    if asyncio.iscoroutine(last):
                        last = await last
                    if last:
                        return last
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"never came: {what}; last: {last!r}") from None

    async def pod(self, name: str) -> dict[str, Any]:
        """A pod of the namespace default."""
        found: dict[str, Any] = await self.get(f"{PODS}/{name}")
        return found

    async def pod_until(self, name: str, test: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Wait until the test is true for the pod, and return the pod."""
        last: dict[str, Any] = {}
        try:
            async with asyncio.timeout(PATIENCE):
                while not test(last := await self.pod(name)):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"pod {name} never got there: {json.dumps(last.get('status'), indent=1)}") from None
        return last

    async def remove(self, *names: str) -> None:
        """Delete pods without grace period and wait until they are gone."""
        for name in names:
            await self.ask("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        for name in names:
            await self.until(f"end of {name}", lambda n=name: self._gone(n))

    async def remove_finalizers(self, name: str) -> None:
        """Remove the finalizers of a pod, so that it can be deleted."""
        await self.must("PATCH", f"{PODS}/{name}", {"metadata": {"finalizers": None}}, MERGE)

    async def _gone(self, name: str) -> bool:
        return (await self.ask("GET", f"{PODS}/{name}")).status == 404

    async def events(self, name: str, *reasons: str) -> list[dict[str, Any]]:
        """Events about a pod with these reasons, oldest first, without duplicates. Fields that HAMi ignores are cut."""
        found = await self.get(f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D{name}")
        wanted = [e for e in found["items"] if e["reason"] in reasons]
        wanted.sort(key=lambda e: int(e["metadata"]["resourceVersion"]))
        told = [
            {
                "type": e["type"],
                "reason": e["reason"],
                "message": e.get("message", ""),
                "from": e.get("reportingComponent") or (e.get("source") or {}).get("component"),
                "about": {k: e["involvedObject"].get(k) for k in ("kind", "namespace", "name", "fieldPath")},
            }
            for e in wanted
        ]
        return [event for number, event in enumerate(told) if event not in told[:number]]

    @asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncIterator[Watch]:
        """Open a watch for the time of the context."""
        params = {"watch": "true", **query}
        timeout = aiohttp.ClientTimeout(total=None, sock_read=PATIENCE)
        async with self._session.get(self._url + path, params=params, timeout=timeout) as answer:
            yield Watch(answer)


class Watch:
    """Events of one watch.

    Args:
        answer: The response, its headers read.
    """

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self.status = answer.status

    async def next(self) -> Mapping[str, Any] | None:
        """The next event; None when the watch has ended."""
        line = await asyncio.wait_for(self._answer.content.readline(), PATIENCE)
        if line and self.status != 200:
            return {"type": "REFUSED", "object": json.loads(line)}
        return json.loads(line) if line else None

    async def take(self, count: int) -> list[dict[str, Any]]:
        """The next `count` events."""
        return [dict(await self.next() or {"type": "END"}) for _ in range(count)]

    async def bookmark(self) -> dict[str, Any]:
        """The next bookmark. Other events before it are skipped."""
        while True:
            event = await self.next()
            assert event is not None, "the watch ended before a bookmark came"
            if event["type"] == "BOOKMARK":
                return dict(event)
