"""``hami plugins``: what is installed, and whether it is healthy."""

from __future__ import annotations

import json
import sys

import click


@click.command("plugins")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, as_json: bool) -> None:
    """List the vendor plugins that are installed, their families, hooks and health.

    Exits with 1 when one of them could not be loaded.
    """
    from rich.console import Console

    from hami_core.plugins import load
    from hami_core.plugins.report import as_json as to_json
    from hami_core.plugins.report import as_table

    loaded = load()
    if as_json:
        print(json.dumps(to_json(loaded), indent=1))
    else:
        Console().print(as_table(loaded))
    sys.exit(1 if loaded.refused else 0)
