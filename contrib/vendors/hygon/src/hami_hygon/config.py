"""The section ``hygon`` of the device-config, with HAMi's keys and the defaults of HAMi's chart."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from hami_core import Resources

_Name = Annotated[str, Field(min_length=1, max_length=253)]

DCU: Final = "DCU"
"""Cards of nodes with HAMi's DCU plugin, as HAMi v2.10 knows them."""
HCU: Final = "HCU"
"""Cards of nodes with Hygon's own plugin, as HAMi knows them since it renamed Hygon's cards."""


class HygonConfig(BaseModel):
    """Section ``hygon``. A count that contains ``hcu`` names the resources of HCUs, any other count those of DCUs.

    The other family has HAMi's names: ``hygon.com/dcunum``, ``dcumem``, ``dcucores`` or ``hygon.com/hcunum`` and so on.

    Attributes:
        resource_count_name: Resource name of the count.
        resource_memory_name: Resource name of the memory; None: HAMi's name.
        resource_core_name: Resource name of the percent of cores; None: HAMi's name.
        memory_factor: MiB per unit of the memory resource, for both families; 0: 1.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, json_schema_extra={"section": "hygon"})

    resource_count_name: Annotated[_Name, Field(alias="resourceCountName")] = "hygon.com/dcunum"
    resource_memory_name: Annotated[_Name | None, Field(alias="resourceMemoryName")] = None
    resource_core_name: Annotated[_Name | None, Field(alias="resourceCoreName")] = None
    memory_factor: Annotated[int, Field(alias="memoryFactor", ge=0, le=2**31 - 1)] = 1

    def resources(self, word: str) -> Resources:
        """Resource names of one family.

        Example:
            >>> HygonConfig(resource_count_name="example.com/hcu").resources("HCU").names()
            ('example.com/hcu', 'hygon.com/hcumem', 'hygon.com/hcucores')
            >>> HygonConfig(resource_count_name="example.com/hcu").resources("DCU").count
            'hygon.com/dcunum'
        """
        stem = f"hygon.com/{word.lower()}"
        if word != (HCU if "hcu" in self.resource_count_name else DCU):
            return Resources(f"{stem}num", memory=f"{stem}mem", cores=f"{stem}cores")
        return Resources(
            self.resource_count_name,
            memory=self.resource_memory_name or f"{stem}mem",
            cores=self.resource_core_name or f"{stem}cores",
        )
