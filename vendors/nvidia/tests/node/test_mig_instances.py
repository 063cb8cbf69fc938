"""Dynamic MIG on the node: what is offered, made, adopted and destroyed, and what a crash at any step leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import hami_gpusim as sim
import pytest
from hami_nvidia import mig
from hami_nvidia.config import MigAllowance, NvidiaConfig
from hami_nvidia.nvml_mig import NvmlMig

from hami_core import ContainerKind, ContainerRef, DeviceError, MigPlacement, Slice

FAMILIES = ("a100", "a100-40g", "h100", "h200", "b200")
REF = ContainerRef("uid-1", "default", "pod", "main", ContainerKind.APP)

AGENTS = """
import json, os, sys
from pathlib import Path
from hami_core import ContainerKind, ContainerRef, MigPlacement, NodeContext, Slice
from hami_nvidia.node import NvidiaNode
from hami_nvidia.nvml_mig import NvmlMig
from hami_nvidia.settings import NodeSettings

import pynvml
library, state = sys.argv[1:]
ref = ContainerRef("uid-1", "default", "pod", "main", ContainerKind.APP)

def agent(step, how, kill_at, answer):
    node = NvidiaNode(NodeSettings(nvml_library=library, operating_mode="mig", driver_libraries=(library,)))
    node.families(None, NodeContext("n1", Path(state)))
    (card,) = node.discover()
    seen = 0

    def point():
        nonlocal seen
        seen += 1
        if seen == kill_at:
            os._exit(86)

    def audit(event, args):
        if event in {"open", "os.link", "os.remove", "os.mkdir"} and str(args[0]).startswith(state):
            point()

    def around(call):
        def wrapped(*args):
            point()
            made = call(*args)
            point()
            return made
        return wrapped

    for name in ("create", "create_compute", "destroy_compute", "destroy"):
        setattr(NvmlMig, name, around(getattr(NvmlMig, name)))
    sys.addaudithook(audit)
    found = True
    if step == "allocate":
        piece = Slice(card.id, "NVIDIA", 1, 1, mig_profile=how[0], mig_placement=MigPlacement(how[1], how[2]))
        found = [n.path for n in node.allocate((piece,), ref).device_nodes]
    elif step == "release":
        node.release(ref)
    elif step == "tend":
        held = Slice(card.id, "NVIDIA", 1, 1, mig_profile="1g", mig_placement=MigPlacement(0, 1))
        records = {"r": ref} if how[0] == "live" else {}
        for _ in range(how[1]):
            node.tend(records, {name: (held,) for name in records}, {})
        found = [[i.placement.start, len(i.compute)] for i in NvmlMig(node.nvml).instances(card.id)]
    elif step == "offer":
        found = [card.slots, card.healthy, [[p.name, p.memory_mib, p.cores, p.slice_count, [
            [at.start, at.size] for at in p.placements]] for p in card.mig_profiles]]
    answer.write(json.dumps(found))
    answer.flush()

# Each step runs in a new process, which is forked here before anything has loaded the driver.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    step, how, kill_at = json.loads(line)
    if os.fork() == 0:
        agent(step, how, kill_at, answers)
        os._exit(0)
    answers.write(f" {os.waitstatus_to_exitcode(os.wait()[1])}\\n")
    answers.flush()
"""


class Machine:
    """One simulated card in MIG mode, and agents that are processes of their own."""

    def __init__(self, folder, model: str) -> None:
        self.state = folder / "hami"
        sim.create(folder / "state", model)
        self.cards = sim.State(folder / "state")
        self.cards.set_modes(0, mig=True)
        command = [sys.executable, "-c", AGENTS, str(sim.library_dir() / "libnvidia-ml.so.1"), str(self.state)]
        env = {**os.environ, "HAMI_SIM_STATE": str(folder / "state")}
        self.errors = (folder / "errors").open("w+")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
        self.agents = subprocess.Popen(command, env=env, text=True, **pipes)

    def close(self) -> None:
        self.agents.communicate(timeout=20)
        self.errors.close()
        self.cards.close()

    def run(self, step: str, *how, kill_at: int = 0):
        """The step's answer; None if it was killed."""
        self.agents.stdin.write(f"{json.dumps([step, how, kill_at])}\n")
        self.agents.stdin.flush()
        answer, _, code = self.agents.stdout.readline().rpartition(" ")
        self.errors.seek(0)
        assert int(code) in {0, 86}, self.errors.read()
        return json.loads(answer) if int(code) == 0 else None

    def instances(self):
        return self.run("tend", "live", 1)

    def intents(self):
        return [path.name for path in (self.state / "mig").glob("[!.]*")]


@pytest.fixture
def machine(tmp_path):
    made = []

    def make(model: str) -> Machine:
        made.append(Machine(tmp_path, model))
        return made[-1]

    yield make
    for one in made:
        one.close()


def points(machine, step, *how):
    """Kill the step at each point in turn; yields after each death."""
    at = 1
    while machine.run(step, *how, kill_at=at) is None:
        yield
        at += 1
    assert at > 6, f"{step} has only {at} points"


# --- what a card offers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", FAMILIES)
def test_a_card_offers_the_plain_profiles_with_the_drivers_places(machine, model):
    slots, healthy, offered = machine(model).run("offer")
    assert (slots, healthy) == (7, True)
    places = {name.partition(".")[0]: (cores, slices, at) for name, _, cores, slices, at in offered}
    assert places["1g"][1:] == (1, [[start, 1] for start in range(7)])
    assert places["2g"][1:] == (2, [[0, 2], [2, 2], [4, 2]])
    assert places["3g"][1:] == (3, [[0, 4], [4, 4]])
    assert places["7g"] == (100, 7, [[0, 8]])
    assert not any("+" in name for name, *_ in offered)


@pytest.mark.parametrize(
    ("card", "models", "wanted", "found"),
    [
        ("NVIDIA A100-SXM4-40GB", ("A100-SXM4-40GB",), ("1g.5gb", "7g.40gb"), ("1g.5gb", "7g.40gb")),
        ("NVIDIA A100-SXM4-40GB", ("A100-SXM4-80GB",), ("1g.10gb",), ()),
        ("NVIDIA A100-SXM4-40GB", ("A100",), ("1g.99gb", "5g.1gb"), ("1g.99gb",)),
        ("NVIDIA A100-SXM4-40GB", ("A100",), ("1g.5gb+me",), ("1g.5gb+me",)),
    ],
    ids=["named", "another model", "first part counts", "media engines"],
)
def test_the_allow_list_chooses_profiles(nvml, card, models, wanted, found):
    profiles = NvmlMig(nvml).profiles(nvml.cards()[0][0].uuid)
    chosen = mig.allowed(card, (MigAllowance(models=models, profiles=wanted),), profiles)
    assert tuple(chosen) == found
    assert all(chosen[name].slices == int(name[0]) for name in found)


# --- one container -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", FAMILIES)
def test_an_instance_lives_as_long_as_its_container(machine, model):
    one = machine(model)
    name = next(p[0] for p in one.run("offer")[2] if p[0].startswith("2g."))
    nodes = one.run("allocate", name, 2, 2)
    assert [n for n in nodes if "caps" in n] == ["/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"]
    assert one.run("allocate", name, 2, 2) == nodes, "a repeated call, after a restart, gets the same instance"
    assert one.instances() == [[2, 1]]
    assert one.run("release")
    assert (one.instances(), one.intents()) == ([], [])
    assert one.run("release")


@pytest.mark.parametrize("then", ["tried again", "pod gone"])
@pytest.mark.parametrize("model", FAMILIES)
def test_a_crash_at_any_step_of_allocate_is_continued_or_undone(machine, model, then):
    one = machine(model)
    name = next(p[0] for p in one.run("offer")[2] if p[0].startswith("3g."))
    for _ in points(one, "allocate", name, 4, 4):
        if then == "tried again":
            assert one.run("allocate", name, 4, 4)
            assert one.instances() == [[4, 1]]
            assert one.run("release")
        else:
            assert len(one.run("tend", "gone", 1)) == len(one.instances()), "not at the first look"
            assert one.run("tend", "gone", 2) == []
        assert (one.instances(), one.intents()) == ([], [])


@pytest.mark.parametrize("then", ["tried again", "forgotten"])
@pytest.mark.parametrize("model", FAMILIES)
def test_a_crash_at_any_step_of_release_leaves_no_orphan(machine, model, then):
    one = machine(model)
    name = next(p[0] for p in one.run("offer")[2] if p[0].startswith("1g."))
    assert one.run("allocate", name, 6, 1)
    for _ in points(one, "release"):
        assert one.run("release") if then == "tried again" else one.run("tend", "gone", 2) == []
        assert (one.instances(), one.intents()) == ([], [])
        assert one.run("allocate", name, 6, 1)


# --- what is not the agent's ---------------------------------------------------------------------------------------


@pytest.fixture
def mig_node(node, state):
    """A node side in mode ``mig`` whose first card is in MIG mode, the card, and the driver's MIG calls."""
    state.set_modes(0, mig=True)
    made = node(operating_mode="mig")
    card = made.discover()[0]
    driver = NvmlMig(made.nvml)
    yield made, card, driver
    for one in driver.instances(card.id):
        for compute in one.compute:
            driver.destroy_compute(card.id, one.id, compute)
        driver.destroy(card.id, one.id)


def piece(card, name, start, size):
    profile = next(p for p in card.mig_profiles if p.name.startswith(name))
    return Slice(
        card.id,
        "NVIDIA",
        profile.memory_mib,
        profile.cores,
        mig_profile=profile.name,
        mig_placement=MigPlacement(start, size),
    )


@pytest.mark.parametrize("half", [True, False], ids=["without compute instance", "whole"])
def test_an_administrators_instance_is_never_offered_taken_or_destroyed(mig_node, half):
    made, card, driver = mig_node
    profile = next(p for p in driver.profiles(card.id) if p.name.startswith("3g."))
    made_there = driver.create(card.id, profile.id, MigPlacement(4, 4))
    if not half:
        driver.create_compute(card.id, made_there, 3)
    now = made.discover()[0]
    free = {p.name.partition(".")[0]: [at.start for at in p.placements] for p in now.mig_profiles}
    assert (free["1g"], free["2g"], free["3g"], free["7g"]) == ([0, 1, 2, 3], [0, 2], [0], [])
    with pytest.raises(DeviceError, match="is taken by GPU instance 1, not made by this agent"):
        made.allocate((piece(card, "1g.", 5, 1),), REF)
    made.release(REF)
    for _ in range(3):
        made.tend({}, {}, {})
    assert [(one.placement.start, len(one.compute)) for one in driver.instances(card.id)] == [(4, int(not half))]


PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, memory = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), 1 << 20) == 0
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def program(gpus):
    """Start a program that holds memory on a MIG device, by the device's UUID. It ends when its input is closed."""
    started = []

    def start(uuid: str) -> subprocess.Popen:
        env = sim.environment(gpus) | {"CUDA_VISIBLE_DEVICES": uuid}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, **pipes))
        assert started[-1].stdout.readline() == "ready\n"
        return started[-1]

    yield start
    for one in started:
        one.communicate(timeout=20)


def test_an_instance_in_use_is_kept_until_its_program_ends(mig_node, program):
    made, card, driver = mig_node
    edits = made.allocate((piece(card, "1g.", 0, 1), piece(card, "1g.", 1, 1)), REF)
    used, _ = edits.mig_instances
    holder = program(used.uuid)
    with pytest.raises(DeviceError, match="In use"):
        made.release(REF)
    for _ in range(3):
        made.tend({}, {}, {})
    assert [(one.placement.start, len(one.compute)) for one in driver.instances(card.id)] == [(0, 1)]
    assert used.uuid in driver.devices(card.id).values(), "the program has it still"
    assert holder.poll() is None
    holder.communicate(timeout=20)
    made.tend({}, {}, {})
    assert driver.instances(card.id) == []


def test_an_instance_that_an_administrator_destroyed_is_made_again(mig_node):
    made, card, driver = mig_node
    slices = (piece(card, "1g.", 6, 1),)
    (before,) = made.allocate(slices, REF).mig_instances
    driver.destroy_compute(card.id, before.gpu_instance_id, before.compute_instance_id)
    (half,) = made.allocate(slices, REF).mig_instances
    assert half.gpu_instance_id == before.gpu_instance_id, "only what was missing"
    driver.destroy_compute(card.id, half.gpu_instance_id, half.compute_instance_id)
    driver.destroy(card.id, half.gpu_instance_id)
    (again,) = made.allocate(slices, REF).mig_instances
    assert driver.devices(card.id) == {(again.gpu_instance_id, again.compute_instance_id): again.uuid}
    driver.destroy_compute(card.id, again.gpu_instance_id, again.compute_instance_id)
    made.release(REF)
    assert driver.instances(card.id) == []


def test_overlapping_plans_leave_the_first_container_its_instance(mig_node):
    made, card, driver = mig_node
    (first,) = made.allocate((piece(card, "2g.", 4, 2),), REF).mig_instances
    other = replace(REF, container="other")
    for name, start, size in (("1g.", 5, 1), ("3g.", 4, 4), ("7g.", 0, 8), ("1g.", 4, 1)):
        with pytest.raises(DeviceError, match=r"is taken by GPU instance|is kept until container main is gone"):
            made.allocate((piece(card, name, start, size),), other)
    made.release(other)
    assert list(driver.devices(card.id).values()) == [first.uuid]


def test_a_list_for_another_model_offers_nothing_and_says_so(node, state):
    state.set_modes(0, mig=True)
    config = NvidiaConfig(mig_profile_allowlist=(MigAllowance(models=("H100",), profiles=("1g.10gb",)),))
    made = node(config, operating_mode="mig")
    card = made.discover()[0]
    assert (card.mig_profiles, card.healthy) == ((), False)
    assert card.not_offered == "the card has no MIG profile that migProfileAllowlist names"
    asked = Slice(card.id, "NVIDIA", 1, 1, mig_profile="1g.10gb", mig_placement=MigPlacement(0, 1))
    with pytest.raises(DeviceError, match=r"profile '1g\.10gb' is not offered"):
        made.allocate((asked,), REF)
    made.tend({}, {}, {})
    assert not made.nvml.modes(made.discover()[1].id).mig, "no mode is changed for it"


def test_one_container_may_have_several_instances_of_a_card(mig_node):
    made, card, driver = mig_node
    edits = made.allocate((piece(card, "1g.", 6, 1), piece(card, "3g.", 0, 4)), REF)
    assert sum("caps" in node.path for node in edits.device_nodes) == 4
    assert (edits.limits, edits.region) == ({}, {}), "the hardware limits it"
    other = replace(REF, container="other")
    with pytest.raises(DeviceError, match="is kept until container main is gone"):
        made.allocate((piece(card, "1g.", 6, 1),), other)
    made.release(REF)
    assert driver.instances(card.id) == []


@pytest.mark.parametrize(
    ("profile", "start", "size", "told"),
    [
        ("", 0, 1, "no instance is planned, but this node's operatingmode is mig"),
        ("9g.90gb", 0, 1, "profile '9g.90gb' is not offered"),
        ("2g.20gb", 1, 2, "2g.20gb can't lie at 1"),
    ],
)
def test_what_the_card_can_not_do_is_refused(mig_node, profile, start, size, told):
    made, card, driver = mig_node
    asked = Slice(card.id, "NVIDIA", 1, 1, mig_profile=profile, mig_placement=MigPlacement(start, size))
    with pytest.raises(DeviceError, match=told):
        made.allocate((asked,), REF)
    assert driver.instances(card.id) == []


def test_an_unreadable_intent_stops_new_instances_only(mig_node, tmp_path, capsys):
    made, card, driver = mig_node
    made.allocate((piece(card, "1g.", 6, 1),), REF)
    (kept,) = (tmp_path / "hami/mig").glob("*.json")
    whole = kept.read_bytes()
    kept.write_bytes(b"{")
    made.tend({}, {}, {})
    assert f"{kept.name}: is no intent" in capsys.readouterr().out
    assert "can't be read" in made.discover()[0].not_offered
    with pytest.raises(DeviceError, match="is no intent"):
        made.allocate((piece(card, "3g.", 0, 4),), REF)
    assert len(driver.instances(card.id)) == 1
    kept.write_bytes(whole)
    assert made.discover()[0].healthy
    made.release(REF)
    assert driver.instances(card.id) == []


def test_mig_mode_is_turned_on_where_nobody_uses_the_card(node, state):
    made = node(operating_mode="mig")
    first, second = made.discover()
    held = Slice(second.id, "NVIDIA", 1, 1, mig_profile="1g")
    made.tend({"r": REF}, {"r": (held,)}, {})
    assert made.nvml.modes(first.id).mig
    assert not made.nvml.modes(second.id).mig, "a container has it"
    made.tend({}, {}, {})
    assert [d.healthy for d in made.discover()] == [True, True]


def test_mig_mode_is_left_to_the_administrator_if_so_set(node, state):
    made = node(operating_mode="mig", mig_enable=False)
    state.set_modes(1, mig=True)
    for _ in range(2):
        made.tend({}, {}, {})
        first, second = made.discover()
        assert (first.healthy, second.healthy) == (False, True)
        assert first.not_offered.endswith(f"leaves it to the administrator: nvidia-smi -i {first.id} -mig 1")
        assert (first.slots, second.slots) == (7, 7)


def test_a_lost_card_keeps_its_slots(node, state):
    state.set_modes(0, mig=True)
    made = node(operating_mode="mig")
    assert [d.slots for d in made.discover()] == [7, 7]
    state.lose(0)
    first, second = made.discover()
    assert (first.healthy, first.slots, second.slots) == (False, 7, 7)


# --- metrics -------------------------------------------------------------------------------------------------------


def test_instances_are_measured_with_hamis_labels_also_after_a_restart(mig_node, node):
    made, card, driver = mig_node
    slices = (piece(card, "1g.", 6, 1), piece(card, "3g.", 0, 4))
    edits = made.allocate(slices, REF)
    records, held = {"r": REF}, {"r": slices}

    def samples(side):
        return [s.labels for s in side.metrics(records, {}) if s.name == "hami_mig_device_info"]

    assert samples(made) == []
    made.tend(records, held, {})
    found = samples(made)
    assert [(s["vdevice_index"], s["profile"]) for s in found] == [("0", "1g.10gb"), ("1", "3g.40gb")]
    for labels, instance in zip(found, edits.mig_instances, strict=True):
        assert (labels["namespace"], labels["pod"], labels["container"]) == ("default", "pod", "main")
        assert labels["device_uuid"] == card.id
        assert labels["mig_uuid"] == instance.uuid
        assert labels["gpu_instance_id"] == str(instance.gpu_instance_id)
        assert labels["compute_instance_id"] == str(instance.compute_instance_id)
    assert {instance.uuid for instance in edits.mig_instances} == set(driver.devices(card.id).values())
    (spec,) = (s for s in made.metric_specs if s.name == "hami_mig_device_info")
    assert {*spec.labels} == {*found[0]}

    restarted = node(operating_mode="mig")
    restarted.discover()
    restarted.tend(records, held, {})
    assert samples(restarted) == found
    restarted.release(REF)
    assert samples(restarted) == []
