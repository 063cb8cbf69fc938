"""AI cores and AI CPUs of an NPU's vNPUs. The vNPUs of one NPU together can't have more than the chip has.

Memory limits most chips first, but not all: the 910B2 has memory for eight ``vir03_1c_8g`` and AI CPUs for six.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hami_core import Reason
from hami_core.vendorkit import CARD_INSUFFICIENT_CORE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hami_ascend.config import Chip
    from hami_core import Slice
    from hami_core.vendorkit import Template


def may_run_out(chip: Chip) -> bool:
    """Whether a chip's memory may hold vNPUs that need more AI cores or AI CPUs than the chip has."""
    return any(
        size_needs * chip.memory_allocatable // size.memory_mib > total
        for size in chip.sizes
        for _, size_needs, total in _needs(chip, size)
    )


def shortage(chip: Chip, booked: Iterable[Slice], piece: Slice) -> Reason | None:
    """Why an NPU can't have one more vNPU; None: it can, or the slice is a whole NPU."""
    wanted = chip.size_of(piece.memory_mib)
    if wanted is None:
        return None
    left = {what: total for what, _, total in _needs(chip, wanted)}
    for slice_ in booked:
        if size := chip.size_of(slice_.memory_mib):
            for what, amount, _ in _needs(chip, size):
                left[what] -= amount
    for what, amount, total in _needs(chip, wanted):
        if amount > left[what]:
            detail = f"{wanted.name} needs {amount} {what}; of {total} there are {max(left[what], 0)} left"
            return Reason(CARD_INSUFFICIENT_CORE, piece.device_id, amount, max(left[what], 0), detail)
    return None


def _needs(chip: Chip, size: Template) -> Iterator[tuple[str, int, int]]:
    """What a size takes, as pairs with the chip's total. A total that is not configured is no limit."""
    for what, amount, total in (("AI cores", size.cores, chip.ai_core), ("AI CPUs", size.cpus, chip.ai_cpu)):
        if total:
            yield what, amount, total
