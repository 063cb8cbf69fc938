"""Resources that the kubelet hands out by itself, over real sockets."""

from __future__ import annotations

import json

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core.agent.cdi import SpecFolder
from hami_core.agent.kubelet import Endpoint, KubeletLink, choose_slots
from hami_core.agent.native import NativeSlots
from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.model import ContainerEdits, DeviceNode, Mount, NativeSlot, Preference
from hami_core.tests.agent.stub_kubelet import StubKubelet

SMALL, LARGE = "acme.io/part-1g", "acme.io/part-3g"
DRIVER = Mount("/opt/acme/libacme.so", "/usr/lib/libacme.so")


def slot(card: str, number: int, **how) -> NativeSlot:
    nodes = (DeviceNode(f"/dev/{card}"), DeviceNode(f"/dev/part{number}"))
    return NativeSlot(card, ContainerEdits(env={"ACME_VISIBLE": "void"}, device_nodes=nodes, mounts=(DRIVER,)), **how)


class Machine:
    """A stub kubelet, and the endpoints of two native resources."""

    def __init__(self, root) -> None:
        self.root = root
        self.kubelet = StubKubelet(root / "dp", root / "cdi")
        self.serial = False

    def agent(self) -> NativeSlots:
        self.native = NativeSlots("acme", SpecFolder(self.root / "cdi"), lambda: self.serial)
        self.endpoints = {name: Endpoint(self.root / "dp", name, self.native) for name in (SMALL, LARGE)}
        self.link = KubeletLink(self.root / "dp", self.endpoints.values())
        return self.native

    async def offer(self, native) -> None:
        self.native.offer(native)
        for name, endpoint in self.endpoints.items():
            own = native.get(name, {})
            endpoint.offer.cards = {key: one.device for key, one in own.items()}
            endpoint.offer.set({key: (one.healthy, one.numa) for key, one in own.items()})
        assert await self.link.check()

    def specs(self):
        return {path.name: json.loads(path.read_text()) for path in (self.root / "cdi").glob("*.json")}


@pytest.fixture
async def machine(tmp_path):
    made = Machine(tmp_path)
    await made.kubelet.start()
    made.agent()
    yield made
    await made.link.stop()
    await made.kubelet.stop()


OFFER = {SMALL: {"P-1": slot("c0", 1), "P-2": slot("c0", 2, numa=1)}, LARGE: {"P-3": slot("c1", 3, healthy=False)}}


async def test_a_container_gets_the_slots_that_the_kubelet_picked(machine):
    await machine.offer(OFFER)
    await machine.kubelet.until(lambda: machine.kubelet.slots.keys() == {SMALL, LARGE})
    listed = machine.kubelet.slots
    assert {key: d.health for key, d in listed[SMALL].items()} == {"P-1": "Healthy", "P-2": "Healthy"}
    assert [node.ID for node in listed[SMALL]["P-2"].topology.nodes] == [1]
    assert listed[LARGE]["P-3"].health == "Unhealthy"
    one = await machine.kubelet.admit("uid", "main", SMALL, 1, pick=lambda free: ["P-2"])
    await machine.kubelet.prestart(one)
    edits = machine.kubelet.create(one)
    assert [node["path"] for node in edits["deviceNodes"]] == ["/dev/c0", "/dev/part2"]
    assert edits["env"] == ["ACME_VISIBLE=void"]
    both = await machine.kubelet.admit("uid2", "main", SMALL, 1)
    assert machine.kubelet.create(both)["deviceNodes"][1]["path"] == "/dev/part1"


async def test_a_node_with_numbers_needs_no_node_on_the_host(machine):
    nodes = (
        DeviceNode("/dev/acme-caps/cap12", "/host/dev/acme-caps/cap12", major=237, minor=12),
        DeviceNode("/dev/a0"),
    )
    await machine.offer({SMALL: {"P-1": NativeSlot("c0", ContainerEdits(device_nodes=nodes))}})
    await machine.kubelet.until(lambda: machine.kubelet.slots.get(SMALL))
    one = await machine.kubelet.admit("uid", "main", SMALL, 1)
    numbered, plain = machine.kubelet.create(one)["deviceNodes"]
    assert {key: numbered[key] for key in ("type", "major", "minor")} == {"type": "c", "major": 237, "minor": 12}
    assert plain == {"path": "/dev/a0", "permissions": "rw"}


async def test_in_serial_mode_the_answer_has_the_devices(machine):
    machine.serial = True
    await machine.offer(OFFER)
    await machine.kubelet.until(lambda: machine.kubelet.slots.get(SMALL))
    both = await machine.kubelet.admit("uid", "main", SMALL, 2)
    assert sorted(d.container_path for d in both.response.devices) == ["/dev/c0", "/dev/part1", "/dev/part2"]
    assert [m.container_path for m in both.response.mounts] == [DRIVER.container_path]
    assert dict(both.response.envs) == {"ACME_VISIBLE": "void"}
    assert not both.response.cdi_devices


async def test_a_slot_that_is_gone_starts_no_container(machine):
    await machine.offer(OFFER)
    await machine.kubelet.until(lambda: machine.kubelet.slots.get(SMALL))
    one = await machine.kubelet.admit("uid", "main", SMALL, 1, pick=lambda free: ["P-1"])
    await machine.offer({SMALL: {"P-2": OFFER[SMALL]["P-2"]}})
    await machine.kubelet.until(lambda: machine.kubelet.slots[SMALL].keys() == {"P-2"})
    with pytest.raises(grpc.aio.AioRpcError, match="P-1 is not on this node any more; delete the pod"):
        await machine.kubelet.prestart(one)
    with pytest.raises(KeyError):
        machine.kubelet.create(one)
    request = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=["P-1"])])
    with pytest.raises(grpc.aio.AioRpcError, match="P-1 is not on this node any more"):
        await machine.kubelet._call(SMALL, "Allocate", request)
    await machine.offer({})
    await machine.kubelet.until(lambda: machine.kubelet.slots[SMALL] == {})
    assert not machine.specs()


async def test_a_restart_and_a_reboot_write_the_same_specs(machine):
    await machine.offer(OFFER)
    before = machine.specs()
    await machine.link.stop()
    machine.agent()
    await machine.offer({SMALL: {"P-1": OFFER[SMALL]["P-1"]}})
    assert machine.specs() == {name: spec for name, spec in before.items() if "part1" in json.dumps(spec)}
    for path in (machine.root / "cdi").iterdir():
        path.unlink()
    await machine.offer(OFFER)
    assert machine.specs() == before


async def test_specs_of_bookings_and_of_others_stay(machine):
    folder = SpecFolder(machine.root / "cdi")
    folder.write("0" * 32, json.dumps({"kind": "acme.hami.io/slot"}).encode())
    folder.write("1" * 32, json.dumps({"kind": "other.hami.io/native"}).encode())
    folder.write("2" * 32, json.dumps({"kind": "acme.hami.io/native"}).encode())
    await machine.offer({})
    assert sorted(machine.specs()) == [f"hami-{'0' * 32}.json", f"hami-{'1' * 32}.json"]


async def test_without_a_preference_the_kubelet_decides(machine):
    machine.endpoints[SMALL].offer.preference = Preference.NONE
    await machine.offer(OFFER)
    await machine.kubelet.until(lambda: machine.kubelet.slots.get(SMALL) and machine.kubelet.slots.get(LARGE))
    offered = {name: said.get_preferred_allocation_available for name, said in machine.kubelet.options.items()}
    assert offered == {SMALL: False, LARGE: True}
    assert not (
        await machine.kubelet._call(SMALL, "GetDevicePluginOptions", api.Empty())
    ).get_preferred_allocation_available
    wanted = api.ContainerPreferredAllocationRequest(available_deviceIDs=["P-1", "P-2"], allocation_size=1)
    request = api.PreferredAllocationRequest(container_requests=[wanted])
    answer = await machine.kubelet._call(SMALL, "GetPreferredAllocation", request)
    assert not answer.container_responses


CARDS = {f"P-{number}": f"c{number % 3}" for number in range(12)}
FREE = st.sets(st.sampled_from(sorted(CARDS)), min_size=1)


@given(FREE, st.data())
def test_chosen_slots_are_free_and_as_many_as_wanted(free, data):
    must = data.draw(st.lists(st.sampled_from(sorted(free)), unique=True, max_size=len(free)))
    size = data.draw(st.integers(len(must), len(free)))
    for preference in (Preference.DISTRIBUTED, Preference.PACKED):
        chosen = choose_slots(sorted(free), must, size, preference, CARDS)
        assert len(set(chosen)) == len(chosen) == size
        assert set(must) <= set(chosen) <= free


@given(FREE, st.data())
def test_preferences_pick_from_the_fullest_and_the_emptiest_card(free, data):
    size = data.draw(st.integers(1, len(free)))
    left = {card: sum(CARDS[key] == card for key in free) for card in {CARDS[key] for key in free}}
    packed = choose_slots(sorted(free), [], size, Preference.PACKED, CARDS)
    spread = choose_slots(sorted(free), [], size, Preference.DISTRIBUTED, CARDS)
    assert left[CARDS[packed[0]]] == min(left.values())
    assert left[CARDS[spread[0]]] == max(left.values())
    assert len({CARDS[key] for key in spread}) == min(size, len(left))
    assert len({CARDS[key] for key in packed}) <= len({CARDS[key] for key in spread})
