"""Moore Threads GPUs: sGPU slices of one card, or whole cards. The devices are derived from a node's capacity."""

from __future__ import annotations

from hami_mthreads.config import MthreadsConfig
from hami_mthreads.plugin import Mthreads

__all__ = ["Mthreads", "MthreadsConfig"]
