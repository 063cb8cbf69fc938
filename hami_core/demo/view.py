"""The demo's screen, drawn by Rich: nodes with their cards as bars, pods, events, and the final tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from hami_core.demo.verdict import OUT_OF_MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.demo.verdict import GivenSlice, PodVerdict

MIB: Final = 1 << 20
BAR_WIDTH: Final = 24
COLOURS: Final = ("cyan", "magenta", "green", "yellow", "blue", "red", "bright_cyan", "bright_magenta")
PHASES: Final = {"Running": "green", "Succeeded": "green", "Pending": "yellow", "Failed": "red"}


@dataclass(frozen=True, slots=True)
class Card:
    """One card: its size in bytes, and how many bytes each pod holds (``held``, by pod name)."""

    name: str
    uuid: str
    total: int
    held: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PodRow:
    """One pod as the API server has it."""

    name: str
    asked: str
    phase: str
    node: str
    note: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything on the screen at one moment."""

    step: str
    seconds: float
    nodes: Mapping[str, Sequence[Card]]
    pods: Sequence[PodRow]
    events: Sequence[str]


def colour_of(pod: str, pods: Sequence[str]) -> str:
    """The colour of a pod. It stays the same while the list keeps its order."""
    return COLOURS[pods.index(pod) % len(COLOURS)] if pod in pods else "white"


def bar(card: Card, pods: Sequence[str]) -> Text:
    """A card as a bar with one colour for each pod. A pod that holds any memory gets at least one cell."""
    text, used = Text(), 0
    for pod, size in card.held.items():
        share = size / card.total if card.total else 1 / len(card.held)  # the memory is not counted
        cells = min(BAR_WIDTH - used, max(1, round(share * BAR_WIDTH)))
        text.append("█" * cells, style=colour_of(pod, pods))
        used += cells
    text.append("░" * (BAR_WIDTH - used), style="dim")
    return text


def live(snapshot: Snapshot) -> RenderableType:
    """The screen while the demo runs."""
    names = [row.name for row in snapshot.pods]
    cards = Table(box=None, show_header=False, padding=(0, 1))
    for node, row in snapshot.nodes.items():
        for position, card in enumerate(row):
            holders = Text(", ").join(
                Text(f"{pod} {size // MIB:,}" if size else pod, style=colour_of(pod, names))
                for pod, size in card.held.items()
            )
            label = Text(node if position == 0 else "", style="bold")
            cards.add_row(label, card.name, bar(card, names), f"{card.total // MIB:,} MiB" * bool(card.total), holders)
    pods = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for column in ("pod", "asks for", "phase", "node", ""):
        pods.add_column(column, overflow="fold")
    for entry in snapshot.pods:
        phase = Text(entry.phase, style=PHASES.get(entry.phase, "white"))
        pods.add_row(Text(entry.name, style=colour_of(entry.name, names)), entry.asked, phase, entry.node, entry.note)
    events = Text("\n".join(snapshot.events[-5:]), style="dim", overflow="ellipsis", no_wrap=True)
    title = f"{snapshot.step}  [dim]{snapshot.seconds:4.1f} s[/]"
    return Group(Panel(cards, title=title, title_align="left"), pods, events)


def final(verdicts: Sequence[PodVerdict]) -> RenderableType:
    """The final tables: what was measured and what was given. Below them: what was refused, and why."""
    lines: list[Text] = []
    for pod in verdicts:
        if not pod.containers and not pod.problems:
            said = pod.explanation or pod.reason
            told = f" {pod.name} is refused: {said}" if said else f" {pod.name} is {pod.phase} and asks for no device"
            lines.append(Text.assemble(_mark(pod.ok), told))
        lines += [Text(f"✗ {pod.name}: {problem}", style="red") for problem in _problems(pod)]
        for container, output in pod.output.items():
            lines.append(Text(f"  last lines of {pod.name}/{container}:", style="dim"))
            lines += [Text(f"    {line}", style="dim", overflow="ellipsis", no_wrap=True) for line in output]
    return Group(*_measured(verdicts), *_given(verdicts), *lines)


def closing(result: Mapping[str, Any]) -> list[str]:
    """The last lines, as markup: warnings, and the result in a sentence.

    Args:
        result: The result that `hami_core.demo.run.document` makes.
    """
    lines = []
    if result["isolation"] == "reduced":
        lines.append(
            "[yellow]reduced:[/] this machine allows no mount namespaces; containers were told their library paths "
            "by environment instead of mounts."
        )
    silent = [f"{p['name']}/{c['container']}" for p in result["pods"] for c in p["containers"] if not c["devices"]]
    if result["gpus"] and silent:
        lines.append(f"[yellow]not measured:[/] {', '.join(silent)} (no report was printed: see hami demo --help).")
    if not result["ok"]:
        word = "[red]Not as it should be[/]"
    elif result["measured"]:
        word = f"[green]Every container got exactly its slice[/], {result['overshoot_bytes']} bytes beyond any limit"
    else:
        word = "[green]Every container was given the devices it asked for[/]"
    return [*lines, f"{word}, {result['seconds']} s in all."]


def _measured(verdicts: Sequence[PodVerdict]) -> list[Table]:
    """A table of what each container asked for, saw and took on each card; empty if nothing was measured."""
    table = Table(
        box=box.ROUNDED,
        title="What each container asked for, and what it got (MiB)",
        title_style="bold",
        caption="took: what its program could allocate; driver: what the driver says its process holds, context "
        "included; next: the driver's answer to one block more",
    )
    for column in ("container", "card", "asked", "sees", "took", "driver", "next", ""):
        numeric = column in {"asked", "sees", "took", "driver"}
        table.add_column(column, justify="right" if numeric else "left", no_wrap=True)
    for pod in verdicts:
        for container in pod.containers:
            for device in container.devices:
                table.add_row(
                    f"{pod.name}/{container.container}",
                    device.uuid[:12],
                    f"{device.asked // MIB:,}",
                    f"{device.seen // MIB:,}",
                    _mib(device.allocated),
                    _mib(device.driver_used),
                    _answer(device.refusal),
                    _mark(container.ok),
                )
    return [table] if table.rows else []


def _given(verdicts: Sequence[PodVerdict]) -> list[Table]:
    """A table of containers whose programs measured nothing: phase, slices, environment and devices."""
    table = Table(box=box.ROUNDED, title="What each container was given", title_style="bold")
    for column in ("container", "phase", "node", "slices", "environment and devices", ""):
        table.add_column(column, overflow="fold")
    for pod in verdicts:
        for container in (c for c in pod.containers if not c.devices):
            given = container.given
            ended = "" if given.exit_code is None else f", exit {given.exit_code}"
            put = [f"{name}={value}" for name, value in sorted(given.env.items())] + list(given.devices)
            table.add_row(
                f"{pod.name}/{container.container}",
                pod.phase + ended,
                pod.node,
                "\n".join(map(_slice_text, given.slices)),
                "\n".join(put),
                _mark(container.ok and pod.ok),
            )
    return [table] if table.rows else []


def _slice_text(piece: GivenSlice) -> str:
    """A slice as ``card-0: 3,000 MiB, 30 %``, without amounts that are not limited."""
    amounts = (f"{piece.memory_mib:,} MiB" * bool(piece.memory_mib), f"{piece.cores} %" * bool(piece.cores))
    said = ", ".join(filter(None, amounts))
    return f"{piece.device}: {said}" if said else piece.device


def _answer(code: int | None) -> str:
    return "" if code is None else "OOM" if code == OUT_OF_MEMORY else str(code)


def _mib(size: int | None) -> str:
    return "" if size is None else f"{size // MIB:,}"


def _mark(ok: bool) -> Text:
    return Text("✓", style="green") if ok else Text("✗", style="red")


def _problems(pod: PodVerdict) -> list[str]:
    found = list(pod.problems)
    for container in pod.containers:
        found += [f"{container.container}: {problem}" for problem in container.problems]
        found += [
            f"{container.container}: {d.uuid[:12]} {problem}" for d in container.devices for problem in d.problems
        ]
    return found
