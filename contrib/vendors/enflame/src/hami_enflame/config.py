"""The section ``enflame`` of the device-config, with HAMi's keys and the defaults of HAMi's chart."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

_Name = Annotated[str, Field(min_length=1, max_length=253)]
_Optional = Annotated[str, Field(max_length=253)]
DRS_GCU: Final = "enflame.com/drs-gcu"


class EnflameConfig(BaseModel):
    """Section ``enflame``.

    Attributes:
        resource_name_gcu: Resource name of whole GCUs.
        resource_name_drs_gcu: Resource name of DRS slices; empty: `resource_name_vgcu`.
        resource_name_gcu_memory: Resource name of a slice's memory.
        resource_name_gcu_core: Resource name of a slice's percent of cores.
        resource_name_vgcu: HAMi's older key for `resource_name_drs_gcu`; empty: ``enflame.com/drs-gcu``.
        resource_name_vgcu_percentage: HAMi's older key. It is accepted and has no effect, as in HAMi.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, json_schema_extra={"section": "enflame"})

    resource_name_gcu: Annotated[_Name, Field(alias="resourceNameGCU")] = "enflame.com/gcu"
    resource_name_drs_gcu: Annotated[_Optional, Field(alias="resourceNameDRSGCU")] = ""
    resource_name_gcu_memory: Annotated[_Name, Field(alias="resourceNameGCUMemory")] = "enflame.com/gcu-memory"
    resource_name_gcu_core: Annotated[_Name, Field(alias="resourceNameGCUCore")] = "enflame.com/gcu-core"
    resource_name_vgcu: Annotated[_Optional, Field(alias="resourceNameVGCU")] = ""
    resource_name_vgcu_percentage: Annotated[_Optional, Field(alias="resourceNameVGCUPercentage")] = ""

    @property
    def slices(self) -> str:
        """Resource name of DRS slices."""
        return self.resource_name_drs_gcu or self.resource_name_vgcu or DRS_GCU
