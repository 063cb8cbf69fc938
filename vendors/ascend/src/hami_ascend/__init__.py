"""Huawei Ascend NPUs: one family of devices for each configured chip."""

from __future__ import annotations

from hami_ascend.config import AscendConfig, Chip, ChipTemplate
from hami_ascend.plugin import Ascend

__all__ = ["Ascend", "AscendConfig", "Chip", "ChipTemplate"]
