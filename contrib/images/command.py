"""Run a program, and show its output only if it fails."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from contrib.images.errors import BuildError, MissingTool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def run(
    command: Sequence[str | Path],
    *,
    needs: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> str:
    """Run a program and return what it printed.

    Args:
        command: Program and arguments.
        needs: How to get the program if it is missing.
        cwd: Folder to run it in.
        env: Variables in addition to the caller's own.
        stdin: Text for its standard input.

    Raises:
        MissingTool: There is no such program.
        BuildError: The program failed.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            cwd=cwd,
            env=os.environ | dict(env or {}),
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise MissingTool(words[0], needs or "install it") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-4000:]
        raise BuildError(f"{' '.join(words[:6])} … ended with {done.returncode}:\n{said}")
    return done.stdout
