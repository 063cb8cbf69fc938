"""Runs programs on simulated GPUs: where the simulated driver is, and the environment by which programs load it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hami_gpusim._state import StateError, create

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_LIBRARIES = Path(__file__).resolve().parent / "lib"


class LibraryMissingError(FileNotFoundError):
    """The simulated driver is not beside the package."""


def library_dir() -> Path:
    """Returns the folder with the simulated `libcuda.so.1` and `libnvidia-ml.so.1`.

    Raises:
        LibraryMissingError: They were not built.
    """
    if not (_LIBRARIES / "libcuda.so.1").exists():
        raise LibraryMissingError(
            f"{_LIBRARIES}/libcuda.so.1 is not there: install the hami-gpusim wheel, or in a source tree run "
            "`cmake -S interpose/gpusim -B interpose/gpusim/build/dev -G Ninja && "
            "cmake --build interpose/gpusim/build/dev`"
        )
    return _LIBRARIES


def environment(state: str | Path, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the environment that makes programs use simulated GPUs: the libraries first, the state by name.

    Args:
        state: State directory.
        base: Environment to start from; the caller's own by default.

    Raises:
        LibraryMissingError: The simulated driver was not built.
    """
    result = dict(os.environ if base is None else base)
    folders = [str(library_dir()), result.get("LD_LIBRARY_PATH", "")]
    result["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
    result["HAMI_SIM_STATE"] = str(Path(state).resolve())
    return result


def run(
    command: Sequence[str],
    *,
    profile: str | Path | None = None,
    state: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> int:
    """Runs a command on simulated GPUs and returns its exit status (128 + signal if one ended it).

    Args:
        command: Program and arguments.
        profile: Makes a state from this profile: in `state` if given and empty, else a temporary one.
        state: State directory to use.
        env: Environment to start from; the caller's own by default.

    Raises:
        LibraryMissingError: The simulated driver was not built.
        ProfileError: The profile is unknown or not valid.
        StateError: There is no state and no profile to make one from.
    """
    library_dir()  # if it is missing, make no state
    with contextlib.ExitStack() as stack:
        where = (
            Path(state)
            if state is not None
            else Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hami-sim-")))
        )
        if not (where / "books").exists():
            if profile is None:
                raise StateError(f"{where}: no state here; name a profile")
            create(where, profile)
        status = subprocess.run(list(command), env=environment(where, env), check=False).returncode
        return status if status >= 0 else 128 - status
