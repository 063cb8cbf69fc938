"""The section ``biren`` of the device-config, with HAMi's key and the default of HAMi's chart."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class BirenConfig(BaseModel):
    """Section ``biren``.

    Attributes:
        resource_count_name: Resource name of the count. ``birentech.com/1-2-gpu`` and ``birentech.com/1-4-gpu`` are
            the plugin's names for SVI instances.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, json_schema_extra={"section": "biren"})

    resource_count_name: Annotated[str, Field(min_length=1, max_length=253, alias="resourceCountName")] = (
        "birentech.com/gpu"
    )
