"""Test docs/how-to/migrate-from-hami.md on real Kubernetes.

Pods that HAMi started and that HAMi's variables and files limit must run on under our scheduler and agents.
`device_plugin` imitates the plugin of HAMi v2.10. Our library takes the place of HAMi's in its folder, and reads the
same variables.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import hami_interpose
import pytest

from tests.e2e.bed.bed import Node
from tests.e2e.bed.gpus import CONTAINER_LIBRARIES, STATE
from tests.e2e.doctor import complaints, doctor
from tests.e2e.lifecycle import agents, plugins
from tests.e2e.lifecycle.crash import crash
from tests.e2e.lifecycle.device_plugin import HOOK, PHASE, TO_ALLOCATE, Settings
from tests.e2e.pods import container, pod
from tests.e2e.slices import ALLOCATED, RESOURCE, booked, cards
from tests.e2e.system import NAMESPACE, RELEASE, System

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.bed.tools import Tools

MIB = 1 << 20
CARD_MIB = 81920
NODE = "node1"
SLOTS = 10
"""Slots of each card: the default of HAMi's chart and of ours."""


class Hami:
    """The parts of HAMi on a cluster: its folder on the node, its plugin, and the annotations of its scheduler."""

    def __init__(self, system: System) -> None:
        self.system, self.bed = system, system.bed
        self.by_path = cards(self.bed, NODE)
        self.uuids = list(self.by_path.values())
        self._make_folder()

    def _make_folder(self) -> None:
        """Mount HAMi's /usr/local/vgpu on this node only."""
        upper = self.bed.work / "hami"
        for name in ("upper/vgpu", "work"):
            (upper / name).mkdir(parents=True)
        shutil.copy(hami_interpose.library(), upper / "upper/vgpu/libvgpu.so")
        (upper / "upper/vgpu/ld.so.preload").write_text(f"{HOOK}/libvgpu.so\n")
        options = f"lowerdir=/usr/local,upperdir={upper}/upper,workdir={upper}/work"
        self.bed.run(NODE, "mount", "-t", "overlay", "-o", options, "overlay", "/usr/local")

    def files(self) -> dict[str, str]:
        """All files of HAMi's folder, with a digest. Files that programs write to have an empty one."""
        root = self.bed.root(NODE) / HOOK.lstrip("/")
        return {
            str(path.relative_to(root)): ""
            if path.suffix == ".cache"
            else hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Run HAMi's plugin during the block."""
        libraries = {
            f"{CONTAINER_LIBRARIES}/{path.name}": f"/{path.relative_to(self.bed.root(NODE))}"
            for path in driver_libraries(self.bed.root(NODE))
        }
        settings = Settings(
            RESOURCE,
            [f"{uuid}-{k}" for uuid in self.uuids for k in range(SLOTS)],
            hami=True,
            node=NODE,
            socket=str(self.bed.api),
            cards={uuid: path for path, uuid in self.by_path.items()},
            env={"HAMI_SIM_STATE": STATE, "HAMI_SIM_DEV": "/dev"},
            mounts={STATE: STATE, **libraries},
        )
        with plugins.running(self.bed, NODE, settings):
            yield

    def start(self, body: dict[str, Any], *lists: list[tuple[int, int]]) -> None:
        """Bind a pod with the annotations of HAMi's scheduler, and wait until it runs.

        Args:
            body: The pod.
            lists: (card number, MiB) of each device, for each container with devices. HAMi leaves out all others.
        """
        text = "".join("".join(f"{self.uuids[n]},NVIDIA,{mib},0:" for n, mib in one) + ";" for one in lists)
        now = str(int(time.time()))
        times = {"hami.io/vgpu-time": now, "hami.io/bind-time": now}
        body["metadata"]["annotations"] |= {"hami.io/vgpu-node": NODE, ALLOCATED: text, TO_ALLOCATE: text} | times
        body["metadata"]["annotations"][PHASE] = "allocating"
        body["metadata"]["labels"]["hami.io/vgpu-node"] = NODE
        body["spec"] |= {"nodeName": NODE, "schedulerName": "hami-scheduler"}
        self.system.submit(body)
        name = body["metadata"]["name"]
        self.system.running(name, timeout=90)
        assert self.system.pod(name)["metadata"]["annotations"][PHASE] == "success"


def driver_libraries(root: Path) -> list[Path]:
    """The driver's libraries in the node's driver root."""
    found = {path.name: path for path in (root / "opt/nvidia-sim").rglob("lib*.so.1")}
    return list(found.values())


@pytest.fixture(scope="module")
def hami(tools: Tools, module_work: Path) -> Iterator[Hami]:
    """A node that HAMi has served: three of its pods run, and its plugin has ended."""
    system = System(module_work, tools, (Node(NODE, "a100x2"),))
    with system.bed:
        system.bed.kubectl("label", "node", NODE, "gpu=on")
        made = Hami(system)
        with made.serving():
            made.start(pod("plain", container(memory=30720)), [(0, 30720)])
            made.start(pod("two", container(memory=5120, count=2)), [(0, 5120), (1, 5120)])
            second = pod(
                "second",
                container(count=0, name="bare", command=["sleep", "100000"]),
                container("main", 10240, command=["cuda-probe", "look", "100000"]),
                init=(container("prepare", count=0, command=["true"]),),
                restartPolicy="Always",
            )
            made.start(second, [(1, 10240)])
        system.bed.wait("no plugin", lambda: plugins.allocatable(system.bed, NODE, RESOURCE) == 0)
        yield made


HELD = {0: 30720 + 5120, 1: 5120 + 10240}
"""Card number → MiB that HAMi's pods hold on it."""
SIZES = {"plain": [30720], "two": [5120, 5120], "second": [10240]}
UNSIGNED = f"{len(SIZES)} unsigned: "


def identities(system: System) -> dict[str, list[tuple[str, int]]]:
    """Ids of the containers of HAMi's pods, and their numbers of restarts."""
    return {
        name: [(s["containerID"], s["restartCount"]) for s in system.pod(name)["status"]["containerStatuses"]]
        for name in SIZES
    }


def limited(system: System) -> None:
    """Check that a new process in each of HAMi's pods sees the pod's slices and cannot allocate more."""
    for name, sizes in SIZES.items():
        text = system.bed.kubectl("exec", name, "-c", "main", "--", "cuda-probe", "0")
        seen = json.loads([line for line in text.splitlines() if line.startswith("{")][-1])["devices"]
        assert [card["total_bytes"] // MIB for card in seen] == sizes, name
        assert all(0 < card["allocated_bytes"] <= card["total_bytes"] for card in seen)


def test_change_to_our_chart_keeps_hamis_pods_and_counts_them(hami: Hami) -> None:
    """Install our chart. Then, on each card, a pod fits that takes exactly the memory that HAMi's pods leave."""
    system, before, files = hami.system, identities(hami.system), hami.files()
    assert {"libvgpu.so", "ld.so.preload"} < set(files), "and a region of each container"
    limited(system)
    found = complaints(doctor(system), "warn", "fail")
    assert UNSIGNED in found["pods.signatures"]
    assert "no pod runs" in found["scheduler.pods"]
    time_of_change = (datetime.now(UTC) + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    system.install(devicePlugin={"mode": "adopt", "adoptBefore": time_of_change, "deviceSplitCount": SLOTS})
    assert identities(system) == before
    limited(system)
    found = complaints(doctor(system))
    assert "adopt" in found["agents.trust"]
    assert UNSIGNED in found["pods.signatures"]
    assert found.keys() <= {"agents.trust", "pods.signatures", "node.runtime"}, found
    for number, uuid in enumerate(hami.uuids):
        there = {"nvidia.com/use-gpuuuid": uuid}
        system.submit(pod(f"fits{number}", container(memory=CARD_MIB - HELD[number]), annotations=there))
        system.running(f"fits{number}")
        assert system.problems(f"fits{number}") == []
        system.submit(pod(f"over{number}", container(memory=1), annotations=there))
        reason = lambda number=number: system.bed.kubectl("describe", "pod", f"over{number}")  # noqa: E731
        system.bed.wait("a reason", lambda reason=reason: "CardInsufficientMemory" in reason())
    system.delete("over0", "over1", "fits0", "fits1")
    assert identities(system) == before
    assert hami.files() == files


def test_kubelet_gives_only_free_slots(hami: Hami) -> None:
    """The kubelet gives our pods only slots that HAMi's pods do not hold, until all are used."""
    system = hami.system
    left = 2 * SLOTS - sum(len(sizes) for sizes in SIZES.values())
    names = [f"slot{index}" for index in range(left)]
    system.submit(*[pod(name, container(memory=1024)) for name in names])
    system.running(*names, timeout=120)
    assert system.problems(*names, seen=False) == []
    system.submit(pod("none-left", container(memory=1024)))
    system.bed.wait("a reason", lambda: "FailedScheduling" in system.bed.kubectl("describe", "pod", "none-left"), 60)
    system.delete("none-left", *names)


def test_hamis_pods_survive_restarts_and_crashes(hami: Hami) -> None:
    """The kubelet and the agent restart, and a container of HAMi's crashes. It runs again as HAMi set it up."""
    system, before = hami.system, identities(hami.system)
    system.bed.restart(f"kubelet:{NODE}")
    agents.replace(system)
    assert identities(system) == before
    uid, crashed = system.pod("second")["metadata"]["uid"], crash(system, NODE, "second")

    def runs_again() -> bool:
        now = system.bed.containers(NODE).get((uid, "main"))
        return now is not None and now.live and now.id != crashed

    system.bed.wait("it runs again", runs_again, 60)
    system.running("second")
    limited(system)


def test_after_the_last_of_them_signatures_are_required(hami: Hami) -> None:
    """When HAMi's pods end, their capacity is free. Then we require signatures, regardless of a pod's age."""
    system = hami.system
    system.delete(*SIZES)
    for number, uuid in enumerate(hami.uuids):
        system.submit(pod(f"all{number}", container(memory=CARD_MIB - 1), annotations={"nvidia.com/use-gpuuuid": uuid}))
    system.running("all0", "all1")
    assert system.problems("all0", "all1") == []
    assert {"libvgpu.so", "ld.so.preload"} <= hami.files().keys(), "HAMi's folder is the administrator's to remove"
    system.install(devicePlugin={"mode": "required", "adoptBefore": "", "deviceSplitCount": SLOTS})
    assert system.problems("all0", "all1") == []
    assert complaints(doctor(system)).keys() <= {"node.runtime"}
    system.delete("all0", "all1")
    system.submit(pod("new", container(memory=2048)))
    system.running("new")
    assert system.problems("new") == []
    assert [len(found) for found in booked(system.pod("new")).values()] == [1]


def test_back_to_hami_keeps_our_pod_and_its_limits(hami: Hami) -> None:
    """Uninstall our chart and start HAMi's plugin: our pod runs on limited, restarts limited, and HAMi's pods start."""
    system = hami.system
    system.install(devicePlugin={"mode": "adopt", "adoptBefore": "2026-01-01T00:00:00Z", "deviceSplitCount": SLOTS})
    system.submit(pod("ours", container(memory=4096, command=["cuda-probe", "look", "100000"]), restartPolicy="Always"))
    system.running("ours")
    (before,) = system.pod("ours")["status"]["containerStatuses"]
    system.bed.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait")
    # helm does not wait for the agent's pod, which serves the kubelet until it ends.
    system.bed.wait("our agent has ended", lambda: not system.ours("hami-device-plugin"), 60)
    system.bed.wait("no plugin", lambda: plugins.allocatable(system.bed, NODE, RESOURCE) == 0)

    def seen() -> list[int]:
        text = system.bed.kubectl("exec", "ours", "--", "cuda-probe", "0")
        cards = json.loads([line for line in text.splitlines() if line.startswith("{")][-1])["devices"]
        return [card["total_bytes"] // MIB for card in cards]

    with hami.serving():
        hami.start(pod("theirs", container(memory=2048)), [(0, 2048)])
        (status,) = system.pod("ours")["status"]["containerStatuses"]
        assert status["containerID"] == before["containerID"]
        assert seen() == [4096]
        crash(system, NODE, "ours")
        system.bed.wait(
            "it runs again", lambda: system.pod("ours")["status"]["containerStatuses"][0]["restartCount"] == 1, 60
        )
        system.running("ours")
        assert seen() == [4096]
