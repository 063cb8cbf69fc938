"""Kunlunxin XPUs: whole cards that are close to each other, and parts of cards (vXPU)."""

from __future__ import annotations

from hami_kunlun.config import KunlunConfig
from hami_kunlun.plugin import Kunlun

__all__ = ["Kunlun", "KunlunConfig"]
