"""HAMi's reason words and the text that carries them to kube-scheduler (``3/8 CardInsufficientMemory, …``)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

CARD_TYPE_MISMATCH: Final = "CardTypeMismatch"
CARD_UUID_MISMATCH: Final = "CardUuidMismatch"
CARD_TIME_SLICING_EXHAUSTED: Final = "CardTimeSlicingExhausted"
CARD_COMPUTE_UNITS_EXHAUSTED: Final = "CardComputeUnitsExhausted"
CARD_INSUFFICIENT_MEMORY: Final = "CardInsufficientMemory"
CARD_INSUFFICIENT_CORE: Final = "CardInsufficientCore"
CARD_NOT_HEALTH: Final = "CardNotHealth"
CARD_CORDONED: Final = "CardCordoned"
NUMA_NOT_FIT: Final = "NumaNotFit"
EXCLUSIVE_CONFLICT: Final = "ExclusiveDeviceAllocateConflict"
CUSTOM_RULE: Final = "CardNotFoundCustomFilterRule"
MIG_INFEASIBLE: Final = "CardMigTopologyInfeasible"
NODE_INSUFFICIENT_DEVICE: Final = "NodeInsufficientDevice"
TOO_FEW_CARDS: Final = "AllocatedCardsInsufficientRequest"
NODE_UNFIT_POD: Final = "NodeUnfitPod"
NODE_FIT_POD: Final = "NodeFitPod"
"""Occurs in logs only."""
QUOTA_NOT_FIT: Final = "ResourceQuotaNotFit"
MODE_NOT_FIT: Final = "ModeNotFit"
CARD_UNHEALTHY: Final = "CardUnhealthy"
QOS_MISMATCH: Final = "CardQosPolicyMismatch"
APP_CLASS_MISMATCH: Final = "CardAppClassMismatch"
VENDOR_PLUGIN_FAILED: Final = "VendorPluginFailed"
"""Our own word: the answer of a hook that failed."""
NODE_UNREGISTERED: Final = "node unregistered"
NODE_USAGE_UNAVAILABLE: Final = "node usage unavailable"

WORDS: Final = frozenset(
    {
        CARD_TYPE_MISMATCH,
        CARD_UUID_MISMATCH,
        CARD_TIME_SLICING_EXHAUSTED,
        CARD_COMPUTE_UNITS_EXHAUSTED,
        CARD_INSUFFICIENT_MEMORY,
        CARD_INSUFFICIENT_CORE,
        CARD_NOT_HEALTH,
        CARD_CORDONED,
        NUMA_NOT_FIT,
        EXCLUSIVE_CONFLICT,
        CUSTOM_RULE,
        MIG_INFEASIBLE,
        NODE_INSUFFICIENT_DEVICE,
        TOO_FEW_CARDS,
        NODE_UNFIT_POD,
        NODE_FIT_POD,
        QUOTA_NOT_FIT,
        MODE_NOT_FIT,
        CARD_UNHEALTHY,
        QOS_MISMATCH,
        APP_CLASS_MISMATCH,
    }
)
"""All of HAMi's words. A vendor may add its own in the same style."""

_ENTRY = re.compile(r"([0-9]{1,10})/[0-9]{1,10} (\S+)", re.ASCII)


def encode_histogram(counts: Mapping[str, int], total: int) -> str:
    """Write how many of ``total`` cards were refused for each reason: entries sorted as text, joined by ``, ``."""
    return ", ".join(sorted(f"{count}/{total} {word}" for word, count in counts.items()))


def parse_histogram(text: str) -> dict[str, int]:
    """Read the text of `encode_histogram`: word → cards. As in HAMi, parts of another form are left out."""
    matches = (_ENTRY.fullmatch(part) for part in text.split(", "))
    return {match[2]: int(match[1]) for match in matches if match}
