"""The live view, as a person uses it: keys, sorting, filters, faults and hostile text."""

from __future__ import annotations

import asyncio

import pytest
from rich.text import Text
from textual.widgets import DataTable, Input, Static

from hami_core.tests.top.test_top import hostile, options, small
from hami_core.top.gather import Gatherer
from hami_core.top.live import ASKING, Top


def cells(app: Top) -> list[list[str]]:
    table = app.query_one(DataTable)
    return [[cell.plain for cell in table.get_row_at(index)] for index in range(table.row_count)]


def said(app: Top, part: str) -> str:
    return str(app.query_one(f"#{part}", Static).visual)


async def settled(pilot) -> None:
    """Wait until the look under way has been drawn."""
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


@pytest.fixture
async def started():
    """A view whose clock stands still: ages do not depend on how busy the machine is."""
    installation = small()
    app = Top(Gatherer(installation, clock=lambda: 100.0), options(), 3600)
    async with app.run_test(size=(160, 30)) as pilot:
        await settled(pilot)
        yield installation, app, pilot


async def test_keys_choose_the_view(started):
    _, app, pilot = started
    assert [row[0] for row in cells(app)] == ["n2", "n10"]
    assert "2 nodes, 3 cards, 2 slices, 1 held, 11000 of 122880 MiB booked (8 %), 5010 MiB used" in said(app, "summary")
    await pilot.press("2")
    assert [row[:2] for row in cells(app)] == [["n2", "0"], ["n2", "1"], ["n10", "0"]]
    await pilot.press("3")
    await settled(pilot)
    assert [row[2] for row in cells(app)] == ["team/train", "other/serve"]
    await pilot.press("1")
    assert len(cells(app)) == 2


async def test_s_sorts_by_the_next_column(started):
    _, app, pilot = started
    await pilot.press("2", "s", "s", "s", "s")
    assert [row[3] for row in cells(app)] == ["2", "0", "0"], "by slots"
    await pilot.press(*("s" for _ in range(9)))
    assert [row[0] for row in cells(app)] == ["n2", "n2", "n10"], "by none again"


async def test_a_click_on_a_header_sorts(started):
    _, app, pilot = started
    app.query_one(DataTable).post_message(
        DataTable.HeaderSelected(app.query_one(DataTable), list(app.query_one(DataTable).columns)[7], 7, Text())
    )
    await pilot.pause()
    assert [row[7] for row in cells(app)] == ["61", "0"]


async def test_slash_filters_and_a_wrong_filter_is_explained(started):
    _, app, pilot = started
    await pilot.press("slash")
    await pilot.press(*"nod=n10", "enter")
    assert len(cells(app)) == 2
    assert "there is no key 'nod' (did you mean node?)" in next(iter(app._notifications)).message
    app.query_one(Input).value = "node=n10"
    await pilot.press("enter")
    await settled(pilot)
    assert [row[0] for row in cells(app)] == ["n10"]
    assert said(app, "summary").endswith("filter: node=n10")
    await pilot.press("slash", "escape", "2")
    assert len(cells(app)) == 1, "a filter holds for every view"


@pytest.mark.parametrize("paused", [False, True])
async def test_a_filter_of_the_command_line_can_be_replaced(paused):
    app = Top(Gatherer(small()), options(filters=["node=n2"]), 3600)
    async with app.run_test(size=(160, 30)) as pilot:
        await settled(pilot)
        assert [row[0] for row in cells(app)] == ["n2"]
        if paused:
            await pilot.press("space")
        for text, nodes in (("node=n10", ["n10"]), ("", ["n2", "n10"])):
            await pilot.press("slash")
            app.query_one(Input).value = text
            await pilot.press("enter")
            await settled(pilot)
            assert [row[0] for row in cells(app)] == nodes
            assert said(app, "lines") == ""


async def test_a_filter_typed_during_a_look_is_asked_for():
    installation = small()
    app = Top(Gatherer(installation), options(filters=["node=n2"]), 3600)
    async with app.run_test(size=(160, 30)) as pilot:
        await settled(pilot)
        installation.of_scheduler.until = asyncio.Event()
        app._look()
        await pilot.press("slash")
        app.query_one(Input).value = "node=n10"
        await pilot.press("enter")
        assert said(app, "summary") == ASKING
        installation.of_scheduler.until.set()
        await settled(pilot)
        assert [row[0] for row in cells(app)] == ["n10"]


async def test_faults_are_said_and_last_values_stay(started):
    installation, app, pilot = started
    installation.of_agents["n2"].fails = installation.of_scheduler.fails = "connection refused"
    app._look()
    await settled(pilot)
    assert [row[3] for row in cells(app)] == ["11000", "0"]
    assert [row[-1] for row in cells(app)] == ["0 s ago", "ok"]
    assert "scheduler pod hami/s: connection refused" in said(app, "lines")
    assert "no values from the agents of 1 nodes" in said(app, "lines")
    installation.of_agents["n2"].fails = installation.of_scheduler.fails = ""
    app._look()
    await settled(pilot)
    assert [row[-1] for row in cells(app)] == ["ok", "ok"]
    assert said(app, "lines") == ""


async def test_without_the_scheduler_pods_of_the_agents_are_named():
    installation = small()
    installation.of_scheduler.fails = "connection refused"
    app = Top(Gatherer(installation), options("slices"), 3600)
    async with app.run_test(size=(200, 30)) as pilot:
        await settled(pilot)
        assert [row[2] for row in cells(app)] == ["team/train", "other/serve"]


async def test_bookings_that_are_old_have_their_age():
    now = 100.0
    installation = small()
    app = Top(Gatherer(installation, clock=lambda: now), options(), 2)
    async with app.run_test(size=(200, 30)) as pilot:
        await settled(pilot)
        installation.of_scheduler.fails = "connection refused"
        now = 130.0
        app._look()
        await settled(pilot)
        assert "bookings of 30 s ago" in said(app, "summary")


async def test_space_pauses(started):
    installation, app, pilot = started
    await pilot.press("space")
    assert said(app, "summary").endswith("paused")
    before = len(installation.of_scheduler.calls)
    app._look()
    await settled(pilot)
    assert len(installation.of_scheduler.calls) == before
    await pilot.press("space")
    await settled(pilot)
    assert len(installation.of_scheduler.calls) == before + 1


async def test_a_look_does_not_begin_before_the_last_has_ended(started):
    installation, app, pilot = started
    installation.of_scheduler.takes_s = 0.2
    before = len(installation.of_scheduler.calls)
    app._look()
    app._look()
    await settled(pilot)
    assert len(installation.of_scheduler.calls) == before + 1


async def test_hostile_text_is_neither_markup_nor_control():
    installation, _ = await hostile()
    app = Top(Gatherer(installation), options("slices"), 3600)
    async with app.run_test(size=(200, 30)) as pilot:
        await settled(pilot)
        for key in "123":
            await pilot.press(key)
            await settled(pilot)
            (row,) = cells(app)
            assert "[bold]x[/bold]" in row[0]
            assert all(cell.isprintable() for cell in row)


async def test_q_ends_it():
    app = Top(Gatherer(small()), options(), 3600)
    async with app.run_test() as pilot:
        assert app.is_running
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running


async def test_view_is_refreshed_by_itself():
    installation = small()
    async with Top(Gatherer(installation), options(), 0.05).run_test() as pilot:
        while len(installation.of_scheduler.calls) < 3:
            await pilot.pause(0.05)


@pytest.mark.parametrize("steps", range(0, 12, 2))
async def test_a_look_that_ends_as_the_view_closes_is_not_drawn(steps):
    """Whichever part of the closing the answer meets: it comes after so many steps of the event loop."""
    installation = small()
    app = Top(Gatherer(installation), options(), 3600)

    async def answer_later() -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        installation.of_scheduler.until.set()

    async with app.run_test() as pilot:
        await settled(pilot)
        installation.of_scheduler.until = asyncio.Event()
        app._look()
        answer = asyncio.create_task(answer_later())
    await answer
