"""The ``nvidia`` section of ``device-config.yaml``, with HAMi v2.10's keys and the defaults of its chart."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from hami_core.documents import shown

INT32_MAX = 2**31 - 1

Amount = Annotated[int, Field(ge=0, le=INT32_MAX)]
ResourceName = Annotated[str, Field(max_length=317)]

_PROFILE = re.compile(r"[1-9][0-9]?g\.\S+", re.ASCII)


def _mig_profile(name: str) -> str:
    if _PROFILE.fullmatch(name) is None:
        message = f"{shown(name)} is not a MIG profile, expected the form 1g.5gb"
        raise ValueError(message)
    return name


class _Section(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, json_schema_extra={"section": "nvidia"}
    )


class MigAllowance(_Section):
    """The MIG profiles that are allowed on cards whose NVML name contains one of the models."""

    models: tuple[str, ...] = Field(min_length=1)
    profiles: tuple[Annotated[str, AfterValidator(_mig_profile)], ...] = Field(min_length=1)


class NvidiaConfig(_Section):
    """Resource names and defaults of NVIDIA GPUs.

    Keys are written as in HAMi (``resourceCountName``, ``defaultGPUNum``, …). An empty resource name switches that
    resource off; the count's name can't be empty. Amounts are MiB and percent.
    """

    resource_count_name: Annotated[ResourceName, Field(min_length=1)] = "nvidia.com/gpu"
    resource_memory_name: ResourceName = "nvidia.com/gpumem"
    resource_memory_percentage_name: ResourceName = "nvidia.com/gpumem-percentage"
    resource_core_name: ResourceName = "nvidia.com/gpucores"
    resource_priority_name: ResourceName = "nvidia.com/priority"
    overwrite_env: bool = False
    default_memory: Amount = 0
    default_cores: Amount = 0
    default_gpu_num: Amount = Field(default=1, alias="defaultGPUNum")
    memory_factor: Annotated[int, Field(ge=0, le=INT32_MAX)] = 1
    gpu_core_policy: Literal["", "default", "force", "disable"] = "default"
    runtime_class_name: str = ""
    mig_profile_allowlist: tuple[MigAllowance, ...] = ()

    device_split_count: Annotated[int, Field(ge=1, le=1000)] = 10
    device_memory_scaling: Annotated[float, Field(gt=0, le=100)] = 1.0
    device_core_scaling: Annotated[float, Field(gt=0, le=100)] = 1.0
    pre_configured_device_memory: Amount = 0
    lib_cuda_log_level: Annotated[int, Field(ge=0, le=4)] = 1
    enable_numa_topology: bool = False
    disable_core_limit: bool = False
    mig_strategy: Literal["", "none", "single", "mixed"] = "none"
