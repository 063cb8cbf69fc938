"""Hardware templates: the fixed sizes into which a device can be divided, such as Ascend's vNPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Template:
    """One size that a device offers.

    Attributes:
        name: The vendor's name, such as ``vir05_1c_16g``.
        memory_mib: Memory in MiB.
        cores: Number of compute units, as the vendor counts them.
        cpus: Number of control CPUs.

    Example:
        >>> Template("vir02", memory_mib=4096, cores=2).cpus
        0
    """

    name: str
    memory_mib: int
    cores: int = 0
    cpus: int = 0


def smallest_template(templates: Iterable[Template], memory_mib: int) -> Template | None:
    """Return the template with the least memory that holds a request; None: no template does.

    Example:
        >>> sizes = [Template("vir02", 4096), Template("vir04", 8192)]
        >>> smallest_template(sizes, 5000).name
        'vir04'
    """
    fitting = (t for t in templates if t.memory_mib >= memory_mib)
    return min(fitting, key=lambda t: t.memory_mib, default=None)


def template_named_for(templates: Iterable[Template], memory_mib: int) -> str:
    """Return the name of the template with exactly this memory; empty: there is none, as for a whole device.

    Example:
        >>> sizes = [Template("vir02", 4096), Template("vir04", 8192)]
        >>> template_named_for(sizes, 4096), template_named_for(sizes, 5000)
        ('vir02', '')
    """
    return next((t.name for t in templates if t.memory_mib == memory_mib), "")
