"""Where limits come from, what happens when they are missing or wrong, and how they change while programs run."""

from __future__ import annotations

import time

import pytest
from hami_interpose import region
from hami_interpose.limits import DeviceLimit, Limits, Mode

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
OUT_OF_MEMORY = 2


NO_FILES = {"missing": lambda path: None, "folder": lambda path: path.mkdir()}
BAD_FILES = [b"", b"garbage\n", b"hami-limits 1\ngeneration 1\nmode off\n"]


@pytest.mark.parametrize("file", [*NO_FILES, *BAD_FILES], ids=str)
def test_folder_without_a_valid_file_denies_and_says_why(make_container, shells, file):
    container = make_container(4000)
    path = container.root / "limits/limits"
    path.unlink()
    path.write_bytes(file) if file in BAD_FILES else NO_FILES[file](path)
    shell = shells(container, device=None)
    assert shell.status("use", 0) == OUT_OF_MEMORY
    assert container.region().reason == region.REASONS[3 if file in BAD_FILES else 2]


def test_nothing_of_the_card_is_shown_where_there_never_were_limits(make_container, shells):
    """Neither its size nor who else is on it."""
    neighbour, container = make_container(4000), make_container(4000)
    assert shells(neighbour).status("alloc", 100 * MIB) == 0
    (container.root / "limits/limits").write_bytes(b"broken")
    shell = shells(container, device=None)
    for _ in range(2):
        assert shell("total", 0) == [0, 0]
        assert shell("nvml", 0) == [0, 0, 0, 0]
        assert shell.line("processes", 0).split() == ["0"]
    container.write_limits(container.limits)
    assert within_a_second(shell, ("use", 0), 0)
    assert shell("total", 0) == [0, 4000 * MIB]
    assert shell("nvml", 0)[1] == 4000 * MIB


def test_nobody_else_is_shown_where_there_is_no_region(make_container, shells):
    neighbour, container = make_container(4000), make_container(4000)
    assert shells(neighbour).status("alloc", 100 * MIB) == 0
    container.region_path.write_bytes(b"damaged")
    shell = shells(container, device=None)
    assert shell("nvml", 0) == [0, 4000 * MIB, 4000 * MIB, 0]
    assert shell.line("processes", 0).split() == ["0"]


@pytest.mark.parametrize("mode", [Mode.ENFORCE, Mode.OBSERVE])
def test_the_slice_is_shown_while_the_file_is_broken(started, mode):
    container, shell = started(4000, mode=mode)
    assert shell.status("alloc", 100 * MIB) == 0
    (container.root / "limits/limits").write_bytes(b"broken")
    assert within_a_second(shell, ("alloc", 2 * MIB), OUT_OF_MEMORY)
    status, free, total = shell("info")
    used = container.region().devices[0].used_bytes
    assert (status, free, total) == (0, 4000 * MIB - used, 4000 * MIB)
    assert shell("total", 0) == [0, 4000 * MIB]
    assert shell("nvml", 0) == [0, 4000 * MIB, used, 4000 * MIB - used]
    assert len(shell.line("processes", 0).split()) == 2


def test_the_environment_does_not_override_the_folder(make_container, shells):
    container = make_container(4000)
    container.variables |= {"CUDA_DEVICE_MEMORY_LIMIT": "70000m", "CUDA_DEVICE_MEMORY_LIMIT_0": "70000m"}
    assert shells(container)("info")[2] == 4000 * MIB


def test_a_device_that_is_not_named_is_denied(started):
    container, shell = started(4000)
    assert shell.status("create", 2 * MIB, 1) == OUT_OF_MEMORY
    assert container.region().reason == region.REASONS[4]
    assert shell.status("alloc", 2 * MIB) == 0


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.OFF])
def test_observe_counts_and_off_does_not_and_none_refuses(started, mode):
    container, shell = started(1000, mode=mode)
    assert shell("info")[2] > 70000 * MIB
    assert shell.status("alloc", 2000 * MIB) == 0
    found = container.region()
    assert (found.devices[0].used_bytes > 2000 * MIB) == (found.processes != ()) == (mode == Mode.OBSERVE)


def relimit(container, memory_mib):
    old = container.limits.devices[0]
    device = DeviceLimit(old.uuid, memory_mib * MIB, memory_mib * MIB)
    container.write_limits(Limits((device,), generation=container.limits.generation + 1))


def test_a_larger_limit_counts_at_once(started):
    container, shell = started(1000)
    assert shell.status("alloc", 2000 * MIB) == OUT_OF_MEMORY
    relimit(container, 3000)
    assert shell.status("alloc", 2000 * MIB) == 0
    assert container.region().generation == 2
    assert container.region().devices[0].limit_bytes == 3000 * MIB


def test_a_smaller_limit_refuses_new_memory_and_never_wraps(started):
    container, shell = started(3000)
    thing = shell("alloc", 2000 * MIB)[1]
    relimit(container, 1000)
    deadline = time.monotonic() + 5
    while shell("info")[2] != 1000 * MIB and time.monotonic() < deadline:
        time.sleep(0.05)
    assert shell("info")[1:] == [0, 1000 * MIB]
    assert shell("nvml", 0)[1:] == [1000 * MIB, 1000 * MIB, 0]
    assert shell.status("alloc", 2 * MIB) == OUT_OF_MEMORY
    assert shell.status("sparse", 1024, 128) == 0, "takes nothing before something is mapped there"
    assert shell.status("free", thing) == 0
    assert shell.status("alloc", 100 * MIB) == 0


def test_a_repaired_limits_file_ends_the_denial(make_container, shells):
    container = make_container(1000)
    good = container.limits
    (container.root / "limits/limits").write_bytes(b"broken")
    shell = shells(container, device=None)
    assert shell.status("use", 0) == OUT_OF_MEMORY
    container.write_limits(good)
    assert shell.status("use", 0) == 0


def within_a_second(shell, command, status):
    """Asks again until the answer is `status`; the process looks at its file four times a second."""
    for _ in range(40):
        if shell.status(*command) == status:
            return True
        time.sleep(0.05)
    return False


def test_a_file_that_was_away_counts_again(make_container, shells):
    """The same as before: nothing tells it from the one that was read last."""
    container = make_container(1000)
    path = container.root / "limits/limits"
    shell = shells(container)
    assert shell.status("alloc", 2 * MIB) == 0
    path.rename(path.with_name("away"))
    assert within_a_second(shell, ("alloc", 2 * MIB), OUT_OF_MEMORY)
    path.with_name("away").rename(path)
    assert within_a_second(shell, ("alloc", 2 * MIB), 0)


@pytest.mark.here_only("the simulated driver has too few addresses there to be refused by us first")
def test_limits_hold_that_come_when_there_were_to_be_none(started):
    container, shell = started(1000, mode=Mode.OFF)
    assert shell.status("alloc", 2000 * MIB) == 0
    container.write_limits(Limits(container.limits.devices, generation=2))
    assert within_a_second(shell, ("alloc", 2000 * MIB), OUT_OF_MEMORY)
    assert shell.status("alloc", 100 * MIB) == 0
    assert container.region().reason == "the request and what is in use exceed the limit"


def test_region_that_replaces_a_damaged_one_has_limits_and_use(make_container, shells):
    """Limits that came before it are shown in it."""
    container = make_container(1000)
    good = container.region_path.read_bytes()
    container.region_path.write_bytes(bytes(len(good)))
    relimit(container, 3000)
    shell = shells(container, device=None)
    assert shell.status("use", 0) == OUT_OF_MEMORY
    container.region_path.with_name("new").write_bytes(good)
    container.region_path.with_name("new").rename(container.region_path)
    assert within_a_second(shell, ("use", 0), 0)
    assert container.region().generation == 2
    assert container.region().devices[0].limit_bytes == 3000 * MIB
    assert shell.status("alloc", 100 * MIB) == 0
    assert container.region().devices[0].used_bytes > 100 * MIB


def test_a_file_that_breaks_denies_every_kind_of_memory(started):
    """Also growth of what is there already: a pool, a graph's memory."""
    container, shell = started(3000)
    graph = shell("graph", 100 * MIB, 1, "node")[1]
    for command in [("async", 4 * MIB), ("alloc", 4096), ("create", 2 * MIB, 0)]:
        assert shell.status(*command) == 0
    (container.root / "limits/limits").write_bytes(b"broken")
    assert within_a_second(shell, ("alloc", 2 * MIB), OUT_OF_MEMORY)
    for command in [("alloc", 4096), ("async", 4 * MIB), ("create", 2 * MIB, 0), ("array", 64, 64, 0)]:
        assert shell.status(*command) == OUT_OF_MEMORY, command
    assert shell.status("launch", graph) == OUT_OF_MEMORY


@pytest.fixture
def environment_container(make_container):
    """No folder at all: HAMi's variables count. An empty HAMI_VGPU_ROOT is as good as none."""

    def make(**variables):
        container = make_container(1)
        container.region_path.unlink()
        container.root = container.root / "nowhere"
        container.variables |= variables | {"HAMI_VGPU_ROOT": ""}
        return container

    return make


def test_hamis_variables_limit_where_no_folder_is(environment_container, shells, tmp_path):
    cache = tmp_path / "cache"
    variables = {"CUDA_DEVICE_MEMORY_LIMIT_0": "2000m", "CUDA_DEVICE_MEMORY_LIMIT": "3g"}
    container = environment_container(**variables, CUDA_DEVICE_MEMORY_SHARED_CACHE=str(cache))
    first = shells(container)
    assert first("total", 0) == [0, 2000 * MIB]
    assert first("total", 1) == [0, 3072 * MIB]
    assert first.status("alloc", 1000 * MIB) == 0
    second = shells(container)
    assert second.status("alloc", 1000 * MIB) == OUT_OF_MEMORY
    assert region.read(cache).devices[0].used_bytes > 1000 * MIB
    assert [path.name for path in tmp_path.glob("cache*")] == ["cache"]


SIZES = {"2048": 0, " 2g ": 2048, "2G": 2048, "2Gi": 2048, "2GiB": 2048, "2 gb": 2048, "2048m": 2048, "2048MB": 2048}
SIZES |= {"2097152k": 2048, "2147483648": 2048, "0x80000000": 2048}
WHOLE = ["0", "", "1t"]
UNREAD = ["2.5g", "-1", "abc", "2 x", "2gg", "99999999999g", "99999999999999999999", "2g 3g"]


@pytest.mark.parametrize("text", SIZES)
def test_sizes_in_variables_are_read_with_their_units(environment_container, shells, text):
    shell = shells(environment_container(CUDA_DEVICE_MEMORY_LIMIT=text), device=None)
    assert shell("total", 0)[1] // MIB == SIZES[text]


@pytest.mark.here_only("qemu-user has no room for so many addresses")
@pytest.mark.parametrize("text", WHOLE)
def test_no_limit_or_one_above_the_card_shows_the_card(environment_container, shells, text):
    shell = shells(environment_container(CUDA_DEVICE_MEMORY_LIMIT=text), device=None)
    assert shell("total", 0)[1] > 70000 * MIB


@pytest.mark.parametrize("own", ["0", ""])
def test_the_general_limit_holds_where_the_numbered_one_is_zero(environment_container, shells, own):
    variables = {"CUDA_DEVICE_MEMORY_LIMIT_0": own, "CUDA_DEVICE_MEMORY_LIMIT": "2g"}
    shell = shells(environment_container(**variables), device=None)
    assert shell("total", 0) == [0, 2048 * MIB]


def test_a_region_path_that_is_too_long_denies(environment_container, shells):
    variables = {"CUDA_DEVICE_MEMORY_LIMIT": "2g", "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/" + "x" * 5000}
    shell = shells(environment_container(**variables), device=None)
    assert shell.status("use", 0) == OUT_OF_MEMORY


@pytest.mark.parametrize("variable", ["CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT_1", "CUDA_DEVICE_SM_LIMIT"])
@pytest.mark.parametrize("text", UNREAD)
def test_what_a_variable_says_and_nobody_can_read_denies(environment_container, shells, variable, text):
    shell = shells(environment_container(**{variable: text}), device=None)
    assert shell("total", 0) == [0, 0]
    assert shell.status("use", 0) == OUT_OF_MEMORY


def test_variables_follow_nvmls_numbers_under_cuda_visible_devices(environment_container, shells):
    variables = {"CUDA_DEVICE_MEMORY_LIMIT_0": "2000m", "CUDA_DEVICE_MEMORY_LIMIT_1": "3000m"}
    container = environment_container(**variables, CUDA_VISIBLE_DEVICES="1,0")
    shell = shells(container)
    assert [shell("total", i)[1] for i in (0, 1)] == [3000 * MIB, 2000 * MIB]


@pytest.mark.here_only("qemu-user has no room for so many addresses")
def test_no_limits_anywhere_leaves_everything_as_it_is(environment_container, shells):
    container = environment_container()
    shell = shells(container)
    assert shell("info")[2] > 70000 * MIB
    assert shell.status("alloc", 70000 * MIB) == 0
