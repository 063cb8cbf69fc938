"""Options of the commands that ask a running installation, and the connection that they name."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from hami_core.reach import Reach

FILE = click.Path(path_type=Path)


@dataclass(frozen=True)
class Target:
    """The installation to ask, as the command line names it."""

    kubeconfig: Path | None = None
    context: str | None = None
    hami_namespace: str = ""
    scheduler_url: str = ""
    token_file: Path | None = None


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options whose values make a `Target`."""
    for option in reversed(
        (
            click.option("--kubeconfig", type=FILE, help="Cluster to ask; default: as kubectl chooses it."),
            click.option("--context", help="Context of the kubeconfig."),
            click.option("--hami-namespace", default="", help="Namespace of HAMi's own pods; default: any."),
            click.option(
                "--scheduler-url",
                default="",
                metavar="URL",
                envvar="HAMI_SCHEDULER_URL",
                show_envvar=True,
                help="The scheduler's metrics address, such as http://127.0.0.1:9395; default: through the API server.",
            ),
            click.option(
                "--token-file",
                type=FILE,
                envvar="HAMI_TOKEN_FILE",
                show_envvar=True,
                help="File with the token of the metrics addresses, if they need one.",
            ),
        )
    ):
        command = option(command)
    return command


def split(values: dict[str, Any]) -> tuple[Target, dict[str, Any]]:
    """Take the values of `options` out of a command's values."""
    names = set(Target.__dataclass_fields__)
    own = {name: value for name, value in values.items() if name not in names}
    return Target(**{name: value for name, value in values.items() if name in names}), own


@asynccontextmanager
async def reaching(target: Target, agent: str, namespace: str = "") -> AsyncIterator[tuple[Reach, str]]:
    """Connect to the installation.

    Args:
        target: What the command line names.
        agent: User agent in the API server's audit log.
        namespace: The namespace that the command line names; empty: the kubeconfig's.

    Yields:
        The installation and the caller's namespace.

    Raises:
        ConfigError: The kubeconfig or the token's file can't be used.
    """
    from hami_core._version import __version__
    from hami_core.http.token import TokenFile
    from hami_core.kube.official import connect, own_namespace
    from hami_core.reach import Reach

    here = namespace or own_namespace(target.kubeconfig, target.context)
    token = TokenFile(target.token_file, "--token-file")() if target.token_file else ""
    api = await connect(target.kubeconfig, context=target.context, user_agent=f"{agent}/{__version__}")
    try:
        yield (
            Reach(
                api,
                installed_in=target.hami_namespace,
                own_namespace=here,
                token=token,
                scheduler_url=target.scheduler_url,
            ),
            here,
        )
    finally:
        await api.close()
