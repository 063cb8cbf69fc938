"""Command line of the API server."""

from __future__ import annotations

import argparse
from pathlib import Path

from hami_core.sim import apiserver, process


def main(argv: list[str]) -> None:
    """Serves until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m hami_core.sim apiserver", description="Kubernetes API over HTTP.")
    parser.add_argument("--dir", type=Path, required=True, help="folder of the journal; state survives restarts in it")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--bookmark-seconds", type=float, default=5.0, help="time between watch bookmarks")
    parser.add_argument(
        "--drop-binding-labels", action="store_true", help="drop a Binding's labels, as Kubernetes before 1.35 does"
    )
    given = parser.parse_args(argv)

    async def start() -> tuple[str, process.End]:
        runner, url = await apiserver.serve(
            given.dir,
            given.host,
            given.port,
            bookmark_seconds=given.bookmark_seconds,
            copy_binding_labels=not given.drop_binding_labels,
        )

        async def stop(_: bool) -> None:
            await runner.cleanup()

        return url, stop

    process.run(start, "apiserver")
