"""``hami plugins``: what is installed, and whether it is healthy."""

from __future__ import annotations

import json
import logging
import shutil
import sys

import click


@click.command("plugins")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, as_json: bool) -> None:
    """List the vendor plugins that are installed: families, hooks, node sides, and what is wrong.

    Node sides are imported too. One that needs a driver or a library that this machine lacks is "not importable
    here", which is no error.

    Exits with 1 when there is an error: a plugin that could not be loaded, an illegal name, an entry point that nobody
    reads.
    """
    from hami_core.plugins import load
    from hami_core.plugins.examine import examine
    from hami_core.plugins.report import as_json as to_json
    from hami_core.plugins.report import as_text

    logging.getLogger("hami.plugins").setLevel(logging.CRITICAL)  # the list tells the same
    loaded = load()
    nodes = examine(loaded)
    if as_json:
        print(json.dumps(to_json(loaded, nodes), indent=1))
    else:
        print(as_text(loaded, nodes, min(shutil.get_terminal_size().columns, 100)))
    sys.exit(1 if any(problem.severity == "error" for problem in loaded.problems) else 0)
