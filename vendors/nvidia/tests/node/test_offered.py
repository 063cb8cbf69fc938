"""What the scheduler reads from the agent's register: usable memory, whole cards, and reasons for refused cards."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import hami_gpusim as sim
import pytest

from hami_core import ContainerKind, NodeFacts, Request
from hami_core.inventory import Inventory
from hami_core.model import Allocation, ContainerRequest, PodRequest
from hami_core.plugins import load

MIB = 1 << 20
REGISTER = "hami.io/node-nvidia-register"
T4_MIB, RESERVED_MIB = 15360, 450


@pytest.fixture(scope="module")
def loaded():
    """The scheduler's side, as the scheduler loads it."""
    return load({}, side="scheduler", only=["nvidia"])


@pytest.fixture
def registered(loaded):
    """Make the scheduler's inventory of a node from what its agent advertises."""

    def make(made):
        said = made.advertise(made.discover())
        facts = NodeFacts("n1", said.annotations)
        inventory = Inventory(loaded.rules())
        inventory.set_node(facts, dict(loaded.register(facts).devices))
        return inventory

    return make


@pytest.fixture
def t4(node):
    """Make a node with one T4 whose driver reserves some memory."""

    def make(reserved_bytes=RESERVED_MIB * MIB, total_mib=T4_MIB, **settings):
        made = node(**settings)
        card = replace(
            made.nvml.cards()[0][0], name="Tesla T4", memory_bytes=total_mib * MIB, reserved_bytes=reserved_bytes
        )
        made.nvml.cards = lambda: ([card], [])
        return made

    return make


def asked(name, **how):
    request = Request("NVIDIA", 1, **how)
    return PodRequest(name, "default", name, (ContainerRequest("main", ContainerKind.APP, (request,)),))


def got(inventory, name, **how):
    placed = inventory.book(asked(name, **how), "n1")
    return placed.containers[0].slices[0].memory_mib if isinstance(placed, Allocation) else placed.short


@pytest.mark.parametrize(
    ("reserved_bytes", "settings", "register", "usable_mib"),
    [
        (RESERVED_MIB * MIB, {}, (T4_MIB, RESERVED_MIB), T4_MIB - RESERVED_MIB),
        (RESERVED_MIB * MIB - 1, {}, (T4_MIB, RESERVED_MIB), T4_MIB - RESERVED_MIB),
        (0, {}, (T4_MIB, None), T4_MIB),
        (RESERVED_MIB * MIB, {"memory_scaling": 2.0}, (2 * T4_MIB, 2 * RESERVED_MIB), 2 * (T4_MIB - RESERVED_MIB)),
        (RESERVED_MIB * MIB, {"subtract_reserved_memory": True}, (T4_MIB - RESERVED_MIB, None), T4_MIB - RESERVED_MIB),
        (
            RESERVED_MIB * MIB,
            {"subtract_reserved_memory": True, "memory_scaling": 2.0},
            (2 * (T4_MIB - RESERVED_MIB), None),
            2 * (T4_MIB - RESERVED_MIB),
        ),
    ],
)
def test_shares_are_of_the_usable_memory(t4, registered, reserved_bytes, settings, register, usable_mib):
    made = t4(reserved_bytes, **settings)
    (entry,) = json.loads(made.advertise(made.discover()).annotations[REGISTER])
    assert (entry["devmem"], entry.get("custominfo", {}).get("reservedmem")) == register
    inventory = registered(made)
    assert [got(inventory, f"half-{i}", memory_percent=50) for i in range(2)] == [usable_mib // 2] * 2
    assert "CardInsufficientMemory" in got(inventory, "third", memory_percent=50)
    assert got(registered(made), "whole", memory_percent=100, cores=100) == usable_mib
    total = entry["devmem"]
    assert got(registered(made), "absolute", memory_mib=total) == total, (
        "amounts are checked against the register's total"
    )
    assert "CardInsufficientMemory" in got(registered(made), "more", memory_mib=total + 1)


def test_a_card_whose_driver_reserves_everything_is_not_offered(t4):
    (device,) = t4(T4_MIB * MIB).discover()
    assert (device.healthy, device.reserved_mib) == (False, 0)
    assert "keeps all 15360 MiB" in device.not_offered


def test_nvml_reports_reserved_memory(tmp_path):
    (tmp_path / "t4.yaml").write_text("devices: [{model: t4, memory_reserved_mib: 450}]")
    code = (
        "from hami_nvidia.nvml import Nvml\n"
        f"(card,), _ = Nvml(lambda: {str(sim.library_dir() / 'libnvidia-ml.so.1')!r}).cards()\n"
        "print(card.memory_bytes >> 20, card.reserved_bytes >> 20)"
    )
    sim.create(tmp_path / "state", tmp_path / "t4.yaml")
    env = sim.environment(tmp_path / "state")
    told = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True).stdout
    assert told.split() == ["15360", "450"]


@pytest.mark.parametrize(
    ("error", "answers"), [(2, True), (3, True), (13, True), (25, True), (15, False), (999, False)]
)
def test_a_driver_without_memory_info_v2_reserves_nothing(nvml, state, error, answers):
    state.inject(sim.Fault("nvmlDeviceGetMemoryInfo_v2", error, device=0))
    cards, errors = nvml.cards()
    assert [c.index for c in cards] == ([0, 1] if answers else [1])
    assert len(errors) == (not answers)
    assert {c.reserved_bytes for c in cards} == {0}


@pytest.mark.parametrize(
    ("modes", "settings", "told"),
    [
        (
            {"mig": True},
            {},
            "1 with 40960 MiB free, 1 not offered: card is in MIG mode, which only operatingmode mig or migSt",
        ),
        ({"compute": "prohibited"}, {}, "1 not offered: card is in compute mode PROHIBITED"),
        ({}, {"operating_mode": "mig"}, "2 not offered: MIG mode is off; the agent turns it on when"),
        (
            {"compute": "exclusive_process"},
            {},
            "1 not matching the pod: compute mode EXCLUSIVE_PROCESS: given as a whole only",
        ),
    ],
)
def test_a_pods_message_names_the_reason_of_the_card(node, state, registered, modes, settings, told):
    state.set_modes(0, **modes)
    inventory = registered(node(**settings))
    pod = asked("a", memory_mib=81920, cores=50)
    assert got(inventory, "b", memory_percent=50) == 40960 or settings, "the other card takes the pod"
    text = inventory.explain_text(replace(pod, uid="c"), "n1")
    assert told in text
    refused = inventory.filter(pod, ["n1"]).refused["n1"]
    assert ("CardTypeMismatch" if "compute mode EXCL" in told else "CardNotHealth") in refused
