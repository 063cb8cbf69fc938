"""The load: pods made and deleted without pause, as many controllers do it, whatever breaks meanwhile.

Level-triggered like a controller: each turn compares the ledger with what the API server has and does what is missing,
so that a request that got no answer is simply repeated. A pod the kubelet has rejected for good is made anew, as a Job
would; why is kept. What nothing explains ends up in `Load.wrong`.
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
"""The kubelet rejects for good what it looks at while a device plugin is away, and no plugin can change that."""


class Load:
    """Runs in a thread from `start` to `stop`.

    Attributes:
        ledger: What is wanted, by pod name.
        wrong: What nothing explains; must stay empty.
        unanswered: API calls that failed, by their text.
        explain: Each says why a pod failed, or "" where it does not know.
        again: Why pods were made anew.
        gone: Why pods may be deleted by others; "" = they may not.

    Args:
        system: The cluster.
        seed: Of everything random.
        live: About how many pods there are at a time.
        node: Put all on this node; "" = some here, some there, some wherever they fit.
        pause: Least and most seconds between turns.
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
        """Begin, or go on."""
        self._stop.clear()
        self._churning = True
        self._thread = threading.Thread(target=self._run, name=f"load-{self.seed}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Make and delete nothing more; what was asked for stays asked for."""
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
        except BaseException as error:  # noqa: BLE001 - told by `stop`
            self._broken = error

    def settle(self, timeout: float = 120) -> None:
        """Repeat turns until every pod wanted is there and well and every other one gone.

        Raises:
            AssertionError: Some are not in time; names them with their last events.
        """
        until = time.monotonic() + timeout
        while left := self.turn():
            if time.monotonic() > until:
                raise AssertionError(f"not settled after {timeout:g} s (seed {self.seed}):\n" + self._why(left))
            ours.revived(self.system)
            time.sleep(0.3)

    # --- one turn ----------------------------------------------------------------------------------------------------

    def turn(self) -> dict[str, str]:
        """Compare, and do what is missing. Returns what is not as it should be: pod → why."""
        try:
            now = self.system.pods(SELECTOR)
            if self._churning:
                self._churn()
            left = {name: why for name, p in list(self.ledger.items()) if (why := self._tend(p, now.get(name)))}
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

    def _tend(self, mine: Promise, now: dict[str, Any] | None) -> str:
        """Bring one pod nearer to what is wanted; why it is not there yet."""
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
            self._look(mine, now)
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

    def _look(self, mine: Promise, now: dict[str, Any]) -> None:
        """What its programs saw must be what was booked for it, and what it asked for."""
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
            return None  # the node can't be asked now; the next turn asks again
        lines = [line for line in text.splitlines() if line.startswith("{")]
        try:
            devices = json.loads(lines[-1])["devices"] if lines else None
        except ValueError:
            return None  # it broke off: its card has just gone
        return devices and sorted((device["uuid"], device["total_bytes"] // MIB) for device in devices)

    def _rejected_before(self, now: dict[str, Any]) -> str:
        """Explanation of a failed pod without a reason: the kubelet's own event says that it rejected this very pod.

        After a boot the kubelet rejects a pod and then finds that its containers had ended well before, which it had
        not reported yet. It makes Failed of Failed and Succeeded, and forgets the reason.
        """
        if now["status"].get("reason"):
            return ""
        selector = f"involvedObject.uid={now['metadata']['uid']},reason={REJECTED}"
        events = self.system.bed.call("GET", f"/api/v1/namespaces/default/events?fieldSelector={selector}")["items"]
        return f"{REJECTED}, told by an event" if any(e["source"]["component"] == "kubelet" for e in events) else ""

    @property
    def made(self) -> int:
        """How many pods were asked for so far."""
        return self._count

    def on(self, node: str) -> int:
        """How many of its pods run on a node now."""
        now = self.system.pods(SELECTOR).values()
        return sum(pod["spec"].get("nodeName") == node and pod["status"].get("phase") == "Running" for pod in now)

    # --- words -------------------------------------------------------------------------------------------------------

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
        """What happened so far, for the test's output."""
        calls = self.unanswered.total()
        return f"seed {self.seed}: {self._count} pods, made anew {dict(self.again)}, {calls} API calls failed"


def rejected(now: dict[str, Any]) -> str:
    """Explanation of a pod the kubelet rejected at admission: it never ran."""
    return REJECTED if now["status"].get("reason") == REJECTED else ""


def died_with_node(now: dict[str, Any]) -> str:
    """Explanation of a pod that may not restart and whose containers ended with their node."""
    return "its node went down" if any(end["exitCode"] in (137, 255) for end in _last_ends(now)) else ""


def start_cut_short(now: dict[str, Any]) -> str:
    """Explanation of a pod that may not restart and whose container was being started by a kubelet that was killed.

    The runtime gives up what nobody asks for any more, and the next kubelet takes that for the container's end.
    """
    cut = [end for end in _last_ends(now) if end.get("reason") == "StartError"]
    return "its start was cut short" if any(end["message"].endswith("context canceled") for end in cut) else ""


def lost_by_runtime(now: dict[str, Any]) -> str:
    """Explanation of a pod that may not restart and whose container was being started by a containerd that was killed.

    The next containerd finds no process of it, and says that it ended, nobody knows how.
    """
    lost = [end for end in _last_ends(now) if end.get("reason") == "Unknown" and end["exitCode"] == 255]
    return "its runtime was killed while it started it" if lost else ""


def _last_ends(now: dict[str, Any]) -> list[dict[str, Any]]:
    """How the containers of a pod that may not restart ended."""
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
