"""What `hami top` shows: rows, filters, sorting, faults and hostile text, without a cluster."""

from __future__ import annotations

import asyncio
import json

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from hami_core.errors import ConfigError
from hami_core.reach import PodNames
from hami_core.scheduler.usage import Amounts, NodeUse, SliceUse
from hami_core.tests.top.fakes import Installation, card, metric, of_card, of_slice, small, usage
from hami_core.top import samples
from hami_core.top.gather import AT_ONCE, Gatherer
from hami_core.top.model import Filter, NodeAgents, age, chosen
from hami_core.top.plain import document, table
from hami_core.top.rows import COLUMNS, VIEWS, summary
from hami_core.top.view import Options, look, read_options, show

DEFAULTS = {"sort": "", "filters": (), "limit": None, "no_agents": False, "as_json": False}


def options(view: str = "nodes", **more) -> Options:
    return read_options(view, **{**DEFAULTS, **more})


async def printed(installation: Installation, view: str = "nodes", **more) -> list[list[str]]:
    chosen_by = options(view, **more)
    shown = await look(Gatherer(installation), chosen_by)
    return [line.split() for line in table(view, shown.rows).splitlines()][1:]


async def lines(installation: Installation, view: str = "nodes", **more) -> tuple[str, ...]:
    chosen_by = options(view, **more)
    return (await look(Gatherer(installation), chosen_by)).lines


# --- rows


async def test_nodes_are_sums_of_their_cards():
    assert await printed(small()) == [
        ["n2", "2", "2", "11000", "5010", "81920", "30", "61", "200", "ok"],
        ["n10", "1", "0", "0", "0", "40960", "0", "0", "100", "ok"],
    ]


async def test_cards_show_what_is_booked_used_and_there():
    assert (await printed(small(), "cards"))[0] == [
        "n2", "0", "ok", "2", "11000", "5000", "40960", "30", "61", "100", "ok", "NVIDIA", "A100",
    ]  # fmt: skip


async def test_slices_show_their_limits_and_a_limit_of_0_is_none():
    assert await printed(small(), "slices") == [
        ["n2", "0", "team/train", "main", "3000", "2500", "3000", "30", "20", "30", "ok"],
        ["n2", "0", "other/serve", "main", "8000", "2400", "-", "0", "41", "-", "ok"],
    ]


async def test_what_no_agent_measures_is_a_dash_and_not_0():
    installation = small()
    installation.of_agents["n10"].text = "# no metrics\n"
    assert (await printed(installation))[1] == ["n10", "1", "0", "0", "-", "40960", "0", "-", "100", "ok"]
    del installation.of_agents["n10"]
    assert (await printed(installation))[1][-1] == "none"
    assert [row[4] for row in await printed(small(), no_agents=True)] == ["-", "-"]


async def test_a_broken_card_without_values_does_not_hide_the_others():
    broken = card("n1", 1, healthy=False)
    installation = Installation(usage(NodeUse("n1", 0, (card("n1", 0), broken))), {"n1": of_card("n1", 0, 7, 1)})
    assert (await printed(installation))[0][4] == "7"
    sound = replace_device(installation, healthy=True)
    assert (await printed(sound))[0][4] == "-"


def replace_device(installation: Installation, **more) -> Installation:
    nodes = (NodeUse("n1", 0, (card("n1", 0), card("n1", 1, **more))),)
    return Installation(usage(*nodes), {name: one.text for name, one in installation.of_agents.items()})


async def test_compute_units_become_percent():
    units = card("n1", 0, cores_are_units=True, total=Amounts(10, 1024, 304), booked=Amounts(1, 512, 100))
    row = (await printed(Installation(usage(NodeUse("n1", 0, (units,))))))[0]
    assert (row[6], row[8]) == ("33", "100")


async def test_states_of_cards():
    cards = (
        card("n1", 0, cordoned=True),
        card("n1", 1, healthy=False),
        card("n1", -1, SliceUse("u", "main", memory_mib=5), registered=False, healthy=False, total=Amounts()),
    )
    installation = Installation(usage(NodeUse("n1", 2, cards)))
    rows = await printed(installation, "cards")
    assert [row[2] for row in rows] == ["cordoned", "unhealthy", "gone"]
    assert (rows[2][1], rows[2][6]) == ("n1--1", "-")
    shown = await look(Gatherer(installation), options())
    assert summary(shown.snapshot, shown.cards) == (
        "1 nodes, 3 cards (1 unhealthy, 1 cordoned, 1 gone), 1 slices, 2 held, 5 of 81920 MiB booked (0 %)"
    )


async def test_a_pod_made_again_under_its_name_does_not_inherit_values():
    """Agents name pods, and may still know the pod that is gone. The UID decides."""
    said = usage(NodeUse("n1", 0, (card("n1", 0, SliceUse("new", "main", memory_mib=3000)),)))
    agent = of_slice("old", "n1-0", 2900, 3000, 1, pod="web-0")
    installation = Installation(said, {"n1": agent}, PodNames({"new": "team/web-0"}))
    assert (await printed(installation, "slices"))[0][5] == "-"


async def test_two_agents_of_a_node_are_one():
    installation = Installation(usage(NodeUse("n1", 0, (card("n1", 0), card("n1", 1)))))
    for index in (0, 1):
        one = Installation(usage(), {"n1": of_card("n1", index, 100, 1)}).of_agents["n1"]
        installation.of_agents[str(index)] = one
    assert (await printed(installation))[0][4] == "200"


# --- filters and sorting


@pytest.mark.parametrize(
    ("filters", "nodes", "pods"),
    [
        (["node=n2"], ["n2"], ["u1", "u2"]),
        (["node=N*"], ["n2", "n10"], ["u1", "u2"]),
        (["node=N2"], ["n2"], ["u1", "u2"]),
        (["node=n"], [], []),
        (["model=*a100"], ["n2"], ["u1", "u2"]),
        (["namespace=team"], ["n2"], ["u1"]),
        (["pod=serv*"], ["n2"], ["u2"]),
        (["pod=serve", "node=n10"], [], []),
        (["acme"], ["n10"], []),
        (["rain"], ["n2"], ["u1"]),
        (["team/tr", "n2"], ["n2"], ["u1"]),
        (["nothing"], [], []),
    ],
)
async def test_filters(filters, nodes, pods):
    chosen_by = options("slices", filters=filters)
    shown = await look(Gatherer(small()), chosen_by)
    assert list(dict.fromkeys(card.node.name for card in shown.cards)) == nodes
    assert [piece.pod for card in shown.cards for piece in card.slices] == pods
    assert bool(shown.rows) == bool(pods)
    assert ("no slices match" in shown.lines) == (not pods)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nodes=x", r"there is no key 'nodes' \(did you mean node\?\)"),
        ("colour=x", r"filter by node, model, namespace, pod"),
        ("node=", "it has no value"),
        ("", "it has no value"),
    ],
)
def test_a_wrong_filter_is_explained(text, says):
    with pytest.raises(ConfigError, match=says):
        Filter.read(text)


def test_an_unknown_column_is_explained():
    with pytest.raises(ConfigError, match=r"--sort mem-usd.*did you mean mem-used\?"):
        options("cards", sort="mem-usd")


async def test_numbers_are_sorted_greatest_first_and_unknown_values_last():
    installation = small()
    installation.of_agents["n2"].fails = "gone"
    assert [row[0] for row in await printed(installation, sort="mem-used")] == ["n10", "n2"]
    assert [row[0] for row in await printed(small(), sort="mem-total")] == ["n2", "n10"]
    assert [row[0] for row in await printed(small(), sort="node")] == ["n2", "n10"]
    assert [row[2] for row in await printed(small(), "slices", sort="mem-used")] == ["team/train", "other/serve"]


@pytest.mark.parametrize("view", VIEWS)
async def test_every_column_can_be_sorted_by(view):
    for number, each in enumerate(COLUMNS[view]):
        rows = await printed(small(), view, sort=each.key)
        assert sorted(rows) == sorted(await printed(small(), view))
        amounts = [int(row[number]) for row in rows if row[number].isdigit()]
        if each.key not in {"node", "card"}:
            assert amounts == sorted(amounts, reverse=True), each.key


async def test_only_agents_whose_values_are_shown_are_asked():
    installation = small()
    assert [row[0] for row in await printed(installation, limit=1)] == ["n2"]
    assert [len(agent.calls) for agent in installation.of_agents.values()] == [1, 0]
    installation = small()
    await printed(installation, filters=["node=n10"])
    assert installation.of_scheduler.calls == [("/usage", {"node": ("n10",)})]
    assert [len(agent.calls) for agent in installation.of_agents.values()] == [0, 1]
    installation = small()
    await printed(installation, limit=1, sort="mem-used")
    assert [len(agent.calls) for agent in installation.of_agents.values()] == [1, 1]
    installation = small()
    await printed(installation, no_agents=True)
    assert installation.listed == 0


async def test_bookings_of_other_nodes_are_not_kept_for_new_ones():
    installation = small()
    gatherer = Gatherer(installation)
    await look(gatherer, options(filters=["node=n2"]))
    installation.of_scheduler.fails = "connection refused"
    shown = await look(gatherer, options(filters=["node=n2"]))
    assert [row["mem-booked"] for row in shown.rows] == [11000]
    shown = await look(gatherer, options())
    assert [row["mem-booked"] for row in shown.rows] == [None, None], "of n10 it was never asked"


async def test_a_node_that_does_not_exist_is_said():
    assert await lines(small(), filters=["node=n3"]) == ("no nodes match",)


async def test_what_a_limit_leaves_out_is_said():
    assert await lines(small(), "cards", limit=2) == ("2 of 3 cards are shown",)


# --- faults


async def test_a_silent_agent_is_named_and_the_rest_is_shown():
    installation = small()
    installation.of_agents["n2"].takes_s = 60
    gatherer = Gatherer(installation, agent_within_s=0.02)
    shown = await look(gatherer, options())
    assert [row["mem-used"] for row in shown.rows] == [None, 0]
    assert [row["agent"] for row in shown.rows] == ["silent", "ok"]
    assert shown.lines == ("no values from the agents of 1 nodes: agent pod hami/a-n2: no answer within 0 s",)


async def test_last_values_stay_with_their_age():
    now = 100.0
    installation = small()
    gatherer = Gatherer(installation, clock=lambda: now)
    await look(gatherer, options())
    installation.of_agents["n2"].fails = installation.of_scheduler.fails = "connection refused"
    now = 112.0
    shown = await look(gatherer, options())
    assert [row["agent"] for row in shown.rows] == ["12 s ago", "ok"]
    assert [row["mem-used"] for row in shown.rows] == [5010, 0]
    assert [row["mem-booked"] for row in shown.rows] == [11000, 0]
    assert "scheduler pod hami/s: connection refused" in shown.lines[0]
    assert document(shown.snapshot, shown.cards)["nodes"][0]["agent"] == {
        "state": "silent", "age_s": 12.0, "problem": "agent pod hami/a-n2: connection refused (see the pod's log)",
    }  # fmt: skip


async def test_without_the_scheduler_agents_alone_are_shown():
    installation = small()
    installation.of_scheduler.fails = "connection refused"
    assert await printed(installation) == [
        ["n2", "2", "2", "-", "5010", "-", "-", "61", "-", "ok"],
        ["n10", "1", "0", "-", "0", "-", "-", "0", "-", "ok"],
    ]
    assert (await printed(installation, "slices"))[0][2:7] == ["team/train", "main", "-", "2500", "3000"]
    shown = await look(Gatherer(installation), options(as_json=True))
    assert document(shown.snapshot, shown.cards)["nodes"][0]["cards"][0]["booked"] is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema":1}', '{"schema":2,"nodes":[]}', "<html>"])
async def test_an_answer_that_is_no_usage_is_explained(text):
    installation = small()
    installation.of_scheduler.text = text
    (line,) = await lines(installation)
    assert line.startswith("scheduler: ")
    assert "/usage" in line


@pytest.mark.parametrize("text", ["<html>", "a{", 'a{b="c} 1', "\x00\xff 1", 'x{a="b"} not-a-number'])
async def test_an_agent_that_sends_no_metrics_is_explained(text):
    installation = small()
    installation.of_agents["n2"].text = text
    (line,) = await lines(installation)
    assert "agent pod hami/a-n2: it sends no metrics text" in line


async def test_a_caller_without_rights_is_told_what_to_ask_for():
    installation = small()
    installation.refused = "pods is forbidden"
    (line,) = await lines(installation)
    assert "you need the role hami-scheduler-view" in line
    installation = small()
    installation.pod_names = PodNames({"u1": "team/train"}, "pods is forbidden")
    assert [row[2] for row in await printed(installation, "slices")] == ["team/train", "a"]
    assert "names of some pods are hidden: pods is forbidden (you need the right to list pods)" in await lines(
        installation, "slices"
    )


async def test_a_thousand_silent_agents_do_not_take_minutes():
    said = usage(*(NodeUse(f"n{i}", 0, (card(f"n{i}", 0),)) for i in range(1000)))
    installation = Installation(said, {f"n{i}": "" for i in range(1000)})
    for agent in installation.of_agents.values():
        agent.takes_s = 3600
    gatherer = Gatherer(installation, agent_within_s=0.05, round_within_s=0.2)
    shown = await look(gatherer, options())
    assert {row["agent"] for row in shown.rows} == {"silent"}
    (line,) = shown.lines
    assert line.startswith("no values from the agents of 1000 nodes: ")
    assert line.endswith("; and 997 more")
    assert 0 < sum(len(agent.calls) for agent in installation.of_agents.values()) < 1000


async def test_agents_are_asked_side_by_side():
    said = usage(*(NodeUse(f"n{i}", 0, (card(f"n{i}", 0),)) for i in range(100)))
    installation = Installation(said, {f"n{i}": "" for i in range(100)})
    running = most = 0

    def watched(agent):
        async def call(path, query=None, body=None):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1
            return b""

        agent.call = call

    for agent in installation.of_agents.values():
        watched(agent)
    await look(Gatherer(installation), options())
    assert most == AT_ONCE


async def test_an_empty_cluster_is_said():
    assert await lines(Installation(usage())) == ("no node has cards",)


# --- hostile text

HOSTILE = "\x1b[31mred\x1b[0m\n[bold]x[/bold]\r\t\u202e\x07界"
"""ANSI, a new line, markup, a right-to-left override, a bell, and a wide character."""


async def hostile() -> tuple:
    slices = (SliceUse(HOSTILE, HOSTILE, memory_mib=3000),)
    bad = card("n1", -1, *slices, id=HOSTILE, type=HOSTILE, family=HOSTILE, mode=HOSTILE)
    agent = metric(samples.CARD_MEMORY, 5, device_uuid=HOSTILE, device_index="1" * 5000, device_type=HOSTILE)
    installation = Installation(usage(NodeUse(HOSTILE, 0, (bad,))), {HOSTILE: agent}, PodNames({HOSTILE: HOSTILE}))
    installation.of_agents["x"] = Installation(usage(), {"x": "{"}).of_agents["x"]
    return installation, await look(Gatherer(installation), options("slices", as_json=True))


@pytest.mark.parametrize("view", VIEWS)
async def test_hostile_text_stays_on_its_line(view):
    _, shown = await hostile()
    text = table(view, show(shown.snapshot, options(view)).rows)
    assert len(text.splitlines()) == 2
    assert all(character.isprintable() or character == "\n" for character in text)
    said = json.dumps(document(shown.snapshot, shown.cards), ensure_ascii=False)
    assert "\\u001b" not in said
    assert "\u202e" not in said
    assert all(line.isprintable() for line in shown.lines)


async def test_wide_characters_keep_columns_aligned():
    said = usage(NodeUse("节点", 0, (card("a", 0),)), NodeUse("node", 0, (card("b", 0),)))
    first, plain, wide = table("nodes", (await look(Gatherer(Installation(said)), options())).rows).splitlines()
    assert first.index("CARDS") + 4 == wide.index("1") + 2 == plain.index("1")


@given(st.text(max_size=300))
def test_any_text_of_an_agent_is_read_or_refused(text):
    try:
        samples.read(text)
    except ValueError as error:
        text = str(error)
        assert text.isprintable()


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-5"])
def test_a_value_that_is_no_amount_is_unknown(value):
    assert samples.read(f'{samples.CARD_MEMORY}{{device_uuid="a"}} {value}\n').cards == {}


@given(st.lists(st.text(max_size=20)))
def test_filters_never_fail_on_any_name(names):
    for name in names:
        if name.strip():
            Filter("node", name).matches(name, name)


def test_ages():
    assert [age(s) for s in (0, 12.4, 119, 150, 7300)] == ["0 s", "12 s", "119 s", "2 min", "2 h"]
    assert NodeAgents("silent", samples.Sample(), 10).word(22) == "12 s ago"


async def test_json_has_everything():
    shown = await look(Gatherer(small()), options(as_json=True))
    said = document(shown.snapshot, shown.cards)
    (node, _), first = said["nodes"], said["nodes"][0]["cards"][0]
    assert (said["schema"], said["time"], said["problems"]) == (1, "2026-01-31T12:00:00Z", [])
    assert (node["name"], node["holds"], node["agent"]["state"]) == ("n2", 1, "answers")
    assert first["total"] == {"slots": 10, "memory_mib": 40960, "cores_percent": 100}
    assert first["slices"][0] == {
        "pod": {"uid": "u1", "namespace": "team", "name": "train"},
        "container": "main",
        "kind": "app",
        "booked": {"slots": 1, "memory_mib": 3000, "cores_percent": 30},
        "used": {"memory_mib": 2500, "cores_percent": 20.4},
        "limit": {"memory_mib": 3000, "cores_percent": 30},
    }
    assert list(chosen(shown.snapshot, [])) == list(shown.cards)


async def test_pods_of_ours_are_listed_again_soon_only_while_one_does_not_answer():
    now = 0.0
    installation = small()
    gatherer = Gatherer(installation, clock=lambda: now)
    for fails, times in (("", [0, 6, 29, 31]), ("gone", [33, 35, 37, 39])):
        installation.of_agents["n2"].fails = fails
        for now in times:  # noqa: B007 - the clock reads it
            await look(gatherer, options())
    assert installation.listed == 3, "at 0, 31 and 37 s"


async def test_names_are_listed_again_soon_only_for_new_pods():
    now = 0.0
    installation = small()
    installation.pod_names = PodNames({"u1": "team/train"}, "pods is forbidden")
    gatherer = Gatherer(installation, clock=lambda: now)
    for now in (0, 6, 29):  # noqa: B007 - the clock reads it
        await look(gatherer, options("slices"))
    assert installation.named == 1, "u2 was looked up"
    new = usage(NodeUse("n2", 0, (card("n2", 0, SliceUse("u1", "main"), SliceUse("new", "main")),)))
    installation.of_scheduler.text = msgspec.json.encode(new).decode()
    for now in (29.5, 35, 41):  # noqa: B007
        await look(gatherer, options("slices"))
    assert installation.named == 2


async def test_a_pod_that_was_not_looked_for_yet_is_a_dash():
    now = 0.0
    installation = small()
    gatherer = Gatherer(installation, clock=lambda: now)
    await look(gatherer, options("slices"))
    said = usage(NodeUse("n2", 0, (card("n2", 0, SliceUse("new", "main")),)))
    installation.of_scheduler.text = msgspec.json.encode(said).decode()
    for now, name in ((2, None), (6, "a pod whose name is not known")):  # noqa: B007 - the clock reads it
        (row,) = (await look(gatherer, options("slices"))).rows
        assert row["pod"] == name
