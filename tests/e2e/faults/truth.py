"""Checks after a fault: each pod has its own slice, no container is unlimited, and each MiB is counted."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from tests.e2e import slices
from tests.e2e.bed.errors import BedError
from tests.e2e.faults import ours
from tests.e2e.pods import container, pod
from tests.e2e.slices import LIMITS_MOUNT, MIB, booked
from tests.e2e.system import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.e2e.faults.load import Load
    from tests.e2e.system import System

Use = dict[tuple[str, str], int]
"""(node, card) → MiB."""


def metrics(system: System, name: str, port: int) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Metrics of one of our pods: name → labels and value of each sample."""
    text = str(system.bed.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}:{port}/proxy/metrics"))
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


def usage(now: dict[str, Any]) -> Counter[str]:
    """Card → MiB that a bound pod takes, by Kubernetes' rule for init containers. Computed without our own code."""
    spec, status, parts = now["spec"], now["status"], booked(now)
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    ended = [
        part["state"].get("terminated", {}).get("exitCode") == 0 for part in status.get("initContainerStatuses", [])
    ]
    ordinary = [part for part in spec.get("initContainers", []) if part.get("restartPolicy") != "Always"]
    for part in spec.get("initContainers", []):
        own = _sum(parts.get(part["name"], []))
        most |= running + own
        if part.get("restartPolicy") == "Always":
            running += own
    for part in spec["containers"]:
        running += _sum(parts.get(part["name"], []))
    is_done = bool(ordinary) and sum(ended) >= len(ordinary)
    return running if is_done else most | running


def _sum(pieces: Iterable[tuple[str, int]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for card, memory in pieces:
        found[card] += memory
    return found


def promised(system: System) -> tuple[Use, int]:
    """Memory that is booked for all live pods together, and the number of these pods."""
    use: Use = {}
    count = 0
    for now in system.pods("").values():
        if now["status"].get("phase") in {"Succeeded", "Failed"} or not now["spec"].get("nodeName"):
            continue
        taken = usage(now)
        count += bool(taken)
        for card, memory in taken.items():
            key = now["spec"]["nodeName"], card
            use[key] = use.get(key, 0) + memory
    return use, count


def differences(system: System) -> list[str]:
    """Differences between the schedulers' counts and the sum of the live bookings."""
    found = []
    use, count = promised(system)
    for replica in system.ours("hami-scheduler"):
        name = replica["metadata"]["name"]
        try:
            seen = metrics(system, name, 9395)
        except BedError as error:
            found.append(f"{name}: {error}")
            continue
        counted = {
            (labels["node"], labels["device_uuid"]): int(value) // MIB
            for labels, value in seen.get("hami_gpu_memory_allocated_bytes", [])
            if value
        }
        if counted != use:
            found.append(f"{name} counts {counted}, the pods carry {use}")
        for metric, expected in (("hami_scheduler_bookings", count), ("hami_cache_drift", 0)):
            value = seen[metric][0][1]
            if value != expected:
                found.append(f"{name}: {metric} is {value:g}, not {expected}")
    return found or ([] if system.ours("hami-scheduler") else ["there is no scheduler"])


def unlimited(system: System) -> list[str]:
    """Containers on GPU nodes that see a card without a booking, or without limits."""
    found = []
    pods = {now["metadata"]["uid"]: now for now in system.pods("").values()}
    for node in system.gpu_nodes:
        by_path = slices.cards(system.bed, node)
        for (uid, name), made in system.bed.containers(node).items():
            visible = [by_path[path] for path in made.devices if path in by_path]
            if not visible or not made.live or uid not in pods:
                continue  # a deleted pod's containers may run for a moment longer, with their old limits
            mine = sorted(card for card, _ in booked(pods[uid]).get(name, []))
            if sorted(visible) != mine:
                found.append(f"{node} {uid}/{name} sees {visible}, booked {mine}")
            limits = _asked(pods[uid], name)
            if LIMITS_MOUNT not in made.mounts and "nvidia.com/gpumem" in limits:
                found.append(f"{node} {uid}/{name} has no limits mount")
    for agent in system.ours("hami-device-plugin"):
        name = agent["metadata"]["name"]
        values = metrics(system, name, 9394).get("hami_agent_containers_unlimited", [])
        found += [f"{name} says that {value:g} containers run unlimited" for _, value in values if value]
    return found


def _asked(now: dict[str, Any], name: str) -> dict[str, Any]:
    parts = [*now["spec"].get("initContainers", []), *now["spec"]["containers"]]
    return next((dict(part["resources"].get("limits", {})) for part in parts if part["name"] == name), {})


def settled(system: System, load: Load, timeout: float = 120) -> float:
    """Stop the load, wait until its pods are in the wanted state, and run all checks.

    Returns:
        Seconds until the pods were in the wanted state.
    """
    load.stop()
    began = time.monotonic()
    ours.offering(system, timeout)
    system.ready(timeout)
    load.settle(timeout)
    took = time.monotonic() - began
    wait_for_none("the schedulers count what the pods carry", lambda: differences(system), system, 30)
    wait_for_none("nobody is unlimited", lambda: unlimited(system), system, 10)
    alive = [name for name, p in load.ledger.items() if p.wanted and not p.ends]
    wait_for_none("every pod has its own slice", lambda: system.problems(*alive), system, 20)
    assert load.wrong == [], "\n".join([load.summary(), *load.wrong])
    return took


def wait_for_none(what: str, look: Any, system: System, timeout: float) -> None:
    """Wait until `look` finds no problem. Otherwise fail with what it found last."""
    last: list[str] = ["never looked"]

    def good() -> bool:
        nonlocal last
        last = look()
        return not last

    try:
        system.bed.wait(what, good, timeout)
    except BedError as error:
        raise AssertionError(f"{what}: {last}") from error


def emptied(system: System, load: Load, timeout: float = 90) -> None:
    """Delete the load's pods. Check that nothing is counted any more and that every card can be booked whole."""
    for mine in load.ledger.values():
        mine.wanted = False
    load.settle(timeout)
    wait_for_none("nothing is counted any more", lambda: differences(system), system, 30)
    whole = [pod(f"whole-{node}", container(memory=None, count=2), node=node) for node in system.gpu_nodes]
    names = [body["metadata"]["name"] for body in whole]
    system.submit(*whole)
    system.running(*names, timeout=timeout)
    wait_for_none("whole cards are whole", lambda: system.problems(*names), system, 20)
    system.delete(*names)
    wait_for_none("nothing is counted at the end", lambda: differences(system), system, 30)
