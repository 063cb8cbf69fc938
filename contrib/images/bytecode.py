"""Bytecode for the image's Python, made by that Python itself, without entering the image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from contrib.images.command import run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LIBRARIES: Final = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu")


def compile_tree(runtime: Path, tree: Path, folders: Sequence[str]) -> None:
    """Compile every module below folders of a tree.

    Files carry the hash of their source and are not checked against it at run time, so they do not depend on times;
    containers can't write their own, and without any each start would compile for seconds.

    Args:
        runtime: Root with the image's Python.
        tree: Root with the modules.
        folders: Folders below it, absolute as in the image.
    """
    libraries = ":".join(str(runtime / part) for part in _LIBRARIES)
    python: list[str | Path] = [runtime / "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "--library-path", libraries]
    python += [runtime / "usr/bin/python3.11", "-S", "-m", "compileall", "-q", "-f"]
    python += ["--invalidation-mode", "unchecked-hash", "-s", tree, "-p", "/"]
    env = {"PYTHONHOME": str(runtime / "usr"), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    run([*python, *(tree / folder.strip("/") for folder in folders)], env=env)
