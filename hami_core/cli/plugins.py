"""``hami plugins``: lists the installed vendor plugins and their problems."""

from __future__ import annotations

import json
import logging
import shutil
import sys

import click


@click.command("plugins")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, as_json: bool) -> None:
    """List the installed vendor plugins: families, hooks, node sides and problems.

    Node sides are imported, too. A node side that needs a driver or a library that this machine lacks is shown as "not
    importable here"; that is no error.

    Exits with 1 if there is an error: a plugin that could not be loaded, an illegal name, or an entry point in a group
    that hami does not read.
    """
    from hami_core.plugins import load
    from hami_core.plugins.examine import examine
    from hami_core.plugins.report import as_json as to_json
    from hami_core.plugins.report import as_text

    logging.getLogger("hami.plugins").setLevel(logging.CRITICAL)  # the list shows the same problems
    loaded = load()
    nodes = examine(loaded)
    if as_json:
        print(json.dumps(to_json(loaded, nodes), indent=1))
    else:
        print(as_text(loaded, nodes, min(shutil.get_terminal_size().columns, 100)))
    sys.exit(1 if any(problem.severity == "error" for problem in loaded.problems) else 0)
