"""Hygon's cards, which HAMi v2.10 calls DCU and later versions HCU. A node lists them in HAMi's older register."""

from __future__ import annotations

from hami_hygon.config import HygonConfig
from hami_hygon.plugin import Hygon

__all__ = ["Hygon", "HygonConfig"]
