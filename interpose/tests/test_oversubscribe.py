"""Scaled memory: what lies on the device stays within its share, what lies in the host within the rest."""

from __future__ import annotations

import json

import hami_gpusim as sim
import pytest
from hami_interpose.limits import DeviceLimit, Limits

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
MOST_IN_32_BITS = (1 << 32) - 1
KIB = 1 << 10
OUT_OF_MEMORY = 2
LIMIT, SHARE = 3000, 2000
HOST, FIRST_DEVICE, NOBODY = -1, 0, -2


@pytest.fixture
def container(make_container):
    return make_container(LIMIT, physical_mib=SHARE)


@pytest.fixture
def shell(container, shells):
    return shells(container)


@pytest.fixture
def full(container, shell):
    """The shell of a container whose share of the device is used up."""
    held = container.region().devices[0].used_bytes
    assert shell.status("alloc", (SHARE * MIB - held) // (2 * MIB) * 2 * MIB) == 0
    assert container.region().devices[0].oversubscription.used_bytes == 0
    return shell


def host_bytes(container) -> int:
    return container.region().devices[0].oversubscription.used_bytes


def device_bytes(container) -> int:
    return container.region().devices[0].used_bytes - host_bytes(container)


@pytest.mark.parametrize(
    ("command", "taken"),
    [
        (("alloc", 100 * MIB), 100 * MIB),
        (("alloc", 3 * MIB + 1), 3 * MIB + 64 * KIB),
        (("alloc", 1), 64 * KIB),
        (("pitch", 4, 10000), 5000 * KIB + 56 * KIB),  # rows of 4 bytes take 512
        (("managed", 10 * MIB), 10 * MIB),
    ],
    ids=str,
)
def test_memory_beyond_the_share_lies_in_the_host(container, full, gpus, command, taken):
    before, free = container.region().devices[0].used_bytes, full.free_bytes()
    with sim.State(gpus) as state:
        books = state.devices[0].memory_used
    thing = full.made(*command)
    assert host_bytes(container) == taken
    assert container.region().devices[0].used_bytes == before + taken
    assert free - full.free_bytes() == taken
    assert full("place", thing) == [0, HOST, FIRST_DEVICE, NOBODY]
    with sim.State(gpus) as state:
        assert state.devices[0].memory_used == books
    assert full.status("free", thing) == 0
    assert container.region().devices[0].used_bytes == before
    assert full.free_bytes() == free


@pytest.mark.parametrize(
    "command",
    [
        ("async", 2 * MIB),
        ("create", 2 * MIB, 0),
        ("array", 1024, 1024, 0),
        ("array_v1", 1024, 1024, 0),
        ("mipmap", 1024, 1024, 11),
        ("external", 2 * MIB),
        ("alloc_v1", 2 * MIB),
        ("image", 50 * MIB),
        ("launch", 1),
        ("upload", 1),
    ],
    ids=str,
)
def test_what_cannot_lie_in_the_host_is_refused(container, full, command):
    denied = container.region().devices[0].denied
    assert full("graph", 100 * MIB, 1, "node") == [0, 1]
    assert full.status(*command) == OUT_OF_MEMORY
    assert (host_bytes(container), container.region().devices[0].denied) == (0, denied + 1)
    assert device_bytes(container) <= SHARE * MIB


@pytest.mark.parametrize("command", ["alloc", "managed"])
def test_last_size_the_host_takes_and_first_it_does_not(container, full, command):
    budget = (LIMIT - SHARE) * MIB
    denied = container.region().devices[0].denied
    assert full.status(command, budget + 1) == OUT_OF_MEMORY
    assert container.region().devices[0].denied == denied + 1
    thing = full.made(command, budget)
    assert host_bytes(container) == budget
    assert full.status(command, 1) == OUT_OF_MEMORY
    assert full.status("free", thing) == 0
    assert host_bytes(container) == 0


@pytest.mark.here_only("qemu-user has no room for so many addresses")
def test_device_full_before_its_shares_are_is_helped_out(make_container, shells):
    """Shares may sum to more than the driver leaves: contexts of containers that are not limited, other users."""
    container = make_container(3000, physical_mib=2000)
    shell, neighbour = shells(container), shells(make_container(0))
    room = neighbour.free_bytes() - 100 * MIB
    assert neighbour.status("alloc", room // (2 * MIB) * 2 * MIB) == 0
    assert shell.status("alloc", 500 * MIB) == 0
    assert host_bytes(container) == 500 * MIB


def test_the_whole_is_shown_as_the_device(container, full):
    assert full("total", 0) == [0, LIMIT * MIB]
    status, free, total = full("info")
    assert (status, total) == (0, LIMIT * MIB)
    assert 0 <= free - (LIMIT - SHARE) * MIB < 2 * MIB
    assert full.status("alloc", 400 * MIB) == 0
    used = container.region().devices[0].used_bytes
    assert full("nvml", 0) == [0, LIMIT * MIB, used, LIMIT * MIB - used]
    assert full.line("processes", 0).split() == ["0", f"{full.process.pid}:{used}"]
    total = container.region_path.read_bytes()[1856 + 8 + 32 : 1856 + 8 + 40]  # where HAMi's monitor reads it
    assert int.from_bytes(total, "little") == used


def test_the_first_versions_show_what_32_bits_hold(make_container, shells):
    """Of a share that they hold and a whole that they do not, the number must not wrap; a smaller whole is exact."""
    small, large = shells(make_container(4000, physical_mib=3000)), shells(make_container(6000, physical_mib=3000))
    assert small("total_v1", 0) == small("total", 0) == [0, 4000 * MIB]
    assert small("info_v1") == small("info")
    _, free, total = small("info")
    for call in ("info", "info_v1"):
        assert (small(call, "free"), small(call, "total")) == ([0, free, 0], [0, 0, total])
    assert large("total_v1", 0) == [0, MOST_IN_32_BITS]
    assert large("info_v1") == [0, MOST_IN_32_BITS, MOST_IN_32_BITS]


@pytest.mark.here_only("qemu-user has no room for so many addresses")
def test_more_than_the_card_has(started, gpus):
    with sim.State(gpus) as state:
        card = state.devices[0].memory_total // MIB
    container, shell = started(2 * card, physical_mib=card)
    assert shell("total", 0) == [0, 2 * card * MIB]
    for _ in range(3):
        assert shell.status("alloc", card * MIB // 2) == 0
    assert host_bytes(container) == card * MIB
    assert shell.status("alloc", card * MIB // 2) == OUT_OF_MEMORY


def test_how_much_was_put_there_is_remembered(container, full):
    things = [full("alloc", 10 * MIB)[1] for _ in range(3)]
    for thing in things:
        assert full.status("free", thing) == 0
    found = container.region().devices[0].oversubscription
    assert (found.limit_bytes, found.used_bytes, found.peak_bytes) == ((LIMIT - SHARE) * MIB, 0, 30 * MIB)
    assert (found.allocations, found.allocated_bytes) == (3, 30 * MIB)


def test_a_context_takes_its_host_memory_along(container, shells):
    shell = shells(container, device=None)
    context = shell("context", 0)[1]
    for _ in range(5):
        assert shell.status("alloc", 500 * MIB) == 0
    assert host_bytes(container) > 0
    assert shell.status("destroy_context", context) == 0
    assert container.region().devices[0].used_bytes == 0


def test_exporting_it_gets_the_drivers_answer(container, full):
    """Managed memory has no IPC handle; the driver says so."""
    managed = full("managed", MIB)[1]
    ours = full("alloc", MIB)[1]
    answers = [full.line("ipc_get", thing).split()[0] for thing in (managed, ours)]
    assert answers[0] == answers[1] != "0"


@pytest.mark.parametrize("function", ["cuDeviceGetAttribute", "cuMemAdvise", "cuMemAllocManaged"])
def test_memory_the_device_could_not_use_there_is_refused(container, full, gpus, function):
    with sim.State(gpus) as state:
        state.inject(sim.Fault(function, 801))
        try:
            assert full.status("alloc", 10 * MIB) == OUT_OF_MEMORY
        finally:
            state.clear()
    assert host_bytes(container) == 0
    assert full.status("alloc", 10 * MIB) == 0


@pytest.mark.parametrize("physical_mib", [0, LIMIT, LIMIT + 1])
def test_without_scaling_nothing_lies_in_the_host(started, physical_mib):
    container, shell = started(LIMIT, physical_mib=physical_mib)
    room = shell.free_bytes() // (2 * MIB) * 2 * MIB
    assert shell.status("alloc", room + 1) == OUT_OF_MEMORY
    assert shell.status("alloc", room) == 0
    assert container.region().devices[0].oversubscription.limit_bytes == 0
    assert host_bytes(container) == 0


@pytest.mark.here_only("qemu-user has no room for so many addresses")
def test_the_division_may_change_while_programs_run(container, full, gpus):
    with sim.State(gpus) as state:
        uuid = state.devices[0].uuid
    container.write_limits(Limits((DeviceLimit(uuid, SHARE * MIB, SHARE * MIB),), generation=2))
    assert full.status("free", 0) == 0
    assert full.status("alloc", SHARE * MIB) == OUT_OF_MEMORY  # looks at the limits again
    assert container.region().devices[0].oversubscription.limit_bytes == 0
    container.write_limits(Limits((DeviceLimit(uuid, 2 * SHARE * MIB, SHARE * MIB),), generation=3))
    assert full.status("alloc", SHARE * MIB) == 0
    assert host_bytes(container) == SHARE * MIB


def test_racing_processes_exceed_neither_part(full_size, start_race):
    """On a card exactly as large as the share, which the driver defends as well."""
    share, limit = 4 * 420 + 150, 4 * 420 + 250
    container = full_size(limit, share)
    racers = start_race(container, range(4), 50_000, 2)
    results = [racer.communicate() for racer in racers]
    assert [(racer.returncode, err) for racer, (_, err) in zip(racers, results, strict=True)] == [(0, "")] * 4
    device = container.region().devices[0]
    assert device.peak_bytes <= share * MIB
    assert 0 < device.oversubscription.peak_bytes <= (limit - share) * MIB
    assert device.denied == sum(json.loads(out)["refused"] for out, _ in results) > 0
    assert (device.used_bytes, device.oversubscription.used_bytes) == (0, 0)
