"""The small API client of the embedded scheduler and kubelets: requests, list and watch."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from hami_core.sim.resources import Object, now

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = logging.getLogger(__name__)


class CallError(Exception):
    """The server refused, or did not answer (``code`` 0)."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Client:
    """Requests to one API server.

    Args:
        url: Base URL.
        agent: User-Agent. Faults can select requests by it.
    """

    def __init__(self, url: str, agent: str) -> None:
        self._url = url
        self._session = aiohttp.ClientSession(
            headers={"User-Agent": f"{agent}/sim"},
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=30),
        )

    async def close(self) -> None:
        """Closes all connections."""
        await self._session.close()

    async def call(self, method: str, path: str, body: Any = None, *, patch: str = "") -> Object:  # noqa: ANN401 - JSON
        """One request; ``patch`` names the patch type (``merge``, ``strategic-merge``).

        Raises:
            CallError: The server refused, or no answer came.
        """
        headers = {"Content-Type": f"application/{patch}-patch+json" if patch else "application/json"}
        data = None if body is None else orjson.dumps(body)
        try:
            async with self._session.request(method, self._url + path, data=data, headers=headers) as answer:
                content = await answer.read()
                parsed: Object = orjson.loads(content)
        except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError) as error:
            raise CallError(0, f"{method} {path}: {type(error).__name__}: {error}") from error
        if answer.status >= 400:
            raise CallError(answer.status, parsed.get("message") or str(parsed))
        return parsed

    async def event(
        self, component: str, about: Object, kind: str, reason: str, message: str, *, field: str = ""
    ) -> None:
        """Records an event about a pod or node, or about one field of it. A failure is only logged."""
        meta = about["metadata"]
        namespace, stamp = meta.get("namespace", "default"), now()
        body = {
            "metadata": {"name": f"{meta['name']}.{random.getrandbits(64):016x}", "namespace": namespace},
            "involvedObject": {
                "kind": about["kind"], "apiVersion": about["apiVersion"], "name": meta["name"],
                "namespace": meta.get("namespace", ""), "uid": meta["uid"], "resourceVersion": meta["resourceVersion"],
                **({"fieldPath": field} if field else {}),
            },
            "reason": reason, "message": message[:1024], "type": kind, "count": 1,
            "firstTimestamp": stamp, "lastTimestamp": stamp,
            "source": {"component": component}, "reportingComponent": component,
        }  # fmt: skip
        try:
            await self.call("POST", f"/api/v1/namespaces/{namespace}/events", body)
        except CallError as failure:
            _LOG.warning("event %s about %s lost: %s", reason, meta["name"], failure)

    async def follow(self, path: str, query: str, changed: Callable[[str, Object], None]) -> None:
        """Lists and watches for ever, and calls ``changed`` for each object that is added, changed or deleted.

        ``changed`` gets ``ADDED``, ``MODIFIED`` or ``DELETED`` and the object. After each list it gets ``SYNCED`` and
        an empty object.
        """
        known: dict[str, Object] = {}
        while True:
            try:
                listing = await self.call("GET", f"{path}?{query}")
                version = listing["metadata"]["resourceVersion"]
                fresh = {o["metadata"]["uid"]: _typed(o, listing) for o in listing["items"]}
                for uid in known.keys() - fresh.keys():
                    changed("DELETED", known.pop(uid))
                for uid, obj in fresh.items():
                    changed("MODIFIED" if uid in known else "ADDED", obj)
                known = fresh
                changed("SYNCED", {})
                while True:
                    version = await self._watch(f"{path}?{query}", version, known, changed)
            except CallError as failure:
                _LOG.info("listing and watching %s again: %s", path, failure)
            await asyncio.sleep(random.uniform(0.1, 0.4))  # noqa: S311 - jitter

    async def _watch(
        self, path: str, version: str, known: dict[str, Object], changed: Callable[[str, Object], None]
    ) -> str:
        """Watches until the watch ends. Returns the version from which to continue."""
        url = f"{self._url}{path}&watch=true&allowWatchBookmarks=true&resourceVersion={version}"
        timeout = aiohttp.ClientTimeout(total=None, sock_read=60)
        try:
            async with self._session.get(url, timeout=timeout) as answer:
                buffer = b""
                async for chunk in answer.content.iter_any():
                    *lines, buffer = (buffer + chunk).split(b"\n")
                    for line in lines:
                        version = self._take(orjson.loads(line), known, changed)
        except (aiohttp.ClientError, TimeoutError) as error:
            _LOG.info("watch of %s ended: %s: %s", path, type(error).__name__, error)
            await asyncio.sleep(random.uniform(0.05, 0.2))  # noqa: S311 - jitter
        return version

    @staticmethod
    def _take(event: Object, known: dict[str, Object], changed: Callable[[str, Object], None]) -> str:
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            raise CallError(obj.get("code", 500), obj.get("message", "watch failed"))
        version: str = obj["metadata"]["resourceVersion"]
        if kind != "BOOKMARK":
            uid = obj["metadata"]["uid"]
            if kind == "DELETED":
                known.pop(uid, None)
            else:
                known[uid] = obj
            changed(kind, obj)
        return version


def _typed(obj: Object, listing: Object) -> Object:
    return {"apiVersion": listing["apiVersion"], "kind": listing["kind"].removesuffix("List"), **obj}
