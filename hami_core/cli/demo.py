"""``hami demo``: the whole system on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hami_core.demo.run import Course


@click.command("demo")
@click.option("--gpu", type=click.Choice(["simulated", "real"]), default="simulated", help="Which GPUs to use.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option("--keep", is_flag=True, help="Leave everything running for kubectl until Ctrl-C.")
@click.option("--manifests", type=click.Path(exists=True, path_type=Path), help="Submit these pods instead.")
@click.option("--dir", "work", type=click.Path(path_type=Path), help="Work here, and leave logs and state behind.")
def command(gpu: str, *, as_json: bool, keep: bool, manifests: Path | None, work: Path | None) -> None:
    """Run the whole system on this machine, on simulated or real GPUs.

    Starts an embedded cluster, the scheduler and a node agent per node, submits the example manifests, lets client
    programs inside the containers measure their limits, and says whether each got exactly what it asked for. Exits
    with 1 when one did not.
    """
    with contextlib.ExitStack() as stack:
        if work is None:
            folder = Path(tempfile.mkdtemp(prefix="hami-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        else:
            folder = work.resolve()
        with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
            sys.exit(asyncio.run(_demo(folder, manifests, real=gpu == "real", as_json=as_json, keep=keep)))


async def _demo(folder: Path, manifests: Path | None, *, real: bool, as_json: bool, keep: bool) -> int:
    from rich.console import Console

    from hami_core.demo.manifests import folder as examples
    from hami_core.demo.manifests import load
    from hami_core.demo.run import Course, document
    from hami_core.demo.stage import GpuNode, Stage
    from hami_core.demo.view import final

    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    started = time.monotonic()
    pods = load(manifests or examples())
    screen = Console(stderr=as_json)
    nodes: Sequence[GpuNode] = (
        [GpuNode("gpu-1", "")] if real else [GpuNode("gpu-1", "h100x2"), GpuNode("gpu-2", "a100x2")]
    )
    with screen.status("starting cluster, scheduler and agents"):
        stage = Stage(folder, nodes, real=real)
        await stage.__aenter__()
    try:
        course = Course(stage, pods, started)
        await _watch(course, screen, quiet=as_json)
        verdicts = course.verdicts()
        result = document(verdicts, time.monotonic() - started, course.isolation, real=real)
        if as_json:
            print(json.dumps(result, indent=1))
        else:
            screen.print(final(verdicts))
            _say(screen, result)
        if keep:
            screen.print(f"\nexport KUBECONFIG={stage.cluster.kubeconfig}\nLogs: {folder}\nCtrl-C ends it.")
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        return 0 if result["ok"] else 1
    finally:
        with screen.status("stopping"):
            await stage.close()


async def _watch(course: Course, screen: Any, *, quiet: bool) -> None:  # noqa: ANN401 - a Rich console
    from rich.live import Live

    from hami_core.demo.view import live

    if quiet:
        async for _ in course.run():
            pass
        return
    with Live(console=screen, refresh_per_second=8) as picture:
        async for snapshot in course.run():
            picture.update(live(snapshot))


def _say(screen: Any, result: dict[str, Any]) -> None:  # noqa: ANN401 - a Rich console
    if result["isolation"] == "reduced":
        screen.print(
            "[yellow]reduced:[/] this machine allows no mount namespaces; containers were told their library paths "
            "by environment instead of mounts."
        )
    word = "[green]Every container got exactly its slice" if result["ok"] else "[red]Not as it should be"
    screen.print(f"{word}[/], {result['overshoot_bytes']} bytes beyond any limit, {result['seconds']} s in all.")
