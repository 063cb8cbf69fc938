"""The section ``metax`` of the device-config, with HAMi's keys and the defaults of HAMi's chart."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Name = Annotated[str, Field(min_length=1, max_length=253)]


class MetaxConfig(BaseModel):
    """Section ``metax``.

    Attributes:
        gpu: Resource name of whole GPUs.
        sgpu: Resource name of sGPUs.
        vmemory: Resource name of an sGPU's memory, in GiB, or in bytes if the amount has a unit.
        vcore: Resource name of an sGPU's percent of compute.
        topology_aware: Prefer nodes by the links between their cards, for pods that do not say it themselves.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, json_schema_extra={"section": "metax"})

    gpu: Annotated[_Name, Field(alias="resourceCountName")] = "metax-tech.com/gpu"
    sgpu: Annotated[_Name, Field(alias="resourceVCountName")] = "metax-tech.com/sgpu"
    vmemory: Annotated[_Name, Field(alias="resourceVMemoryName")] = "metax-tech.com/vmemory"
    vcore: Annotated[_Name, Field(alias="resourceVCoreName")] = "metax-tech.com/vcore"
    topology_aware: Annotated[bool, Field(alias="sgpuTopologyAware")] = False
