"""One run of the demo: submit pods, watch them, and judge what they got.

A container whose program prints a report is judged by what the program measured and by what the driver reports. Any
other container is judged by its pod's phase and the scheduler's allocation. The result also lists what the vendor's
node side put into it.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hami_core.demo.manifests import WORKLOADS, Ask, asks, containers, count_of, pods_of
from hami_core.demo.verdict import (
    MIB,
    ContainerVerdict,
    Given,
    GivenSlice,
    PodVerdict,
    Report,
    fits_nowhere,
    judge_container,
    judge_given,
    judge_refused,
    read_report,
)
from hami_core.demo.view import Card, PodRow, Snapshot
from hami_core.errors import RequestError
from hami_core.kube.objects import Node, Pod
from hami_core.scheduler.pods import node_facts
from hami_core.testing.parts import StageError
from hami_core.testing.stage import refusal_of
from hami_core.vendorkit import ceil_div
from hami_core.wire.pod import read_allocation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from hami_core.demo.manifests import Manifest
    from hami_core.model import Device
    from hami_core.testing.stage import Stage, StagedCard

POLL_S: Final = 0.15
POD_LIMIT_S: Final = 60.0
"""How long the demo waits for one pod."""
REFUSED_S: Final = 10.0
"""The demo stops waiting for a pod whose status has named a refusal for this long."""
RUN_S: Final = 3.0
"""How long the demo waits for the report of a program that is not its own."""
OUTPUT_LINES: Final = 5
"""How many of a container's last lines the result has."""
ENDED: Final = {"Succeeded", "Failed"}
_OF_THE_IMAGE: Final = frozenset({"PATH", "HOME", "HOSTNAME", "LD_LIBRARY_PATH"})


@dataclass
class Course:
    """One run of the demo on a stage that has started.

    Attributes:
        stage: The cluster to submit to.
        manifests: Pods, Deployments and Jobs to submit, in this order.
        started: `time.monotonic` when the demo began, for the clock on the screen.
        programs: Prefixes of the commands whose programs print what they measured.
    """

    stage: Stage
    manifests: Sequence[Manifest]
    started: float
    programs: tuple[str, ...] = ()
    reports: dict[tuple[str, str], Report | str] = field(default_factory=dict)
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    holders: dict[int, str] = field(default_factory=dict)
    given: dict[tuple[str, str], Given] = field(default_factory=dict)
    denied: dict[str, str] = field(default_factory=dict)
    """Pod → why the API server or our webhook rejected it."""
    output: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Pod → container that printed no report → its last lines."""
    isolation: str = "mount-namespace"
    """How containers see their mounts: ``mount-namespace``, or ``reduced`` if the machine allows no namespaces."""
    _devices: dict[str, tuple[Device, ...]] = field(default_factory=dict)
    _asks: dict[str, list[Ask]] = field(default_factory=dict)
    _since: dict[tuple[str, str], float] = field(default_factory=dict)

    async def run(self) -> AsyncIterator[Snapshot]:
        """Submit one manifest after the other and wait for its pods.

        Yields:
            What to show while it waits.
        """
        for manifest in self.manifests:
            name = manifest["metadata"]["name"]
            try:
                if workload := WORKLOADS.get(manifest["kind"]):
                    await self.stage.call("POST", workload.path, manifest)
                else:
                    await self.stage.submit(manifest)
            except StageError as error:
                self.denied[name] = str(error)
            deadline = time.monotonic() + POD_LIMIT_S
            while time.monotonic() < deadline:
                await self._refresh()
                yield self._snapshot(f"waiting for {name}")
                if self._is_finished(manifest):
                    break
                await asyncio.sleep(POLL_S)
        await self._refresh()
        await self._read_output()
        yield self._snapshot("done")

    def verdicts(self) -> list[PodVerdict]:
        """Judge every pod, and every workload that made too few."""
        found = []
        for manifest in self.manifests:
            name, pods = manifest["metadata"]["name"], pods_of(manifest, self.seen)
            if name in self.denied:
                why = self.denied[name]
                found.append(PodVerdict(name, "Denied", reason=why, problems=(f"is denied: {why}",)))
                continue
            found += [self._judge(pod) for pod in pods]
            if len(pods) < count_of(manifest):
                found.append(self._judge_incomplete(manifest, len(pods)))
        return found

    @property
    def pods(self) -> list[Manifest]:
        """The manifests of all pods, in the order in which they were submitted."""
        return [pod for manifest in self.manifests for pod in pods_of(manifest, self.seen)]

    # --- reading the cluster ------------------------------------------------------------------------------------

    async def _refresh(self) -> None:
        self.seen = await self.stage.pods()
        await self._read_devices()
        for pod in self.pods:
            name = pod["metadata"]["name"]
            if name not in self.seen:
                continue
            for ask in self.asks(name):
                if self.programs and (name, ask.container) not in self.reports:
                    await self._read_report(name, ask.container)
                await self._record_given(pod, ask)
        listing = await self.stage.call("GET", "/api/v1/namespaces/default/events")
        said = [(item["involvedObject"].get("name", ""), item.get("message", "")) for item in listing["items"]]
        self.events = list(dict.fromkeys(f"{name}: {message}" for name, message in said))

    def asks(self, name: str) -> list[Ask]:
        """What a pod asks for after admission: the webhook may have added defaults to the user's manifest."""
        if name not in self._asks and name in self.seen:
            try:
                units = {word for word, family in self.stage.loaded.families.items() if family.cores_are_units}
                self._asks[name] = asks(self.seen[name], self.stage.loaded.parse, self.programs, units)
            except RequestError:
                self._asks[name] = []  # the scheduler reports the error in the pod's status
        return self._asks.get(name, [])

    async def _read_devices(self) -> None:
        for item in (await self.stage.call("GET", "/api/v1/nodes"))["items"]:
            node = msgspec.json.decode(json.dumps(item), type=Node)
            found = self.stage.loaded.register(node_facts(node)).devices.values()
            self._devices[node.metadata.name] = tuple(device for devices in found for device in devices or ())

    async def _record_given(self, pod: Manifest, ask: Ask) -> None:
        """Record what a container has been given so far."""
        name = pod["metadata"]["name"]
        given = Given(slices=self._slices(name, ask))
        try:
            got = await self.stage.container(name, ask.container)
        except StageError:
            self.given[name, ask.container] = given
            return
        spec = next(c for c in containers(pod) if c["name"] == ask.container)
        own = _OF_THE_IMAGE.union(variable.get("name") for variable in spec.get("env") or [])
        where = self.seen[name]["spec"].get("nodeName", "")
        image = self.stage.image_env | next((self.stage.node_env(n) for n in self.stage.nodes if n.name == where), {})
        env = {k: v for k, v in got.env.items() if k not in own and image.get(k) != v}
        self.given[name, ask.container] = replace(given, env=env, devices=tuple(got.devices), exit_code=got.exit_code)

    def _slices(self, name: str, ask: Ask) -> tuple[GivenSlice, ...]:
        pod = msgspec.json.decode(json.dumps(self.seen[name]), type=Pod)
        kinds = [(c.name, kind) for kind, c in pod.containers()]
        limits = [c.resources.limits for _, c in pod.containers()]
        reading = read_allocation(pod.metadata.annotations, self.stage.loaded.families, kinds, limits)
        units = {device.id: device.cores for devices in self._devices.values() for device in devices}
        are_units = self.stage.loaded.families[ask.family].cores_are_units
        return tuple(
            GivenSlice(
                piece.device_id,
                piece.memory_mib,
                ceil_div(piece.cores * 100, units.get(piece.device_id) or 1) if are_units else piece.cores,
            )
            for held in (reading.allocation.containers if reading.allocation else ())
            for piece in held.slices
            if held.name == ask.container and piece.family == ask.family
        )

    def _explanation(self, name: str) -> str:
        """What our scheduler's event says about a pod that fits no node."""
        head = f"{name}: no available node"
        return next((line.partition(": ")[2] for line in reversed(self.events) if line.startswith(head)), "")

    async def _read_report(self, pod: str, container: str) -> None:
        for line in (await self.stage.log(pod, container)).splitlines():
            if line.startswith("[reduced"):
                self.isolation = "reduced"
            report = read_report(line)
            if report is not None:
                self.reports[pod, container] = report
            if isinstance(report, Report):
                self.holders[report.pid] = pod

    async def _read_output(self) -> None:
        """Read the last lines of each container that printed no report."""
        for name, pod in self.seen.items():
            for container in (each["name"] for each in containers(pod)):
                if isinstance(self.reports.get((name, container)), Report):
                    continue
                lines = (await self.stage.log(name, container)).splitlines()
                if lines:
                    self.output.setdefault(name, {})[container] = lines[-OUTPUT_LINES:]

    def _is_finished(self, manifest: Manifest) -> bool:
        if manifest["metadata"]["name"] in self.denied:
            return True
        pods = pods_of(manifest, self.seen)
        finished = [self._is_pod_finished(pod["metadata"]["name"]) for pod in pods]  # all, so that each one's time runs
        return len(pods) >= count_of(manifest) and all(finished)

    def _is_pod_finished(self, name: str) -> bool:
        now = self.seen.get(name)
        if now is None:
            return False
        phase, refusal = now.get("status", {}).get("phase", ""), refusal_of(now)
        if self._is_refused(name):
            return bool(refusal)
        if phase in ENDED or (refusal and self._has_lasted(name, "refused", REFUSED_S)):
            return True
        if phase != "Running":
            return False
        if not refusal:
            self._since.pop((name, "refused"), None)
        found = self.asks(name)
        missing = [ask for ask in found if (name, ask.container) not in self.reports]
        if found and not missing:
            return True
        return not any(ask.reports for ask in missing) and self._has_lasted(name, "runs", RUN_S)

    def _has_lasted(self, name: str, what: str, seconds: float) -> bool:
        """Whether a condition of a pod has held for so many seconds. Call it each time the condition holds."""
        now = time.monotonic()
        return now - self._since.setdefault((name, what), now) >= seconds

    def _is_refused(self, name: str) -> bool:
        largest: dict[str, int] = {}
        for device in (device for devices in self._devices.values() for device in devices):
            largest[device.family] = max(largest.get(device.family, 0), device.usable_mib)
        return fits_nowhere(self.asks(name), largest)

    def _snapshot(self, step: str) -> Snapshot:
        rows = [self._row(pod) for pod in self.pods if pod["metadata"]["name"] in self.seen]
        return Snapshot(step, time.monotonic() - self.started, self._bars(), rows, self.events)

    def _bars(self) -> Mapping[str, Sequence[Card]]:
        """Cards with the memory that the driver reports as used; without a driver, with the memory that is booked."""
        found: dict[str, list[Card]] = {}
        for node, cards in self.stage.devices().items():
            found[node] = []
            for card in cards:
                held: dict[str, int] = {}
                for pid, used in card.used_by.items():
                    pod = self.holders.get(pid, "…")
                    held[pod] = held.get(pod, 0) + used
                found[node].append(Card(card.name, card.uuid, card.total, held))
        if found:
            return found
        booked: dict[str, dict[str, int]] = {}
        for (pod, _), given in self.given.items():
            for piece in given.slices:
                of = booked.setdefault(piece.device, {})
                of[pod] = of.get(pod, 0) + piece.memory_mib * MIB
        return {
            node: [Card(d.type, d.id, d.memory_mib * MIB, booked.get(d.id, {})) for d in devices]
            for node, devices in self._devices.items()
        }

    def _row(self, pod: Manifest) -> PodRow:
        name = pod["metadata"]["name"]
        now = self.seen[name]
        phase = now.get("status", {}).get("phase", "Pending")
        wanted = "; ".join(describe(ask) for ask in self.asks(name))
        return PodRow(
            name, wanted, phase, now["spec"].get("nodeName", ""), refusal_of(now) if phase == "Pending" else ""
        )

    # --- judging ----------------------------------------------------------------------------------------------

    def _judge(self, pod: Manifest) -> PodVerdict:
        name = pod["metadata"]["name"]
        now = self.seen.get(name, {})
        phase = now.get("status", {}).get("phase", "Unknown")
        if self._is_refused(name):
            return judge_refused(name, phase, refusal_of(now), self._explanation(name))
        node = now.get("spec", {}).get("nodeName", "")
        judged = tuple(self._judge_container(name, node, ask) for ask in self.asks(name) if node)
        ends = ", ".join(f"{container} ended with {code}" for container, code in failures(now))
        problems: tuple[str, ...] = ()
        if phase not in {"Running", "Succeeded"}:
            # A pod that was bound after a refusal still has the refusal's event.
            why = ends or self._explanation(name) or refusal_of(now)
            problems = (f"is {phase}: {why or 'its status says no more'}",)
        elif ends:
            problems = (ends,)
        return PodVerdict(name, phase, node, containers=judged, problems=problems, output=self.output.get(name, {}))

    def _judge_incomplete(self, manifest: Manifest, made: int) -> PodVerdict:
        """The verdict on a workload whose controller made too few pods."""
        name = manifest["metadata"]["name"]
        said = next((line for line in reversed(self.events) if line.startswith((f"{name}: ", f"{name}-"))), "")
        problem = f"has {made} of {count_of(manifest)} pods" + (f": {said}" if said else "")
        return PodVerdict(name, "Incomplete", problems=(problem,))

    def _judge_container(self, name: str, node: str, ask: Ask) -> ContainerVerdict:
        given = self.given.get((name, ask.container), Given())
        report = self.reports.get((name, ask.container))
        if report is None and not ask.reports:
            return judge_given(ask, given, {device.id: device.usable_mib for device in self._devices.get(node, ())})
        cards: Sequence[StagedCard] = self.stage.devices().get(node, ())
        sizes = {card.uuid: card.total for card in cards}
        pid = report.pid if isinstance(report, Report) else 0
        held = {card.uuid: card.used_by[pid] for card in cards if pid in card.used_by}
        return replace(judge_container(ask, report, sizes, held), given=given)


def failures(pod: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Each container that failed and does not run now, with its exit code."""
    status, found = pod.get("status", {}), []
    for container in (*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])):
        state = container.get("state", {})
        end = state.get("terminated") or ("waiting" in state and container.get("lastState", {}).get("terminated"))
        if end and end["exitCode"]:
            found.append((container["name"], int(end["exitCode"])))
    return found


def describe(ask: Ask) -> str:
    """A request in a few words."""
    unit = "%" if not ask.cores_are_units else "compute unit" if ask.cores == 1 else "compute units"
    cores = f", {ask.cores} {unit}" if ask.cores else ""
    if ask.memory_mib is not None:
        return f"{ask.count} x {ask.memory_mib:,} MiB{cores}"
    if ask.memory_percent is None:
        return f"{ask.count} x {ask.family}{cores}"
    share = "whole" if ask.memory_percent == 100 else f"{ask.memory_percent} % of memory"
    return f"{ask.count} x {share}{cores}"


def document(
    verdicts: Sequence[PodVerdict], seconds: float, isolation: str, *, vendor: str, gpus: str
) -> dict[str, Any]:
    """The result as plain data, for ``--json``.

    Args:
        verdicts: The verdicts on all pods.
        seconds: How long the run took.
        isolation: How containers saw their mounts.
        vendor: The vendor whose devices were used.
        gpus: ``simulated``, ``real``, or empty for a vendor that has no stage of its own.
    """
    devices = [device for pod in verdicts for container in pod.containers for device in container.devices]
    return {
        "ok": all(pod.ok for pod in verdicts),
        "vendor": vendor,
        "gpus": gpus,
        "isolation": isolation,
        "seconds": round(seconds, 1),
        "measured": bool(devices),
        "overshoot_bytes": sum(device.overshoot for device in devices),
        "limit_mib_equal_to_request": all(device.seen // MIB == device.asked // MIB for device in devices),
        "pods": [pod.as_json() for pod in verdicts],
    }
