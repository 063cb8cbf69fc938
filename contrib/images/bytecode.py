"""Bytecode for the image's Python. That Python makes it, run from outside the image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from contrib.images.command import run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LIBRARIES: Final = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu")


def compile_tree(runtime: Path, tree: Path, folders: Sequence[str]) -> None:
    """Compile every module in some folders of a tree.

    Bytecode files contain the hash of their source instead of a time, so that builds are reproducible. Python does not
    check them at run time. Containers cannot write bytecode, and without it each start would compile for seconds.

    Args:
        runtime: Root of a tree with the image's Python.
        tree: Root of the tree with the modules.
        folders: Folders of the tree, as absolute paths in the image.
    """
    libraries = ":".join(str(runtime / part) for part in _LIBRARIES)
    python: list[str | Path] = [runtime / "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "--library-path", libraries]
    python += [runtime / "usr/bin/python3.11", "-S", "-m", "compileall", "-q", "-f"]
    python += ["--invalidation-mode", "unchecked-hash", "-s", tree, "-p", "/"]
    env = {"PYTHONHOME": str(runtime / "usr"), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    run([*python, *(tree / folder.strip("/") for folder in folders)], env=env)
