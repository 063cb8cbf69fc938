"""Vastai accelerators: whole cards, or the dies of a card, from the register of the node's device plugin."""

from __future__ import annotations

from hami_vastai.config import VastaiConfig
from hami_vastai.plugin import Vastai

__all__ = ["Vastai", "VastaiConfig"]
