"""Where limits come from, what happens when they are missing or wrong, and how they change while programs run."""

from __future__ import annotations

import time

import pytest
from hami_interpose import region
from hami_interpose.limits import DeviceLimit, Limits, Mode

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
OUT_OF_MEMORY = 2


def break_file(container):
    (container.root / "limits/limits").write_bytes(b"broken")


def await_answer(shell, command, answer):
    """Asks for two seconds; a process looks at its file four times a second."""
    for _ in range(40):
        if (found := shell(*command))[: len(answer)] == answer:
            return
        time.sleep(0.05)
    assert found == answer


FILES = {
    "missing": None,
    "empty": b"",
    "garbage": b"garbage\n",
    "short": b"hami-limits 1\ngeneration 1\nmode off\n",
}


@pytest.mark.parametrize("name", [*FILES, "folder"])
def test_folder_without_a_valid_file_denies_and_says_why(make_container, shells, name):
    container = make_container(4000)
    path, content = container.root / "limits/limits", FILES.get(name)
    path.unlink()
    path.mkdir() if name == "folder" else content is not None and path.write_bytes(content)
    shell = shells(container, device=None)
    assert shell.status("use", 0) == OUT_OF_MEMORY
    assert container.region().reason == region.REASONS[2 if content is None else 3]


def test_nothing_of_the_card_is_shown_before_any_limits(make_container, shells):
    """Neither its size nor other processes on it; limits that come later end the denial."""
    neighbour, container = make_container(4000), make_container(4000)
    assert shells(neighbour).status("alloc", 100 * MIB) == 0
    break_file(container)
    shell = shells(container, device=None)
    for _ in range(2):
        assert shell("total", 0) == [0, 0]
        assert shell("nvml", 0) == [0, 0, 0, 0]
        assert shell("processes", 0) == [0]
    container.write_limits(container.limits)
    await_answer(shell, ("use", 0), [0])
    assert shell("total", 0) == [0, 4000 * MIB]
    assert shell("nvml", 0)[1] == 4000 * MIB


def test_other_processes_are_hidden_without_a_region(make_container, shells):
    neighbour, container = make_container(4000), make_container(4000)
    assert shells(neighbour).status("alloc", 100 * MIB) == 0
    container.region_path.write_bytes(b"damaged")
    shell = shells(container, device=None)
    assert shell("nvml", 0) == [0, 4000 * MIB, 4000 * MIB, 0]
    assert shell("processes", 0) == [0]


@pytest.mark.parametrize("mode", [Mode.ENFORCE, Mode.OBSERVE])
def test_file_that_breaks_denies_memory_and_shows_the_slice(started, mode):
    """Growth of a pool and of the memory of a graph is denied as well."""
    container, shell = started(4000, mode=mode)
    graph = shell.made("graph", 100 * MIB, 1, "node")
    for command in [("async", 4 * MIB), ("alloc", 4096), ("create", 2 * MIB, 0)]:
        assert shell.status(*command) == 0
    break_file(container)
    await_answer(shell, ("alloc", 2 * MIB), [OUT_OF_MEMORY])
    commands = [("alloc", 4096), ("async", 4 * MIB), ("create", 2 * MIB, 0), ("array", 64, 64, 0), ("launch", graph)]
    assert [shell.status(*command) for command in commands] == [OUT_OF_MEMORY] * len(commands)
    used = container.region().devices[0].used_bytes
    assert shell("info") == [0, 4000 * MIB - used, 4000 * MIB]
    assert shell("total", 0) == [0, 4000 * MIB]
    assert shell("nvml", 0) == [0, 4000 * MIB, used, 4000 * MIB - used]
    assert len(shell.line("processes", 0).split()) == 2


def test_environment_does_not_override_the_folder(make_container, shells):
    container = make_container(4000)
    container.variables |= {"CUDA_DEVICE_MEMORY_LIMIT": "70000m", "CUDA_DEVICE_MEMORY_LIMIT_0": "70000m"}
    assert shells(container)("info")[2] == 4000 * MIB


def test_device_that_is_not_named_is_denied(started):
    container, shell = started(4000)
    assert shell.status("create", 2 * MIB, 1) == OUT_OF_MEMORY
    assert container.region().reason == region.REASONS[4]
    assert shell.status("alloc", 2 * MIB) == 0


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.OFF])
def test_observe_counts_off_does_not_and_none_refuses(started, mode):
    container, shell = started(1000, mode=mode)
    assert shell("info")[2] > 70000 * MIB
    assert shell.status("alloc", 2000 * MIB) == 0
    found = container.region()
    assert (found.devices[0].used_bytes > 2000 * MIB) == (found.processes != ()) == (mode == Mode.OBSERVE)


def relimit(container, memory_mib):
    old = container.limits.devices[0]
    device = DeviceLimit(old.uuid, memory_mib * MIB, memory_mib * MIB)
    container.write_limits(Limits((device,), generation=container.limits.generation + 1))


def test_larger_limit_counts_at_once(started):
    container, shell = started(1000)
    assert shell.status("alloc", 2000 * MIB) == OUT_OF_MEMORY
    relimit(container, 3000)
    assert shell.status("alloc", 2000 * MIB) == 0
    assert container.region().generation == 2
    assert container.region().devices[0].limit_bytes == 3000 * MIB


def test_smaller_limit_refuses_new_memory_and_never_wraps(started):
    container, shell = started(3000)
    thing = shell.made("alloc", 2000 * MIB)
    relimit(container, 1000)
    await_answer(shell, ("info",), [0, 0, 1000 * MIB])
    assert shell("nvml", 0)[1:] == [1000 * MIB, 1000 * MIB, 0]
    assert shell.status("alloc", 2 * MIB) == OUT_OF_MEMORY
    assert shell.status("sparse", 1024, 128) == 0, "takes nothing before something is mapped there"
    assert shell.status("free", thing) == 0
    assert shell.status("alloc", 100 * MIB) == 0


def test_file_that_was_away_counts_again(make_container, shells):
    """The same file as before: nothing tells it from the one that was read last."""
    container = make_container(1000)
    path = container.root / "limits/limits"
    shell = shells(container)
    assert shell.status("alloc", 2 * MIB) == 0
    path.rename(path.with_name("away"))
    await_answer(shell, ("alloc", 2 * MIB), [OUT_OF_MEMORY])
    path.with_name("away").rename(path)
    await_answer(shell, ("alloc", 2 * MIB), [0])


@pytest.mark.here_only("the simulated driver has too few addresses there to be refused by us first")
def test_limits_come_into_force_after_mode_off(started):
    container, shell = started(1000, mode=Mode.OFF)
    assert shell.status("alloc", 2000 * MIB) == 0
    container.write_limits(Limits(container.limits.devices, generation=2))
    await_answer(shell, ("alloc", 2000 * MIB), [OUT_OF_MEMORY])
    assert shell.status("alloc", 100 * MIB) == 0
    assert container.region().reason == region.REASONS[1]


def test_region_that_replaces_a_damaged_one_is_used(make_container, shells):
    """Limits that came before it are shown in it."""
    container = make_container(1000)
    good = container.region_path.read_bytes()
    container.region_path.write_bytes(bytes(len(good)))
    relimit(container, 3000)
    shell = shells(container, device=None)
    assert shell.status("use", 0) == OUT_OF_MEMORY
    container.region_path.with_name("new").write_bytes(good)
    container.region_path.with_name("new").rename(container.region_path)
    await_answer(shell, ("use", 0), [0])
    assert container.region().generation == 2
    assert container.region().devices[0].limit_bytes == 3000 * MIB
    assert shell.status("alloc", 100 * MIB) == 0
    assert container.region().devices[0].used_bytes > 100 * MIB


# ---- HAMi's variables ----


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


def test_variables_limit_and_count_where_no_folder_is(environment_container, shells, tmp_path):
    cache = tmp_path / "cache"
    variables = {"CUDA_DEVICE_MEMORY_LIMIT_0": "2000m", "CUDA_DEVICE_MEMORY_LIMIT": "3g"}
    container = environment_container(**variables, CUDA_DEVICE_MEMORY_SHARED_CACHE=str(cache))
    first = shells(container)
    assert [first("total", i) for i in (0, 1)] == [[0, 2000 * MIB], [0, 3072 * MIB]]
    assert first.status("alloc", 1000 * MIB) == 0
    second = shells(container)
    assert second.status("alloc", 1000 * MIB) == OUT_OF_MEMORY
    assert region.read(cache).devices[0].used_bytes > 1000 * MIB
    assert [path.name for path in tmp_path.glob("cache*")] == ["cache"]


ALL, FIRST, CORES = "CUDA_DEVICE_MEMORY_LIMIT", "CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_SM_LIMIT"
TOTALS = [({ALL: text}, 2048) for text in (" 2g ", "2G", "2Gi", "2GiB", "2 gb", "2048m", "2048MB", "2097152k")]
TOTALS += [({ALL: text}, 2048) for text in ("2147483648", "0x80000000")]
TOTALS += [({ALL: "2048"}, 0)]  # bytes
TOTALS += [({FIRST: own, ALL: "2g"}, 2048) for own in ("0", "")]
UNREAD = ["2.5g", "-1", "abc", "2 x", "2gg", "99999999999g", "99999999999999999999", "2g 3g"]
DENIED = [{variable: text} for variable in (ALL, f"{ALL}_1", CORES) for text in UNREAD]


@pytest.mark.parametrize(("variables", "mib"), TOTALS, ids=str)
def test_variable_is_read_with_its_unit(environment_container, shells, variables, mib):
    shell = shells(environment_container(**variables), device=None)
    assert shell("total", 0)[1] // MIB == mib


@pytest.mark.here_only("qemu-user has no room for so many addresses")
@pytest.mark.parametrize("text", ["0", "", "1t"])
def test_no_limit_or_one_above_the_card_shows_the_card(environment_container, shells, text):
    assert shells(environment_container(**{ALL: text}), device=None)("total", 0)[1] > 70000 * MIB


@pytest.mark.parametrize("variables", DENIED, ids=str)
def test_variable_that_cannot_be_read_denies(environment_container, shells, variables):
    shell = shells(environment_container(**variables), device=None)
    assert shell("total", 0) == [0, 0]
    assert shell.status("use", 0) == OUT_OF_MEMORY


def test_variable_that_cannot_be_read_hides_other_processes(environment_container, make_container, shells):
    assert shells(make_container(4000)).status("alloc", 100 * MIB) == 0
    shell = shells(environment_container(**{ALL: "abc"}), device=None)
    assert shell("processes", 0) == [0]


def test_region_path_that_is_too_long_denies(environment_container, shells):
    container = environment_container(CUDA_DEVICE_MEMORY_LIMIT="2g", CUDA_DEVICE_MEMORY_SHARED_CACHE="/" + "x" * 5000)
    assert shells(container, device=None).status("use", 0) == OUT_OF_MEMORY


def test_variables_follow_the_numbers_of_nvml(environment_container, shells):
    """Whatever the order of CUDA_VISIBLE_DEVICES."""
    shell = shells(environment_container(CUDA_VISIBLE_DEVICES="1,0", **{FIRST: "2000m", f"{ALL}_1": "3000m"}))
    assert [shell("total", i)[1] for i in (0, 1)] == [3000 * MIB, 2000 * MIB]


@pytest.mark.here_only("qemu-user has no room for so many addresses")
def test_no_limits_anywhere_leaves_everything_as_it_is(environment_container, shells):
    shell = shells(environment_container())
    assert shell("info")[2] > 70000 * MIB
    assert shell.status("alloc", 70000 * MIB) == 0
