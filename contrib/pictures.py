"""Draw `hami demo` as an animated SVG from a real run: ``nox -s pictures`` writes ``docs/_static/demo.svg``.

The picture's ``metadata`` element holds the recording as JSON. A test draws the recording again with today's code and
compares, without a second run. The picture loads no script and no font, so the animation also works in an ``<img>``.
If the reader has turned animations off, the picture shows its last frame.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import time
from dataclasses import asdict, replace
from html import escape, unescape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.console import Console, Group
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from hami_core.demo.manifests import load
from hami_core.demo.run import Course, document
from hami_core.demo.verdict import ContainerVerdict, DeviceVerdict, PodVerdict
from hami_core.demo.view import Card, PodRow, Snapshot, closing, final, live

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rich.console import RenderableType
    from rich.segment import Segment
    from rich.style import Style

    from hami_core.testing import Demo

PICTURE: Final = Path(__file__).resolve().parents[1] / "docs" / "_static" / "demo.svg"
COLUMNS: Final = 100
CELL_PX: Final = (8.4, 18.0)
"""Width and height of a character cell."""
MARGIN_PX: Final = 16
BAR_PX: Final = 30
"""Height of the window's title bar."""
FRAME_S: Final = 1.3
LAST_FRAME_S: Final = 10.0
REPEATS: Final = 3
COMMAND: Final = "$ nox -s demo"
RECORDING: Final = re.compile(r"<metadata>(.*?)</metadata>", re.DOTALL)
DIFFERS_EACH_RUN: Final = re.compile(r'GPU-[0-9a-f-]{8,}|"seconds":[\d.]+')
BOX: Final = {
    "─": "LR", "│": "UD", "╭": "RD", "╮": "LD", "╰": "RU", "╯": "LU", "├": "UDR", "┤": "UDL", "┬": "LRD", "┴": "LRU",
    "┼": "LRUD",
}  # fmt: skip
"""The sides to which the lines of a box-drawing character go: left, right, up, down."""


async def record(own: Demo) -> dict[str, Any]:
    """Run the demo on simulated devices.

    Returns:
        The last snapshot of each step, and the result. Events are left out, because their order differs in each run.
    """
    with tempfile.TemporaryDirectory(prefix="hami-", ignore_cleanup_errors=True) as folder:
        stage = own.stage(Path(folder), real=False, env={})
        course = Course(stage, load(own.manifests), time.monotonic(), own.programs)
        steps: dict[str, Snapshot] = {}
        async with stage:
            async for snapshot in course.run():
                steps[snapshot.step] = replace(snapshot, seconds=round(snapshot.seconds, 1), events=())
            seconds = time.monotonic() - course.started
            result = document(course.verdicts(), seconds, course.isolation, vendor=stage.vendors[0], gpus="simulated")
    for container in (container for pod in result["pods"] for container in pod["containers"]):
        del container["given"]  # this machine's paths
    return {"snapshots": [asdict(snapshot) for snapshot in steps.values()], "result": result}


def draw(recording: Mapping[str, Any]) -> str:
    """The picture of a recording."""
    screens = [_rows(Group(Text(COMMAND, style="bold"), live(_snapshot(s)))) for s in recording["snapshots"]]
    result = recording["result"]
    screens.append([*screens[-1], [], *_rows(Group(final(_verdicts(result)), *map(Text.from_markup, closing(result))))])
    height = max(map(len, screens))
    frames = [[_row(screen[y], y) if y < len(screen) else "" for y in range(height)] for screen in screens]
    shown: dict[tuple[int, int], list[str]] = {}
    for y in range(height):
        first = 0
        for now in range(1, len(frames) + 1):
            if now == len(frames) or frames[now][y] != frames[first][y]:
                if frames[first][y]:
                    shown.setdefault((first, now), []).append(frames[first][y])
                first = now
    drawn = "\n".join(f'<g class="f{a}-{b}">{"".join(rows)}</g>' for (a, b), rows in sorted(shown.items()))
    return _svg(drawn, _animation(shown, len(frames)), height, json.dumps(recording, separators=(",", ":")))


def recording_of(picture: str) -> dict[str, Any]:
    """The recording inside a picture."""
    found = RECORDING.search(picture)
    if found is None:
        raise ValueError("the picture contains no recording")
    recording: dict[str, Any] = json.loads(unescape(found[1]))
    return recording


def without_chance(picture: str) -> str:
    """A picture's recording without the parts that differ in each run: times and the simulated cards' UUIDs."""
    return DIFFERS_EACH_RUN.sub("", json.dumps(recording_of(picture), separators=(",", ":")))


def _snapshot(plain: Mapping[str, Any]) -> Snapshot:
    nodes = {node: [Card(**card) for card in cards] for node, cards in plain["nodes"].items()}
    return Snapshot(plain["step"], plain["seconds"], nodes, [PodRow(**row) for row in plain["pods"]], plain["events"])


def _verdicts(result: Mapping[str, Any]) -> list[PodVerdict]:
    """The verdicts of a result, with only the fields that the view shows."""
    return [
        PodVerdict(
            pod["name"],
            pod["phase"],
            pod["node"],
            pod["reason"],
            pod["explanation"],
            tuple(
                ContainerVerdict(
                    container["container"],
                    container["program"],
                    tuple(DeviceVerdict(**device) for device in container["devices"]),
                    tuple(container["problems"]),
                )
                for container in pod["containers"]
            ),
            tuple(pod["problems"]),
        )
        for pod in result["pods"]
    ]


def _rows(shown: RenderableType) -> list[list[Segment]]:
    """What a terminal shows, line by line, without empty lines at the end."""
    console = Console(file=StringIO(), width=COLUMNS, force_terminal=True, color_system="truecolor", highlight=False)
    rows = console.render_lines(shown, pad=False)
    while rows and not "".join(segment.text for segment in rows[-1]).strip():
        rows.pop()
    return rows


def _row(segments: Iterable[Segment], y: int) -> str:
    """One line as SVG: text as text, boxes and bars as shapes, so that no font leaves gaps in them."""
    wide, high = CELL_PX
    top = BAR_PX + MARGIN_PX / 2 + y * high
    found: list[str] = []
    column = 0
    for segment in segments:
        look = _look(segment.style)
        for match in re.finditer(r"█+|░+|[─│╭╮╰╯├┤┬┴┼]+|[^\s█░─│╭╮╰╯├┤┬┴┼]+(?: [^\s█░─│╭╮╰╯├┤┬┴┼]+)*", segment.text):
            run = match[0]
            x, width = MARGIN_PX + (column + cell_len(segment.text[: match.start()])) * wide, cell_len(run) * wide
            if run[0] in "█░":
                faint = ' fill-opacity=".5"' if run[0] == "░" else ""
                found.append(f'<rect x="{x:g}" y="{top + 3:g}" width="{width:g}" height="{high - 6:g}"{look}{faint}/>')
            elif run[0] in BOX:
                found.append(f'<path d="{_lines(run, x, top)}"/>')
            else:
                said = escape(run, quote=False)
                found.append(f'<text x="{x:g}" y="{top + 13:g}" textLength="{width:g}"{look}>{said}</text>')
        column += cell_len(segment.text)
    return "".join(found)


def _lines(run: str, x: float, top: float) -> str:
    """Box-drawing characters as a path."""
    wide, high = CELL_PX
    parts = []
    for number, character in enumerate(run):
        left, middle = x + number * wide, top + high / 2
        centre = left + wide / 2
        ends = {"L": (left, middle), "R": (left + wide, middle), "U": (centre, top), "D": (centre, top + high)}
        if character == "─" and number and run[number - 1] == "─":
            parts.append(f"h{wide:g}")
        elif character == "─":
            parts.append(f"M{left:g} {middle:g}h{wide:g}")
        else:
            parts += [f"M{centre:g} {middle:g}L{ends[side][0]:g} {ends[side][1]:g}" for side in BOX[character]]
    return "".join(parts)


def _look(style: Style | None) -> str:
    if style is None:
        return ""
    colour = style.color and not style.color.is_default and style.color.get_truecolor(SVG_EXPORT_THEME).hex
    return "".join(
        (
            f' fill="{colour}"' if colour else "",
            ' font-weight="bold"' if style.bold else "",
            ' opacity=".6"' if style.dim else "",
        )
    )


def _animation(shown: Iterable[tuple[int, int]], frames: int) -> str:
    """CSS that shows each group of lines from its first frame until its end; without animation, the last frame."""
    whole = (frames - 1) * FRAME_S + LAST_FRAME_S
    rules, moves = [], []
    for first, end in sorted(shown):
        if (first, end) == (0, frames):
            continue
        begin, stop = 100 * first * FRAME_S / whole, 100 * end * FRAME_S / whole
        steps = ["0%{opacity:0}"] if first else ["0%{opacity:1}"]
        steps += [f"{begin:.2f}%{{opacity:1}}"] if first else []
        steps += [f"{stop:.2f}%,100%{{opacity:0}}"] if end < frames else ["100%{opacity:1}"]
        name = f"f{first}-{end}"
        if end < frames:
            rules.append(f".{name}{{opacity:0}}")
        moves.append(f"@keyframes {name}{{{''.join(steps)}}}.{name}{{animation:{name} {whole:g}s step-end {REPEATS}}}")
    return "\n".join([*rules, "@media (prefers-reduced-motion:no-preference){", *moves, "}"])


def _svg(drawn: str, animation: str, rows: int, recording: str) -> str:
    width = COLUMNS * CELL_PX[0] + 2 * MARGIN_PX
    height = BAR_PX + rows * CELL_PX[1] + 1.5 * MARGIN_PX
    dots = "".join(
        f'<circle cx="{18 + 18 * i}" cy="15" r="5.5" fill="{c}"/>'
        for i, c in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    ground, ink = SVG_EXPORT_THEME.background_color.hex, SVG_EXPORT_THEME.foreground_color.hex
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">
<title>hami demo: five pods on two nodes with simulated GPUs, and what each container got</title>
<!-- Written by `nox -s pictures` from a run of the demo; its recording stands in the metadata. -->
<style>
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}}
path{{stroke:#7a7f87;fill:none}}
{animation}
</style>
<rect width="{width:g}" height="{height:g}" rx="8" fill="{ground}"/>
{dots}
<g fill="{ink}">
{drawn}
</g>
<metadata>{escape(recording, quote=False)}</metadata>
</svg>
"""


def main() -> None:
    """Record and draw. If only times and UUIDs differ from the old picture, its recording is kept."""
    from hami_nvidia.demo.stage import GpuDemo  # noqa: PLC0415 - a test that draws needs no stage

    picture = draw(asyncio.run(record(GpuDemo())))
    recording = recording_of(picture)
    if not recording["result"]["ok"]:
        raise SystemExit("a pod did not get what it asked for: run `nox -s demo`")
    old = PICTURE.read_text("utf-8") if PICTURE.exists() else ""
    if old and without_chance(old) == without_chance(picture):
        picture = draw(recording_of(old))
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture, "utf-8")


if __name__ == "__main__":
    main()
