"""A runtime without CDI: the agent notices that it drops our names, and then gives devices to one pod at a time."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hami_interpose import limits as limits_file

from hami_core.agent import identity
from tests.e2e.bed.bed import Node
from tests.e2e.lifecycle import agents
from tests.e2e.lifecycle.crash import crash
from tests.e2e.lifecycle.permissions import AGENT, SCHEDULER, denied, uses
from tests.e2e.pods import LOOK, container, pod, sidecar
from tests.e2e.slices import LIMITS_MOUNT, RESOURCE, booked, cards
from tests.e2e.system import System

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.e2e.bed.tools import Tools

MIB = 1 << 20
NODE = "node1"
FOLDER = re.compile(r"/var/lib/hami/serial/[0-9a-f]{32}/limits")


@pytest.fixture(scope="module")
def without_cdi(older_runtime: Tools, module_work: Path) -> Iterator[System]:
    """A system with one node whose containerd has CDI off. The agents must find that out."""
    chart = {"devicePlugin": {"serial": "auto", "evictUnlimited": True}}
    with System(module_work, older_runtime, (Node(NODE, "a100x2"),), bed={"cdi": False}, **chart) as running:
        yield running


def mode(system: System) -> str:
    """The agent's mode, from the node's annotation."""
    return str(
        system.bed.call("GET", f"/api/v1/nodes/{NODE}")["metadata"]["annotations"].get("hami.io/agent-mode-nvidia")
    )


def test_a_runtime_that_drops_cdi_names_is_noticed(without_cdi: System) -> None:
    """The first container has no card. The agent evicts its pod with a reason, and changes the node's mode."""
    system = without_cdi
    assert mode(system) == "cdi"
    system.submit(pod("first", container(memory=2000, command=["sleep", "100000"])))
    (now,) = system.running("first")
    given = system.bed.containers(NODE)[now["metadata"]["uid"], "main"]
    assert not [path for path in given.devices if "nvidia" in path]
    assert given.environment["NVIDIA_VISIBLE_DEVICES"] == "void", "NVIDIA's runtime would add every card"
    assert LIMITS_MOUNT not in given.mounts
    system.bed.wait("the pod is sent away", lambda: "first" not in system.pods(), 60)
    system.bed.wait("serial mode", lambda: mode(system) == "serial")
    events = system.bed.call("GET", "/api/v1/namespaces/default/events?fieldSelector=reason=DevicesEvicted")["items"]
    (event,) = [e for e in events if e["involvedObject"]["uid"] == now["metadata"]["uid"]]
    text = "container main runs without its devices and limits: the runtime ignored its CDI name; is CDI enabled?"
    assert text in event["message"]


def test_each_pod_gets_its_own_slice_one_at_a_time(without_cdi: System) -> None:
    """Pods of different sizes are created at once. Kubelet, containerd and programs see each pod's own slice."""
    system = without_cdi
    assert mode(system) == "serial", "the test above has shown it"
    names = [f"one{index}" for index in range(8)]
    # Kubelets before 1.31 count amounts that no plugin offers for init containers, see `before`.
    several = (container("prepare", 9000, command=LOOK), sidecar("beside", 800))
    first = () if system.tools.minor < 31 else several
    for index, name in enumerate(names):
        system.submit(pod(name, container(memory=1000 + 100 * index)))
    system.submit(
        pod(
            "several",
            container("small", 700),
            container("two", 3000, 30, count=2),
            container("bare", count=0, command=["sleep", "100000"]),
            init=first,
        )
    )
    system.running(*names, "several", timeout=120)
    for name in [*names, "several"]:
        system.bed.wait(f"{name} shows its own slice", lambda name=name: problems(system, name) == [], 20)
        assert system.pod(name)["metadata"]["annotations"]["hami.io/bind-phase"] == "success"
    turns = sorted(turn(system, name) for name in [*names, "several"])
    assert all(done < begun for (_, done), (begun, _) in pairwise(turns)), "the next was bound when one was settled"


def test_new_agent_continues_in_serial_mode(without_cdi: System) -> None:
    """A new agent continues in serial mode. Running pods keep their slices when their containers restart."""
    system = without_cdi
    system.submit(pod("lasting", container(memory=1500), restartPolicy="Always"))
    system.running("lasting")
    agents.replace(system)
    assert mode(system) == "serial"
    crash(system, NODE, "lasting")
    system.submit(pod("later", container(memory=1600)))
    system.running("later")
    system.bed.wait("it has restarted", lambda: restarts(system, "lasting") > 0, 60)
    system.running("lasting")
    for name in ("lasting", "later"):
        system.bed.wait(f"{name} shows its own slice", lambda name=name: problems(system, name) == [], 20)


def test_its_permissions_suffice(without_cdi: System) -> None:
    """The agents use all their permissions on pods here: they evict pods and end the phase allocating."""
    done = uses(without_cdi.bed)
    assert denied(done) == set()
    verbs = {use.what.verb for use in done if use.what.user == AGENT and use.what.resource == "pods"}
    assert verbs == {"list", "watch", "patch", "delete"}


def problems(system: System, name: str) -> list[str]:
    """All places where a container of a pod has something other than its own booking."""
    now = system.pod(name)
    uid, found = now["metadata"]["uid"], []
    plugins = system.bed.root(NODE) / "var/lib/kubelet/device-plugins"
    entries = identity.decode((plugins / identity.CHECKPOINT).read_bytes(), resources=frozenset({RESOURCE})).entries
    held = booked(now)
    for body in [*now["spec"].get("initContainers", []), *now["spec"]["containers"]]:
        label, mine = body["name"], sorted(held.get(body["name"], []))
        (entry,) = [e for e in entries if (e.pod_uid, e.container) == (uid, label)] or [None]
        if not mine:
            found += [f"{label}: has slots and no slice"] if entry else []
            continue
        if entry is None or len(entry.slot_ids) != len(mine):
            found.append(f"{label}: {len(mine)} slices, the checkpoint has {entry}")
            continue
        found += [f"{label}: {text}" for text in _given(system, entry, mine)]
        oci = system.bed.containers(NODE).get((uid, label))
        if oci is not None and _visible(system, oci.devices) != [uuid for uuid, _ in mine]:
            found.append(f"{label}: its OCI specification has {_visible(system, oci.devices)}, booked {mine}")
        if _seen(system, name, label) != mine:
            found.append(f"{label}: its program sees {_seen(system, name, label)}, booked {mine}")
    return found


def _given(system: System, entry: identity.Entry, mine: list[tuple[str, int]]) -> list[str]:
    """Problems of the answer to Allocate: the device nodes, and the folder with the limits."""
    if _visible(system, entry.devices) != [uuid for uuid, _ in mine]:
        return [f"the kubelet was given {_visible(system, entry.devices)}, booked {mine}"]
    ((_, host),) = [mount for mount in entry.mounts if mount[0] == LIMITS_MOUNT]
    if not FOLDER.fullmatch(host):
        return [f"its limits are mounted from {host}"]
    limits = limits_file.decode((system.bed.root(NODE) / host.lstrip("/") / "limits").read_bytes())
    written = sorted((device.uuid, device.memory_bytes // MIB) for device in limits.devices)
    return [] if written == mine else [f"the limits file says {written}, booked {mine}"]


def _visible(system: System, paths: Iterable[str]) -> list[str]:
    by_path = cards(system.bed, NODE)
    return sorted(by_path[path] for path in paths if path in by_path)


def _seen(system: System, name: str, label: str) -> list[tuple[str, int]]:
    lines = [line for line in system.log(name, label).splitlines() if line.startswith("{")]
    seen = json.loads(lines[-1])["devices"] if lines else []
    return sorted((device["uuid"], device["total_bytes"] // MIB) for device in seen)


def restarts(system: System, name: str) -> int:
    """Number of restarts of a pod's containers."""
    return sum(status["restartCount"] for status in system.pod(name)["status"].get("containerStatuses", []))


def turn(system: System, name: str) -> tuple[str, str]:
    """Times in the audit log: when a pod was bound, and when the agent ended its phase allocating."""
    bound = done = ""
    with (system.bed.work / "log/audit.log").open() as log:
        for line in log:
            if f'"name":"{name}"' not in line:
                continue
            event = json.loads(line)
            target, user = event["objectRef"], event["user"]["username"]
            if event["stage"] != "ResponseComplete" or event["responseStatus"]["code"] >= 300:
                continue
            if user == SCHEDULER and target.get("subresource") == "binding":
                bound = event["requestReceivedTimestamp"]
            if user == AGENT and event["verb"] == "patch" and bound and not done:
                # Watchers may act before the answer is written, so the time of the request counts.
                done = event["requestReceivedTimestamp"]
    assert bound, f"{name} was not bound"
    assert done, f"{name} was not settled"
    return bound, done
