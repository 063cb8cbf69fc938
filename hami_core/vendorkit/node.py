"""What a vendor's node side needs: functions that write the node's annotations, and paths of a container's limits."""

from __future__ import annotations

from hami_core.wire.env import LIMITS_DIR, PRELOAD_PATH, REGION_DIR, VGPU_ROOT
from hami_core.wire.node import encode_devices_json, encode_pair_scores, format_reported

__all__ = [
    "LIMITS_DIR",
    "PRELOAD_PATH",
    "REGION_DIR",
    "VGPU_ROOT",
    "encode_devices_json",
    "encode_pair_scores",
    "format_reported",
]
