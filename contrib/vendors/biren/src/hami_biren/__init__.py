"""Biren GPUs: whole cards or SVI instances, from the register of HAMi's Biren device plugin."""

from __future__ import annotations

from hami_biren.config import BirenConfig
from hami_biren.plugin import Biren

__all__ = ["Biren", "BirenConfig"]
