"""The scheduler side for Acme accelerators: names, keys and capabilities. It is pure and needs no driver.

The hooks that this class leaves out have defaults. Devices come from the register annotation, requests from the
container's limits, and pods choose devices by the selector annotations below.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from hami_core import Capability, Family, Grade, Resources, SelectorKeys, Support, hookimpl

REGISTER_KEY = "hami.io/node-acme-register"


class AcmeConfig(BaseModel):
    """The section ``acme`` of device-config.yaml."""

    model_config = ConfigDict(json_schema_extra={"section": "acme"})

    count: str = Field(default="acme.example/npu", alias="resourceCountName")
    memory: str = Field(default="acme.example/npu-memory", alias="resourceMemoryName")


class Acme:
    """The scheduler side."""

    api_version = (1, 0)

    @hookimpl
    def config_model(self) -> type[AcmeConfig]:
        """Name the model of our section."""
        return AcmeConfig

    @hookimpl
    def families(self, config: AcmeConfig) -> list[Family]:
        """Serve one kind of device."""
        acme = Family(
            word="ACME",
            resources=Resources(count=config.count, memory=config.memory),
            allocated_key="hami.io/acme-devices-allocated",
            register_key=REGISTER_KEY,
            # template if not node_side
            offered_resource=config.count,
            # template endif
            uuid_selectors=(SelectorKeys("acme.example/use-npu-uuid", "acme.example/nouse-npu-uuid"),),
            type_selectors=(SelectorKeys("acme.example/use-npu-type", "acme.example/nouse-npu-type"),),
            capabilities={
                Capability.SHARING: Grade(Support.FULL),
                Capability.MEMORY_LIMIT: Grade(Support.PARTIAL, "kept by Acme's runtime library, not by the driver"),
                Capability.UUID_SELECTORS: Grade(Support.FULL),
                Capability.TYPE_SELECTORS: Grade(Support.FULL),
                # template if node_side
                Capability.NODE_AGENT: Grade(Support.FULL),
                # template endif
            },
        )
        return [acme]
