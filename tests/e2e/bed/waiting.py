"""Wait until a cluster reaches a state, and describe the cluster if it does not."""

from __future__ import annotations

import json
import time
import urllib.parse
from typing import TYPE_CHECKING, Any, TypeVar

from tests.e2e.bed.errors import BedError, NotInTime

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def wait(call: Callable[[str, str], Any], what: str, condition: Callable[[], T], timeout: float, poll: float) -> T:
    """Wait until a condition is true and return its value.

    Raises:
        NotInTime: The condition did not become true. The message describes the cluster.
    """
    until = time.monotonic() + timeout
    while True:
        last: object
        try:
            value = condition()
            if value:
                return value
            last = value
        except BedError as error:
            last = error
        if time.monotonic() > until:
            raise NotInTime(f"{what}: not within {timeout:g} s; last: {_short(last)}\n{describe(call)}")
        time.sleep(poll)


def pods(call: Callable[[str, str], Any], selector: str, namespace: str, fields: str) -> list[dict[str, Any]]:
    """Pods that match a label selector and a field selector, of one namespace or of all."""
    query = urllib.parse.urlencode({"labelSelector": selector, "fieldSelector": fields})
    where = f"/namespaces/{namespace}" if namespace else ""
    found: list[dict[str, Any]] = call("GET", f"/api/v1{where}/pods?{query}")["items"]
    return found


def describe(call: Callable[[str, str], Any]) -> str:
    """All pods that do not run and the latest events, each on a line; or the error if the API does not answer."""
    try:
        found = [line for pod in pods(call, "", "", "") if (line := _pod(pod))]
        events = call("GET", "/api/v1/events?limit=500")["items"]
    except BedError as error:
        return f"(no description: {error})"
    events.sort(key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")
    lines = [
        f"  {event['involvedObject'].get('name')}: {event.get('reason')}: {event.get('message', '')[:300]}"
        for event in events[-20:]
    ]
    return "\n".join(["pods not running:", *found[:30], "latest events:", *lines])


def ready(node: dict[str, Any]) -> bool:
    """Whether a node object has the condition Ready."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _pod(pod: dict[str, Any]) -> str:
    status, meta = pod["status"], pod["metadata"]
    statuses = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    if status.get("phase") == "Succeeded" or (statuses and all(one.get("ready") for one in statuses)):
        return ""
    states = {one["name"]: one.get("state") for one in statuses}
    why = status.get("message") or [one for one in status.get("conditions", []) if one["status"] != "True"]
    return _short(f"  {meta['namespace']}/{meta['name']} {status.get('phase')}: {states} {why}")


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 600 else f"{text[:600]}…"
