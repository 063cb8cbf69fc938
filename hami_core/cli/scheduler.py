"""``hami scheduler``: admission webhook and scheduler extender in one process."""

from __future__ import annotations

import click

from hami_core.cli.daemon import FORWARD, run


@click.command("scheduler", context_settings=FORWARD)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Run the admission webhook and scheduler extender."""
    from hami_core.settings import SchedulerSettings

    run(SchedulerSettings, "hami scheduler [FLAGS]", arguments, "hami_core.scheduler.process")
