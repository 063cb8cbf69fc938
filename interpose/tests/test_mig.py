"""Limits on MIG devices: what a container may take of each it has, and what NVML tells about them."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import hami_gpusim as sim
import pytest
from hami_gpusim import testing
from hami_interpose import region

MIB = 1 << 20
OUT_OF_MEMORY, NO_PERMISSION = 2, 4
CONTEXT = 420  # MiB that a context of an A100 takes
SMALL, HALF = "1g.10gb", "3g.40gb"
SMALL_MIB, HALF_MIB = 9728, 40192
NVML = """
import json, sys
import pynvml as n
n.nvmlInit()
def ask(call, *arguments):
    try:
        return call(*arguments)
    except n.NVMLError as error:
        return error.value
def tell(handle):
    one, two = ask(n.nvmlDeviceGetMemoryInfo, handle), ask(n.nvmlDeviceGetMemoryInfo, handle, n.nvmlMemory_v2)
    listed = ask(n.nvmlDeviceGetComputeRunningProcesses, handle)
    if isinstance(listed, list):
        listed = [[p.pid, p.usedGpuMemory >> 20, p.gpuInstanceId, p.computeInstanceId] for p in listed]
    if isinstance(one, int):
        return [one, two, listed]
    assert (one.total, one.used, one.free) == (two.total, two.used, two.free), (one, two)
    assert one.used + one.free == one.total
    return [one.total >> 20, one.used >> 20, sorted(listed)]
out = {}
for name in sys.argv[1:]:
    out[name] = tell(n.nvmlDeviceGetHandleByUUID(name))
print(json.dumps(out))
"""


@pytest.fixture
def parts(gpus):
    """MIG devices of the first card: a small one, a half, a small one."""
    return testing.partition(gpus, 0, SMALL, HALF, SMALL)


@pytest.fixture
def cards(gpus):
    """UUIDs of the cards."""
    with sim.State(gpus) as books:
        return [device.uuid for device in books.devices]


@pytest.fixture
def on(make_container, shells):
    """Starts a shell of a container on one MIG device."""

    def start(container, uuid, **arguments):
        variables = container.variables | {"CUDA_VISIBLE_DEVICES": uuid}
        return shells(replace(container, variables=variables, processes=container.processes), **arguments)

    return start


def ask_nvml(container, *uuids):
    return json.loads(container.run(sys.executable, "-W", "ignore", "-c", NVML, *uuids))


def used_mib(state):
    with sim.State(state) as books:
        return {device.uuid: device.memory_used // MIB for device in books.mig_devices}


def fills(shell, mib):
    """So much fits and not 2 MiB more; what was taken stays."""
    return [shell.status("alloc", size * MIB) for size in (mib + 2, mib, 1)] == [OUT_OF_MEMORY, 0, OUT_OF_MEMORY]


@pytest.mark.parametrize(("limit", "shown"), [(4000, 4000), (20_000, SMALL_MIB)], ids=["below", "beyond"])
def test_limit_is_shown_and_filled_up_to_the_device(make_container, parts, on, gpus, limit, shown):
    shell = on(make_container(limit, uuids=parts), parts[0])
    assert shell("info") == [0, (shown - CONTEXT) * MIB, shown * MIB]
    assert shell("total", 0) == [0, shown * MIB]
    assert fills(shell, shown - CONTEXT)
    assert shell("info") == [0, 0, shown * MIB]
    assert used_mib(gpus) == {parts[0]: shown, parts[1]: 0, parts[2]: 0}


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1,), (2, 1)], ids=str)
def test_each_device_has_its_own_limit_wherever_it_stands(make_container, parts, on, gpus, order):
    sizes = {0: 1000, 1: 2000, 2: 3000}
    container = make_container(*(sizes[i] for i in order), uuids=parts, order=order)
    shells = [on(container, parts[i]) for i in order]
    for i, shell in zip(order, shells, strict=True):
        assert shell("info")[2] == sizes[i] * MIB
        assert fills(shell, sizes[i] - CONTEXT)
    assert [device.used_bytes // MIB for device in container.region().devices] == [sizes[i] for i in order]
    assert used_mib(gpus) == {parts[i]: sizes[i] if i in order else 0 for i in range(3)}


@pytest.mark.parametrize("named", ["another", "card", "other card"])
def test_device_that_is_not_named_is_denied(make_container, parts, cards, on, gpus, named):
    """Neither a limit on another MIG device nor one on the card itself is a limit on this one."""
    container = make_container(1000, uuids=[{"another": parts[1], "card": cards[0], "other card": cards[1]}[named]])
    assert on(container, parts[0], device=None).status("use", 0) == OUT_OF_MEMORY
    assert used_mib(gpus) == dict.fromkeys(parts, 0)
    assert container.region().reason == region.REASONS[4]


def test_variables_name_cards_and_no_mig_devices(make_container, parts, cards, on):
    """NVML counts MIG devices within their card: the second is not card 1, whose limit the variable has."""
    container = make_container(1)
    container.variables |= {f"CUDA_DEVICE_MEMORY_LIMIT_{i}": f"{(i + 1) * 1000}m" for i in range(3)}
    container.variables["HAMI_VGPU_ROOT"] = ""
    card = cards[1]
    asked = ask_nvml(container, *parts, card)
    assert [asked[name][0] for name in (*parts, card)] == [SMALL_MIB, HALF_MIB, SMALL_MIB, 2000]
    assert on(container, parts[1], device=None).status("use", 0) == OUT_OF_MEMORY
    assert on(container, card)("info")[2] == 2000 * MIB


def test_nvml_tells_of_the_container_alone(make_container, parts, cards, on):
    """On each device its slice; on the card the sum of them; of neighbours nothing."""
    first, half, last = parts
    ours, theirs = make_container(4000, 8000, uuids=[first, half]), make_container(5000, uuids=[last])
    card = cards[0]
    assert ask_nvml(ours, card)[card] == [12_000, 0, []]
    one, two, other = on(ours, first), on(ours, half), on(theirs, last)
    for shell, mib in ((one, 100), (two, 200), (other, 300)):
        assert shell.status("alloc", mib * MIB) == 0
    a, b, c = (shell.process.pid for shell in (one, two, other))
    listed = {first: [a, 100 + CONTEXT, 1, 0], half: [b, 200 + CONTEXT, 2, 0], last: [c, 300 + CONTEXT, 3, 0]}
    assert ask_nvml(ours, first, half, card) == {
        first: [4000, 100 + CONTEXT, [listed[first]]],
        half: [8000, 200 + CONTEXT, [listed[half]]],
        card: [12_000, 300 + 2 * CONTEXT, sorted([listed[first], listed[half]])],
    }
    assert ask_nvml(theirs, last, card) == {
        last: [5000, 300 + CONTEXT, [listed[last]]],
        card: [5000, 300 + CONTEXT, [listed[last]]],
    }
    host = ask_nvml(replace(ours, bare=True, processes=[]), card)
    assert host[card][1:] == [600 + 3 * CONTEXT, sorted(listed.values())]


def test_neighbours_on_one_device_do_not_see_each_other(make_container, parts, on):
    ours, theirs = (make_container(4000, uuids=parts) for _ in range(2))
    mine, other = on(ours, parts[0]), on(theirs, parts[0])
    assert fills(mine, 4000 - CONTEXT)
    assert fills(other, 4000 - CONTEXT)
    for container, shell in ((ours, mine), (theirs, other)):
        assert ask_nvml(container, parts[0])[parts[0]] == [4000, 4000, [[shell.process.pid, 4000, 1, 0]]]


def test_device_without_limit_is_all_of_itself(make_container, parts, cards, on):
    container = make_container(0, 4000, uuids=parts)
    shell = on(container, parts[0])
    assert fills(shell, SMALL_MIB - CONTEXT)
    card = cards[0]
    asked = ask_nvml(container, parts[0], card)
    assert asked[parts[0]][:2] == [SMALL_MIB, SMALL_MIB]
    assert asked[card][:2] == [SMALL_MIB + 4000, SMALL_MIB]


@pytest.fixture
def inside(parts, tmp_path):
    """The device nodes of a container that has the half alone, and no right to ask about the card."""
    (tmp_path / "dev/nvidia-caps").mkdir(parents=True)
    for node in ("nvidia0", "nvidia-caps/nvidia-cap21", "nvidia-caps/nvidia-cap22"):
        (tmp_path / "dev" / node).touch()
    return {"HAMI_SIM_DEV": str(tmp_path / "dev")}


def test_limit_holds_where_nobody_may_ask_about_the_card(started, parts, cards, inside):
    """As containers have it: the context is measured on the MIG device."""
    container, shell = started(4000, uuids=[parts[1]], variables=inside)
    assert container.region().devices[0].context_bytes == CONTEXT * MIB
    assert fills(shell, 4000 - CONTEXT)
    card = cards[0]
    asked = ask_nvml(container, parts[1], card)
    listed = [[shell.process.pid, 4000, 2, 0]]
    assert asked == {parts[1]: [4000, 4000, listed], card: [NO_PERMISSION] * 3}
