"""Memory nodes of graphs: counted as the driver reserves for them, refused before it would."""

from __future__ import annotations

import hami_gpusim as sim
import pytest

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
OUT_OF_MEMORY = 2
INVALID_VALUE = 1
LIMIT = 3000
MAPPED = {"HAMI_SIM_GRAPH_MAPPED": "1"}  # as drivers whose documents are to be believed
FREES_FIRST = ["cuGraphInstantiateWithFlags", "cuGraphInstantiateWithParams", "cuGraphInstantiateWithParams_ptsz"]
WAYS = ["node", "capture", "nested"]


@pytest.fixture
def shell(make_container, shells):
    return shells(make_container(LIMIT))


@pytest.fixture(params=[{}, MAPPED], ids=["spare", "mapped"])
def either(request, make_container, shells):
    """A container and a process in it, whether the driver calls what graphs have had spare or in use."""
    container = make_container(LIMIT)
    container.variables |= request.param
    return container, shells(container)


@pytest.mark.parametrize("way", WAYS)
def test_nodes_count_from_the_first_launch_until_trimmed(either, way):
    container, shell = either
    before = container.agreed()
    graph = shell.made("graph", 3 * MIB, 2, way)
    assert container.agreed() == before
    peaks = set()
    for _ in range(3):
        assert shell.status("launch", graph) == 0
        assert container.agreed() == before + 4 * MIB
        peaks.add(container.region().devices[0].peak_bytes)
    assert len(peaks) == 1, "nothing more is charged for what it has, not even while it is launched"
    assert shell.status("destroy_graph", graph) == shell.status("trim_graphs", 0) == 0
    assert container.agreed() == before


@pytest.mark.parametrize("way", WAYS)
def test_last_size_that_fits_and_first_that_does_not(shell, way):
    room = shell.free_bytes() // (2 * MIB) * 2 * MIB
    large, fits = (shell.made("graph", size, 1, way) for size in (room + 1, room))
    assert shell.status("launch", large) == OUT_OF_MEMORY
    assert shell.status("launch", fits) == 0
    assert shell.status("alloc", 2 * MIB) == OUT_OF_MEMORY
    assert shell.status("trim_graphs", 0) == shell.status("alloc", room) == 0
    assert shell.status("launch", fits) == OUT_OF_MEMORY


def test_memory_left_behind_counts_until_freed_and_trimmed(shell):
    before = shell.free_bytes()
    graph = shell("graph", 100 * MIB, 1, "keep")[1]
    assert shell.status("launch", graph) == 0
    assert shell.status("trim_graphs", 0) == 0
    assert before - shell.free_bytes() == 100 * MIB
    assert shell.status("free_kept") == 0
    assert before - shell.free_bytes() == 100 * MIB
    assert shell.status("trim_graphs", 0) == 0
    assert shell.free_bytes() == before


def test_graph_is_launched_again_where_nothing_else_fits(either, shells):
    """What it had is there for it."""
    container, first = either
    second = shells(container)
    room = first.free_bytes() // (2 * MIB) * 2 * MIB
    graph, other = (first("graph", size, 1, "node")[1] for size in (room, room))
    kept = first("graph", 2 * MIB, 1, "keep")[1]
    for _ in range(5):
        assert first.status("launch", graph) == 0
    found = container.region().devices[0]
    assert found.peak_bytes == found.used_bytes > (LIMIT - 2) * MIB
    assert found.denied == 0
    assert second.status("alloc", 2 * MIB) == OUT_OF_MEMORY
    assert first.status("launch", other) == 0
    assert first.status("launch", kept) == 0
    assert first.status("launch", graph) == OUT_OF_MEMORY, "another has a part of it"
    assert first.status("free_kept") == 0
    assert first.status("launch", graph) == 0
    assert container.region().devices[0].peak_bytes == found.peak_bytes


def test_what_the_driver_does_not_tell_counts_as_before(started):
    container, shell = started(LIMIT)
    graph, other = (shell("graph", size * MIB, 1, "node")[1] for size in (500, 300))
    assert shell.status("launch", graph) == 0
    before = container.region().devices[0].used_bytes
    with sim.State(container.state) as books:
        books.inject(sim.Fault("cuDeviceGetGraphMemAttribute", error=999))
        assert shell.status("launch", graph) == 0
        assert container.region().devices[0].used_bytes == before, "it had that before, and nobody has taken it"
        assert shell.status("launch", other) == 0
        assert container.region().devices[0].used_bytes == before + 300 * MIB
        books.clear()
    assert shell.status("launch", graph) == 0
    assert container.region().devices[0].used_bytes == before
    assert shell.status("trim_graphs", 0) == 0
    assert container.region().devices[0].used_bytes == before - 500 * MIB


@pytest.mark.parametrize("call", FREES_FIRST)
def test_graph_freed_at_launch_runs_again_at_the_limit(either, call):
    container, shell = either
    before = shell.free_bytes()
    graph = shell("graph", before // (4 * MIB) * 2 * MIB, 2, "keep", call)[1]
    for _ in range(3):
        assert shell.status("launch", graph) == 0
        assert shell.free_bytes() == before % (4 * MIB)
    found = container.region().devices[0]
    assert (found.peak_bytes, found.denied) == (found.used_bytes, 0)
    assert shell.status("destroy_graph", graph) == 0
    assert shell.status("trim_graphs", 0) == 0
    assert shell.free_bytes() == before % (4 * MIB), "destroying it frees nothing"


def test_what_a_graph_would_free_at_launch_counts_once(either):
    """Whether it has it still, has lost it to another, or others run between."""
    container, shell = either
    before = shell.free_bytes()
    half = before // (4 * MIB) * 2 * MIB
    other = shell("graph", half, 1, "keep", FREES_FIRST[0])[1]
    graph = shell("graph", half, 1, "keep", FREES_FIRST[0])[1]
    for _ in range(3):
        assert shell.status("launch", other) == 0
        assert shell.status("launch", graph) == 0
        assert shell.free_bytes() == before - 2 * half
    for _ in range(3):
        assert shell.status("free_kept") == 0
        assert shell.free_bytes() == before - 2 * half
        assert shell.status("launch", graph) == 0
    found = container.region().devices[0]
    assert (found.peak_bytes, found.used_bytes) == (LIMIT * MIB - before + 2 * half,) * 2
    assert found.denied == 0


@pytest.mark.parametrize("way", [("node",), ("keep", FREES_FIRST[0])], ids=["frees itself", "freed at launch"])
def test_what_another_graph_has_taken_is_not_there_again(either, way):
    container, shell = either
    before = shell.free_bytes()
    room = before // (2 * MIB) * 2 * MIB
    thief = shell.made("graph", room, 1, "keep")
    graph = shell.made("graph", room, 1, *way)
    assert shell.status("launch", graph) == 0
    assert way == ("node",) or shell.status("free_kept") == 0
    assert shell.status("launch", thief) == 0
    assert shell.status("launch", thief) in (INVALID_VALUE, OUT_OF_MEMORY)
    assert shell.status("launch", graph) == OUT_OF_MEMORY
    found = container.region().devices[0]
    assert found.peak_bytes == found.used_bytes == LIMIT * MIB - before + room
