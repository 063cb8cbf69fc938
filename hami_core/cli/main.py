"""The command table. Commands are imported only when they are called, so that ``hami --help`` is instant."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import click

from hami_core._version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence


class Entry(NamedTuple):
    """A command's module and its line in the help."""

    module: str
    line: str


COMMANDS = {
    "demo": Entry("hami_core.cli.demo", "Run the whole system on this machine, on simulated or real GPUs."),
    "scheduler": Entry("hami_core.cli.scheduler", "Run the admission webhook and scheduler extender."),
    "agent": Entry("hami_core.cli.agent", "Run the node agent: device plugin, limits, metrics."),
    "top": Entry("hami_core.cli.top", "Show what is booked and used, by node, card and slice."),
    "doctor": Entry("hami_core.cli.doctor", "Check an installation, and say how to fix each problem."),
    "explain": Entry("hami_core.cli.explain", "Say why a pod is pending, and what would have to change."),
    "simulate": Entry("hami_core.cli.simulate", "Try placement policies on a cluster in virtual time."),
    "manifests": Entry("hami_core.cli.manifests", "Print the Kubernetes objects of an installation, without helm."),
    "plugins": Entry("hami_core.cli.plugins", "List the installed vendor plugins and their problems."),
    "conformance": Entry("hami_core.cli.conformance", "Check an installed vendor plugin against the contract."),
    "version": Entry("hami_core.cli.version", "Print the versions of hami, its plugins and Python."),
    "completion": Entry("hami_core.cli.completion", "Print the script that completes hami's words in a shell."),
}


class _Lazy(click.Group):
    """Loads a command's module when the command is called; the list of commands comes from the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = import_module(entry.module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.line) for name, entry in COMMANDS.items()])


@click.group(
    cls=_Lazy,
    commands={name: click.Command(name) for name in COMMANDS},  # only their names count: click suggests them
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="hami")
def root() -> None:
    """Share one accelerator safely between many pods."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of ``hami`` and of the kubectl plugin; a `HamiError` is printed as one line, without traceback."""
    from hami_core.errors import HamiError

    try:
        root.main(args=list(arguments) if arguments is not None else None, prog_name="hami")
    except HamiError as error:
        sys.exit(f"hami: {error}")
