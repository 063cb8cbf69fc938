"""The section ``awsneuron`` of the device-config, with HAMi's keys and the defaults of HAMi's chart."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_Name = Annotated[str, Field(min_length=1, max_length=253)]


class AwsNeuronConfig(BaseModel):
    """Section ``awsneuron``.

    Attributes:
        resource_count_name: Resource name of whole devices.
        resource_core_name: Resource name of cores.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, json_schema_extra={"section": "awsneuron"})

    resource_count_name: Annotated[_Name, Field(alias="resourceCountName")] = "aws.amazon.com/neuron"
    resource_core_name: Annotated[_Name, Field(alias="resourceCoreName")] = "aws.amazon.com/neuroncore"
