"""``hami agent``: the node agent."""

from __future__ import annotations

import click

from hami_core.cli.daemon import FORWARD, run


@click.command("agent", context_settings=FORWARD)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Run the node agent: device plugin, limits, metrics."""
    from hami_core.settings import AgentSettings

    run(AgentSettings, "hami agent --vendor VENDOR [FLAGS]", arguments, "hami_core.agent.process")
