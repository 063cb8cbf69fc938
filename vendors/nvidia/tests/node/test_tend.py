"""What the agent does to the regions of running containers, and that damaged regions do not harm the agent."""

from __future__ import annotations

import os
import struct
from dataclasses import replace

import pytest
from hami_interpose import feedback, region
from hami_interpose.limits import DeviceLimit, Limits

from hami_core import ContainerKind, ContainerRef, Slice

BEAT_AT = region.AGENT_BEAT_OFFSET
NOW = 1_900_000_000
SLOTS_IN_USE = 2008896
FIRST_OWNER, COUNTED = region.BLOCK_OFFSET + 8192, 1 << 62
HOST_USE = region.BLOCK_OFFSET + 16384 + region.DEVICES * region.PROCESSES * 8
"""Offset of the word with the first device's host memory: pages in use, above 28 bits that say who changed it."""


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.passed = 0.0

    def monotonic(self) -> float:
        return self.passed

    def unix(self) -> float:
        return NOW + self.passed


class Bed:
    """Containers of one node; each has one card, "a" or "b"."""

    def __init__(self, root, make) -> None:
        self.root = root
        self.clock = Clock()
        self.make = make
        self.restart()
        self.cards = dict(zip("ab", self.made.discover(), strict=True))
        self.refs, self.slices, self.folders = {}, {}, {}

    def restart(self, **settings) -> None:
        self.made = self.make(clocks=(self.clock.monotonic, self.clock.unix), **settings)

    def run(self, name, card="a", cores=0, priority=None):
        limits = {} if priority is None else {"nvidia.com/priority": str(priority)}
        self.refs[name] = ContainerRef(f"uid-{name}", "default", name, "main", ContainerKind.APP, limits=limits)
        self.slices[name] = (Slice(self.cards[card].id, "NVIDIA", 1000, cores, type="NVIDIA"),)
        edits = self.made.allocate(self.slices[name], self.refs[name])
        self.folders[name] = self.root / name
        self.folders[name].mkdir()
        self.file(name).write_bytes(edits.region["vgpu.cache"])
        return self.file(name)

    def end(self, name):
        for known in (self.refs, self.slices, self.folders):
            del known[name]

    def file(self, name):
        return self.folders[name] / "vgpu.cache"

    def launch(self, *names):
        """Record activity as the library does, except for suspended containers."""
        for name in names:
            if self.words(name).recent_kernel >= 0:
                self.write(name, *feedback.recent_kernel(2))

    def write(self, name, offset, data):
        with self.file(name).open("r+b") as file:
            file.seek(offset)
            file.write(data)

    def words(self, name):
        with self.file(name).open("rb") as file:
            return feedback.read(file.fileno())

    def beat(self, name):
        return struct.unpack_from("<Q", self.file(name).read_bytes(), BEAT_AT)[0]

    def look(self, seconds=5.0):
        self.clock.passed += seconds
        self.made.tend(self.refs, self.slices, {name: str(folder) for name, folder in self.folders.items()})

    def samples(self, name):
        found = self.made.metrics(self.refs, {n: str(folder) for n, folder in self.folders.items()})
        return [s for s in found if s.name == name]


@pytest.fixture
def bed(node, tmp_path):
    return Bed(tmp_path, node)


def test_a_heartbeat_is_written_every_ten_seconds(bed):
    bed.run("x")
    bed.run("y", "b", cores=30)
    bed.look()
    assert [bed.beat(name) for name in "xy"] == [NOW + 5] * 2
    bed.look()
    assert [bed.beat(name) for name in "xy"] == [NOW + 5] * 2
    bed.look()
    assert [bed.beat(name) for name in "xy"] == [NOW + 15] * 2


def test_a_heartbeat_changes_only_the_field_for_the_library(bed):
    before = bed.run("x").read_bytes()
    bed.look()
    after = bed.file("x").read_bytes()
    changed = [i for i in range(len(before)) if before[i] != after[i]]
    assert changed
    assert set(changed) <= set(range(BEAT_AT, BEAT_AT + 8))
    assert region.read(bed.file("x")).devices[0].uuid == bed.cards["a"].id


def test_regions_without_limits_or_priorities_are_unchanged(bed):
    bed.run("x")
    bed.run("y")
    for _ in range(5):
        bed.launch("x", "y")
        bed.look()
    assert bed.words("x") == bed.words("y") == feedback.Words(1, 2)


def test_a_lone_containers_limit_pauses_until_another_works(bed):
    bed.run("x", cores=30)
    bed.run("y", cores=30)
    bed.launch("x")
    bed.look()
    bed.launch("x")
    bed.look()
    bed.look()
    assert [bed.words(n).utilization_switch for n in "xy"] == [0, 0]
    bed.launch("x", "y")
    bed.look()
    assert [bed.words(n).utilization_switch for n in "xy"] == [1, 1]


@pytest.mark.parametrize("policy", ["force", "disable"])
def test_other_policies_need_no_feedback(bed, policy):
    bed.restart(core_policy=policy)
    bed.run("x", cores=30)
    for _ in range(3):
        bed.launch("x")
        bed.look()
    assert bed.words("x") == feedback.Words(1, 2)


def test_starts_of_containers_do_not_count_activity_down(bed):
    """The agent also calls before each start. Working containers would count as idle on a node with many starts."""
    bed.run("high", priority=0)
    bed.run("low", priority=1)
    bed.launch("high", "low")
    bed.look()
    assert bed.words("low").recent_kernel == -1
    for _ in range(10):
        bed.look(0.1)
    assert (bed.words("high").recent_kernel, bed.words("low").recent_kernel) == (1, -1)


def test_the_lower_priority_waits_and_continues(bed):
    bed.run("high", priority=0)
    bed.run("low", priority=1)
    bed.run("elsewhere", "b", priority=1)
    bed.launch("high", "low", "elsewhere")
    bed.look(1)
    bed.look()
    assert bed.words("low").recent_kernel == 0, "it was idle between two looks"
    bed.launch("high", "low")
    bed.look()
    assert bed.words("low").recent_kernel == -1
    assert {s.labels["pod"]: s.value for s in bed.samples("hami_vgpu_suspended")} == {"high": 0.0, "low": 1.0}
    bed.launch("high", "low")
    bed.look()
    assert bed.words("low").recent_kernel == -1
    bed.look()
    assert bed.words("low").recent_kernel == 0


@pytest.mark.parametrize("how", ["ended", "ended while the agent was away", "no longer enforced"])
def test_nobody_waits_for_an_ended_container(bed, how):
    bed.run("high", priority=0)
    bed.run("low", priority=1)
    bed.launch("high", "low")
    bed.look()
    assert bed.words("low").recent_kernel == -1
    if how != "no longer enforced":
        bed.end("high")
    if how != "ended":
        bed.restart(enforcement="observe" if how == "no longer enforced" else "enforce")
    for _ in range(2):
        if how == "no longer enforced":
            bed.launch("high")
        bed.look()
    assert bed.words("low").recent_kernel == 0


def test_the_priority_in_a_region_is_ignored(bed):
    bed.run("high", priority=0)
    bed.run("low", priority=1)
    bed.write("low", 2008908, struct.pack("<i", 0))
    bed.write("low", 64, b"GPU-another")
    bed.launch("high", "low")
    bed.look()
    assert bed.words("low").recent_kernel == -1
    assert bed.words("high").recent_kernel == 1


def short(path):
    os.truncate(path, 5000)


def long(path):
    os.truncate(path, region.REGION_SIZE + 1)


def link(path):
    path.rename(path.with_name("real"))
    path.symlink_to("real")


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def folder(path):
    path.unlink()
    path.mkdir()


def gone(path):
    path.unlink()


def foreign(path):
    with path.open("r+b") as file:
        file.write(b"nonsense")


def old(path):
    with path.open("r+b") as file:
        file.seek(region.COMPUTE_OFFSET + 8)
        file.write(b"\xff")


@pytest.mark.parametrize("spoil", [short, long, link, pipe, folder, gone, foreign, old])
def test_invalid_regions_are_skipped_and_counted(bed, spoil):
    bed.run("bad", cores=30)
    bed.run("good", cores=30)
    spoil(bed.file("bad"))
    content = bed.file("bad").read_bytes() if bed.file("bad").is_file() else b""
    bed.look()
    assert bed.beat("good") == NOW + 5
    assert (bed.file("bad").read_bytes() if bed.file("bad").is_file() else b"") == content, "the agent wrote to it"
    (sample,) = bed.samples("hami_vgpu_region_skips_total")
    assert (sample.labels, sample.value) == ({"node": "n1"}, 1.0)
    if spoil in (short, foreign):
        limits = Limits((DeviceLimit(bed.cards["a"].id, 0, 0, 30),), 1)
        bed.file("bad").write_bytes(region.initial(limits))
        bed.look(10)
        assert bed.beat("bad") == NOW + 15


def test_a_region_that_is_still_being_made_is_not_counted(bed):
    bed.run("x", cores=30)
    bed.folders["x"] = bed.root / "nothing there yet"
    bed.look()
    assert [s.value for s in bed.samples("hami_vgpu_region_skips_total")] == [0.0]


def test_a_refused_container_does_not_affect_others(bed):
    bed.run("x", cores=30)
    bed.refs["y"] = ContainerRef(
        "uid-y", "default", "y", "main", ContainerKind.APP, limits={"nvidia.com/priority": "highest"}
    )
    bed.slices["y"], bed.folders["y"] = bed.slices["x"], bed.root / "none"
    bed.look()
    assert bed.beat("x") == NOW + 5


def test_compute_metrics_come_from_the_region(bed):
    bed.run("limited", cores=30)
    bed.run("free")
    at = region.COMPUTE_OFFSET + 4096 + 64
    bed.write("limited", at, struct.pack("<8Q", 3 * 10**9, 2 * 10**9, 10**8, 40, 1, 7, 2, 5 * 10**8))
    found = {
        s.name: s.value
        for s in bed.made.metrics(bed.refs, {n: str(f) for n, f in bed.folders.items()})
        if s.name.startswith("hami_vgpu_compute_") and s.labels["pod"] == "limited"
    }
    assert found == {
        "hami_vgpu_compute_seconds_total": 3.0,
        "hami_vgpu_compute_estimated_seconds_total": 0.5,
        "hami_vgpu_compute_throttled_seconds_total": 2.0,
        "hami_vgpu_compute_longest_wait_seconds": 0.1,
        "hami_vgpu_compute_grants_total": 40.0,
        "hami_vgpu_compute_wait_timeouts_total": 1.0,
        "hami_vgpu_compute_turns_total": 7.0,
        "hami_vgpu_compute_turn_timeouts_total": 2.0,
    }
    assert {s.labels["pod"] for s in bed.samples("hami_vgpu_compute_seconds_total")} == {"limited"}


def test_utilization_of_a_limited_container_is_its_share_of_device_time(bed):
    bed.run("limited", cores=30)
    at = region.COMPUTE_OFFSET + 4096 + 64
    shown = []
    for seconds, charged_s in ((0, 1.0), (2, 1.5), (8, 4.0), (1, 5.0), (9, 4.5), (10, 0.5)):
        bed.clock.passed += seconds
        bed.write("limited", at, struct.pack("<Q", int(charged_s * 10**9)))
        shown.append([s.value for s in bed.samples("hami_container_device_utilization_ratio")])
    # 3 s of 10; a scrape after 1 s repeats that; 0.5 s of 10; a new region of the container begins at 0.
    assert shown == [[], [], [30.0], [30.0], [5.0], [0.0]]


@pytest.mark.parametrize("policy", ["default", "disable"])
def test_utilization_is_nvmls_figure_while_no_limit_is_in_force(bed, monkeypatch, policy):
    bed.restart(core_policy=policy)
    monkeypatch.setattr(bed.made._host_pids, "named", {"alone": {4711}, "other": {4712}, "idle": set()}.get)
    monkeypatch.setattr(bed.made.nvml, "process_utilization", lambda uuid, since: {4711: 80, 4712: 5})
    bed.run("alone", cores=30)
    bed.run("idle", "b", cores=30)
    for _ in range(3):
        bed.launch("alone")
        bed.look()
    assert [s.value for s in bed.samples("hami_container_device_utilization_ratio")] == [80.0, 0.0]
    if policy == "disable":
        return
    bed.run("other", cores=30)
    bed.launch("alone", "other")
    bed.look()
    told = [s.labels["pod"] for s in bed.samples("hami_container_device_utilization_ratio")]
    assert told == ["idle"], "the account of the others begins anew"
    bed.launch("alone", "other")
    bed.look(10)
    told = [s.labels["pod"] for s in bed.samples("hami_container_device_utilization_ratio")]
    assert told == ["alone", "idle", "other"]


def test_old_names_show_parts_and_utilization(bed):
    bed.run("limited", cores=30)
    bed.made._node = replace(bed.made._node, legacy_metrics=True)
    bed.samples("")
    bed.clock.passed += 10
    (memory,) = bed.samples("Device_memory_desc_of_container")
    parts = {name: memory.labels[name] for name in ("context", "module", "data", "offset")}
    assert (memory.value, parts) == (0.0, dict.fromkeys(parts, "0"))
    (percent,) = bed.samples("Device_utilization_desc_of_container")
    assert (percent.labels["podname"], percent.value) == ("limited", 0.0)


def test_unlimited_container_without_known_processes_has_no_utilization(bed):
    bed.run("free")
    for _ in range(2):
        bed.look()
        assert bed.samples("hami_container_device_utilization_ratio") == []


def test_host_memory_metrics_come_from_the_region(bed):
    bed.run("plain")
    bed.restart(memory_scaling=2)
    bed.run("scaled")
    folders = {n: str(f) for n, f in bed.folders.items()}
    found = {
        (s.labels["pod"], s.name.removeprefix("hami_vgpu_host_memory_").removesuffix("_total")): s.value
        for s in bed.made.metrics(bed.refs, folders)
        if s.name.startswith("hami_vgpu_host_memory_")
    }
    half = float(500 << 20)
    assert found == {
        ("scaled", f"{n}_bytes"): half if n == "limit" else 0.0 for n in ("limit", "used", "peak", "allocated")
    }


def test_pcie_traffic_is_measured_while_host_memory_is_used(bed, state):
    """Other cards are not measured, since NVML needs 40 ms for each card."""
    name = "hami_host_gpu_pcie_bytes_per_second"
    bed.restart(memory_scaling=2)
    bed.run("scaled")
    for index in range(2):
        state.set_link_traffic(index, 3, 5 + index)
    assert bed.samples(name) == []
    bed.write("scaled", SLOTS_IN_USE, struct.pack("<i", 1))
    bed.write("scaled", FIRST_OWNER, struct.pack("<Q", COUNTED | 1 << 22 | 1))
    bed.write("scaled", HOST_USE, struct.pack("<Q", 100))
    assert bed.samples("hami_vgpu_host_memory_used_bytes")[0].value == 100 * 4096
    found = {(s.labels["device_uuid"], s.labels["direction"]): s.value for s in bed.samples(name)}
    uuid = bed.cards["a"].id
    assert found == {(uuid, "sent"): 3000.0, (uuid, "received"): 5000.0}
