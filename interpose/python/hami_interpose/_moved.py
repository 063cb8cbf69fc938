"""The old names of simulated GPUs, which are the distribution `hami-gpusim` now. They stay for one release."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def gpusim(old: str, new: str) -> ModuleType:
    """Imports `hami_gpusim` for a caller that used an old name, and warns of the name.

    Raises:
        ModuleNotFoundError: hami-gpusim is not installed; the text says how to install it.
    """
    warnings.warn(f"{old} is deprecated: use {new}", DeprecationWarning, stacklevel=3)
    try:
        return import_module("hami_gpusim")
    except ModuleNotFoundError as error:
        if error.name != "hami_gpusim":
            raise
        text = f"{old}: simulated GPUs need hami-gpusim: run `pip install hami-gpusim` and use {new}"
        raise ModuleNotFoundError(text, name=error.name) from error
