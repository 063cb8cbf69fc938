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

from hami_core.cli.completion import vendors

if TYPE_CHECKING:
    from hami_core.demo.run import Course
    from hami_core.testing.demo import Demo
    from hami_core.testing.stage import Stage, StageNode


@click.command("demo")
@click.option(
    "--vendor",
    shell_complete=vendors,
    help="Installed vendor to show; by default the one that brings its own demo.",
)
@click.option(
    "--gpu",
    type=click.Choice(["simulated", "real"]),
    default="simulated",
    help="Which devices to use, for a vendor that brings its own demo.",
)
@click.option(
    "--manifests",
    type=click.Path(exists=True, path_type=Path),
    help="Submit these Pods, Deployments and Jobs instead of the examples.",
)
@click.option(
    "--nodes",
    "nodes_file",
    type=click.Path(exists=True, path_type=Path),
    help="Node manifests (names, labels, annotations, capacity), for a vendor without its own demo.",
)
@click.option(
    "--agent-env",
    multiple=True,
    metavar="NAME=VALUE",
    help="Environment variable for the node agents, such as where the vendor finds its devices. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option("--keep", is_flag=True, help="Keep everything running for kubectl until Ctrl-C.")
@click.option(
    "--dir", "work", type=click.Path(path_type=Path), help="Work in this folder, and keep logs and state there."
)
def command(
    vendor: str | None,
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

    Starts an embedded cluster, the scheduler and one node agent for each node, then submits pods. A vendor may bring
    its own demo: simulated or real devices, and example pods whose programs measure their limits. With any vendor and
    your own manifests, the demo shows phase, node, slices, environment, devices and exit status of each container.

    Containers are processes of this machine: images are not used, so each container needs a command. With a vendor
    that brings its own demo, a program in your manifest is measured too if it prints one JSON line:

    \b
      {"program": "mine", "pid": 4711, "devices": [
        {"uuid": "GPU-…", "total_bytes": 3145728000}]}

    It must print the line, here wrapped, within 3 seconds and then go on running. A program that allocates until
    nothing more fits adds allocated_bytes and refusal, the driver's error code, to the device. A container without a
    report is judged by its allocation alone.

    Needs the extra hami[testing]; a vendor's own demo needs hami[demo] and a C compiler. Exits with 1 if a pod did not
    get exactly what it requested.
    """  # noqa: D301 - click reads \b as "do not wrap"
    from hami_core.demo.run import Course

    with contextlib.ExitStack() as stack:
        if work is None:
            folder = Path(tempfile.mkdtemp(prefix="hami-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        else:
            folder = _writable(work.resolve())
        vendor, own = _vendor(vendor)
        submitted = _manifests(vendor, own, manifests)
        stage = _stage(folder, vendor, own, gpu=gpu, nodes=nodes_file, env=_environment(agent_env))
        with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
            course = Course(stage, submitted, time.monotonic(), own.programs if own else ())
            sys.exit(asyncio.run(_demo(course, gpus=gpu if own else "", as_json=as_json, keep=keep)))


def _writable(folder: Path) -> Path:
    """The folder, made if it was missing.

    Raises:
        ConfigError: This user may not write there, or a demo has run there.
    """
    from hami_core.errors import ConfigError

    if (folder / "cluster").exists():
        raise ConfigError("--dir", f"{folder} holds a cluster of an earlier run", "remove it, or name another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        problem = f"{folder} can't be written to: {error.strerror}"
        raise ConfigError("--dir", problem, "name a folder of yours, or leave --dir out") from error
    return folder


def _vendor(name: str | None) -> tuple[str, Demo | None]:
    """The vendor to show, and its own demo; None if it has none.

    Raises:
        ConfigError: The vendor is not installed; or none was named, and not exactly one installed vendor has a demo.
        VendorError: The vendor's demo cannot be imported.
    """
    from hami_core.errors import ConfigError
    from hami_core.plugins.discovery import DEMO, VENDORS, Selection, discover, installed, require_installed

    with_demo = sorted({source.name for source, _ in installed(DEMO)})
    if name is None:
        if len(with_demo) != 1:
            if not with_demo:
                fix = "pip install 'hami[demo]', or name an installed vendor: --vendor NAME --manifests FILE"
                raise ConfigError("--vendor", "no vendor with its own demo is installed", fix)
            problem = f"vendors with their own demo: {', '.join(with_demo)}"
            raise ConfigError("--vendor", problem, "choose one, or name any installed vendor")
        name = with_demo[0]
    require_installed([name], VENDORS, "--vendor")
    for found in discover(DEMO, Selection.of([name])):
        if found.plugin is None:
            raise found.error or ConfigError("--vendor", f"the demo of {name} cannot be loaded")
        return name, found.plugin()
    return name, None


def _manifests(vendor: str, own: Demo | None, manifests: Path | None) -> list[dict[str, Any]]:
    """The pods and workloads to submit.

    Raises:
        ConfigError: There are none, or the file can't be read.
    """
    from hami_core.demo.manifests import load
    from hami_core.errors import ConfigError

    if manifests is None:
        if own is None:
            fix = f"give a file with pods that request devices of {vendor}: --manifests FILE"
            raise ConfigError("--manifests", f"there are no example pods for {vendor}", fix)
        manifests = own.manifests
    return load(manifests)


def _environment(pairs: tuple[str, ...]) -> dict[str, str]:
    """Environment of the node agents.

    Raises:
        ConfigError: A pair is malformed.
    """
    from hami_core.errors import ConfigError

    for pair in pairs:
        if not pair.partition("=")[0] or "=" not in pair:
            raise ConfigError("--agent-env", f"{pair!r} is not NAME=VALUE", "write it as HAMI_ACME_SYSFS=/tmp/acme")
    return dict(pair.split("=", 1) for pair in pairs)


def _stage(folder: Path, vendor: str, own: Demo | None, *, gpu: str, nodes: Path | None, env: dict[str, str]) -> Stage:
    """The stage.

    Raises:
        ConfigError: An option does not apply to the vendor, or nothing says which devices its nodes have.
    """
    from hami_core.errors import ConfigError
    from hami_core.testing.stage import Stage

    if own is None:
        if gpu != "simulated":
            raise ConfigError("--gpu", f"is for a vendor with its own demo, not for {vendor}", "leave it out")
        return Stage(folder, _nodes(vendor, nodes, env), [vendor])
    if nodes is not None:
        raise ConfigError("--nodes", f"{vendor} brings its own nodes", "leave it out, or choose another vendor")
    return own.stage(folder, real=gpu == "real", env=env)


def _nodes(vendor: str, file: Path | None, env: dict[str, str]) -> list[StageNode]:
    """The nodes for a vendor without its own demo.

    Raises:
        ConfigError: Nothing says which devices the nodes have.
    """
    from hami_core.demo.manifests import documents
    from hami_core.errors import ConfigError
    from hami_core.plugins.discovery import NODE, installed
    from hami_core.testing.stage import StageNode

    if file is None:
        if vendor not in {source.name for source, _ in installed(NODE)}:
            fix = "give Node manifests that look as the vendor's device plugin leaves them: --nodes FILE"
            raise ConfigError("--vendor", f"{vendor} has no node side (no entry point in {NODE})", fix)
        return [StageNode("node-1", env=env)]
    found = []
    for node in documents(file, ("Node",), "nodes only"):
        meta, status = node["metadata"], node.get("status") or {}
        parts = (meta.get("annotations"), meta.get("labels"), status.get("capacity"))
        annotations, labels, capacity = ({k: str(v) for k, v in (part or {}).items()} for part in parts)
        found.append(StageNode(meta["name"], env=env, annotations=annotations, labels=labels, capacity=capacity))
    return found


async def _demo(course: Course, *, gpus: str, as_json: bool, keep: bool) -> int:
    from rich.console import Console

    from hami_core.demo.run import document
    from hami_core.demo.view import closing, final

    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    screen, stage = Console(stderr=as_json), course.stage
    with screen.status("starting cluster, scheduler and agents"):
        await stage.__aenter__()
    try:
        await _watch(course, screen, quiet=as_json)
        seconds = time.monotonic() - course.started
        result = document(course.verdicts(), seconds, course.isolation, vendor=stage.vendors[0], gpus=gpus)
        if as_json:
            print(json.dumps(result, indent=1))
        else:
            screen.print(final(course.verdicts()), *closing(result), sep="\n")
        if keep:
            screen.print(
                f"\nexport KUBECONFIG={stage.cluster.kubeconfig}\nexport HAMI_SCHEDULER_URL={stage.metrics_url}\n"
                f"Logs: {stage.work}\nScheduler and agents run beside "
                "the cluster, so hami doctor misses their pods and the chart's policy.\nCtrl-C ends it."
            )
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
    if not screen.is_terminal:
        screen.line()  # rich ends the last picture's line only on a terminal
