"""Pod status from the states of containers: states, conditions, phase."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hami_core.sim.resources import Object, now

if TYPE_CHECKING:
    from hami_core.sim.kubelet.containers import Container


@dataclass
class Track:
    """What the kubelet knows of one container of a pod."""

    name: str
    kind: str
    """``init``, ``sidecar`` or ``app``."""
    current: Container | None = None
    last_end: dict[str, Any] | None = None
    waiting: tuple[str, str] = ("", "")
    """Reason and message why the container is not running; empty texts: it is not waiting."""
    retry_at: float = 0.0
    failures: int = 0

    @property
    def end(self) -> dict[str, Any] | None:
        """How the current attempt ended; None if there is none or it runs."""
        return self.current.exit if self.current else None

    @property
    def running(self) -> bool:
        """Whether the container's process runs."""
        return self.current is not None and self.current.exit is None


def _time(stamp: float) -> str:
    return datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _terminated(end: dict[str, Any], container_id: str) -> Object:
    code = end["exit_code"]
    reason = "StartError" if end["error"] else "Completed" if code == 0 else "Error"
    if end.get("lost"):
        reason = "ContainerStatusUnknown"
    found: Object = {
        "exitCode": code, "reason": reason, "containerID": container_id,
        "startedAt": _time(end["started"]), "finishedAt": _time(end["finished"]),
    }  # fmt: skip
    return {**found, "message": end["error"]} if end["error"] else found


def container_status(track: Track, spec: Object, mode: str) -> Object:
    """One entry of `containerStatuses`. Its image id is the mode of the runtime, such as ``reduced``."""
    current, end = track.current, track.end
    running = current is not None and end is None  # read once: the container may end at any time
    state: Object
    if running and current:
        state = {"running": {"startedAt": _time((current.state or {"started": 0})["started"])}}
    elif track.waiting[0] or current is None or end is None:
        reason, message = track.waiting if track.waiting[0] else ("ContainerCreating", "")
        state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
    else:
        state = {"terminated": _terminated(end, current.id)}
    done = bool(end) and end["exit_code"] == 0 if end else False
    ready = running or (track.kind == "init" and done)
    last = track.last_end or (end if end and "waiting" in state else None)
    return {
        "name": track.name, "image": spec.get("image", ""), "imageID": mode, "ready": ready,
        "started": running, "restartCount": current.attempt if current else 0,
        "containerID": current.id if current else "", "state": state,
        "lastState": {"terminated": _terminated(last, "")} if last else {},
    }  # fmt: skip


def pod_status(pod: Object, tracks: dict[str, Track], *, phase: str, mode: str, reason: tuple[str, str]) -> Object:
    """The pod's whole status. Conditions of other writers are kept."""
    spec, old = pod["spec"], pod.get("status") or {}
    if reason[0] and all(track.current is None for track in tracks.values()):
        # The pod was rejected before any container started, so there are no container statuses.
        return {"phase": phase, "reason": reason[0], "message": reason[1], "startTime": old.get("startTime") or now()}
    listed = {
        part: [container_status(tracks[c["name"]], c, mode) for c in spec.get(source) or []]
        for part, source in (("initContainerStatuses", "initContainers"), ("containerStatuses", "containers"))
    }
    init_done = all(s["ready"] for s in listed["initContainerStatuses"])
    all_ready = init_done and all(s["ready"] for s in listed["containerStatuses"]) and phase == "Running"
    wanted = {"PodReadyToStartContainers": phase != "Failed", "Initialized": init_done, "ContainersReady": all_ready}
    wanted["Ready"] = all_ready
    before = {c["type"]: c for c in old.get("conditions") or []}
    conditions = [c for kind, c in before.items() if kind not in wanted]
    for kind, true in wanted.items():
        condition = {"type": kind, "status": "True" if true else "False", "lastProbeTime": None}
        same = kind in before and before[kind]["status"] == condition["status"]
        condition["lastTransitionTime"] = before[kind]["lastTransitionTime"] if same else now()
        conditions.append(condition)
    return {
        "phase": phase, "conditions": conditions, "hostIP": "127.0.0.1", "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}], "startTime": old.get("startTime") or now(),
        "qosClass": old.get("qosClass", "BestEffort"), **{k: v for k, v in listed.items() if v},
        **({"reason": reason[0], "message": reason[1]} if reason[0] else {}),
    }  # fmt: skip
