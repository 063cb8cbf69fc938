"""``hami scheduler`` and ``hami agent``: their flags come from the settings model, in all forms HAMi accepts."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from hami_core.settings.base import Settings


class Daemon(click.Command):
    """A command that leaves all its arguments, even ``--help``, to the settings model."""

    def __init__(self, name: str, *, settings: str, usage: str, process: str, about: str) -> None:
        """Describe the command without loading its modules.

        Args:
            name: The command's name.
            settings: Name of the settings model in `hami_core.settings`.
            usage: First line of the help.
            process: Module with ``run(settings) -> int``. Loading it takes seconds, so help and errors come first.
            about: What the command does, for its help.
        """
        super().__init__(name, help=about)
        self.settings, self.usage, self.process = settings, usage, process

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave the arguments as they are."""
        ctx.args = args
        return args

    def invoke(self, ctx: click.Context) -> None:
        """Read the settings, run the process, and exit with its exit status."""
        from hami_core.settings.flags import help_text

        model = self._model()
        if any(word in {"-h", "--help", "-help"} for word in ctx.args):
            click.echo(help_text(model, self.usage), nl=False)
            return
        settings, warnings = model.from_arguments(ctx.args)
        for warning in warnings:
            click.echo(f"hami: {warning}", err=True)
        os.environ.update(model.variables_of(ctx.args))  # the vendor reads its settings from there
        sys.exit(import_module(self.process).run(settings))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the value of the flag before the word, or else a flag."""
        from hami_core.cli.completion import flag_values, flags

        fields = self._model().model_fields
        words = [word for word in ctx.args if word != "="]  # bash splits --vendor=nvidia into three words
        values = flag_values(fields, words[-1], incomplete) if words and not incomplete.startswith("-") else None
        return flags(fields, incomplete) if values is None else values

    def _model(self) -> type[Settings]:
        model: type[Settings] = getattr(import_module("hami_core.settings"), self.settings)
        return model
