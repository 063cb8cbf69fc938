"""Code on the device: measured when it comes, refused beyond the limit, given back when it goes."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
OUT_OF_MEMORY = 2
LIMIT = 4000


@pytest.fixture
def container(make_container):
    return make_container(LIMIT)


@pytest.fixture
def shell(container, shells):
    return shells(container)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "code.cubin"
    path.touch()
    with path.open("r+b") as content:
        content.truncate(30 * MIB)
    return path


def module_column(container) -> int:
    """What the v1 layout calls module memory, of its first process on the first device."""
    return int.from_bytes(container.region_path.read_bytes()[1856 + 8 + 8 : 1856 + 8 + 16], "little")


@pytest.mark.parametrize("command", [("image", 50 * MIB), ("image_ex", 50 * MIB), ("module", "file")], ids=str)
def test_module_counts_until_it_is_unloaded(container, shell, file, command):
    before, size = container.agreed(), 30 * MIB if command[0] == "module" else 50 * MIB
    module = shell.made(command[0], file if command[0] == "module" else command[1])
    assert container.agreed() == before + size
    assert module_column(container) == size
    assert shell.status("unload", module) == 0
    assert container.agreed() == before
    assert module_column(container) == 0
    assert shell.status("unload", module) != 0
    assert container.agreed() == before


def test_module_beyond_the_limit_is_refused_and_gone(container, shell, file):
    room = shell.free_bytes() // (2 * MIB) * 2 * MIB
    assert shell.status("alloc", room - 10 * MIB) == 0
    before, denied = container.agreed(), container.region().devices[0].denied
    assert shell.status("module", file) == OUT_OF_MEMORY
    assert shell.status("image", 12 * MIB) == OUT_OF_MEMORY
    assert container.agreed() == before
    assert container.region().devices[0].denied == denied + 2
    assert shell.status("image", 10 * MIB) == 0
    assert shell.status("alloc", 2 * MIB) == OUT_OF_MEMORY


@pytest.mark.parametrize("way", ["kernel_function", "library_module"])
def test_library_counts_from_its_first_use(container, shell, way):
    before = container.agreed()
    library = shell("library", 50 * MIB)[1]
    assert container.agreed() == before
    thing = shell("kernel", library)[1] if way == "kernel_function" else library
    for _ in range(2):
        assert shell.status(way, thing) == 0
        assert container.agreed() == before + 50 * MIB
    assert shell.status("unload_library", library) == 0
    assert container.agreed() == before


def test_late_library_leaves_less_for_others(container, shell):
    library = shell("library", 50 * MIB)[1]
    room = shell.free_bytes() // (2 * MIB) * 2 * MIB
    assert shell.status("alloc", room - 10 * MIB) == 0
    assert shell.status("library_module", library) == 0
    assert container.agreed() > LIMIT * MIB
    assert shell.status("alloc", 2 * MIB) == OUT_OF_MEMORY
    assert shell.free_bytes() == 0
    assert shell.status("unload_library", library) == 0
    assert shell.status("alloc", 10 * MIB) == 0


def test_what_another_process_takes_is_not_the_modules(container, shell, shells):
    """Two modules and an allocation, one after the other: each counts once."""
    before = container.agreed()
    first, second = shell("image", 20 * MIB)[1], shell("image", 30 * MIB)[1]
    other = shells(container)
    reserve = container.region().devices[0].context_bytes
    assert other.status("alloc", 100 * MIB) == 0
    assert other.status("image", 10 * MIB) == 0
    assert container.agreed() == before + reserve + 160 * MIB
    assert shell.status("unload", first) == 0
    assert shell.status("unload", second) == 0
    assert container.agreed() == before + reserve + 110 * MIB


def test_load_is_charged_no_more_than_code_takes(container, shell):
    """The rest may be a neighbour's: the device's figures do not tell."""
    before = container.agreed()
    assert shell.status("image", 300 * MIB) == 0
    assert container.region().devices[0].used_bytes == before + 64 * MIB
