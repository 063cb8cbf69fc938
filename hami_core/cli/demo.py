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
    from hami_core.demo.run import Course
    from hami_core.testing.stage import Stage, StageNode


@click.command("demo")
@click.option("--vendor", default="nvidia", show_default=True, help="Whose devices: any installed vendor.")
@click.option("--gpu", type=click.Choice(["simulated", "real"]), default="simulated", help="Which GPUs, for nvidia.")
@click.option("--manifests", type=click.Path(exists=True, path_type=Path), help="Submit these pods instead.")
@click.option(
    "--nodes",
    "nodes_file",
    type=click.Path(exists=True, path_type=Path),
    help="Node manifests: names, labels, annotations, capacity. For a vendor other than nvidia.",
)
@click.option(
    "--agent-env",
    multiple=True,
    metavar="NAME=VALUE",
    help="Environment of the node agents, such as where the vendor finds its devices. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option("--keep", is_flag=True, help="Leave everything running for kubectl until Ctrl-C.")
@click.option("--dir", "work", type=click.Path(path_type=Path), help="Work here, and leave logs and state behind.")
def command(
    vendor: str,
    gpu: str,
    manifests: Path | None,
    nodes_file: Path | None,
    agent_env: tuple[str, ...],
    *,
    as_json: bool,
    keep: bool,
    work: Path | None,
) -> None:
    """Run the whole system on this machine.

    Starts an embedded cluster, the scheduler and a node agent per node, and submits pods. With NVIDIA, on simulated or
    real GPUs, the example pods' client programs measure their limits. With any vendor and manifests of your own, it
    tells each container's phase, node, slices, environment, devices and exit status. Exits with 1 when a pod did not
    get exactly what it asked for.
    """
    with contextlib.ExitStack() as stack:
        if work is None:
            folder = Path(tempfile.mkdtemp(prefix="hami-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        else:
            folder = work.resolve()
        pods = _pods(vendor, manifests)
        stage = _stage(folder, vendor, gpu, _nodes(vendor, gpu, nodes_file, agent_env))
        with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
            sys.exit(asyncio.run(_demo(stage, pods, gpu=gpu, as_json=as_json, keep=keep)))


def _pods(vendor: str, manifests: Path | None) -> list[dict[str, Any]]:
    """The pods to submit.

    Raises:
        ConfigError: The vendor is not installed, or its pods are not given or can't be read.
    """
    from hami_core.demo.manifests import folder, load
    from hami_core.errors import ConfigError
    from hami_core.plugins.discovery import VENDORS, require_installed

    require_installed([vendor], VENDORS, "--vendor")
    if manifests is None and vendor != "nvidia":
        fix = f"give a file with pods that ask for devices of {vendor}: --manifests FILE"
        raise ConfigError("--manifests", "the example pods ask for NVIDIA's devices", fix)
    return load(manifests or folder())


def _nodes(vendor: str, gpu: str, file: Path | None, agent_env: tuple[str, ...]) -> list[StageNode]:
    """The nodes of the stage.

    Raises:
        ConfigError: An option is malformed or does not go with the vendor, or nothing says what devices there are.
    """
    from hami_core.demo.manifests import documents
    from hami_core.demo.stage import GpuNode
    from hami_core.errors import ConfigError
    from hami_core.plugins.discovery import NODE, installed
    from hami_core.testing.stage import StageNode

    for pair in agent_env:
        if not pair.partition("=")[0] or "=" not in pair:
            raise ConfigError("--agent-env", f"{pair!r} is not NAME=VALUE", "such as HAMI_ACME_SYSFS=/tmp/acme")
    env = dict(pair.split("=", 1) for pair in agent_env)
    if vendor == "nvidia":
        if file is not None:
            raise ConfigError("--nodes", "nvidia's nodes are the demo's own", "leave it out, or choose another vendor")
        profiles = {"gpu-1": ""} if gpu == "real" else {"gpu-1": "h100x2", "gpu-2": "a100x2"}
        return [GpuNode(name, profile, env=env) for name, profile in profiles.items()]
    if gpu != "simulated":
        raise ConfigError("--gpu", f"is for nvidia, not {vendor}", "leave it out")
    if file is None:
        if vendor not in {source.name for source, _ in installed(NODE)}:
            fix = "give Node manifests as the vendor's device plugin leaves the nodes: --nodes FILE"
            raise ConfigError("--vendor", f"{vendor} has no node side (no entry point in {NODE})", fix)
        return [StageNode("node-1", env=env)]
    found = []
    for node in documents(file, "Node", "nodes only"):
        meta, status = node["metadata"], node.get("status") or {}
        parts = (meta.get("annotations"), meta.get("labels"), status.get("capacity"))
        annotations, labels, capacity = ({k: str(v) for k, v in (part or {}).items()} for part in parts)
        found.append(StageNode(meta["name"], env=env, annotations=annotations, labels=labels, capacity=capacity))
    return found


def _stage(folder: Path, vendor: str, gpu: str, nodes: list[Any]) -> Stage:
    from hami_core.demo.stage import GpuStage
    from hami_core.testing.stage import Stage

    if vendor == "nvidia":
        return GpuStage(folder, nodes, real=gpu == "real")
    return Stage(folder, nodes, [vendor])


async def _demo(stage: Stage, pods: list[dict[str, Any]], *, gpu: str, as_json: bool, keep: bool) -> int:
    from rich.console import Console

    from hami_core.demo.run import Course, document
    from hami_core.demo.view import final

    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    started = time.monotonic()
    screen = Console(stderr=as_json)
    vendor = stage.vendors[0]
    with screen.status("starting cluster, scheduler and agents"):
        await stage.__aenter__()
    try:
        course = Course(stage, pods, started)
        await _watch(course, screen, quiet=as_json)
        gpus = gpu if vendor == "nvidia" else ""
        seconds = time.monotonic() - started
        result = document(course.verdicts(), seconds, course.isolation, vendor=vendor, gpus=gpus)
        if as_json:
            print(json.dumps(result, indent=1))
        else:
            screen.print(final(course.verdicts()))
            _say(screen, result)
        if keep:
            screen.print(f"\nexport KUBECONFIG={stage.cluster.kubeconfig}\nLogs: {stage.work}\nCtrl-C ends it.")
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
    if not result["ok"]:
        word = "[red]Not as it should be[/]"
    elif result["measured"]:
        word = f"[green]Every container got exactly its slice[/], {result['overshoot_bytes']} bytes beyond any limit"
    else:
        word = "[green]Every container was given the devices it asked for[/]"
    screen.print(f"{word}, {result['seconds']} s in all.")
