"""The list ``iluvatars`` of the device-config, with HAMi's keys and the four chips of HAMi's chart as the default."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

_Name = Annotated[str, Field(min_length=1, max_length=253)]
_Word = Annotated[str, Field(max_length=43, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")]
"""Part of annotation names, of which the longest is ``hami.io/<word>-devices-to-allocate``."""


class Chip(BaseModel):
    """One chip.

    Attributes:
        common_word: HAMi's word, which is part of every annotation name.
        chip_name: Iluvatar's name of the chip, for people.
        resource_count_name: Resource name of the count.
        resource_memory_name: Resource name of the memory, in units of 256 MiB.
        resource_core_name: Resource name of the percent of cores.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    common_word: Annotated[_Word, Field(alias="commonWord")]
    chip_name: Annotated[str, Field(alias="chipName")] = ""
    resource_count_name: Annotated[_Name, Field(alias="resourceCountName")]
    resource_memory_name: Annotated[_Name, Field(alias="resourceMemoryName")]
    resource_core_name: Annotated[_Name, Field(alias="resourceCoreName")]


def _chip(word: str) -> Chip:
    return Chip(
        common_word=word,
        chip_name=word,
        resource_count_name=f"iluvatar.ai/{word}-vgpu",
        resource_memory_name=f"iluvatar.ai/{word}.vMem",
        resource_core_name=f"iluvatar.ai/{word}.vCore",
    )


CHIPS: Final = tuple(_chip(word) for word in ("MR-V100", "MR-V50", "BI-V150", "BI-V100"))


class IluvatarConfig(RootModel[tuple[Chip, ...]]):
    """Section ``iluvatars``, a list of chips."""

    model_config = ConfigDict(frozen=True, json_schema_extra={"section": "iluvatars"})

    root: tuple[Chip, ...] = CHIPS

    @model_validator(mode="before")
    @classmethod
    def _default_chips(cls, raw: Any) -> Any:  # noqa: ANN401 - content of a file
        """The core reads a section that is missing as an empty mapping."""
        return CHIPS if raw == {} else raw
