"""Runs ``hami scheduler`` and ``hami agent``: their flags come from the settings model, in all forms HAMi accepts."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hami_core.settings.base import Settings

FORWARD = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""Click settings: pass every argument to the settings model, including ``--help``."""


def run(model: type[Settings], usage: str, arguments: tuple[str, ...], process: str) -> None:
    """Read the arguments, load the process's module, run it, and exit with its exit status.

    Args:
        model: The process's settings.
        usage: First line of the help.
        arguments: The arguments after the command's name.
        process: Module with ``run(settings) -> int``. Loading it takes seconds, so help and errors come first.
    """
    from hami_core.settings.flags import help_text

    if any(word in {"-h", "--help", "-help"} for word in arguments):
        click.echo(help_text(model, usage), nl=False)
        return
    settings, warnings = model.from_arguments(arguments)
    for warning in warnings:
        click.echo(f"hami: {warning}", err=True)
    sys.exit(import_module(process).run(settings))
