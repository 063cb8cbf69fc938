"""Watches: what one watcher sees of each event, and how it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from hami_core.sim import selection, tables
from hami_core.sim.calls import Call, wants_table

if TYPE_CHECKING:
    from aiohttp import web

    from hami_core.sim.resources import Object, Resource
    from hami_core.sim.store import Event


class Stream:
    """The connection of one watch.

    Args:
        request: The request.
        response: The answer, with its headers sent.
        resource: The resource that is watched.
    """

    def __init__(self, request: web.Request, response: web.StreamResponse, resource: Resource) -> None:
        self._request = request
        self._response = response
        self._resource = resource
        self._as_table = wants_table(request)

    @property
    def open(self) -> bool:
        """Whether the client is still connected."""
        return self._request.transport is not None and not self._request.transport.is_closing()

    async def send(self, kind: str, obj: Object) -> None:
        """Sends one event."""
        if self._as_table and kind != "BOOKMARK":
            obj = tables.table(self._resource, [obj], {"resourceVersion": obj["metadata"]["resourceVersion"]})
        await self._response.write(orjson.dumps({"type": kind, "object": obj}) + b"\n")

    async def bookmark(self, version: int, annotations: dict[str, str] | None = None) -> None:
        """Sends a version without an object."""
        meta: Object = {"resourceVersion": str(version), "creationTimestamp": None}
        meta |= {"annotations": annotations} if annotations else {}
        kind = {"kind": self._resource.kind, "apiVersion": self._resource.api_version}
        await self.send("BOOKMARK", {**kind, "metadata": meta})


def seen(event: Event, call: Call, test: selection.Test) -> tuple[str, Object] | None:
    """Type and object that a watcher with this selector sees of an event; None if it sees nothing.

    If a change takes an object out of the selection, the watcher sees ``DELETED`` with the object before the change
    and the version of the change.
    """
    if call.namespace and event.obj["metadata"].get("namespace") != call.namespace:
        return None
    after = event.type != "DELETED" and test(event.obj)
    before = event.before if event.before is not None and test(event.before) else None
    if after:
        return "MODIFIED" if before else "ADDED", event.obj
    if before is None:
        return None
    if event.type == "DELETED":
        return "DELETED", event.obj
    return "DELETED", {**before, "metadata": {**before["metadata"], "resourceVersion": str(event.version)}}
