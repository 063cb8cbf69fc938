"""``hami top``: what is booked and what is used, by node, card and slice."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from hami_core.cli import reaching

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hami_core.cli.reaching import Target
    from hami_core.top.view import Options

NEEDS_TEXTUAL = "hami: the live view needs textual: pip install 'hami[top]'; this is the table of now"


@click.command("top")
@click.argument("view", type=click.Choice(["nodes", "cards", "slices"]), default="nodes")
@reaching.options
@click.option("--once", is_flag=True, help="Print the table once and end. In a pipe or a file this is the default.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Short for -o json.")
@click.option("--sort", metavar="COLUMN", default="", help="Column to sort by, such as mem-used.")
@click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="FILTER",
    help="Show only what matches: a word, or node=, model=, namespace= or pod= and a pattern. Repeatable.",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="ROWS", help="Show at most so many rows.")
@click.option("--no-agents", is_flag=True, help="Do not ask the agents: show what is booked, but not what is used.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.5),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often the live view is refreshed.",
)
def command(*, view: str, once: bool, output: str, as_json: bool, interval: float, **more: Any) -> None:  # noqa: ANN401 - click's values
    """Show what is booked and what is used, by node, card or slice.

    Asks the scheduler and the agents through the API server, with your own rights. The role hami-scheduler-view is
    enough if --hami-namespace names HAMi's namespace; without it, the pods of all namespaces are listed. Names of
    pods that you may not list are hidden. No Prometheus is needed.

    On a terminal the view is live: 1, 2 and 3 choose nodes, cards and slices, / filters, s sorts, q ends it.
    """
    from hami_core.top.view import read_options

    target, own = reaching.split(more)
    options = read_options(view, as_json=as_json or output == "json", **own)
    live = not once and not options.as_json and _is_terminal()
    if live and importlib.util.find_spec("textual") is None:
        click.echo(NEEDS_TEXTUAL, err=True)
        live = False
    sys.exit(asyncio.run(_watch(target, options, interval) if live else _print(target, options)))


def _is_terminal() -> bool:
    return sys.stdout.isatty()


async def _print(target: Target, options: Options) -> int:
    """Print once. Returns 1 if the scheduler did not answer."""
    from hami_core.top.gather import Gatherer
    from hami_core.top.plain import document, table
    from hami_core.top.rows import summary
    from hami_core.top.view import look

    async with reaching.reaching(target, "hami-top") as (reach, _):
        shown = await look(Gatherer(reach), options)
    if options.as_json:
        print(json.dumps(document(shown.snapshot, shown.cards), indent=1))
    else:
        if _is_terminal():
            print(f"{summary(shown.snapshot, shown.cards)}\n")
        print(table(options.view, shown.rows), end="")
    _tell(shown.lines)
    return 0 if shown.snapshot.has_bookings else 1


def _tell(lines: Sequence[str]) -> None:
    for line in lines:
        click.echo(f"hami: {line}", err=True)


async def _watch(target: Target, options: Options, interval: float) -> int:
    from hami_core.top.gather import Gatherer
    from hami_core.top.live import Top

    async with reaching.reaching(target, "hami-top") as (reach, _):
        app = Top(Gatherer(reach), options, interval)
        await app.run_async()
    return app.return_code or 0
