"""``hami simulate``: compares placement policies on a cluster in virtual time."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hami_core.errors import HamiError
    from hami_core.kube.objects import Pod
    from hami_core.plugins import Loaded
    from hami_core.scheduler.cluster import Cluster
    from hami_core.simulate.generator import Generate
    from hami_core.simulate.run import Result
    from hami_core.simulate.snapshot import SnapshotWorld
    from hami_core.simulate.workload import Workload
    from hami_core.simulate.world import Unreadable, World

FILE = click.Path(path_type=Path)
RUN = "run"
"""The part that is meant if none is named."""


class _WithDefault(click.Group):
    """A group that takes `RUN` for the part if the first word names none: ``hami simulate CLUSTER WORKLOAD``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*self.commands, "-h", "--help"}:
            args = [RUN, *args]
        return super().parse_args(ctx, args)


@click.group("simulate", cls=_WithDefault)
def command() -> None:
    """Try placement policies on a cluster in virtual time, by the scheduler's own code.

    hami simulate CLUSTER WORKLOAD compares policies. CLUSTER is a file that describes nodes, or a snapshot of a live
    cluster. WORKLOAD is a file with jobs, or with what to generate.
    """


device_config = click.option("--device-config", type=FILE, help="The vendors' device-config; default: theirs.")
skip_unreadable = click.option("--skip-unreadable", is_flag=True, help="Go on if objects of a snapshot can't be read.")


@command.command(RUN)
@click.argument("cluster", type=FILE)
@click.argument("workload", type=FILE)
@click.option("--policies", help="Comma list of NODE/DEVICE; default: binpack and spread for both.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--plots", type=FILE, metavar="DIR", help="Write plots (SVG and PNG) into this folder.")
@skip_unreadable
@device_config
def run(
    *,
    cluster: Path,
    workload: Path,
    policies: str | None,
    output: str,
    plots: Path | None,
    skip_unreadable: bool,
    device_config: Path | None,
) -> None:
    """Run a workload under several policies and compare them.

    Exits with 1 if a file is wrong, or if objects of a snapshot can't be read and --skip-unreadable is not given.
    """
    import time

    from rich.console import Console

    from hami_core.errors import ConfigError
    from hami_core.simulate import report
    from hami_core.simulate.run import POLICIES, policies_of, simulate

    chosen = policies_of(POLICIES if policies is None else policies)
    draw = _drawer(plots)
    loaded = _loaded(device_config)
    world, unreadable = _world(cluster, loaded)
    pods = _pods(workload, world, unreadable)
    _report_unreadable(unreadable, skip=skip_unreadable)
    size = _size(world)
    if not size["cards"]:
        raise ConfigError(
            str(cluster), "has no card that pods can get", "describe nodes with cards, or run hami doctor"
        )
    if not len(pods):
        raise ConfigError(str(workload), "has no pods", "write jobs or what to generate")
    results: list[Result] = []
    for number, policy in enumerate(chosen, 1):
        with _progress(f"{policy} ({number} of {len(chosen)})", len(pods)) as progress, _without_gc():
            results.append(simulate(world, pods, policy, clock=time.perf_counter, progress=progress))
    if output == "json":
        print(json.dumps(report.as_json(results, pods, unreadable, **size), indent=1))
    else:
        report.show(report.about(pods, **size), results, pods, Console())
    if draw is not None:
        draw(results, pods)


@command.command("generate")
@click.argument("cluster", type=FILE)
@click.option(
    "-o", "--output", type=FILE, required=True, metavar="FILE", help="File to write; its name ends in .jsonl."
)
@click.option("--pods", type=int, default=1000, show_default=True, help="How many pods.")
@click.option("--load", type=float, default=0.9, show_default=True, help="Card-seconds asked for over those there are.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the random numbers.")
@click.option("--family", default="", help="Devices to ask for; default: those that the cluster has most of.")
@skip_unreadable
@device_config
def generate(
    *,
    cluster: Path,
    output: Path,
    skip_unreadable: bool,
    device_config: Path | None,
    **wanted: Any,  # noqa: ANN401 - click's
) -> None:
    """Draw a workload at random and write it, one pod a line.

    The same cluster, options and seed give the same file. Exits with 1 if a file is wrong, or if objects of a snapshot
    can't be read and --skip-unreadable is not given.
    """
    import orjson

    from hami_core.errors import ConfigError
    from hami_core.policies import PolicyDefaults
    from hami_core.simulate.clusterfile import strict
    from hami_core.simulate.generator import Generate
    from hami_core.simulate.workload import LINES

    if output.suffix != LINES:
        raise ConfigError(str(output), f"does not end in {LINES}", f"write {output.with_suffix(LINES)}")
    asked = strict(Generate, wanted, "options")
    world, unreadable = _world(cluster, _loaded(device_config))
    _report_unreadable(unreadable, skip=skip_unreadable)
    lines = b"".join(orjson.dumps(job) + b"\n" for job in _drawn(asked, world.open(PolicyDefaults()), "options"))
    _write(output, lines)


@command.command("snapshot")
@click.option("-o", "--output", type=FILE, required=True, metavar="FILE", help="File to write.")
@click.option("--kubeconfig", type=FILE, help="Cluster to read; default: as kubectl chooses it.")
@click.option("--context", help="Context of the kubeconfig.")
@skip_unreadable
@device_config
def snapshot(
    *, output: Path, kubeconfig: Path | None, context: str | None, skip_unreadable: bool, device_config: Path | None
) -> None:
    """Write a snapshot of a live cluster: its nodes, pods with devices and ResourceQuotas.

    It has no environment, no images and no secrets. Needs the right to list nodes, pods and resourcequotas.
    """
    loaded = _loaded(device_config)
    listed, unreadable = asyncio.run(_taken(loaded, kubeconfig, context))
    _report_unreadable(unreadable, skip=skip_unreadable)
    _write(output, json.dumps(listed, indent=1).encode() + b"\n")


async def _taken(
    loaded: Loaded, kubeconfig: Path | None, context: str | None
) -> tuple[dict[str, Any], list[Unreadable]]:
    from hami_core._version import __version__
    from hami_core.kube.official import connect
    from hami_core.simulate.snapshot import take

    api = await connect(kubeconfig, context=context, user_agent=f"hami-simulate/{__version__}")
    try:
        return await take(api, loaded.families)
    finally:
        await api.close()


def _loaded(device_config: Path | None) -> Loaded:
    import logging

    import structlog

    from hami_core.plugins import load
    from hami_core.settings import load_device_config

    # The command lists what can't be read. Standard output is the table's, which may be JSON.
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
    loaded = load(load_device_config(device_config))
    loaded.require()
    return loaded


def _world(path: Path, loaded: Loaded) -> tuple[World, list[Unreadable]]:
    """The cluster of a file, and what of it can't be read."""
    from hami_core.documents import decoded, load_mapping
    from hami_core.simulate.clusterfile import described_world
    from hami_core.simulate.snapshot import MAX_BYTES, read

    data = _read(path, MAX_BYTES)
    found: SnapshotWorld | None = read(data, loaded, str(path))
    if found is not None:
        return found, found.unreadable()
    return described_world(load_mapping(decoded(data, str(path)), str(path)), loaded, str(path)), []


def _size(world: World) -> dict[str, int]:
    """Numbers of nodes and cards that pods can get, and the cards' memory. Its cluster is gone before the runs."""
    from hami_core.policies import PolicyDefaults
    from hami_core.simulate.cards import Cards, candidates

    cluster = world.open(PolicyDefaults())
    cards = Cards(cluster.inventory, *candidates(cluster))
    return {"nodes": cards.nodes, "cards": cards.cards, "memory_mib": cards.memory_mib}


def _pods(path: Path, world: World, unreadable: list[Unreadable]) -> Workload:
    """The workload of a file, with the pods of the cluster that wait."""
    from itertools import chain

    from hami_core.policies import PolicyDefaults
    from hami_core.simulate.workload import Job, admitted, jobs_of, size_limit
    from hami_core.simulate.world import Unreadable

    def skip(pod: Pod, error: HamiError) -> None:
        unreadable.append(Unreadable("Pod", pod.key, str(error), "it is left out"))

    given, wanted = jobs_of(_text(path, *size_limit(str(path))), str(path))
    place = f"{path}: generate"
    cluster = world.open(PolicyDefaults())
    drawn = ((Job(**job), place) for job in _drawn(wanted, cluster, place)) if wanted is not None else ()
    return admitted(cluster, chain(given, drawn), world.pending(), skip)


def _drawn(wanted: Generate, cluster: Cluster, place: str) -> Iterator[dict[str, Any]]:
    import random

    from hami_core.simulate.workload import generated

    return generated(wanted, cluster, random.Random(wanted.seed), place)  # noqa: S311 - no secret


def _report_unreadable(found: Sequence[Unreadable], *, skip: bool) -> None:
    from rich.console import Console

    from hami_core.errors import ConfigError
    from hami_core.simulate.report import show_unreadable

    show_unreadable(found, Console(stderr=True))
    if found and not skip:
        objects = "1 object" if len(found) == 1 else f"{len(found)} objects"
        fix = "correct them, or go on with --skip-unreadable: nothing is given away on their nodes"
        raise ConfigError("snapshot", f"{objects} can't be read", fix)


@contextmanager
def _progress(text: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error if that is a terminal. It is drawn at most ten times a second."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _done: None
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda done: bar.update(task, completed=done) if done % 64 == 0 else None


@contextmanager
def _without_gc() -> Iterator[None]:
    """Switch the garbage collector off: a run makes no cycles, and looking for some takes a third of its time."""
    import gc

    gc.collect()  # the clusters of reading, or of the run before
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _drawer(folder: Path | None) -> Callable[[Sequence[Result], Workload], None] | None:
    """What draws the plots; None: none are wanted. The library is looked for before the work begins."""
    if folder is None:
        return None
    from hami_core.errors import ConfigError

    try:
        from hami_core.simulate.plots import draw
    except ImportError as error:
        raise ConfigError("--plots", f"needs {error.name}", "pip install 'hami[simulate]'") from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            str(folder), f"can't be made: {error.strerror}", "name a folder that you may write"
        ) from error

    def write(results: Sequence[Result], workload: Workload) -> None:
        for name, content in draw(results, workload):
            _write(folder / name, content)

    return write


def _text(path: Path, limit: int, fix: str) -> str:
    from hami_core.errors import ConfigError

    try:
        return _read(path, limit, fix).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), f"byte {error.start} is not UTF-8", "save it as UTF-8") from None


def _read(path: Path, limit: int, fix: str = "") -> bytes:
    from hami_core.errors import ConfigError

    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(str(path), f"can't be read: {why}", "name a file that you may read") from error
    if len(data) > limit:
        raise ConfigError(str(path), f"is longer than {limit >> 20} MiB", fix)
    return data


def _write(path: Path, content: bytes) -> None:
    from hami_core.errors import ConfigError

    try:
        path.write_bytes(content)
    except OSError as error:
        raise ConfigError(str(path), f"can't be written: {error.strerror}", "name a file that you may write") from error
