"""The section ``vnpus`` of the device-config, with HAMi's keys and HAMi's chip table as the default."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hami_core.vendorkit import Template

_INT32_MAX = 2**31 - 1
PAIRED_WORD: Final = "Ascend910C"
"""The chip of which two NPUs form one module. HAMi knows it by this word."""

_Amount = Annotated[int, Field(ge=0, le=_INT32_MAX)]
_Name = Annotated[str, Field(min_length=1, max_length=253)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True)


class ChipTemplate(_Section):
    """One vNPU size."""

    name: _Name
    memory: Annotated[int, Field(ge=1, le=_INT32_MAX)]
    ai_core: Annotated[_Amount, Field(alias="aiCore")] = 0
    ai_cpu: Annotated[_Amount | None, Field(alias="aiCPU")] = None

    def kit(self) -> Template:
        """This size as a template of vendorkit."""
        return Template(self.name, self.memory, self.ai_core, self.ai_cpu or 0)


class Chip(_Section):
    """One chip model. Memory is MiB.

    Attributes:
        common_word: HAMi's word, which is part of every resource and annotation name.
        chip_name: The driver's name of the chip.
        resource_name: Resource name of the count.
        resource_memory_name: Resource name of the memory; empty: memory can't be requested.
        resource_core_name: Resource name of the percent of cores, for soft split; empty: cores can't be requested.
        memory_allocatable: Memory that a whole device offers.
        memory_capacity: Memory that a device has. A request between the two values gets the whole device.
        memory_factor: MiB per unit of the memory resource; None or 0: 1.
        ai_core: Number of AI cores.
        ai_cpu: Number of AI CPUs.
        runtime_class_name: Runtime class for pods that have none; empty: unchanged.
        overwrite_env: Hide every NPU from containers that request none.
        super_pod: NPUs of a 910C are given as modules of two: a count of 1 becomes 2, other odd counts are refused.
        templates: The vNPU sizes.
    """

    common_word: Annotated[_Name, Field(alias="commonWord")]
    chip_name: Annotated[str, Field(alias="chipName")] = ""
    resource_name: Annotated[_Name, Field(alias="resourceName")]
    resource_memory_name: Annotated[str, Field(alias="resourceMemoryName")] = ""
    resource_core_name: Annotated[str, Field(alias="resourceCoreName")] = ""
    memory_allocatable: Annotated[int, Field(alias="memoryAllocatable", ge=1, le=_INT32_MAX)]
    memory_capacity: Annotated[_Amount, Field(alias="memoryCapacity")] = 0
    memory_factor: Annotated[_Amount | None, Field(alias="memoryFactor")] = None
    ai_core: Annotated[_Amount, Field(alias="aiCore")] = 0
    ai_cpu: Annotated[_Amount | None, Field(alias="aiCPU")] = None
    runtime_class_name: Annotated[str, Field(alias="runtimeClassName")] = ""
    overwrite_env: Annotated[bool, Field(alias="overwriteEnv")] = False
    super_pod: Annotated[bool, Field(alias="superPod")] = False
    templates: tuple[ChipTemplate, ...] = ()

    @property
    def capacity(self) -> int:
        """Largest memory that a request may name, in MiB."""
        return max(self.memory_capacity, self.memory_allocatable)

    @property
    def is_given_in_modules(self) -> bool:
        """Whether a request for several NPUs gets whole modules of two NPUs."""
        return self.super_pod and self.common_word == PAIRED_WORD

    def units(self, memory_mib: int) -> int:
        """An amount of memory in units of the memory resource, rounded down, so that no size exceeds its device."""
        return memory_mib // (self.memory_factor or 1)

    def size_of(self, memory_mib: int) -> Template | None:
        """The vNPU size that a booked amount of memory stands for; None: it stands for a whole device."""
        return next((size for size in self.sizes if self.units(size.memory_mib) == self.units(memory_mib)), None)

    @property
    def sizes(self) -> tuple[Template, ...]:
        """The vNPU sizes, smallest first."""
        return tuple(sorted((t.kit() for t in self.templates), key=lambda t: t.memory_mib))


def _chip(word: str, name: str, memory: tuple[int, int], cores: tuple[int, int | None], sizes: str) -> Chip:
    """Make one row of the table. Each size is ``name:MiB:cores[:cpus]``."""
    templates = []
    for size in sizes.split():
        label, mib, ai_core, *ai_cpu = size.split(":")
        templates.append(
            ChipTemplate(name=label, memory=int(mib), ai_core=int(ai_core), ai_cpu=int(ai_cpu[0]) if ai_cpu else None)
        )
    return Chip(
        common_word=word,
        chip_name=name,
        resource_name=f"huawei.com/{word}",
        resource_memory_name=f"huawei.com/{word}-memory",
        resource_core_name=f"huawei.com/{word}-core",
        memory_allocatable=memory[0],
        memory_capacity=memory[1],
        memory_factor=None if word == PAIRED_WORD else 1,
        ai_core=cores[0],
        ai_cpu=cores[1],
        super_pod=word == PAIRED_WORD,
        templates=tuple(templates),
    )


_B3 = "vir05_1c_16g:16384:5:1 vir10_3c_32g:32768:10:3"

CHIPS: tuple[Chip, ...] = (
    _chip("Ascend910A", "910A", (32768, 32768), (30, None), "vir02:2184:2 vir04:4369:4 vir08:8738:8 vir16:17476:16"),
    _chip(
        "Ascend910B2", "910B2", (65536, 65536), (24, 6),
        "vir03_1c_8g:8192:3:1 vir06_1c_16g:16384:6:1 vir12_3c_32g:32768:12:3",
    ),
    _chip("Ascend910B3", "910B3", (65536, 65536), (20, 7), _B3),
    _chip("Ascend910B4-1", "910B4-1", (65536, 65536), (20, 7), _B3),
    _chip("Ascend910B4", "910B4", (32768, 32768), (20, 7), "vir05_1c_8g:8192:5:1 vir10_3c_16g:16384:10:3"),
    _chip("Ascend310P", "310P3", (21527, 24576), (8, 7), "vir01:3072:1:1 vir02:6144:2:2 vir04:12288:4:4"),
    _chip("Ascend910C", "Ascend910", (65536, 65536), (20, 7), _B3),
)  # fmt: skip
"""The defaults of HAMi's chart."""


class AscendConfig(_Section):
    """Section ``vnpus``.

    Attributes:
        soft_split: Nodes share NPUs in software unless their annotation says otherwise (HAMi: ``hamiVnpuCore``).
        configs: The chips to serve; each becomes one family.
    """

    model_config = ConfigDict(frozen=True, populate_by_name=True, json_schema_extra={"section": "vnpus"})

    soft_split: Annotated[bool, Field(alias="hamiVnpuCore")] = False
    configs: tuple[Chip, ...] = CHIPS

    @model_validator(mode="after")
    def _each_word_once(self) -> AscendConfig:
        words = [chip.common_word for chip in self.configs]
        twice = sorted({word for word in words if words.count(word) > 1})
        if twice:
            raise ValueError(f"configs: commonWord {', '.join(twice)} occurs twice")
        return self
