"""Finds, checks and calls plugins: vendors and wrappers.

`load` is the entry point. It finds plugins in the entry-point groups ``hami.vendors`` (scheduler side), ``hami.node``
(node side) and ``hami.plugins`` (wrappers). A plugin that raises, answers a wrong type or cannot be imported is
reported with distribution, version, hook and arguments. It never ends the process.
"""

from __future__ import annotations

from hami_core.plugins.load import load
from hami_core.plugins.loaded import Loaded, Registration
from hami_core.plugins.problem import Problem
from hami_core.plugins.vendor import LoadedVendor

__all__ = ["Loaded", "LoadedVendor", "Problem", "Registration", "load"]
