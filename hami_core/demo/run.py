"""The demo's course: start, submit, watch, judge."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hami_core.demo.manifests import Ask, asks
from hami_core.demo.verdict import MIB, PodVerdict, fits_nowhere, judge_container, judge_refused
from hami_core.demo.view import Card, PodRow, Snapshot
from hami_core.testing.stage import refusal_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from hami_core.demo.manifests import Manifest
    from hami_core.demo.stage import Card as DriverCard
    from hami_core.demo.stage import Stage

POLL_S: Final = 0.15
POD_LIMIT_S: Final = 60.0
ENDED: Final = {"Succeeded", "Failed"}


@dataclass
class Course:
    """One run of the demo on a stage that stands.

    Attributes:
        stage: Where.
        pods: What to submit, in order.
        started: `time.monotonic` when the demo began, for the clock on the screen.
    """

    stage: Stage
    pods: Sequence[Manifest]
    started: float
    reports: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    holders: dict[int, str] = field(default_factory=dict)
    isolation: str = "mount-namespace"
    """How containers see their mounts: ``mount-namespace``, or ``reduced`` where the machine allows none."""

    async def run(self) -> AsyncIterator[Snapshot]:
        """Submit one pod after the other and wait for each; yields what to show meanwhile."""
        for pod in self.pods:
            name = pod["metadata"]["name"]
            await self.stage.submit(pod)
            deadline = time.monotonic() + POD_LIMIT_S
            while time.monotonic() < deadline:
                await self._look()
                yield self._snapshot(f"waiting for {name}")
                if self._settled(pod):
                    break
                await asyncio.sleep(POLL_S)
        await self._look()
        yield self._snapshot("done")

    def verdicts(self) -> list[PodVerdict]:
        """Judge every pod by what its programs and the driver say."""
        return [self._judge(pod) for pod in self.pods]

    # --- looking ----------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        self.seen = await self.stage.pods()
        for pod in self.pods:
            name = pod["metadata"]["name"]
            if name not in self.seen:
                continue
            for ask in asks(pod):
                if (name, ask.container) not in self.reports:
                    await self._read_report(name, ask.container)
        listing = await self.stage.call("GET", "/api/v1/namespaces/default/events")
        said = [(item["involvedObject"].get("name", ""), item.get("message", "")) for item in listing["items"]]
        self.events = list(dict.fromkeys(f"{name}: {message}" for name, message in said))

    def _explanation(self, name: str) -> str:
        """What our scheduler's event says of a pod that fits nowhere."""
        head = f"{name}: no available node"
        return next((line.partition(": ")[2] for line in reversed(self.events) if line.startswith(head)), "")

    async def _read_report(self, pod: str, container: str) -> None:
        for line in (await self.stage.log(pod, container)).splitlines():
            if line.startswith("[reduced"):
                self.isolation = "reduced"
            if line.startswith("{"):
                report = json.loads(line)
                self.reports[pod, container] = report
                self.holders[int(report["pid"])] = pod

    def _settled(self, pod: Manifest) -> bool:
        name = pod["metadata"]["name"]
        now = self.seen.get(name)
        if now is None:
            return False
        if self._is_refused(pod):
            return bool(refusal_of(now))
        phase = now.get("status", {}).get("phase", "")
        return phase in ENDED or all((name, ask.container) in self.reports for ask in asks(pod))

    def _is_refused(self, pod: Manifest) -> bool:
        return fits_nowhere(asks(pod), [card.total for card in self._cards()])

    def _cards(self) -> list[DriverCard]:
        return [card for cards in self.stage.devices().values() for card in cards]

    def _snapshot(self, step: str) -> Snapshot:
        rows = [self._row(pod) for pod in self.pods if pod["metadata"]["name"] in self.seen]
        return Snapshot(step, time.monotonic() - self.started, self._bars(), rows, self.events)

    def _bars(self) -> Mapping[str, Sequence[Card]]:
        found = {}
        for node, cards in self.stage.devices().items():
            row = []
            for card in cards:
                held: dict[str, int] = {}
                for pid, used in card.used_by.items():
                    pod = self.holders.get(pid, "…")
                    held[pod] = held.get(pod, 0) + used
                row.append(Card(card.name, card.uuid, card.total, held))
            found[node] = row
        return found

    def _row(self, pod: Manifest) -> PodRow:
        name = pod["metadata"]["name"]
        now = self.seen[name]
        phase = now.get("status", {}).get("phase", "Pending")
        wanted = "; ".join(describe(ask) for ask in asks(pod))
        return PodRow(
            name, wanted, phase, now["spec"].get("nodeName", ""), refusal_of(now) if phase == "Pending" else ""
        )

    # --- judging ----------------------------------------------------------------------------------------------

    def _judge(self, pod: Manifest) -> PodVerdict:
        name = pod["metadata"]["name"]
        now = self.seen.get(name, {})
        phase = now.get("status", {}).get("phase", "Unknown")
        if self._is_refused(pod):
            return judge_refused(name, phase, refusal_of(now), self._explanation(name))
        node = now.get("spec", {}).get("nodeName", "")
        cards = self.stage.devices().get(node, [])
        sizes = {card.uuid: card.total for card in cards}
        containers = []
        for ask in asks(pod):
            report = self.reports.get((name, ask.container))
            pid = int(report["pid"]) if report else 0
            held = {card.uuid: card.used_by[pid] for card in cards if pid in card.used_by}
            containers.append(judge_container(ask, report, sizes, held))
        problems = () if phase in {"Running", "Succeeded"} else (f"is {phase}: {refusal_of(now)}",)
        return PodVerdict(name, phase, node, containers=tuple(containers), problems=problems)


def describe(ask: Ask) -> str:
    """A request in a few words."""
    memory = "whole" if ask.memory_mib is None else f"{ask.memory_mib:,} MiB"
    return f"{ask.count} x {memory}" + (f", {ask.cores} %" if ask.cores else "")


def document(verdicts: Sequence[PodVerdict], seconds: float, isolation: str, *, real: bool) -> dict[str, Any]:
    """The result for machines."""
    devices = [device for pod in verdicts for container in pod.containers for device in container.devices]
    return {
        "ok": all(pod.ok for pod in verdicts),
        "gpus": "real" if real else "simulated",
        "isolation": isolation,
        "seconds": round(seconds, 1),
        "overshoot_bytes": sum(device.overshoot for device in devices),
        "limit_mib_equal_to_request": all(device.seen // MIB == device.asked // MIB for device in devices),
        "pods": [pod.as_json() for pod in verdicts],
    }
