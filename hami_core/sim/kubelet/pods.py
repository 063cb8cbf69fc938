"""`PodWorker`: runs one pod's init containers, sidecars and app containers, restarts them, and ends the pod."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hami_core.sim.client import CallError, Client
from hami_core.sim.kubelet import containers
from hami_core.sim.kubelet.containers import ConfigError, CreateError, Runtime
from hami_core.sim.kubelet.devices import DeviceError, DeviceManager
from hami_core.sim.kubelet.status import Track, pod_status

if TYPE_CHECKING:
    from hami_core.sim.resources import Object

_LOG = logging.getLogger(__name__)
_STARTS = asyncio.Semaphore(4)
"""Limit of shims that start at the same time: more would only wait for the processor."""


@dataclass(frozen=True)
class Times:
    """Waits in seconds.

    Args:
        resync: Time until a container that could not be created is tried again. The first retry comes after a tenth.
        crash: First back-off of a container that keeps ending. It doubles, up to thirty times the first.
    """

    resync: float = 12.0
    crash: float = 10.0


@dataclass(frozen=True)
class Node:
    """What all workers of a node share."""

    client: Client
    devices: DeviceManager
    runtime: Runtime
    times: Times


class PodWorker:
    """Brings one pod into the state that its object describes.

    Args:
        pod: The object.
        node: What the workers of the node share.
    """

    def __init__(self, pod: Object, node: Node) -> None:
        self.pod = pod
        self._node = node
        self.uid: str = pod["metadata"]["uid"]
        self.rejected: tuple[str, str] = ("", "")
        self.phase = "Pending"
        self.gone = False
        self._sent: Object = {}
        self._kill_at = 0.0
        self._wake = asyncio.Event()
        self._watched: set[asyncio.Task[None]] = set()
        self._tracks: dict[str, Track] = {}
        for spec in pod["spec"].get("initContainers") or []:
            kind = "sidecar" if spec.get("restartPolicy") == "Always" else "init"
            self._tracks[spec["name"]] = Track(spec["name"], kind)
        for spec in pod["spec"]["containers"]:
            self._tracks[spec["name"]] = Track(spec["name"], "app")
        self._specs = {c["name"]: c for c in [*(pod["spec"].get("initContainers") or []), *pod["spec"]["containers"]]}
        self._recover()

    def _recover(self) -> None:
        """Finds containers that an earlier kubelet started."""
        for track in self._tracks.values():
            known = containers.recovered(self._node.runtime.pods, self.uid, track.name)
            if known:
                track.current = known[-1]
                track.last_end = known[-2].exit if len(known) > 1 else None
                track.failures = len(known) - 1
                self._follow(track)

    def running(self, name: str) -> bool:
        """Whether a container's process runs."""
        return self._tracks[name].running

    @property
    def finished(self) -> bool:
        """Whether the pod has ended and holds no devices any more."""
        return self.phase in {"Succeeded", "Failed"} and not any(t.running for t in self._tracks.values())

    def update(self, pod: Object) -> None:
        """Takes the newest object. A change of labels, annotations or spec retries refused container starts at once."""
        old, self.pod = self.pod, pod
        touched = any(old["metadata"].get(k) != pod["metadata"].get(k) for k in ("labels", "annotations"))
        if touched or old["spec"] != pod["spec"]:
            for track in self._tracks.values():
                if track.waiting[0] != "CrashLoopBackOff":
                    track.retry_at = 0.0
        self._wake.set()

    def end(self) -> None:
        """Ends all containers, because the object is gone."""
        self.gone = True
        self._wake.set()

    async def run(self) -> None:
        """Works until the pod is gone from the API and none of its containers runs."""
        while True:
            self._wake.clear()
            pause = await self._sync()
            if self.gone and not any(t.running for t in self._tracks.values()):
                break
            try:
                async with asyncio.timeout(max(0.01, pause)):
                    await self._wake.wait()
            except TimeoutError:
                continue
        for task in self._watched:
            task.cancel()
        shutil.rmtree(self._node.runtime.pods / self.uid, ignore_errors=True)

    # ---- one round

    async def _sync(self) -> float:
        """Does what can be done now. Returns the seconds until there may be more to do."""
        if self.gone or self.pod["metadata"].get("deletionTimestamp"):
            return await self._terminate()
        if not self.rejected[0] and self.phase not in {"Succeeded", "Failed"}:
            await self._advance()
        await self._report()
        waits = [t.retry_at - time.monotonic() for t in self._tracks.values() if t.waiting[0] and t.retry_at]
        return min([*[max(w, 0.01) for w in waits], 60.0])

    async def _advance(self) -> None:
        policy = self.pod["spec"].get("restartPolicy", "Always")
        if self._finish(policy):
            return
        for track in self._of("init", "sidecar"):
            if track.kind == "sidecar":
                await self._keep(track, restart=True)
                if not track.running:
                    return
            elif not track.end or track.end["exit_code"] != 0:
                await self._keep(track, restart=policy != "Never")
                return
        for track in self._of("app"):
            failed = track.end is not None and track.end["exit_code"] != 0
            await self._keep(track, restart=policy == "Always" or (policy == "OnFailure" and failed))
        if any(t.current is not None for t in self._of("app")):
            self.phase = "Running"
        self._finish(policy)

    def _of(self, *kinds: str) -> list[Track]:
        return [t for t in self._tracks.values() if t.kind in kinds]

    def _finish(self, policy: str) -> bool:
        """Whether the pod's app containers are done, or an init container failed for the last time.

        If so, it ends the sidecars. Once they have ended, it sets the phase.
        """
        codes = [t.end["exit_code"] for t in self._of("app") if t.end]
        init_failed = policy == "Never" and any(t.end and t.end["exit_code"] != 0 for t in self._of("init"))
        over = len(codes) == len(self._of("app")) and (policy == "Never" or (policy == "OnFailure" and not any(codes)))
        if not init_failed and not over:
            return False
        running = [t.current for t in self._of("sidecar") if t.running and t.current]
        for container in running:
            container.stop(at_once=True)
        if not running:
            self.phase = "Failed" if init_failed or any(codes) else "Succeeded"
        return True

    async def _keep(self, track: Track, *, restart: bool) -> None:
        """Starts a container that should run but does not, unless it must wait."""
        if track.running:
            track.waiting = ("", "")
            return
        now = time.monotonic()
        end = track.end
        if end is not None:
            if not restart:
                track.waiting = ("", "")
                return
            if not track.waiting[0]:
                track.failures += 1
                pause = (
                    0.0
                    if track.failures == 1
                    else min(self._node.times.crash * 2 ** (track.failures - 2), 30 * self._node.times.crash)
                )
                reason = "RunContainerError" if end["error"] else "CrashLoopBackOff"
                text = end["error"] or f"back-off {pause:.0f}s restarting failed container={track.name}"
                track.waiting, track.retry_at = (reason, text), now + pause
        if now < track.retry_at:
            return
        await self._start(track)

    async def _start(self, track: Track) -> None:
        spec, node = self._specs[track.name], self._node
        attempt = track.current.attempt + 1 if track.current else 0
        folder = node.runtime.pods / self.uid / track.name / str(attempt)
        try:
            answers = await node.devices.before_start(self.uid, spec)
            wanted = containers.specification(node.runtime, self.pod, spec, answers, folder)
        except (DeviceError, ConfigError) as error:
            return await self._not_yet(track, "CreateContainerConfigError", str(error))
        except CreateError as error:
            return await self._not_yet(track, "CreateContainerError", str(error))
        async with _STARTS:
            started = await containers.start(folder, wanted)
        containers.show_processes(node.runtime, started)
        track.last_end = track.end if track.current else None
        track.current, track.waiting, track.retry_at = started, ("", ""), 0.0
        self._follow(track)
        end = started.exit
        if end and end["error"]:
            await self._event(track, "Warning", "Failed", f"Error: {end['error']}")
            self._wake.set()
        else:
            await self._event(track, "Normal", "Started", f"Started container {track.name}")
        return None

    async def _not_yet(self, track: Track, reason: str, message: str) -> None:
        first = track.waiting[0] != reason
        resync = self._node.times.resync
        if first or track.waiting[1] != message:
            await self._event(track, "Warning", "Failed", f"Error: {message}")
        track.waiting = (reason, message)
        track.retry_at = time.monotonic() + (resync / 10 if first else resync)

    def _follow(self, track: Track) -> None:
        """Wakes the worker once the container has ended."""
        if track.current is None:
            return

        async def wait(container: containers.Container) -> None:
            await container.ended()
            self._wake.set()

        task = asyncio.create_task(wait(track.current))
        self._watched.add(task)
        task.add_done_callback(self._watched.discard)

    # ---- the end

    async def _terminate(self) -> float:
        meta = self.pod["metadata"]
        left = [t.current for t in self._tracks.values() if t.running and t.current]
        grace = 0 if self.gone else meta.get("deletionGracePeriodSeconds", 30)
        if left:
            now = time.monotonic()
            if not self._kill_at:
                self._kill_at = now + grace
                for container in left:
                    container.stop(at_once=grace == 0)
            elif now >= self._kill_at or self.gone:
                for container in left:
                    container.stop(at_once=True)
            return min(1.0, max(0.05, self._kill_at - now))
        if self.gone:
            return 0.0
        if self.phase not in {"Succeeded", "Failed"}:
            codes = [t.end["exit_code"] for t in self._tracks.values() if t.kind == "app" and t.end]
            self.phase = "Failed" if any(codes) or not codes else "Succeeded"
        await self._report()
        options: Object = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        try:
            await self._node.client.call("DELETE", self._path, options)
        except CallError as failure:
            if failure.code in {404, 409}:
                self.gone = True
                return 0.0
            _LOG.info("pod %s not deleted yet: %s", meta["name"], failure)
        return 0.5

    # ---- status and events

    @property
    def _path(self) -> str:
        meta = self.pod["metadata"]
        return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"

    async def _report(self) -> None:
        status: Any = pod_status(
            self.pod, self._tracks, phase=self.phase, mode=self._node.runtime.mode, reason=self.rejected
        )
        if status == self._sent:
            return
        body = {"metadata": {"uid": self.uid}, "status": status}
        try:
            await self._node.client.call("PATCH", f"{self._path}/status", body, patch="strategic-merge")
        except CallError as failure:
            if failure.code != 404:
                _LOG.info("status of %s not written: %s", self._path, failure)
                self._wake_later(0.5)
            return
        self._sent = status

    def _wake_later(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._wake.set)

    async def _event(self, track: Track, kind: str, reason: str, message: str) -> None:
        part = "containers" if track.kind == "app" else "initContainers"
        field = f"spec.{part}{{{track.name}}}"
        await self._node.client.event("kubelet", self.pod, kind, reason, message, field=field)
