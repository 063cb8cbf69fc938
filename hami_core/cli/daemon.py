"""What the two daemons' commands share: flags out of the settings model, in the forms HAMi's programs take."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from hami_core.settings.base import Settings

    AnySettings = TypeVar("AnySettings", bound=Settings)

FORWARD = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""Click settings: hand every word to the settings model, ``--help`` included."""


def run(
    model: type[AnySettings], usage: str, arguments: tuple[str, ...], process: Callable[[AnySettings], int]
) -> None:
    """Read the arguments and run the process; its exit status is ours."""
    from hami_core.settings.flags import help_text

    if any(word in {"-h", "--help", "-help"} for word in arguments):
        click.echo(help_text(model, usage), nl=False)
        return
    settings, warnings = model.from_arguments(arguments)
    for warning in warnings:
        click.echo(f"hami: {warning}", err=True)
    sys.exit(process(settings))
