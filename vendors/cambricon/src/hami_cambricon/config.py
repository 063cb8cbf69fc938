"""The section ``cambricon`` of the device-config, with HAMi's keys and the defaults of HAMi's chart."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Name = Annotated[str, Field(min_length=1, max_length=253)]


class CambriconConfig(BaseModel):
    """Section ``cambricon``.

    Attributes:
        resource_count_name: Resource name of the count.
        resource_memory_name: Resource name of the memory, in units of 256 MiB.
        resource_core_name: Resource name of the percent of cores.
        vendor_spelling: Also write the key ``CAMBRICON_DSMLU_ASSIGHED``, which Cambricon's device plugin waits for.
            HAMi v2.10 writes only the corrected spelling, so the plugin finds no pod.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, json_schema_extra={"section": "cambricon"})

    resource_count_name: Annotated[_Name, Field(alias="resourceCountName")] = "cambricon.com/vmlu"
    resource_memory_name: Annotated[_Name, Field(alias="resourceMemoryName")] = "cambricon.com/mlu.smlu.vmemory"
    resource_core_name: Annotated[_Name, Field(alias="resourceCoreName")] = "cambricon.com/mlu.smlu.vcore"
    vendor_spelling: Annotated[bool, Field(alias="vendorSpelling")] = True
