"""Which NPUs of a node belong together: the two NPUs of a 910C module, and the networks of the 910 family."""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from hami_core import Reason
from hami_core.vendorkit import TOO_FEW_CARDS, group_by, largest_first, whole_groups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core import Allocation, DeviceUsage, Request

NPUS_PER_MODULE: Final = 2
NETWORKED_PREFIX: Final = "Ascend910"
"""Beginning of the words of chips whose NPUs are connected by networks."""
NETWORK_ID: Final = "NetworkID"
"""Key in a device's ``custominfo``: the network that the NPU is in."""
NETWORK_WEIGHT: Final = 10.0
"""What a container adds to its node's score if all its NPUs are in one network."""


def choose_modules(request: Request, candidates: Sequence[DeviceUsage]) -> tuple[int, ...] | Reason | None:
    """Pick whole modules. A request for one NPU takes any, as in HAMi; admission makes it two on super pods."""
    if request.count == 1:
        return None
    modules = group_by(candidates, lambda npu: npu.device.index // NPUS_PER_MODULE)
    taken = whole_groups(modules, NPUS_PER_MODULE, request.count)
    if taken is not None:
        return taken
    whole = sum(len(module) == NPUS_PER_MODULE for module in modules)
    detail = (
        f"{request.count} NPUs are given as whole modules of {NPUS_PER_MODULE}; {whole} modules have both NPUs free"
    )
    return Reason(TOO_FEW_CARDS, needed=request.count, available=whole * NPUS_PER_MODULE, detail=detail)


def choose_networks(request: Request, candidates: Sequence[DeviceUsage]) -> tuple[int, ...] | None:
    """Pick NPUs of as few networks as possible: those of the network with the most candidates first."""
    if request.count == 1 or any(_network(npu.device.custom) is None for npu in candidates):
        return None
    return largest_first(group_by(candidates, lambda npu: _network(npu.device.custom)), request.count)


def network_score(register: str, allocation: Allocation, word: str) -> float:
    """Rate how much of each container's NPUs is in one network; 0 if the network of any NPU is unknown.

    Args:
        register: The node's register annotation.
        allocation: What the pod would get there.
        word: The family to rate.
    """
    networks = _networks(register)
    score = 0.0
    for pieces in allocation.of(word):
        found = [networks.get(piece.device_id) for piece in pieces]
        if None in found:
            return 0.0
        if found:
            score += NETWORK_WEIGHT * max(Counter(found).values()) / len(found)
    return score


@lru_cache(maxsize=4096)  # one entry for each node; a register is written anew with the same text every 30 s
def _networks(register: str) -> Mapping[str, int | None]:
    """Device id → its network. The register has been checked when the node's devices were read."""
    return {entry["id"]: _network(entry.get("custominfo") or {}) for entry in json.loads(register)}


def _network(custom: Mapping[str, Any]) -> int | None:
    found = custom.get(NETWORK_ID)
    return found if isinstance(found, int) else None
