"""The section ``amd`` of the device-config, with HAMi's keys and the defaults of HAMi's chart."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Resource = Annotated[str, Field(min_length=1, max_length=253)]


class AmdConfig(BaseModel):
    """Section ``amd``.

    Attributes:
        resource_count_name: Resource name of the count, which the device plugin offers to the kubelet.
        resource_memory_name: Resource name of the memory in MiB.
        resource_core_name: Resource name of the percent of compute units.
        several_containers: Let several containers of a pod ask for GPUs. HAMi's AMD device plugin serves only the
            first of them and the kubelet then rejects the pod, so this needs a plugin without that fault.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, json_schema_extra={"section": "amd"})

    resource_count_name: _Resource = Field(default="amd.com/gpu", alias="resourceCountName")
    resource_memory_name: _Resource = Field(default="amd.com/gpumem", alias="resourceMemoryName")
    resource_core_name: _Resource = Field(default="amd.com/gpucores", alias="resourceCoreName")
    several_containers: bool = Field(default=False, alias="severalContainers")
