"""The section ``mthreads`` of the device-config: HAMi's keys, and the sizes of memory that a container may ask for."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

S4000_UNITS: Final = 96
"""Memory of an MTT S4000 (48 GiB) in units of 512 MiB."""
MAX_UNITS: Final = 2048
"""Most units of one card: 1 TiB."""

_Name = Annotated[str, Field(min_length=1, max_length=253)]
_Units = Annotated[int, Field(ge=2, le=MAX_UNITS)]


class MthreadsConfig(BaseModel):
    """Section ``mthreads``.

    Attributes:
        resource_count_name: Resource name of the count.
        resource_memory_name: Resource name of the memory, in units of 512 MiB.
        resource_core_name: Resource name of the core groups, of which a card has 16.
        memory_per_card: Memory of each card model in the cluster, in units of 512 MiB: 96 for an MTT S4000, 160 for an
            MTT S5000. HAMi v2.10 knows only 96; the key is from HAMi's development after it.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, json_schema_extra={"section": "mthreads"})

    resource_count_name: Annotated[_Name, Field(alias="resourceCountName")] = "mthreads.com/vgpu"
    resource_memory_name: Annotated[_Name, Field(alias="resourceMemoryName")] = "mthreads.com/sgpu-memory"
    resource_core_name: Annotated[_Name, Field(alias="resourceCoreName")] = "mthreads.com/sgpu-core"
    memory_per_card: Annotated[tuple[_Units, ...], Field(alias="memoryPerCard", min_length=1, max_length=16)] = (
        S4000_UNITS,
    )

    @property
    def legal_units(self) -> list[int]:
        """The sizes that one container may ask for on one card, in units: powers of two from 2, and each whole card."""
        whole = set(self.memory_per_card)
        powers = {1 << exponent for exponent in range(1, max(whole).bit_length())}
        return sorted(whole | {units for units in powers if units < max(whole)})
