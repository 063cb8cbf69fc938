"""The load: it creates and deletes pods all the time, as many controllers do, while a test breaks parts of the system.

It is level-triggered like a controller. Each turn compares the ledger with the API server's pods and makes up the
difference, so it repeats a request that got no answer. It creates a pod that the kubelet rejected again, as a Job does,
and counts the reason. Failures without an explanation are listed in `Load.wrong`.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.e2e.bed.errors import ApiRefused, BedError
from tests.e2e.faults import ours
from tests.e2e.faults.promises import SELECTOR, Promise, promise
from tests.e2e.slices import MIB, booked
from tests.e2e.system import PODS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.system import System

REJECTED = "UnexpectedAdmissionError"
"""Reason of pods that a kubelet rejects because a device plugin is not registered. No plugin can prevent this."""


class Load:
    """A load on the system. It runs in a thread from `start` to `stop`.

    Attributes:
        ledger: The wanted pods, by name.
        wrong: Failures without an explanation. It must stay empty.
        unanswered: Numbers of API calls that failed, by their error.
        explain: Functions that say why a pod failed, or "" if they do not know.
        again: Numbers of pods that were created again, by the reason.
        gone: Why other programs may delete pods; "" = they may not.

    Args:
        system: The cluster.
        seed: Seed of all random numbers.
        live: Approximate number of pods at any time.
        node: Node for all pods; "" = any of the nodes, chosen by the load or by the scheduler.
        pause: Smallest and largest number of seconds between turns.
    """

    def __init__(
        self, system: System, seed: int, *, live: int = 8, node: str = "", pause: tuple[float, float] = (0.2, 0.8)
    ) -> None:
        self.system = system
        self.seed = seed
        self.live = live
        self.node = node
        self.ledger: dict[str, Promise] = {}
        self.wrong: list[str] = []
        self.unanswered: Counter[str] = Counter()
        self.explain: list[Callable[[dict[str, Any]], str]] = [rejected, self._rejected_before]
        self.gone = ""
        self.again: Counter[str] = Counter()
        self._pause = pause
        self._rng = random.Random(seed)
        self._count = 0
        self._churning = True
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._broken: BaseException | None = None

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start, or continue after `stop`."""
        self._stop.clear()
        self._churning = True
        self._thread = threading.Thread(target=self._run, name=f"load-{self.seed}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop creating and deleting pods. Wanted pods stay wanted."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(120)
        self._churning = False
        if self._broken is not None:
            raise AssertionError("the load generator broke") from self._broken

    def _run(self) -> None:
        for _ in range(self.live // 2 - len(self.ledger)):
            self._add()
        try:
            while not self._stop.is_set():
                self.turn()
                self._stop.wait(self._rng.uniform(*self._pause))
        except BaseException as error:  # noqa: BLE001 - `stop` reports it
            self._broken = error

    def settle(self, timeout: float = 120) -> None:
        """Repeat turns until every wanted pod is ready and every other one is gone.

        Raises:
            AssertionError: Some pods did not get there in time. The text names them, with their last events.
        """
        until = time.monotonic() + timeout
        while left := self.turn():
            if time.monotonic() > until:
                raise AssertionError(f"not settled after {timeout:g} s (seed {self.seed}):\n" + self._why(left))
            ours.revived(self.system)
            time.sleep(0.3)

    # --- one turn ----------------------------------------------------------------------------------------------------

    def turn(self) -> dict[str, str]:
        """Compare ledger and cluster, and make up the difference. Returns pod → why it is not in the wanted state."""
        try:
            now = self.system.pods(SELECTOR)
            if self._churning:
                self._churn()
            left = {name: why for name, p in list(self.ledger.items()) if (why := self._reconcile(p, now.get(name)))}
        except BedError as error:
            self._unanswered(error)
            return {"": str(error)}
        for name in [name for name, p in self.ledger.items() if not p.wanted and name not in now]:
            del self.ledger[name]
        return left

    def _churn(self) -> None:
        wanted = [p for p in self.ledger.values() if p.wanted]
        if len(wanted) > self.live or (wanted and self._rng.random() < len(wanted) / (2 * self.live)):
            self._rng.choice(wanted).wanted = False
        else:
            self._add()

    def _add(self) -> None:
        self._count += 1
        node = self.node or self._rng.choice(["", *self.system.gpu_nodes])
        new = promise(self._rng, f"load-{self.seed}-{self._count}", node, self.system.bed.tools.minor)
        self.ledger[new.name] = new

    def _reconcile(self, mine: Promise, now: dict[str, Any] | None) -> str:
        """Bring one pod closer to the wanted state. Returns why it is not there yet."""
        if now is None:
            return self._make(mine) if mine.wanted else ""
        mine.accepted = True
        phase = now["status"].get("phase", "")
        if phase == "Failed" and mine.wanted and not now["metadata"].get("deletionTimestamp"):
            why = next((why for explain in self.explain if (why := explain(now))), "")
            if not why:
                self.wrong.append(f"{mine.name} failed and nothing explains it: {json.dumps(now['status'])}")
            self.again[why or "unexplained"] += 1
            mine.deleted = True
            self._delete(mine)
            return "made anew"
        if not mine.looked_at and (phase == "Succeeded" or _is_ready(now)):
            self._compare_with_booking(mine, now)
        if not mine.wanted:
            if not now["metadata"].get("deletionTimestamp"):
                self._delete(mine)
            return "to be gone"
        well = phase == "Succeeded" if mine.ends else _is_ready(now)
        return "" if well else f"{phase}: {_waiting(now)}"

    def _make(self, mine: Promise) -> str:
        if mine.accepted:
            if self.gone:
                self.again[self.gone] += 1
            elif not mine.deleted:
                self.wrong.append(f"{mine.name} is gone and nobody here deleted it")
            mine.accepted = mine.looked_at = mine.deleted = False
        try:
            self.system.bed.call("POST", PODS, mine.body)
        except ApiRefused as error:
            if error.status == 409:
                return "there already"
            self._unanswered(error)
            return str(error)
        mine.accepted = True
        return "just made"

    def _delete(self, mine: Promise) -> None:
        try:
            self.system.bed.call("DELETE", f"{PODS}/{mine.name}")
        except ApiRefused as error:
            if error.status != 404:
                raise

    def _compare_with_booking(self, mine: Promise, now: dict[str, Any]) -> None:
        """Check that a pod's programs saw what was booked, and that this is what the pod asked for."""
        slices = booked(now)
        for part in [*mine.body["spec"].get("initContainers", []), *mine.body["spec"]["containers"]]:
            limits = part["resources"]["limits"]
            asked = [limits["nvidia.com/gpumem"]] * limits["nvidia.com/gpu"]
            seen = self._seen(mine.name, part["name"])
            if seen is None:
                return
            if seen != sorted(slices.get(part["name"], [])) or [memory for _, memory in seen] != asked:
                self.wrong.append(
                    f"{mine.name}/{part['name']} asked {asked}, booked {slices.get(part['name'])}, saw {seen}"
                )
        mine.looked_at = True

    def _seen(self, name: str, part: str) -> list[tuple[str, int]] | None:
        try:
            text = self.system.log(name, part)
        except BedError:
            return None  # the node does not answer now; the next turn tries again
        lines = [line for line in text.splitlines() if line.startswith("{")]
        try:
            devices = json.loads(lines[-1])["devices"] if lines else None
        except ValueError:
            return None  # the output is incomplete, because its card has just been lost
        return devices and sorted((device["uuid"], device["total_bytes"] // MIB) for device in devices)

    def _rejected_before(self, now: dict[str, Any]) -> str:
        """Explain a failed pod without a reason: an event of the kubelet says that it rejected this pod.

        After a boot the kubelet rejects a pod. Then it finds that the pod's containers had succeeded before, which it
        had not reported. It merges both results to Failed, and loses the reason.
        """
        if now["status"].get("reason"):
            return ""
        selector = f"involvedObject.uid={now['metadata']['uid']},reason={REJECTED}"
        events = self.system.bed.call("GET", f"/api/v1/namespaces/default/events?fieldSelector={selector}")["items"]
        return f"{REJECTED}, told by an event" if any(e["source"]["component"] == "kubelet" for e in events) else ""

    @property
    def made(self) -> int:
        """Number of pods that were created so far."""
        return self._count

    def on(self, node: str) -> int:
        """Number of its pods that run on a node now."""
        now = self.system.pods(SELECTOR).values()
        return sum(pod["spec"].get("nodeName") == node and pod["status"].get("phase") == "Running" for pod in now)

    # --- messages ----------------------------------------------------------------------------------------------------

    def _unanswered(self, error: BedError) -> None:
        self.unanswered[str(error)[:160]] += 1

    def _why(self, left: dict[str, str]) -> str:
        lines = []
        for name, why in left.items():
            events = ""
            if name:
                selector = f"involvedObject.name={name}"
                words = ["get", "events", "--field-selector", selector, "--no-headers", "--sort-by=.lastTimestamp"]
                events = self.system.bed.kubectl(*words, check=False)
            lines.append(f"{name}: {why}\n{events}")
        return "\n".join(lines)

    def summary(self) -> str:
        """A summary of the load so far, for the test's output."""
        calls = self.unanswered.total()
        return f"seed {self.seed}: {self._count} pods, made anew {dict(self.again)}, {calls} API calls failed"


def rejected(now: dict[str, Any]) -> str:
    """Explain a pod that the kubelet rejected at admission, so that it never ran."""
    return REJECTED if now["status"].get("reason") == REJECTED else ""


def died_with_node(now: dict[str, Any]) -> str:
    """Explain a pod that must not restart and whose containers ended because the node went down."""
    return "its node went down" if any(end["exitCode"] in (137, 255) for end in _last_ends(now)) else ""


def start_cut_short(now: dict[str, Any]) -> str:
    """Explain a pod that must not restart and whose container was starting when the kubelet was killed.

    The runtime cancels the start, because its client is gone. The next kubelet takes that for the end of the container.
    """
    cut = [end for end in _last_ends(now) if end.get("reason") == "StartError"]
    return "its start was cut short" if any(end["message"].endswith("context canceled") for end in cut) else ""


def lost_by_runtime(now: dict[str, Any]) -> str:
    """Explain a pod that must not restart and whose container was starting when containerd was killed.

    The next containerd finds no process of the container and reports an end with unknown reason.
    """
    lost = [end for end in _last_ends(now) if end.get("reason") == "Unknown" and end["exitCode"] == 255]
    return "its runtime was killed while it started it" if lost else ""


def _last_ends(now: dict[str, Any]) -> list[dict[str, Any]]:
    """The terminated states of a pod's containers; empty for a pod that may restart."""
    if now["spec"].get("restartPolicy") == "Always":
        return []
    status = now["status"]
    return [
        state["terminated"]
        for part in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
        for state in (part.get("state", {}), part.get("lastState", {}))
        if "terminated" in state
    ]


def _is_ready(now: dict[str, Any]) -> bool:
    conditions = now["status"].get("conditions", [])
    return now["status"].get("phase") == "Running" and any(
        c["type"] == "Ready" and c["status"] == "True" for c in conditions
    )


def _waiting(now: dict[str, Any]) -> str:
    status = now["status"]
    parts = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    words = [str(part["state"]["waiting"]) for part in parts if "waiting" in part.get("state", {})]
    words += [c.get("message", "") for c in status.get("conditions", []) if c["status"] == "False"]
    return "; ".join(word for word in words if word)
