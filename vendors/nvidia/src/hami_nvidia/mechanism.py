"""What enforces a container's slice of a card, as the agent observes it. Pure.

The strongest mechanism counts. A driver's limit holds for every process of the container, whatever it loads. The
interposer holds for programs that load it, which all do unless they avoid the dynamic loader.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Mechanism(StrEnum):
    """What enforces a slice."""

    WHOLE = "whole"
    """Nothing needs to: the container has the card to itself."""
    MIG = "mig"
    """The hardware: the container has a MIG instance."""
    DRIVER = "driver"
    """The driver limits the memory of the pod's cgroup, and the interposer the rest."""
    MPS = "mps"
    """The MPS server, with the limits that the container's variables give it, and the interposer."""
    INTERPOSER = "interposer"
    """The interposer alone."""
    NONE = "none"
    """Nothing: the administrator switched enforcement off."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a container has of one card.

    Attributes:
        card: UUID of the card.
        instance: It is a MIG instance.
        whole: It is the whole card.
        enforced: The interposer enforces its limits.
        bytes: Memory that the driver should limit; 0: none.
    """

    card: str
    instance: bool = False
    whole: bool = False
    enforced: bool = False
    bytes: int = 0


def mechanism(*, instance: bool, whole: bool, enforced: bool, driver: bool, mps: bool) -> Mechanism:
    """The strongest mechanism of a slice.

    Args:
        instance: It is a MIG instance.
        whole: The container has the whole card.
        enforced: The interposer enforces its limits.
        driver: The driver says that it limits the cgroup of the container's pod.
        mps: The card's MPS server answers.

    Example:
        >>> mechanism(instance=False, whole=False, enforced=True, driver=True, mps=False).value
        'driver'
    """
    if instance:
        return Mechanism.MIG
    if whole:
        return Mechanism.WHOLE
    if not enforced:
        return Mechanism.NONE
    if mps:  # the server may hold its clients' memory, in another cgroup
        return Mechanism.MPS
    return Mechanism.DRIVER if driver else Mechanism.INTERPOSER
