"""``hami doctor``: finds what is wrong with an installation, and says how to fix it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hami_core.doctor.finding import Report
    from hami_core.model import NodeContext
    from hami_core.plugins.loaded import Loaded

COULD_NOT_LOOK = 2
"""Exit status when nothing could be examined."""
CLUSTER = ("kubeconfig", "context", "namespace", "node")
HERE = ("plugin_dir", "cdi_dir", "state_dir", "proc")
FOLDER = click.Path(path_type=Path)


@click.command("doctor")
@click.option("--kubeconfig", type=FOLDER, help="Cluster to examine; default: as kubectl chooses it.")
@click.option("--context", help="Context of the kubeconfig.")
@click.option("-n", "--namespace", default="", help="Namespace of the installation; default: any.")
@click.option("--node", default="", help="Examine only this node.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings and unknowns, too.")
@click.option(
    "--on-node", is_flag=True, help="Examine the node where this command runs, in the agent's container or on the host."
)
@click.option("--kubelet-plugin-dir", "plugin_dir", type=FOLDER, help="With --on-node; default: as the agent has it.")
@click.option("--cdi-dir", type=FOLDER, help="With --on-node; default: as the agent has it.")
@click.option("--state-dir", type=FOLDER, help="With --on-node; default: as the agent has it.")
@click.option("--proc-dir", "proc", type=FOLDER, default="/proc", help="With --on-node: the node's /proc.")
def command(*, output: str, strict: bool, on_node: bool, **where: Any) -> None:  # noqa: ANN401 - click's values
    """Check an installation, and say how to fix each problem.

    Only reads, as far as your rights reach. Exits with 0 if nothing fails, and with 1 if something does. With --strict,
    warnings and unknowns count as failures. Exits with 2 if it could not examine anything.
    """
    from hami_core.errors import HamiError

    try:
        report = _look_here(**_only(where, HERE)) if on_node else asyncio.run(_look(**_only(where, CLUSTER)))
    except HamiError as error:
        click.echo(f"hami: {error}", err=True)
        sys.exit(COULD_NOT_LOOK)
    _print(report, output)
    sys.exit(report.exit_status(strict=strict))


def _only(values: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in names}


def _look_here(plugin_dir: Path | None, cdi_dir: Path | None, state_dir: Path | None, proc: Path) -> Report:
    import structlog

    from hami_core.doctor.on_node.checks import examine
    from hami_core.doctor.on_node.gather import Places, gather

    # Vendors log while they look for devices. Standard output is the report's, which may be JSON.
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
    return examine(gather(Places(plugin_dir, cdi_dir, state_dir, proc), _discover))


def _discover(node: NodeContext) -> tuple[dict[str, int], dict[str, str]]:
    """Vendor → number of devices that its node side finds, and vendor → why it could not look for any."""
    loaded = _loaded({}, side="node", node=node)
    found: dict[str, int] = {}
    problems = {problem.plugin: str(problem) for problem in loaded.problems if problem.severity == "error"}
    for vendor in loaded.vendors:
        try:
            found[vendor.name] = len(vendor.discover())
        except Exception as error:  # noqa: BLE001 - a vendor's fault is a finding
            problems[vendor.name] = str(error.__cause__ or error)
    return found, problems


async def _look(kubeconfig: Path | None, context: str | None, namespace: str, node: str) -> Report:
    from hami_core._version import __version__
    from hami_core.doctor.examine import examine
    from hami_core.doctor.gather import gather
    from hami_core.kube.official import connect

    api = await connect(kubeconfig, context=context, user_agent=f"hami-doctor/{__version__}")
    try:
        facts = await gather(api, _vendors, namespace=namespace, node=node)
    finally:
        await api.close()
    return examine(facts, about=f"Kubernetes {facts.version}")


def _vendors(device_config: str) -> Loaded:
    """The vendors installed here, configured by the cluster's device-config."""
    from hami_core.settings import load_device_config

    return _loaded(load_device_config(device_config or None))


def _loaded(
    config: Mapping[str, Any], *, side: Literal["scheduler", "node"] = "scheduler", node: NodeContext | None = None
) -> Loaded:
    import logging

    from hami_core.plugins import load

    logging.getLogger("hami.plugins").setLevel(logging.CRITICAL)  # problems become findings
    return load(config, side=side, node=node)


def _print(report: Report, output: str) -> None:
    if output == "json":
        from hami_core.doctor.report import as_json

        print(json.dumps(as_json(report), indent=1))
        return
    from rich.console import Console

    from hami_core.doctor.report import show

    show(report, Console())
