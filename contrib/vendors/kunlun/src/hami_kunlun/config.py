"""The section ``kunlun`` of the device-config, with HAMi's keys and the defaults of HAMi's chart."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Name = Annotated[str, Field(min_length=1, max_length=253)]


class KunlunConfig(BaseModel):
    """Section ``kunlun``.

    Attributes:
        resource_count_name: Resource name of whole cards.
        resource_vcount_name: Resource name of the number of vXPUs.
        resource_vmemory_name: Resource name of the memory of each vXPU, in MiB.
        driver_handles: How many cards, halves and quarters of cards the driver of a node can have at once.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, json_schema_extra={"section": "kunlun"})

    resource_count_name: Annotated[_Name, Field(alias="resourceCountName")] = "kunlunxin.com/xpu"
    resource_vcount_name: Annotated[_Name, Field(alias="resourceVCountName")] = "kunlunxin.com/vxpu"
    resource_vmemory_name: Annotated[_Name, Field(alias="resourceVMemoryName")] = "kunlunxin.com/vxpu-memory"
    driver_handles: Annotated[int, Field(alias="driverHandles", ge=1)] = 32
