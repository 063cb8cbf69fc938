"""Static MIG: instances that an administrator made are offered as they are, and never made, changed or destroyed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import hami_gpusim as sim
import pytest
from hami_nvidia import mig_static
from hami_nvidia.nvml_mig import Instance, NvmlMig, Profile

from hami_core import ContainerKind, ContainerRef, DeviceError, MigPlacement, NodeFacts, Request, RequestError, Slice
from hami_core.inventory import Inventory
from hami_core.model import Allocation, ContainerRequest, PodRequest
from hami_core.plugins import load

REF = ContainerRef("uid-1", "default", "pod", "main", ContainerKind.APP)
REGISTER = "hami.io/node-nvidia-register"
GPU = "nvidia.com/gpu"
UNKNOWN_ERROR, NO_PERMISSION = 999, 4


class Administrator:
    """Makes and destroys MIG instances on card 0, as nvidia-smi does."""

    def __init__(self, nvml, state) -> None:
        self.driver = NvmlMig(nvml)
        self.card, self.other = (card.uuid for card in nvml.cards()[0])
        self.state = state
        state.set_modes(0, mig=True)

    def make(self, name: str, start: int, *, slices: int | None = None) -> str:
        """Make an instance with a compute instance of so many slices; None: of all, 0: without. Returns its UUID."""
        profile = next(p for p in self.driver.profiles(self.card) if p.name == name)
        place = next(at for at in profile.placements if at.start == start)
        made = self.driver.create(self.card, profile.id, place)
        if slices == 0:
            return ""
        compute = self.driver.create_compute(self.card, made, profile.slices if slices is None else slices)
        return self.driver.devices(self.card)[made, compute]

    def there(self):
        return [(one.placement.start, len(one.compute)) for one in self.driver.instances(self.card)]

    def destroy(self, start: int | None = None) -> None:
        for one in self.driver.instances(self.card):
            if start in {None, one.placement.start}:
                for compute in one.compute:
                    self.driver.destroy_compute(self.card, one.id, compute)
                self.driver.destroy(self.card, one.id)


@pytest.fixture
def admin(nvml, state):
    made = Administrator(nvml, state)
    yield made
    state.clear()
    state.set_modes(0, mig=True)
    made.destroy()


@pytest.fixture(scope="module")
def loaded():
    """The scheduler's side, as the scheduler loads it."""
    return load({}, side="scheduler", only=["nvidia"])


def registered(loaded, made):
    said = made.advertise(made.discover())
    facts = NodeFacts("n1", said.annotations)
    inventory = Inventory(loaded.rules())
    inventory.set_node(facts, dict(loaded.register(facts).devices))
    return inventory


def asked(name, memory_mib, count=1):
    request = Request("NVIDIA", count, memory_mib=memory_mib)
    return PodRequest(name, "default", name, (ContainerRequest("main", ContainerKind.APP, (request,)),))


def book(inventory, name, memory_mib, count=1):
    placed = inventory.book(asked(name, memory_mib, count), "n1")
    return placed.containers[0].slices if isinstance(placed, Allocation) else placed.short


def places(device):
    return {p.name: [at.start for at in p.placements] for p in device.mig_profiles}


# --- single --------------------------------------------------------------------------------------------------------


def test_single_offers_the_instances_as_they_lie(node, admin):
    for name, start in (("3g.40gb", 4), ("1g.10gb", 0), ("1g.10gb+me", 1), ("2g.20gb", 2)):
        admin.make(name, start)
    first, second = node(mig_strategy="single", split_count=3).discover()
    assert (first.mode, first.slots, first.healthy, first.not_offered) == ("mig", 4, True, "")
    assert places(first) == {"1g.10gb": [0], "1g.10gb+me": [1], "2g.20gb": [2], "3g.40gb": [4]}
    assert [(p.name, p.cores, p.slice_count) for p in first.mig_profiles if p.name == "3g.40gb"] == [("3g.40gb", 43, 3)]
    assert (second.mode, second.slots, second.healthy) == ("hami-core", 3, True), "a card without MIG mode stays shared"


def test_single_books_the_smallest_instance_that_is_large_enough(node, admin, loaded):
    for name, start in (("3g.40gb", 4), ("1g.10gb", 0), ("1g.10gb", 1), ("2g.20gb", 2)):
        admin.make(name, start)
    made = node(mig_strategy="single", split_count=1)
    admin.state.lose(1)
    inventory = registered(loaded, made)
    booked = [book(inventory, f"p{i}", memory) for i, memory in enumerate((5000, 5000, 5000, 30000))]
    assert [(s[0].mig_profile, s[0].mig_placement.start) for s in booked] == [
        ("1g.10gb", 1),
        ("1g.10gb", 0),
        ("2g.20gb", 2),
        ("3g.40gb", 4),
    ]
    assert "CardTimeSlicingExhausted" in book(inventory, "p4", 5000)


def test_single_gives_the_instance_and_leaves_it_at_the_end(node, admin, loaded):
    admin.make("1g.10gb", 6)
    uuid = admin.make("2g.20gb", 2)
    made = node(mig_strategy="single")
    admin.state.lose(1)
    slices = book(registered(loaded, made), "p", 15000)
    before = admin.there()
    edits = made.allocate(slices, REF)
    assert [i.uuid for i in edits.mig_instances] == [uuid]
    number = 3 + 9 * edits.mig_instances[0].gpu_instance_id
    names = [n.path.removeprefix("/dev/") for n in edits.device_nodes]
    assert names[:3] == ["nvidia0", f"nvidia-caps/nvidia-cap{number}", f"nvidia-caps/nvidia-cap{number + 1}"]
    assert edits.env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert (edits.limits, edits.region) == ({}, {}), "the hardware limits it"

    again = node(mig_strategy="single")
    assert again.allocate(slices, REF) == edits, "also after a restart of the agent"
    records, held = {"r": REF}, {"r": slices}
    again.tend(records, held, {})
    (told,) = (s.labels for s in again.metrics(records, {}) if s.name == "hami_mig_device_info")
    assert (told["mig_uuid"], told["profile"], told["pod"]) == (uuid, "2g.20gb", "pod")
    again.release(REF)
    for _ in range(3):
        again.tend({}, {}, {})
    assert admin.there() == before
    assert not list((again._node.state_dir / "mig").glob("*.json"))


def test_single_refuses_an_instance_that_is_gone(node, admin, loaded):
    admin.make("1g.10gb", 6)
    made = node(mig_strategy="single")
    admin.state.lose(1)
    slices = book(registered(loaded, made), "p", 5000)
    admin.destroy(6)
    with pytest.raises(DeviceError, match=r"instance \(1g.10gb at place 6\) is not there; delete the pod"):
        made.allocate(slices, REF)
    admin.make("1g.10gb+me", 6)
    with pytest.raises(DeviceError, match="is not there"):
        made.allocate(slices, REF)
    plain = replace(slices[0], mig_profile="", mig_placement=None)
    with pytest.raises(DeviceError, match=r"instance \(none\) is not there"):
        made.allocate((plain,), REF)


def test_an_instance_and_a_card_in_one_container_are_refused(node, admin, loaded):
    admin.make("1g.10gb", 6)
    made = node(mig_strategy="single")
    slices = book(registered(loaded, made), "p", 5000, count=2)
    assert sorted(s.mig_profile for s in slices) == ["", "1g.10gb"]
    with pytest.raises(RequestError, match="can't use a MIG instance and a card together"):
        made.allocate(slices, REF)


@pytest.mark.parametrize("strategy", ["single", "mixed"])
def test_a_card_without_instances_is_not_offered_with_the_fix(node, admin, capsys, strategy):
    admin.make("2g.20gb", 0, slices=1)
    admin.make("1g.10gb", 6, slices=0)
    made = node(mig_strategy=strategy)
    first, second = made.discover()
    assert first.not_offered == mig_static.NO_INSTANCES.format(index=0)
    assert "nvidia-smi mig -i 0 -cgi PROFILE -C" in first.not_offered
    assert (first.healthy, first.slots, second.healthy) == (False, 1, True)
    said = made.advertise([first, second])
    assert not said.native
    assert [entry.get("health", False) for entry in json.loads(said.annotations[REGISTER])] == [False, True]
    told = capsys.readouterr().out
    assert "at place 0: it needs one compute instance that fills it" in told
    assert "at place 6: it needs one compute instance that fills it" in told
    made.discover()
    assert "it needs one compute instance" not in capsys.readouterr().out, "said once"


def test_instances_of_the_agent_itself_are_not_an_administrators(node, admin):
    before = node(operating_mode="mig")
    card = before.discover()[0]
    profile = next(p for p in card.mig_profiles if p.name == "1g.10gb")
    own = Slice(card.id, "NVIDIA", 1, 1, mig_profile=profile.name, mig_placement=MigPlacement(6, 1))
    before.allocate((own,), REF)
    uuid = admin.make("1g.10gb", 0)
    made = node(mig_strategy="single")
    assert places(made.discover()[0]) == {"1g.10gb": [0]}
    made = node(mig_strategy="mixed")
    assert list(made.advertise([made.discover()[0]]).native["nvidia.com/mig-1g.10gb"]) == [uuid]
    made.release(REF)
    assert admin.there() == [(0, 1)], "what the agent made in its former mode ends with its container"


@pytest.mark.parametrize("strategy", ["single", "mixed"])
def test_instances_that_come_and_go_are_discovered_at_the_next_health_reading(node, admin, strategy):
    made = node(mig_strategy=strategy)
    devices = made.discover()

    def offered():
        nonlocal devices
        assert [c.rediscover for c in made.health(devices)] == [True, False]
        devices = made.discover()
        assert not any(c.rediscover for c in made.health(devices))
        native = made.advertise(devices).native.values()
        return sum(map(len, native)) if strategy == "mixed" else sum(map(len, places(devices[0]).values()))

    admin.make("1g.10gb", 6)
    assert offered() == 1
    admin.make("3g.40gb", 0)
    assert offered() == 2
    admin.destroy(6)
    assert offered() == 1
    admin.destroy()
    assert offered() == 0


def test_an_instance_may_be_filtered_by_its_uuid_and_a_card_by_its_index(node, admin, tmp_path, capsys):
    hidden = admin.make("1g.10gb", 6)
    shown = admin.make("2g.20gb", 0)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"nodeconfig": [{"name": "n1", "filterdevices": {"uuid": [hidden]}}]}))
    first = node(mig_strategy="single", config_file=file).discover()[0]
    assert (places(first), first.slots) == ({"2g.20gb": [0]}, 1)
    made = node(mig_strategy="mixed", config_file=file)
    assert list(made.advertise(made.discover()).native) == ["nvidia.com/mig-2g.20gb"]
    told = capsys.readouterr().out
    assert f"at place 6: filterdevices names {hidden}" in told
    assert "filterdevices names cards that this node does not have" not in told
    file.write_text(json.dumps({"nodeconfig": [{"name": "n1", "filterdevices": {"index": [0], "uuid": [shown]}}]}))
    made = node(mig_strategy="mixed", config_file=file)
    devices = made.discover()
    assert ([d.index for d in devices], made.advertise(devices).native) == ([1], {})


# --- mixed ---------------------------------------------------------------------------------------------------------


def test_mixed_offers_each_profile_as_a_resource(node, admin):
    uuids = {
        "nvidia.com/mig-1g.10gb": {admin.make("1g.10gb", 0), admin.make("1g.10gb", 6)},
        "nvidia.com/mig-1g.10gb.me": {admin.make("1g.10gb+me", 1)},
        "nvidia.com/mig-2g.20gb": {admin.make("2g.20gb", 2)},
    }
    made = node(mig_strategy="mixed", split_count=3)
    devices = made.discover()
    assert [(d.slots, d.healthy, d.not_offered) for d in devices] == [(0, True, ""), (3, True, "")]
    said = made.advertise(devices)
    assert {resource: set(slots) for resource, slots in said.native.items()} == uuids
    assert {k.rpartition("-")[0] for k in said.slots[GPU]} == {admin.other}
    assert [entry["id"] for entry in json.loads(said.annotations[REGISTER])] == [admin.other]
    of_driver = {uuid: ids for ids, uuid in admin.driver.devices(admin.card).items()}
    for slots in said.native.values():
        for uuid, slot in slots.items():
            cap = 3 + 9 * of_driver[uuid][0]
            names = [n.path.removeprefix("/dev/") for n in slot.edits.device_nodes]
            assert names[:3] == ["nvidia0", f"nvidia-caps/nvidia-cap{cap}", f"nvidia-caps/nvidia-cap{cap + 1}"]
            assert "nvidiactl" in names
            assert slot.edits.env["NVIDIA_VISIBLE_DEVICES"] == "void"
            assert any(m.container_path.endswith("/libcuda.so.1") for m in slot.edits.mounts)
            assert (slot.device, slot.healthy, slot.numa) == (admin.card, True, -1)


@pytest.mark.parametrize(
    ("devices", "numbers"),
    [
        (
            "Character devices:\n195 nvidia-caps-imex-channels\n237 nvidia-caps\n\nBlock devices:\n  8 sd\n",
            (237, 3 + 9),
        ),
        ("Character devices:\n  1 mem\n\nBlock devices:\n237 nvidia-caps\n", (0, 0)),
        ("", (0, 0)),
        (None, (0, 0)),
    ],
)
def test_nodes_of_instances_have_numbers_if_the_driver_is_loaded(node, admin, tmp_path, devices, numbers):
    uuid = admin.make("1g.10gb", 0)
    (tmp_path / "proc").mkdir()
    if devices is not None:
        (tmp_path / "proc/devices").write_text(devices)
    made = node(mig_strategy="mixed", proc_root=tmp_path / "proc")
    slot = made.advertise(made.discover()).native["nvidia.com/mig-1g.10gb"][uuid]
    card, first, second, *_ = slot.edits.device_nodes
    assert ((first.major, first.minor), card.major) == (numbers, 0)
    assert second.minor == (numbers[1] and numbers[1] + 1)


def test_mixed_refuses_a_booking_on_a_card_whose_instances_are_resources(node, admin):
    admin.make("1g.10gb", 0)
    made = node(mig_strategy="mixed")
    first = made.discover()[0]
    with pytest.raises(DeviceError, match="is not there; delete the pod"):
        made.allocate((Slice(first.id, "NVIDIA", 1000, 10),), REF)


def test_mixed_leaves_free_places_to_operating_mode_mig(node, admin):
    foreign = admin.make("3g.40gb", 4)
    made = node(mig_strategy="mixed", operating_mode="mig")
    first = made.discover()[0]
    free = {name.partition(".")[0]: starts for name, starts in places(first).items()}
    assert (free["1g"], free["3g"], free["7g"], first.slots) == ([0, 1, 2, 3], [0], [], 7)
    profile = next(p for p in first.mig_profiles if p.name == "1g.10gb")
    own = Slice(first.id, "NVIDIA", 1, 1, mig_profile=profile.name, mig_placement=MigPlacement(3, 1))
    made.allocate((own,), REF)
    said = made.advertise(made.discover())
    assert {resource: list(slots) for resource, slots in said.native.items()} == {"nvidia.com/mig-3g.40gb": [foreign]}
    assert [entry["count"] for entry in json.loads(said.annotations[REGISTER])] == [7, 7]
    made.release(REF)
    assert admin.there() == [(4, 1)]


@pytest.mark.parametrize("strategy", ["single", "mixed"])
@pytest.mark.parametrize(
    "call", ["nvmlDeviceGetGpuInstances", "nvmlDeviceGetMaxMigDeviceCount", "nvmlGpuInstanceGetComputeInstances"]
)
def test_a_card_whose_mig_calls_fail_is_not_offered_and_others_are(node, admin, strategy, call):
    admin.make("1g.10gb", 0)
    made = node(mig_strategy=strategy)
    before = made.discover()
    native = made.advertise(before).native
    admin.state.inject(sim.Fault(call, UNKNOWN_ERROR))
    first, second = made.discover()
    assert call in first.not_offered
    assert (first.healthy, second) == (False, before[1])
    said = made.advertise([first, second])
    assert {r: {k: s.healthy for k, s in slots.items()} for r, slots in said.native.items()} == {
        r: dict.fromkeys(slots, False) for r, slots in native.items()
    }
    assert all(ok == k.startswith(admin.other) for k, (ok, _) in said.slots[GPU].items())
    admin.state.clear()
    assert made.discover() == before
    assert made.advertise(before).native == native


@pytest.mark.parametrize("strategy", ["single", "mixed"])
def test_an_agent_without_the_right_to_read_instances_names_it(node, admin, strategy):
    admin.make("1g.10gb", 0)
    admin.state.inject(sim.Fault("nvmlDeviceGetGpuInstances", NO_PERMISSION))
    first, second = node(mig_strategy=strategy).discover()
    assert first.not_offered.endswith("needs the capability SYS_ADMIN: devicePlugin.securityContext.capabilities.add)")
    assert second.healthy


def test_instances_of_a_lost_card_are_unhealthy_and_stay(node, admin):
    uuid = admin.make("1g.10gb", 0)
    made = node(mig_strategy="mixed")
    made.discover()
    admin.state.lose(0)
    said = made.advertise(made.discover())
    assert [(k, s.healthy) for k, s in said.native["nvidia.com/mig-1g.10gb"].items()] == [(uuid, False)]
    admin.state.restore(0)
    assert made.advertise(made.discover()).native["nvidia.com/mig-1g.10gb"][uuid].healthy


def test_a_card_that_leaves_mig_mode_is_shared_again(node, admin):
    admin.make("1g.10gb", 0)
    made = node(mig_strategy="mixed", split_count=3)
    before = made.discover()
    admin.destroy()
    admin.state.set_modes(0, mig=True, mig_after_reset=False)
    assert made.health(before)[0].rediscover
    assert made.discover()[0].not_offered.startswith("MIG mode stays on until the card is reset")
    admin.state.set_modes(0, mig=False)
    devices = made.discover()
    assert [(d.mode, d.slots, d.healthy) for d in devices] == [("hami-core", 3, True)] * 2
    assert made.advertise(devices).native == {}


def test_without_driver_files_only_the_instances_are_not_offered(node, admin, tmp_path, capsys):
    admin.make("1g.10gb", 0)
    made = node(mig_strategy="mixed", driver_libraries=(tmp_path / "none.so",))
    said = made.advertise(made.discover())
    assert said.native == {}
    assert said.slots[GPU]
    assert "MIG instances can't be offered" in capsys.readouterr().out


def test_numa_nodes_of_instances_are_told_as_for_cards(node, admin):
    uuid = admin.make("1g.10gb", 0)
    made = node(mig_strategy="mixed", numa_topology=True)
    devices = made.discover()
    assert made.advertise(devices).native["nvidia.com/mig-1g.10gb"][uuid].numa == devices[0].numa >= 0


def test_without_a_strategy_instances_are_neither_read_nor_offered(node, admin):
    admin.make("1g.10gb", 0)
    made = node()
    first, second = made.discover()
    assert "card is in MIG mode, which only operatingmode mig or migStrategy serves" in first.not_offered
    assert not any(c.rediscover for c in made.health([first, second]))
    assert made.advertise([first, second]).native == {}


# --- cards of other families ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["a100-40g", "h100", "h200", "b200"])
def test_every_plain_profile_of_a_card_becomes_a_resource(tmp_path, model):
    code = (
        "from pathlib import Path\n"
        "from hami_core import NodeContext\n"
        "from hami_nvidia.node import NvidiaNode\n"
        "from hami_nvidia.nvml_mig import NvmlMig\n"
        "from hami_nvidia.settings import NodeSettings\n"
        f"library = {str(sim.library_dir() / 'libnvidia-ml.so.1')!r}\n"
        "node = NvidiaNode(NodeSettings(nvml_library=library, mig_strategy='mixed', driver_libraries=(library,)))\n"
        f"node.families(None, NodeContext('n1', Path({str(tmp_path / 'hami')!r})))\n"
        "driver, card = NvmlMig(node.nvml), node.nvml.cards()[0][0].uuid\n"
        "for profile in driver.profiles(card):\n"
        "    made = driver.create(card, profile.id, profile.placements[0])\n"
        "    compute = driver.create_compute(card, made, profile.slices)\n"
        "    (resource,) = node.advertise(node.discover()).native\n"
        "    print(profile.name, resource)\n"
        "    driver.destroy_compute(card, made, compute)\n"
        "    driver.destroy(card, made)\n"
    )
    sim.create(tmp_path / "state", model)
    with sim.State(tmp_path / "state") as state:
        state.set_modes(0, mig=True)
    env = sim.environment(tmp_path / "state")
    done = subprocess.run([sys.executable, "-c", code], env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = [line.split() for line in done.stdout.splitlines() if " nvidia.com/" in line and "level" not in line]
    assert len(told) >= 5
    assert [resource for _, resource in told] == [f"nvidia.com/mig-{name.replace('+', '.')}" for name, _ in told]


def test_half_made_instances_are_told_apart_without_a_driver():
    profile = Profile("1g.5gb", 0, 19, 4864, 14, 1, 7, (MigPlacement(0, 1),))
    there = [
        Instance(3, 19, MigPlacement(2, 1), (0,), filled=True),
        Instance(1, 19, MigPlacement(0, 1), (0,), filled=True),
        Instance(2, 19, MigPlacement(1, 1), ()),
    ]
    found, withheld = mig_static.parts("GPU-a", [profile], there, {(1, 0): "MIG-1", (9, 0): "MIG-9"}, frozenset())
    assert [part.instance.uuid for part in found] == ["MIG-1"]
    assert [text.partition(":")[0] for text in withheld] == [
        "GPU instance 2 at place 1",
        "GPU instance 3 at place 2",
    ]
