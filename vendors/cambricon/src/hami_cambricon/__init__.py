"""Cambricon MLUs: the devices are derived from a node's capacity."""

from __future__ import annotations

from hami_cambricon.config import CambriconConfig
from hami_cambricon.plugin import Cambricon

__all__ = ["Cambricon", "CambriconConfig"]
