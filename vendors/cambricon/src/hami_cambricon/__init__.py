"""Cambricon MLUs: devices derived from what a node's capacity says."""

from __future__ import annotations

from hami_cambricon.config import CambriconConfig
from hami_cambricon.plugin import Cambricon

__all__ = ["Cambricon", "CambriconConfig"]
