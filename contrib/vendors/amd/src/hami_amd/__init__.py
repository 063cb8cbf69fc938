"""AMD GPUs: devices from the register of HAMi's AMD device plugin, shared by memory and compute units."""

from __future__ import annotations

from hami_amd.config import AmdConfig
from hami_amd.plugin import Amd

__all__ = ["Amd", "AmdConfig"]
