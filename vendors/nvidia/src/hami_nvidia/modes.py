"""Decides whether pods may share a card, from its MIG mode and compute mode and the node's operating mode. Pure.

`hami_nvidia.nvml` reads the modes, and `hami_nvidia.node` registers the result. A card whose modes can't be read is not
offered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT: Final = 0
EXCLUSIVE_THREAD: Final = 1
PROHIBITED: Final = 2
EXCLUSIVE_PROCESS: Final = 3
"""NVML's ``nvmlComputeMode_t``."""

_EXCLUSIVE: Final = {EXCLUSIVE_THREAD: "EXCLUSIVE_THREAD", EXCLUSIVE_PROCESS: "EXCLUSIVE_PROCESS"}

MIG_OFF: Final = "MIG mode is off; the agent turns it on when no process and no container uses the card"
MIG_LEFT_OFF: Final = (
    "MIG mode is off, and HAMI_NVIDIA_MIG_ENABLE=false leaves it to the administrator: nvidia-smi -i {card} -mig 1"
)
UNREADABLE: Final = "the card's MIG instances can't be read: {error}"
NO_RIGHT: Final = " (the agent needs the capability SYS_ADMIN: devicePlugin.securityContext.capabilities.add)"
NO_PROFILES: Final = "the card has no MIG profile that migProfileAllowlist names"


@dataclass(frozen=True, slots=True)
class Modes:
    """A card's modes as NVML reports them.

    Attributes:
        mig: MIG mode is on; False also for a card without MIG.
        mig_after_reset: MIG mode will be on after the card's next reset (NVML's pending mode).
        compute: Compute mode; DEFAULT also for a card without compute modes.
        problem: Why a mode can't be read; empty if all modes are known.
    """

    mig: bool = False
    mig_after_reset: bool = False
    compute: int = DEFAULT
    problem: str = ""


ALL_ALLOWED: Final = Modes()
"""A card without MIG and with the default compute mode."""


def not_offered(modes: Modes, operating_mode: str) -> str:
    """Why a card is not offered, and what an administrator can do about it; empty if its modes allow pods."""
    if modes.problem:
        return f"the card's modes can't be read: {modes.problem}"
    if operating_mode == "mig":
        state = "off" if modes.mig_after_reset else "on"
        how = f"MIG mode stays {state} until the card is reset (administrator: nvidia-smi --gpu-reset)"
        return how if modes.mig != modes.mig_after_reset else ""
    if modes.mig and not modes.mig_after_reset:
        return "card is in MIG mode until it is reset (administrator: nvidia-smi --gpu-reset)"
    if modes.mig:
        return (
            "card is in MIG mode, which only operatingmode mig or migStrategy serves (administrator: nvidia-smi -mig 0)"
        )
    if modes.mig_after_reset:
        return (
            "card changes to MIG mode when it is reset, which only operatingmode mig or migStrategy serves "
            "(administrator: nvidia-smi -mig 0)"
        )
    if modes.compute == PROHIBITED:
        return "card is in compute mode PROHIBITED (administrator: nvidia-smi -c DEFAULT)"
    if modes.compute != DEFAULT and modes.compute not in _EXCLUSIVE:
        return f"card is in compute mode {modes.compute}, which is unknown (administrator: nvidia-smi -c DEFAULT)"
    return ""


def mode_of(modes: Modes, operating_mode: str, mig_strategy: str) -> str:
    """How a card is offered: in the node's operating mode, or as ``mig`` if the administrator partitioned it."""
    return "mig" if modes.mig and mig_strategy != "none" else operating_mode


def whole_only(modes: Modes, operating_mode: str) -> str:
    """Why a card is only given as a whole; empty if it may be shared.

    In operating mode ``mps`` the MPS server is the one process on a card in EXCLUSIVE_PROCESS, and pods share that.
    """
    if operating_mode == "mps" and modes.compute == EXCLUSIVE_PROCESS:
        return ""
    name = _EXCLUSIVE.get(modes.compute)
    return f"compute mode {name}" if name else ""
