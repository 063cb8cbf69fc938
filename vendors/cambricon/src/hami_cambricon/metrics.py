"""The table of the Cambricon agent's metrics: HAMi's names and labels."""

from __future__ import annotations

from functools import partial
from typing import Final

from hami_core import MetricSpec

_gauge = partial(MetricSpec.gauge, zoned=True)
_CARD: Final = ("node", "device_index", "device_uuid", "device_type")
_SLICE: Final = ("namespace", "pod", "container", "vdevice_index", "device_uuid")

METRICS: Final = (
    _gauge("hami_host_gpu_memory_used_bytes", "Memory in use on the card, by CNDev.", *_CARD),
    _gauge("hami_host_gpu_utilization_ratio", "Average utilization of the card's cores, in percent.", *_CARD),
    _gauge("hami_vgpu_memory_used_bytes", "Memory that the container's sMLU instance uses.", *_SLICE),
    _gauge("hami_vgpu_memory_limit_bytes", "Memory that the container's sMLU instance may use.", *_SLICE),
    _gauge(
        "hami_container_device_utilization_ratio",
        "Percent of the card's cores that the container's sMLU instance uses.",
        *_SLICE,
    ),
)
