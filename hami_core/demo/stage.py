"""Deprecated: the stage of a vendor's demo is in the vendor's package. This name stays for one release.

The vendor is found by its entry point in the group ``hami.demo``. The module of its demo class has the stage.
"""

from __future__ import annotations

import warnings
from importlib import import_module

from hami_core.plugins.discovery import DEMO, installed


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    for source, _ in installed(DEMO):
        module = import_module(source.target.partition(":")[0])
        if hasattr(module, name):
            text = f"hami_core.demo.stage is deprecated: import {name} from {module.__name__}"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            found: object = getattr(module, name)
            return found
    raise ImportError(f"hami_core.demo.stage: no demo of an installed vendor has {name}: pip install 'hami[demo]'")
