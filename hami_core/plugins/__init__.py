"""Vendors and cross-cutting plugins: found by entry point, checked, attributed, called.

`load` is the door. Groups: ``hami.vendors`` (scheduler side), ``hami.node`` (node side), ``hami.plugins`` (wrappers).
A plugin that raises, answers nonsense or cannot be imported is reported with distribution, version, hook and
arguments; it never ends the process.
"""

from __future__ import annotations

from hami_core.plugins.load import load
from hami_core.plugins.loaded import Loaded, Registration
from hami_core.plugins.problem import Problem
from hami_core.plugins.vendor import LoadedVendor

__all__ = ["Loaded", "LoadedVendor", "Problem", "Registration", "load"]
