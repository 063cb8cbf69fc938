"""``hami plugins``: lists the installed vendor plugins and their problems; ``hami plugins new`` writes one."""

from __future__ import annotations

import json
import logging
import shutil
import sys

import click

from hami_core.cli.new_vendor import command as new


@click.group("plugins", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(context: click.Context, *, as_json: bool) -> None:
    """List the installed vendor plugins: families, hooks, node sides and problems.

    Node sides are imported, too. A node side that needs a driver or a library that this machine lacks is shown as "not
    importable here"; that is no error.

    Exits with 1 if there is an error: a plugin that could not be loaded, an illegal name, or an entry point in a group
    that hami does not read.
    """
    if context.invoked_subcommand is None:
        _list(as_json=as_json)
    elif as_json:
        raise click.UsageError(f"--json is for the list, not for {context.invoked_subcommand}")


command.add_command(new)


def _list(*, as_json: bool) -> None:
    """Print the list and exit."""
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
