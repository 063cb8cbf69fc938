"""Every error of NVML for every call that the agent makes, on one card of three.

The calls are read from the sources, so that a new call takes part by itself. A call that no step here makes on the card
fails the test of that call.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import hami_gpusim as sim
import hami_nvidia.nvml
import hami_nvidia.nvml_mig
import pynvml
import pytest
from hami_nvidia import monitor
from hami_nvidia.node import NvidiaNode
from hami_nvidia.settings import NodeSettings

from hami_core import ContainerKind, ContainerRef, DeviceError, MigPlacement, NodeContext, Slice
from hami_core.agent.health import HealthTracker

LIBRARY = sim.library_dir() / "libnvidia-ml.so.1"
CODES = sorted(
    value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_") and isinstance(value, int)
)
BROKEN = 0
"""The card that fails. NVML is asked about pairs of cards with the lower one first."""
RECOVERY_S = 60.0
REF = ContainerRef("uid-1", "default", "pod", "main", ContainerKind.APP)
OF_NO_CARD = {
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlDeviceGetCount_v2",
    "nvmlEventSetCreate",
    "nvmlInitWithFlags",
    "nvmlShutdown",
    "nvmlSystemGetDriverVersion",
}
"""Calls that concern NVML as a whole."""
NOT_SIMULATED = {"nvmlDeviceGetGpuFabricInfo"}
"""The simulated driver answers "not supported" without looking for faults."""
OF_MPS = {"nvmlDeviceSetComputeMode"}
"""Calls that only the supervisor of the MPS control daemon makes, which is a process of its own."""
BY_INDEX = {"nvmlDeviceGetHandleByUUID"}
"""Calls that are not made because handles are found by index."""
OTHER_VERSIONS = {
    "nvmlDeviceGetGpuInstanceProfileInfo",
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV",
}
"""Versions of functions that the binding does not choose for the agent's arguments."""
BEFORE = {
    "nvmlDeviceGetRetiredPagesPendingStatus": sim.Fault("nvmlDeviceGetRemappedRows", 3, device=BROKEN),
    "nvmlEventSetFree": sim.Fault("nvmlEventSetWait_v2", 999, device=BROKEN, count=1),
}
"""What must go wrong so that the agent makes a call at all."""
REQUIRED = {
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetUUID",
    "nvmlInitWithFlags",
}
"""Without these calls no card is offered."""


@cache
def symbols_of(function: str) -> frozenset[str]:
    """The functions of the library that one of the binding's functions calls."""
    text = inspect.getsource(getattr(pynvml, function))
    own = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', text))
    inner = set(re.findall(r"\b(nvml[A-Z]\w+)\(", text)) - {function}
    return frozenset(own).union(*(symbols_of(name) for name in inner if inspect.isfunction(getattr(pynvml, name, 0))))


def calls_of(module) -> set[str]:
    """The functions of the library that a module of ours calls through the binding."""
    names = {node.attr for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Attribute)}
    functions = {name for name in names if name.startswith("nvml") and inspect.isfunction(getattr(pynvml, name, None))}
    return {symbol for name in functions for symbol in symbols_of(name)}


MIG_CALLS = calls_of(hami_nvidia.nvml_mig)
SHARED_CALLS = calls_of(hami_nvidia.nvml)


def test_only_known_modules_call_nvml():
    """The errors of `memory_limits` are in its own test, since it calls NVML for containers with processes only."""
    folder = Path(hami_nvidia.nvml.__file__).parent
    calling = {path.stem for path in folder.glob("*.py") if ".calling(" in path.read_text()}
    assert calling == {"memory_limits", "nvml", "nvml_mig"}


@pytest.fixture(scope="module")
def cards(tmp_path_factory):
    """State of three linked cards, and a copy of the library that keeps them."""
    folder = tmp_path_factory.mktemp("faults")
    sim.create(folder / "state", "a100x3")
    library = shutil.copy(LIBRARY, folder)
    with pytest.MonkeyPatch.context() as patch, sim.State(folder / "state") as state:
        patch.setenv("HAMI_SIM_STATE", str(folder / "state"))
        yield library, state


class Rig:
    """One node's side as the agent uses it."""

    def __init__(self, library, state, folder, **settings):
        self.how = library, state, folder, settings
        self.now = 0.0
        self.records, self.slices = {}, {}
        self.node = NvidiaNode(
            NodeSettings(
                nvml_library=str(library),
                driver_libraries=(Path(library),),
                dev_root=state.directory / "dev",
                sys_root=folder / "no-sysfs",
                proc_root=Path("/proc"),
                library_dir=folder / "lib",
                topology_score=True,
                numa_topology=True,
                xid_recovery_s=RECOVERY_S,
                feature_labels=True,
                **settings,
            ),
            lambda: self.now,
        )
        self.node.families(None, NodeContext("n1", folder / "hami", labels=dict))
        self.tracker = HealthTracker()
        self.uuids = [card.uuid for card in state.devices]
        self.node.discover()

    def observe(self):
        """What the agent says of each card: registration, scores, slots, health, samples."""
        node = self.node
        devices = node.discover()
        readings = node.health(devices)
        self.tracker.update(readings)
        said = node.advertise(self.tracker.apply(devices))
        node.tend(self.records, self.slices, {})
        registered = {entry["id"]: entry for entry in json.loads(said.annotations["hami.io/node-nvidia-register"])}
        scores = {row["uuid"]: row["score"] for row in json.loads(said.annotations["hami.io/node-nvidia-score"])}
        samples = [*node.metrics({}, {}), *self.samples_of_containers()]
        return {
            uuid: {
                "registered": registered.get(uuid),
                "scores": {other: score for other, score in scores.get(uuid, {}).items() if other != self.broken},
                "slots": {name: slot for name, slot in said.slots["nvidia.com/gpu"].items() if name.startswith(uuid)},
                "health": [(r.healthy, r.reason) for r in readings if r.device_id == uuid],
                "samples": [s for s in samples if s.labels.get("device_uuid") == uuid],
            }
            for uuid in self.uuids
        }

    def samples_of_containers(self):
        """The samples for which containers with processes on each card would make the agent ask."""
        nvml, known = self.node.nvml, self.node.discover()
        cards = [self.node._cards[device.id] for device in known]
        yield from monitor.host_samples(nvml, cards, "n1", set(self.uuids))
        measured = monitor.driver_memory(nvml, set(self.uuids), lambda record: {1})
        for uuid in self.uuids:
            measured("r", uuid)
            try:
                nvml.process_utilization(uuid, 0.0)
            except DeviceError:
                assert uuid == self.broken

    def restarted(self):
        """The agent's next process, which knows nothing but its folder. The cards are known to both."""
        self.node.nvml.close()
        later = Rig(*self.how[:3], **self.how[3])
        later.records, later.slices = self.records, self.slices
        later.node.nvml.close()
        return later

    @property
    def broken(self):
        return self.uuids[BROKEN]

    def settle(self, readings=3):
        """Readings until a card that answers has recovered."""
        self.now += 2 * RECOVERY_S
        for _ in range(readings):
            found = self.observe()
        return found


@pytest.fixture
def rig(cards, tmp_path):
    made = []
    library, state = cards

    def make(**settings):
        made.append(Rig(library, state, tmp_path / str(len(made)), **settings))
        return made[-1]

    yield make
    state.clear()
    for index in range(3):
        state.set_modes(index, mig=False)
    for one in made:
        one.node.nvml.close()


def strip_broken(found, uuid):
    return {other: facts for other, facts in found.items() if other != uuid}


@pytest.mark.parametrize("call", sorted(SHARED_CALLS - OF_NO_CARD - BY_INDEX - OF_MPS - NOT_SIMULATED))
def test_an_error_of_one_card_leaves_the_others_as_they_are(rig, cards, call):
    _, state = cards
    hits = 0
    for code in CODES:
        made = rig()
        whole = made.observe()
        made.node.nvml.close()
        if call in BEFORE:
            state.inject(BEFORE[call])
        state.inject(sim.Fault(call, code, device=BROKEN))
        found = [made.observe(), made.observe()]
        hits += state.hits(call)
        piece = Slice(made.uuids[0], "NVIDIA", 1000, 30)
        assert made.node.allocate((piece,), REF).device_nodes, (call, code)
        state.clear()
        for one in found:
            assert strip_broken(one, made.broken) == strip_broken(whole, made.broken), (call, code)
        facts, true = found[-1][made.broken], whole[made.broken]
        offered = facts["registered"].get("health", False)
        assert offered == all(ok for ok, _ in facts["slots"].values()), (call, code)
        if offered:
            assert facts["registered"] == true["registered"], (call, code)
        assert made.settle() == whole, (call, code)
    assert hits, f"no step of this test makes {call} on a card"


@pytest.mark.parametrize("code", CODES)
def test_a_failed_search_by_uuid_concerns_no_card(rig, cards, code):
    """NVML searches all cards for a UUID, and a lost card may end the search."""
    made = rig()
    whole = made.observe()
    cards[1].inject(sim.Fault("nvmlDeviceGetHandleByUUID", code))
    assert made.observe() == whole


@pytest.mark.parametrize("code", [3, 15, 999])
def test_a_cards_numa_node_stays_when_it_cannot_be_read(rig, cards, code):
    made = rig()
    before = made.observe()[made.uuids[2]]
    assert before["registered"]["numa"] == 1
    cards[1].inject(sim.Fault("nvmlDeviceGetMemoryAffinity", code, device=2))
    assert made.observe()[made.uuids[2]] == before


def test_a_card_that_was_silent_is_discovered_at_its_next_good_reading(rig, cards):
    made = rig()
    cards[1].inject(sim.Fault("nvmlDeviceGetMinorNumber", 999, device=BROKEN, count=1))
    devices = made.node.discover()
    assert [d.healthy for d in devices] == [False, True, True]
    assert [r.rediscover for r in made.node.health(devices)] == [True, False, False]
    assert all(d.healthy for d in made.node.discover())
    assert not any(r.rediscover for r in made.node.health(devices))


def test_a_driver_that_answers_some_calls_only(rig, cards):
    """A call that an old driver does not have is left out, except those without which no card can be told."""
    _, state = cards
    needed = set()
    for call in sorted(SHARED_CALLS):
        state.inject(sim.Fault(call, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND))
        try:
            found = rig().observe()
        except DeviceError:
            needed.add(call)
        else:
            if not all((facts["registered"] or {}).get("health") for facts in found.values()):
                needed.add(call)
        state.clear()
    assert needed == REQUIRED


MIG = {"operating_mode": "mig"}
PLACES = {"1g.10gb": MigPlacement(0, 1), "2g.20gb": MigPlacement(2, 2)}


def instance(uuid, profile):
    return Slice(uuid, "NVIDIA", 1, 1, mig_profile=profile, mig_placement=PLACES[profile])


def instances(made):
    """GPU instances of each card: start, and number of compute instances."""
    driver = hami_nvidia.nvml_mig.NvmlMig(made.node.nvml)
    return {uuid: [(i.placement.start, len(i.compute)) for i in driver.instances(uuid)] for uuid in made.uuids}


@pytest.fixture
def parted(rig, cards):
    """Make a node whose cards are in MIG mode, each with an instance of its own container."""

    def make():
        for index in range(3):
            cards[1].set_modes(index, mig=True)
        made = rig(**MIG)
        for uuid in made.uuids:
            made.slices[uuid], made.records[uuid] = (instance(uuid, "1g.10gb"),), replace(REF, pod_uid=uuid)
            made.node.allocate(made.slices[uuid], made.records[uuid])
        return made

    yield make
    cards[1].clear()


def arrive(made):
    """A container comes to each of two cards. Returns what it got, or None if the agent refused."""
    found = {}
    for uuid in made.uuids[:2]:
        try:
            edits = made.node.allocate((instance(uuid, "2g.20gb"),), replace(REF, pod_uid=f"guest-{uuid}"))
            found[uuid] = [node.path for node in edits.device_nodes]
        except DeviceError:
            found[uuid] = None
    return found


def leave(made):
    """The containers of `arrive` are gone. The agent may have to try again for the broken card."""
    for uuid in made.uuids[:2]:
        try:
            made.node.release(replace(REF, pod_uid=f"guest-{uuid}"))
        except DeviceError:
            assert uuid == made.broken


def life(made):
    """Containers come and go. Returns what they got."""
    found = arrive(made)
    leave(made)
    return found


@pytest.mark.parametrize("call", sorted(MIG_CALLS - OTHER_VERSIONS - {"nvmlDeviceSetMigMode"}))
def test_an_error_of_one_partitioned_card_leaves_the_others_as_they_are(parted, cards, call):
    _, state = cards
    made, hits = parted(), 0
    whole, nodes, there = made.observe(), life(made), instances(made)
    assert all(nodes.values()), "a container gets no instance even without an error"
    for code in CODES:
        arrive(made)
        state.inject(sim.Fault(call, code, device=BROKEN))
        fresh = made.restarted()
        leave(fresh)
        found, served = fresh.observe(), life(fresh)
        hits += state.hits(call)
        state.clear()
        assert strip_broken(found, made.broken) == strip_broken(whole, made.broken), (call, code)
        assert strip_broken(served, made.broken) == strip_broken(nodes, made.broken), (call, code)
        assert fresh.settle(readings=2) == whole, (call, code)
        assert life(fresh) == nodes, (call, code)
        leave(fresh)
        assert instances(fresh) == there, (call, code)
        fresh.node.nvml.close()
    for ref in made.records.values():
        made.node.release(ref)
    assert not any(instances(made).values())
    assert hits, f"no step of this test makes {call} on a card"


def test_an_error_of_one_instance_withdraws_its_own_native_slot(rig, cards):
    """As with NVIDIA's plugin. HAMi's compares an event with one instance of the card only."""
    _, state = cards
    state.set_modes(0, mig=True)
    made = rig(mig_strategy="mixed")
    driver = hami_nvidia.nvml_mig.NvmlMig(made.node.nvml)
    card = made.uuids[0]
    one = next(profile for profile in driver.profiles(card) if profile.name == "1g.10gb")
    ids = []
    for place in one.placements[:3]:
        instance_id = driver.create(card, one.id, place)
        ids.append((instance_id, driver.create_compute(card, instance_id, one.slices)))

    def slots():
        """Health of the native slots, in the order of `ids`; and whether the reading asks for a discovery."""
        devices = made.node.discover()
        readings = {r.device_id: r for r in made.node.health(devices)}
        native = made.node.advertise(devices).native["nvidia.com/mig-1g.10gb"]
        by_ids = {at: native[uuid].healthy for at, uuid in driver.devices(card).items()}
        return [by_ids[at] for at in ids], readings[card].rediscover

    try:
        assert slots() == ([True, True, True], False)
        state.xid(0, 94, gpu_instance=ids[1][0], compute_instance=ids[1][1])
        assert slots() == ([True, False, True], True)
        assert slots() == ([True, False, True], False)
        state.xid(0, 94, gpu_instance=ids[2][0])
        assert slots() == ([True, False, False], True)
        made.now = 2 * RECOVERY_S
        assert slots() == ([True, True, True], True)
        state.xid(0, 79)
        assert slots() == ([False, False, False], True)
    finally:
        for gpu_instance, compute_instance in ids:
            driver.destroy_compute(card, gpu_instance, compute_instance)
            driver.destroy(card, gpu_instance)
