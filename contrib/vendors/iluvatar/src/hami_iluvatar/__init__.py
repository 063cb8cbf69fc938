"""Iluvatar's GPUs: one family for each chip of the device-config. A node lists them in HAMi's older register."""

from __future__ import annotations

from hami_iluvatar.config import IluvatarConfig
from hami_iluvatar.plugin import Iluvatar

__all__ = ["Iluvatar", "IluvatarConfig"]
