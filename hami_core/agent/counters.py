"""Counters of the agent's work for the kubelet. `hami_core.agent.instruments` turns them into metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Totals since the process started."""

    allocations: int = 0
    prestarts: int = 0
    refusals: int = 0
    nudges: int = 0
    specs_written: int = 0
    slot_card_mismatches: int = 0
    lost_names: int = 0
