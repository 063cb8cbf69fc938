"""Vectors that no module here runs yet, each with the work that it waits for.

A path covers everything below it. test_claims.py fails if a part in this table is run.
"""

from __future__ import annotations

_MONITOR = "monitor: metrics and feedback"
_REGION = "written only by libvgpu.so: interpose/tests/test_region.py checks the layout"
_VOLCANO = "Volcano as source of allocations"

LATER: dict[str, str] = {
    # scheduler side
    "health_nvidia": "not planned: HAMi's handshake is not used (docs/adr/0018)",
    # node side, monitor, interposer
    "vendors/mig.volcanoKnownMigGeometries": _VOLCANO,
    "vendors/sharedRegion.casting": _MONITOR,
    "vendors/sharedRegion.v0": "monitor: regions of older libraries",
    "vendors/sharedRegion.v1.deviceMemory": _REGION,
    "vendors/sharedRegion.v1.deviceUtilization": _REGION,
    "vendors/sharedRegion.v1.procSlot": _REGION,
    # other vendors
    "vendors/volcano": _VOLCANO,
}
