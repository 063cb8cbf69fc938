"""The section ``vastai`` of the device-config, with HAMi's key and the default of HAMi's chart."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class VastaiConfig(BaseModel):
    """Section ``vastai``.

    Attributes:
        resource_count_name: Resource name of the count: of cards, or of dies on nodes in die mode.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, json_schema_extra={"section": "vastai"})

    resource_count_name: str = Field(
        default="vastaitech.com/va", alias="resourceCountName", min_length=1, max_length=253
    )
