"""Vectors that no module here runs yet, each with the work that it waits for.

A path covers everything below it. test_claims.py fails if a part in this table is run.
"""

from __future__ import annotations

_MONITOR = "monitor: metrics and feedback"
_MIG = "NVIDIA MIG on the node"
_REGION = "written only by libvgpu.so: interpose/tests/test_region.py checks the layout"
_VOLCANO = "Volcano as source of allocations"

LATER: dict[str, str] = {
    # scheduler side
    "health_nvidia": "liveness of nodes by HAMi's handshake",
    "metrics": _MONITOR,
    "node_override_score": "vendor MetaX",
    # NVIDIA's node side, monitor, interposer
    "vendors/mig.chartAllowlist": _MIG,
    "vendors/mig.nvmlPlacementsByFamily": _MIG,
    "vendors/mig.sliceKeyToCIProfileId": _MIG,
    "vendors/mig.sliceKeyToGIProfileId": _MIG,
    "vendors/mig.substringSurprise": _MIG,
    "vendors/mig.volcanoKnownMigGeometries": _VOLCANO,
    "vendors/sharedRegion.casting": _MONITOR,
    "vendors/sharedRegion.v0": "monitor: regions of older libraries",
    "vendors/sharedRegion.v1.deviceMemory": _REGION,
    "vendors/sharedRegion.v1.deviceUtilization": _REGION,
    "vendors/sharedRegion.v1.procSlot": _REGION,
    # other vendors
    "aws_select": "vendor AWS Neuron",
    "aws_split_cores": "vendor AWS Neuron",
    "enflame_profile": "vendor Enflame",
    "kunlun_fragmentation": "vendor Kunlun",
    "kunlun_select": "vendor Kunlun",
    "kunlun_trim_memory": "vendor Kunlun",
    "metax_sgpu_scores": "vendor MetaX",
    "vendors/amdFit": "vendor AMD",
    "vendors/awsneuron": "vendor AWS Neuron",
    "vendors/enflame": "vendor Enflame",
    "vendors/hygonVdev": "vendor Hygon",
    "vendors/kunlun": "vendor Kunlun",
    "vendors/metaxLinkScore": "vendor MetaX",
    "vendors/metaxOnlineScore": "vendor MetaX",
    "vendors/metaxSgpuNodeAnnotation": "vendor MetaX",
    "vendors/metaxVmemory": "vendor MetaX",
    "vendors/mthreadsLegalMemory": "vendor Moore Threads",
    "vendors/volcano": _VOLCANO,
    "vxpu_fit": "vendor Kunlun",
}

LATER_VENDORS: dict[str, str] = {
    "Metax-GPU": "vendor MetaX",
    "MR-V50": "vendor Iluvatar",
    "MR-V100": "vendor Iluvatar",
    "GCU": "vendor Enflame",
    "Enflame": "vendor Enflame",
    "DCU": "vendor Hygon",
    "BI-V150": "vendor Iluvatar",
    "AMD": "vendor AMD",
    "AWSNeuron": "vendor AWS Neuron",
    "BI-V100": "vendor Iluvatar",
    "Biren": "vendor Biren",
    "Metax-SGPU": "vendor MetaX",
    "Mthreads": "vendor Moore Threads",
    "Vastai": "vendor Vastai",
    "XPU": "vendor Kunlun",
    "kunlun": "vendor Kunlun",
}
"""Common words of vendors in the groups that concern several vendors (requests, admission), with that work."""

LATER_SECTIONS: dict[str, str] = {
    "amd": "vendor AMD",
    "awsneuron": "vendor AWS Neuron",
    "biren": "vendor Biren",
    "enflame-drs": "vendor Enflame",
    "enflame-gcu": "vendor Enflame",
    "hygon": "vendor Hygon",
    "iluvatar": "vendor Iluvatar",
    "kunlun": "vendor Kunlun",
    "metax-gpu": "vendor MetaX",
    "metax-sgpu": "vendor MetaX",
    "mthreads": "vendor Moore Threads",
    "vastai": "vendor Vastai",
    "xpu": "vendor Kunlun",
}
"""Names of vendors in ``vendors.json`` (annotation keys, capacity, units), with that work."""
