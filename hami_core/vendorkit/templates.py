"""Hardware templates: fixed sizes a device can be cut into (Ascend vNPU and the like)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Template:
    """One size on offer.

    Attributes:
        name: The vendor's, such as ``vir05_1c_16g``.
        memory_mib: Memory it has.
        cores: Compute units it has, in the vendor's unit.
        cpus: Control CPUs it has.

    Example:
        >>> Template("vir02", memory_mib=4096, cores=2).cpus
        0
    """

    name: str
    memory_mib: int
    cores: int = 0
    cpus: int = 0


def smallest_template(templates: Iterable[Template], memory_mib: int) -> Template | None:
    """The template with the least memory that holds a request, or None: none does.

    Example:
        >>> sizes = [Template("vir02", 4096), Template("vir04", 8192)]
        >>> smallest_template(sizes, 5000).name
        'vir04'
    """
    fitting = (t for t in templates if t.memory_mib >= memory_mib)
    return min(fitting, key=lambda t: t.memory_mib, default=None)


def template_named_for(templates: Iterable[Template], memory_mib: int) -> str:
    """Name of the template with exactly this memory; empty: none (a whole device).

    Example:
        >>> sizes = [Template("vir02", 4096), Template("vir04", 8192)]
        >>> template_named_for(sizes, 4096), template_named_for(sizes, 5000)
        ('vir02', '')
    """
    return next((t.name for t in templates if t.memory_mib == memory_mib), "")
