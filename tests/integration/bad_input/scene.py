"""The system that gets bad input, and the check after each test that all else still works."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hami_core.testing.parts import StageError
from tests.integration.bed import all_end, container, pod, wrong_slices

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hami_nvidia.demo.stage import GpuStage

STEADY = Path(__file__).with_name("steady.py")
NEIGHBOUR = "neighbour"
OUT_OF_MEMORY = 2
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"


async def until(what: str, ask: Callable[[], Awaitable[Any]], limit_s: float = 60.0) -> Any:
    """Call `ask` until its answer is true, and return the answer."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    while not (answer := await ask()):
        assert loop.time() < deadline, f"not within {limit_s:.0f} s: {what}"
        await asyncio.sleep(0.05)
    return answer


def tenant(name: str, memory: int, node: str) -> dict[str, Any]:
    """A pod on one node that allocates again and again."""
    body = pod(name, [container("main", memory, command=[sys.executable, str(STEADY)])])
    body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return body


class Scene:
    """A stage with a neighbour, a pod that must keep working.

    Args:
        stage: The running system.
    """

    def __init__(self, stage: GpuStage) -> None:
        self.stage = stage
        self._numbers = itertools.count()
        self._pids = self.pids()

    async def begin(self) -> None:
        """Start the neighbour."""
        await self.stage.submit(tenant(NEIGHBOUR, 4321, "gpu-1"))
        await self.tries(NEIGHBOUR)

    # --- the check of all else ------------------------------------------------------------------------------------

    def pids(self) -> dict[str, int]:
        """Process ids of all parts. A part that has ended is missing, or has id 0."""
        ours = {name: p.pid for name, part in self.stage.parts.items() if (p := part.process) and p.poll() is None}
        return ours | {name: self.stage.cluster.pid(name) for name in ("apiserver", "scheduler", "kubelet:gpu-1")}

    async def check_unaffected(self) -> None:
        """No process has restarted, the neighbour still allocates and never restarted, and a new pod gets its slice."""
        assert self.pids() == self._pids
        number = next(self._numbers)
        normal = pod(f"normal-{number}", [container("main", 1000 + number)])
        await self.stage.submit(normal)
        name = normal["metadata"]["name"]
        assert not await all_end(self.stage, {name}, 20)
        assert not await wrong_slices(self.stage, [normal])
        await self.delete(name)
        seen = await self.tries(NEIGHBOUR)
        assert {result for _, result in seen} == {0}
        status = (await self.stage.pods())[NEIGHBOUR]["status"]
        assert status["containerStatuses"][0]["restartCount"] == 0
        assert self.pids() == self._pids

    # --- pods -----------------------------------------------------------------------------------------------------

    async def tries(self, name: str, beyond: int | None = None) -> list[tuple[int, int]]:
        """Wait for one more try of a tenant, or more than `beyond` tries. Returns (number, result) of each."""

        async def look() -> list[tuple[int, int]]:
            lines = [line for line in (await self.stage.log(name, "main")).splitlines() if line.startswith("{")]
            return [(document["try"], document["result"]) for document in map(json.loads, lines)]

        least = len(await look()) if beyond is None else beyond

        async def more() -> list[tuple[int, int]] | None:
            found = await look()
            return found if len(found) > least else None

        return await until(f"one more allocation by {name}", more)

    async def wait_for_result(self, name: str, result: int) -> None:
        """Wait until three tries in a row had this result."""

        async def three() -> bool:
            return [r for _, r in (await self.tries(name))[-3:]] == [result] * 3

        await until(f"{name} allocates with result {result}", three)

    async def submit_refused(self, body: dict[str, Any]) -> str:
        """Submit a pod that must be refused at admission. Returns the server's message."""
        try:
            await self.stage.submit(body)
        except StageError as error:
            return str(error)
        raise AssertionError(f"admitted: {json.dumps(body)}")

    async def submit_with_warnings(self, body: dict[str, Any]) -> list[str]:
        """Submit a pod. Returns the warnings that the server passes on."""
        async with self.stage.session.post(PODS, json=body) as answer:
            assert answer.status == 201, await answer.text()
            return answer.headers.getall("Warning", [])

    async def delete(self, *names: str) -> None:
        """Delete pods at once and wait until they are gone."""
        for name in names:
            await self.stage.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

        async def gone() -> bool:
            return not set(names) & set(await self.stage.pods())

        await until(f"{', '.join(names)} gone", gone)

    async def wait_for_event(self, name: str, reason: str, *words: str) -> str:
        """Wait for an event about a pod that contains all the words. Returns its text."""

        async def look() -> str:
            for event in (await self.stage.call("GET", EVENTS))["items"]:
                about, text = event["involvedObject"].get("name"), event.get("message", "")
                if about == name and event.get("reason") == reason and all(word in text for word in words):
                    return str(text)
            return ""

        return str(await until(f"event {reason} on {name} with {words}", look))

    async def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a merge patch, as any client may."""
        headers = {"Content-Type": "application/merge-patch+json"}
        async with self.stage.session.patch(path, data=json.dumps(body), headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            patched: dict[str, Any] = await answer.json()
            return patched

    # --- metrics and logs of our parts ----------------------------------------------------------------------------

    def url(self, part: str) -> str:
        """Base URL of a part's metrics and health."""
        return self.stage.parts[part].ready_url.removesuffix("/readyz")

    async def metrics(self, part: str, *words: str) -> list[str]:
        """Lines of a part's metrics that contain all the words."""
        async with self.stage.session.get(f"{self.url(part)}/metrics") as answer:
            lines = (await answer.text()).splitlines()
        return [line for line in lines if not line.startswith("#") and all(word in line for word in words)]

    async def wait_for_log(self, part: str, *words: str) -> str:
        """Wait for a line of a part's log that contains all the words."""

        async def look() -> str:
            lines = self.stage.parts[part].log.read_text(errors="replace").splitlines()
            return next((line for line in reversed(lines) if all(word in line for word in words)), "")

        return str(await until(f"log line of {part} with {words}", look))
