"""MetaX GPUs: whole cards, and sGPUs, which are parts of a card."""

from __future__ import annotations

from hami_metax.config import MetaxConfig
from hami_metax.plugin import Metax

__all__ = ["Metax", "MetaxConfig"]
