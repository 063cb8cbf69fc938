"""``python -m tests.e2e.bed``: the command line of a bed.

Every command finds the bed by its work folder, so several beds may be up at once.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from tests.e2e.bed import golang, tools, waiting
from tests.e2e.bed.bed import Bed
from tests.e2e.bed.control_plane import MACHINE as CONTROL_PLANE
from tests.e2e.bed.errors import BedError
from tests.e2e.bed.recipes import RECIPES
from tests.e2e.bed.state import Node

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT = Path("/tmp/hami-bed")
PASS_ON = {"ignore_unknown_options": True, "help_option_names": []}

work_option = click.option(
    "--work", type=click.Path(path_type=Path), default=DEFAULT, show_default=True, help="The bed's folder."
)


def stopwatch() -> Callable[[str], None]:
    """A function that prints a line after the seconds since this call."""
    began = time.monotonic()
    return lambda text: click.echo(f"{time.monotonic() - began:6.1f} s  {text}", err=True)


class Commands(click.Group):
    """Prints errors of a bed as a sentence, not as a traceback."""

    def invoke(self, context: click.Context) -> object:
        """Run a command."""
        try:
            return super().invoke(context)
        except BedError as error:
            notes = "\n".join(getattr(error, "__notes__", []))
            raise click.ClickException(f"{error}\n{notes}".strip()) from error


@click.group(cls=Commands)
def main() -> None:
    """Run a real Kubernetes cluster on this machine, for tests and experiments. Needs root."""


@main.command()
@work_option
@click.option("--nodes", default=2, show_default=True, help="Number of nodes. They are called node1, node2, …")
@click.option("--gpus", default="", help="Simulated GPUs of every node, such as a100x2.")
@click.option("--kubernetes", default="1.36", show_default=True, help="Version of Kubernetes.")
@click.option("--containerd", default="2", show_default=True, help="Release line of containerd.")
@click.option("--helm", default="4", show_default=True, help="Release line of Helm.")
@click.option("--image", "images", multiple=True, help="Path of an OCI archive, or name of an image of contrib/images.")
@click.option("--no-cdi", is_flag=True, help="Run containerd without CDI.")
def up(
    work: Path,
    nodes: int,
    gpus: str,
    kubernetes: str,
    containerd: str,
    helm: str,
    images: tuple[str, ...],
    no_cdi: bool,
) -> None:
    """Start a bed and leave it running."""
    from tests.e2e.bed import images as built  # builds them; other commands need none

    say = stopwatch()
    found = tools.find(kubernetes, containerd, helm, say=say)
    paths = [Path(image) for image in images if os.sep in image]
    archives = [*built.ensure(found, [image for image in images if os.sep not in image]), *paths]
    wanted = [Node(f"node{number}", gpus) for number in range(1, nodes + 1)]
    bed = Bed(work, found, wanted, images=archives, cdi=not no_cdi)
    bed.up()
    say(f"Kubernetes {found.kubernetes}, containerd {found.containerd}: {nodes} nodes Ready in {bed.work}")
    click.echo(f"python -m tests.e2e.bed kubectl --work {bed.work} get nodes")


@main.command()
@work_option
@click.option("--purge", is_flag=True, help="Remove the logs too.")
def down(work: Path, purge: bool) -> None:
    """End a bed, also after its program was interrupted. Only the logs are kept."""
    say = stopwatch()
    Bed.open(work).down(purge=purge)
    say("gone" if purge else f"gone; logs are in {work.absolute() / 'log'}")


def _become(command: list[str], environment: dict[str, str]) -> NoReturn:
    sys.stdout.flush()
    os.execvpe(command[0], command, {**os.environ, **environment})


def _client(work: Path, words: tuple[str, ...], program: str) -> NoReturn:
    bed = Bed.open(work)
    environment = {"KUBECONFIG": f"{bed.work}/kubeconfig/admin", "HELM_CACHE_HOME": f"{bed.work}/helm/cache"}
    path = bed.tools.kubectl if program == "kubectl" else bed.tools.helm
    _become(bed.components.machine(CONTROL_PLANE).enter(str(path), *words), environment)


@main.command(context_settings=PASS_ON)
@work_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def kubectl(work: Path, words: tuple[str, ...]) -> None:
    """Run kubectl as cluster admin."""
    _client(work, words, "kubectl")


@main.command(context_settings=PASS_ON)
@work_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def helm(work: Path, words: tuple[str, ...]) -> None:
    """Run helm as cluster admin."""
    _client(work, words, "helm")


@main.command("in", context_settings=PASS_ON)
@work_option
@click.argument("machine")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, required=True)
def in_(work: Path, machine: str, words: tuple[str, ...]) -> None:
    """Run a command on a machine: cp or a node."""
    bed = Bed.open(work)
    path = f"{bed.tools.path}:{os.environ.get('PATH', '')}"
    socket = {"CONTAINERD_ADDRESS": "/run/containerd/containerd.sock", "CONTAINERD_NAMESPACE": "k8s.io"}
    _become(bed.components.machine(machine).enter(*words), {"PATH": path, **socket})


@main.command()
@work_option
def status(work: Path) -> None:
    """Show components and nodes."""
    bed = Bed.open(work)
    click.echo(f"Kubernetes {bed.tools.kubernetes}, containerd {bed.tools.containerd}, bed {bed.state.id}")
    for name, component in bed.state.components.items():
        runs = f"pid {component.process.pid}" if component.process and component.process.alive() else "does not run"
        click.echo(f"  {name:28} {runs}")
    for node in bed.call("GET", "/api/v1/nodes")["items"]:
        click.echo(f"  {node['metadata']['name']:28} {'Ready' if waiting.ready(node) else 'not Ready'}")


@main.command()
@work_option
def mem(work: Path) -> None:
    """Show the resident memory of every process."""
    bed, total = Bed.open(work), 0
    for machine in bed.state.machines:
        for row in sorted(bed.processes(machine), key=lambda row: -row.rss):
            total += row.rss
            click.echo(f"{machine:12} {row.pid:8} {row.name:24} {row.rss / 1024:8.1f} MiB")
    click.echo(f"{'total':46} {total / 1024:8.1f} MiB")


def _fault(name: str, argument: str, help_text: str) -> None:
    """Add a command that calls the bed's method of the same name."""

    @main.command(name, help=help_text)
    @work_option
    @click.argument(argument)
    def command(work: Path, **words: str) -> None:
        getattr(Bed.open(work), name)(words[argument])


_fault("stop", "component", "End a component with SIGTERM (etcd, kube-apiserver, kubelet:node1, …).")
_fault("start", "component", "Start a component.")
_fault("restart", "component", "Stop and start a component.")
_fault("kill", "component", "End a component with SIGKILL.")
_fault("pause", "component", "Freeze a component with SIGSTOP.")
_fault("resume", "component", "Continue a frozen component.")
_fault("reboot", "node", "Power a node off and on.")
_fault("cut", "node", "Disconnect a node from the network.")
_fault("join", "node", "Connect a node to the network again.")


@main.command("add-node")
@work_option
@click.option("--gpus", default="", help="Simulated GPUs of the node, such as a100x2.")
@click.argument("name")
def add_node(work: Path, gpus: str, name: str) -> None:
    """Add a node and wait until it is Ready."""
    Bed.open(work).add_node(Node(name, gpus))


@main.command("import")
@work_option
@click.argument("archive", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("nodes", nargs=-1)
def import_(work: Path, archive: Path, nodes: tuple[str, ...]) -> None:
    """Import the images of an OCI archive on nodes; on all nodes if none is named."""
    Bed.open(work).import_image(archive, nodes or None)


@main.command("tools")
@click.option("--record", type=click.Choice(sorted(RECIPES)), multiple=True, help="Update a go.sum by building it.")
@click.argument("names", nargs=-1, type=click.Choice(sorted(RECIPES)))
def tools_(record: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Find or build programs and print their paths; all programs if none is named."""
    say = stopwatch()
    for name in record:
        tools.record(RECIPES[name], say)
    for name in (*record, *names) or sorted(RECIPES):
        click.echo(f"{name:16} {tools.locate(RECIPES[name], say=say)}")
    click.echo(f"{'cache':16} {golang.cache()}")


if __name__ == "__main__":
    main(prog_name="python -m tests.e2e.bed")
