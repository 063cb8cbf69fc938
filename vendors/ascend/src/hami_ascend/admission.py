"""Resolves a container's request for one chip at admission: count, memory and cores, by HAMi's rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hami_core import RequestError
from hami_core.vendorkit import amount_of, memory_of, quantity_of, smallest_template

if TYPE_CHECKING:
    from hami_ascend.config import Chip
    from hami_core import ContainerSpec

POD_MODE: Final = "huawei.com/vnpu-mode"
"""Pod annotation; the value ``hami-core`` asks for soft split."""
SOFT: Final = "hami-core"
"""Mode of soft split: containers share an NPU by software, each with any amount of memory and a share of the cores."""
HARD: Final = "vnpu"
"""Mode of hard split: a container gets a vNPU that the driver cuts out, or a whole NPU."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One container's explicit request for one chip.

    Attributes:
        count: Number of devices.
        count_changed: Whether the count differs from what the user wrote.
        memory: Memory in units of the memory resource.
    """

    count: int
    count_changed: bool
    memory: int


def asked_of(container: ContainerSpec, chip: Chip, *, soft: bool) -> Asked | None:
    """Resolve a container's request for a chip; None if its limits have no count.

    Raises:
        RequestError: The request can't be granted as written. The text is HAMi's, with the available sizes.
    """
    if chip.resource_name not in container.limits:
        return None
    written = amount_of(container, chip.resource_name) or 0
    count = _completed(container, chip, written)
    cores = amount_of(container, chip.resource_core_name) or 0
    if cores and not soft:
        raise _refusal(
            container,
            f"{chip.resource_core_name} is only supported in hami-core (soft split) mode",
            f"annotate the pod with {POD_MODE}: {SOFT}, or leave the cores out",
        )
    memory_mib = _memory_mib(container, chip, soft=soft)
    if count > 1 and not soft and chip.size_of(memory_mib) is not None:
        whole = chip.units(chip.memory_allocatable)
        fix = f"ask for one device, or for {whole} of {chip.resource_memory_name}"
        if chip.is_given_in_modules:
            fix = f"{chip.common_word} is given in pairs of whole devices: leave {chip.resource_memory_name} out"
        raise _refusal(container, "vNPU not supported for multiple devices", fix)
    return Asked(count, count != written, chip.units(memory_mib))


def _completed(container: ContainerSpec, chip: Chip, count: int) -> int:
    """The count after super-pod rules. A super pod gives NPUs in pairs: 1 becomes 2, other odd counts are refused."""
    if not chip.is_given_in_modules or count % 2 == 0:
        return count
    if count == 1:
        return 2
    problem = f"{chip.common_word} device request must be 1 or 2*n, got {count}"
    raise _refusal(container, problem, f"ask for {count - 1} or {count + 1}")


def _memory_mib(container: ContainerSpec, chip: Chip, *, soft: bool) -> int:
    """The memory to book. In soft split it is the requested amount.

    In hard split it is the smallest vNPU size that is large enough, or else the whole device.
    """
    asked = memory_of(container, chip.resource_memory_name, chip.memory_factor or 1)
    if asked is None:
        return chip.memory_allocatable
    if soft:
        return asked
    if asked > chip.capacity:
        offer = "".join(f"{chip.units(size.memory_mib)}, " for size in chip.sizes)
        raise _refusal(
            container,
            f"{chip.resource_memory_name} {quantity_of(container, chip.resource_memory_name)} is invalid",
            f"ask for up to {chip.units(chip.capacity)}; sizes: {offer}{chip.units(chip.memory_allocatable)} (whole)",
        )
    size = smallest_template(chip.sizes, asked)
    return chip.memory_allocatable if size is None else size.memory_mib


def _refusal(container: ContainerSpec, problem: str, fix: str) -> RequestError:
    return RequestError(f"container {container.name}", "limits", problem, fix)
