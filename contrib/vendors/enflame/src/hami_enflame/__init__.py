"""Enflame GCUs: whole cards out of a node's capacity, and DRS slices out of an annotation of Enflame's plugin."""

from __future__ import annotations

from hami_enflame.config import EnflameConfig
from hami_enflame.plugin import Enflame

__all__ = ["Enflame", "EnflameConfig"]
