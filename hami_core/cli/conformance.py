"""``hami conformance``: check an installed vendor plugin against the contract."""

from __future__ import annotations

import json
import sys

import click

from hami_core.cli.completion import vendors


@click.command("conformance")
@click.argument("name", shell_complete=vendors)
@click.option("--node", is_flag=True, help="Test the node side too, with this machine's devices. No pod may use them.")
@click.option("--report", is_flag=True, help="Print JSON.")
@click.option(
    "--timeout",
    type=float,
    default=60.0,
    show_default=True,
    help="Most seconds for the whole run; one test may take a third of them.",
)
def command(name: str, *, node: bool, report: bool, timeout: float) -> None:
    """Check the installed vendor plugin NAME (entry point or distribution) against the contract.

    Without --node, only the scheduler side is tested, on nodes made up from the names that the plugin declares. The
    report then says that the node side was not tested. A hook that does not return ends the run; the report names it.

    Exits with 1 if a test failed. Needs the extra hami[testing].
    """
    from hami_core.testing.run import run

    result = run(name, node=node, timeout_s=timeout)
    print(json.dumps(result.as_json(), indent=1) if report else result)
    sys.exit(0 if result.passed else 1)
