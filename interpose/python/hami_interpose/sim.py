"""Deprecated: the package `hami_gpusim`, under its old name."""

from __future__ import annotations

from hami_interpose._moved import gpusim

_package = gpusim("hami_interpose.sim", "hami_gpusim")


def __getattr__(name: str) -> object:
    return getattr(_package, name)
