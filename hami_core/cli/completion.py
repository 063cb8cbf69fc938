"""``hami completion``, and what it completes beyond click's own: vendors, and the flags of scheduler and agent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic.fields import FieldInfo

VARIABLE = "_HAMI_COMPLETE"
"""Environment variable by which a shell asks ``hami`` for completions. Click makes it from the program's name."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, flags and vendors' names in SHELL.

    \b
    bash:  hami completion bash > ~/.local/share/bash-completion/completions/hami
    zsh:   hami completion zsh > "${fpath[1]}/_hami"
    fish:  hami completion fish > ~/.config/fish/completions/hami.fish

    Bash needs the package bash-completion. kubectl completes `kubectl hami` itself, if `kubectl_complete-hami` of this
    package is on the PATH.
    """  # noqa: D301 - click reads \b as "do not wrap"
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"click has no completion for {shell}")
    click.echo(found(ctx.find_root().command, {}, "hami", VARIABLE).source())


def for_kubectl() -> None:
    """Entry point of ``kubectl_complete-hami``, which kubectl runs with the words behind ``kubectl hami``.

    The output is cobra's: a line for each completion, and last the number that says whether to complete files (0) or
    not (4).
    """
    from hami_core.cli.main import root

    *words, incomplete = sys.argv[1:] or [""]
    items = ShellComplete(root, {}, "hami", VARIABLE).get_completions(words, incomplete)
    lines = [f"{item.value}\t{item.help or ''}".rstrip() for item in items if item.type == "plain"]
    print(*lines, ":4" if lines or not items else ":0", sep="\n")


def vendors(ctx: click.Context | None, param: click.Parameter | None, incomplete: str) -> list[str]:
    """The installed vendors whose names begin like ``incomplete``. No vendor is imported."""
    from hami_core.plugins.discovery import VENDORS, installed

    del ctx, param
    return sorted({source.name for source, _ in installed(VENDORS) if source.name.startswith(incomplete)})


def flags(fields: Mapping[str, FieldInfo], incomplete: str) -> list[CompletionItem]:
    """Each setting's flag that begins like ``incomplete``; of several names the first."""
    from hami_core.settings.fields import flag_names

    found = []
    for name, field in fields.items():
        names = [flag for flag in flag_names(name, field) if flag.startswith(incomplete)]
        found += [CompletionItem(flag, help=field.description) for flag in names[:1]]
    return found


def flag_values(fields: Mapping[str, FieldInfo], flag: str, incomplete: str) -> list[CompletionItem] | None:
    """Values for a flag: vendors, the words of a choice, or files. None: the word is no flag, or needs no value."""
    from hami_core.settings.fields import flag_names

    name = next((name for name, field in fields.items() if flag in flag_names(name, field)), "")
    if not name or fields[name].annotation is bool:
        return None
    if name in {"vendor", "vendors"}:
        head, comma, last = incomplete.rpartition(",")
        return [CompletionItem(head + comma + vendor) for vendor in vendors(None, None, last)]
    types = list(_members(fields[name].annotation))
    if Path in types:
        return [CompletionItem(incomplete, type="file")]
    return [CompletionItem(word) for word in types if isinstance(word, str) and word.startswith(incomplete)]


def _members(annotation: Any) -> Iterator[Any]:  # noqa: ANN401 - any annotation
    """The types and words that an annotation such as ``Literal["a", "b"] | None`` is made of."""
    parts = get_args(annotation)
    if not parts:
        yield annotation
    for part in parts:
        yield from _members(part)
