"""Memory nodes of graphs: counted as the driver reserves for them, refused before it would."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.each_machine

MIB = 1 << 20
OUT_OF_MEMORY = 2
LIMIT = 3000
WAYS = ["node", "generic", "capture", "child"]


@pytest.fixture
def shell(make_container, shells):
    return shells(make_container(LIMIT))


@pytest.mark.parametrize("way", WAYS)
def test_nodes_count_when_the_graph_runs_and_until_trimmed(shell, way):
    before = shell.free_bytes()
    status, graph = shell("graph", 3 * MIB, 1, way)
    assert status == 0
    assert shell.free_bytes() == before
    assert shell.status("launch", graph) == 0
    assert before - shell.free_bytes() == 4 * MIB
    assert shell.status("launch", graph) == 0
    assert before - shell.free_bytes() == 4 * MIB
    assert shell.status("destroy_graph", graph) == 0
    assert shell.status("trim_graphs", 0) == 0
    assert shell.free_bytes() == before


@pytest.mark.parametrize("way", WAYS)
def test_the_last_size_that_fits_and_the_first_that_does_not(shell, way):
    room = shell.free_bytes() // (2 * MIB) * 2 * MIB
    large = shell("graph", room + 1, 1, way)[1]
    fits = shell("graph", room, 1, way)[1]
    assert shell.status("launch", large) == OUT_OF_MEMORY
    assert shell.status("launch", fits) == 0
    assert shell.status("alloc", 2 * MIB) == OUT_OF_MEMORY
    assert shell.status("trim_graphs", 0) == 0
    assert shell.status("alloc", room) == 0
    assert shell.status("launch", fits) == OUT_OF_MEMORY


def test_memory_that_a_graph_leaves_behind_counts_until_freed_and_trimmed(shell):
    before = shell.free_bytes()
    graph = shell("graph", 100 * MIB, 1, "keep")[1]
    assert shell.status("launch", graph) == 0
    assert shell.status("trim_graphs", 0) == 0
    assert before - shell.free_bytes() == 100 * MIB
    assert shell.status("free_kept") == 0
    assert before - shell.free_bytes() == 100 * MIB
    assert shell.status("trim_graphs", 0) == 0
    assert shell.free_bytes() == before


def test_graphs_share_what_is_reserved(shell):
    before = shell.free_bytes()
    graphs = [shell("graph", 50 * MIB, 2, "node")[1] for _ in range(3)]
    for graph in graphs:
        assert shell.status("launch", graph) == 0
    assert before - shell.free_bytes() == 50 * MIB
    assert shell.status("upload", graphs[0]) == 0


def test_what_graphs_hold_returns_with_the_process(make_container, shells):
    container = make_container(LIMIT)
    first, second = shells(container), shells(container)
    graph = first("graph", 1000 * MIB, 1, "node")[1]
    assert first.status("launch", graph) == 0
    assert second.status("alloc", 1500 * MIB) == OUT_OF_MEMORY
    first.process.kill()
    first.process.wait()
    assert second.status("alloc", 1500 * MIB) == 0
