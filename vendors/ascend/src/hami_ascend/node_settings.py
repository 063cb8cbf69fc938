"""Settings of the Ascend node side: environment ``HAMI_ASCEND_…`` before HAMi's per-node file before device-config."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import structlog
from pydantic import BaseModel, ConfigDict, Field
from pydantic_settings import SettingsConfigDict

from hami_core import ConfigError
from hami_core.documents import load_yaml, read_model, read_text
from hami_core.vendorkit.node import EnvironmentSettings

if TYPE_CHECKING:
    from hami_core import NodeContext

log = structlog.get_logger(__name__)

_Count = Annotated[int, Field(ge=1, le=1000)]


class NodeSettings(EnvironmentSettings):
    """The administrator's settings for this node. Every field is the environment variable ``HAMI_ASCEND_<NAME>``."""

    model_config = SettingsConfigDict(env_prefix="HAMI_ASCEND_")

    dcmi_library: str = ""
    """The libdcmi.so to load; empty: by name, else from the driver's folders."""
    host_root: Path = Path("/")
    """Where the agent sees the root of the host."""
    vnpu_creator: Literal["runtime", "agent"] = "runtime"
    """The program that makes vNPUs: Ascend's container runtime, as with HAMi's plugin, or this agent."""
    look_interval_s: float = Field(default=60.0, ge=1, le=86400)
    """Seconds between two looks for vNPUs that no container needs, and for vNPUs that a container lacks."""
    clean_idle_vnpus: bool = True
    """Destroy idle vNPUs that the runtime left behind."""
    soft_split: bool | None = None
    """Share NPUs in software; None: from the per-node file, else ``hamiVnpuCore`` of device-config."""
    slots: _Count | None = None
    """Containers that may share an NPU; None: from the per-node file, else as many as vNPUs of the smallest size."""


class Filter(BaseModel):
    """NPUs that are never offered."""

    model_config = ConfigDict(frozen=True)

    uuid: tuple[str, ...] = ()
    index: tuple[int, ...] = ()
    """DCMI card ids, as in HAMi."""


class NodeEntry(BaseModel):
    """This node's entry in HAMi's per-node file for Ascend."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    name: str = ""
    soft_split: Annotated[bool | None, Field(alias="hami-vnpu-core")] = None
    slots: Annotated[int | None, Field(alias="vDeviceCount", ge=0, le=1000)] = None
    hidden: Annotated[Filter, Field(alias="filterDevices")] = Filter()


NO_ENTRY: Final = NodeEntry()


def node_entry(node: NodeContext) -> NodeEntry:
    """The node's entry: the first one of its name in the list ``nodes``. As in HAMi, it says whether to split softly.

    Raises:
        ConfigError: The file can't be read, or this node's entry is wrong.
    """
    path = node.config_file
    if path is None or not path.exists():
        return NO_ENTRY
    content = load_yaml(read_text(path), str(path))
    entries = content.get("nodes") if isinstance(content, dict) else None
    if entries is None:
        return NO_ENTRY
    if not isinstance(entries, list):
        raise ConfigError(f"{path}: nodes", "is no list", "write one entry for each node that needs one")
    for position, raw in enumerate(entries):
        if isinstance(raw, dict) and raw.get("name") == node.name:
            entry, unknown = read_model(NodeEntry, raw, str(path), f"nodes[{position}] ({node.name})")
            for key in unknown:
                log.warning("problem in the per-node file", file=str(path), problem=f"{key}: there is no such key")
            return entry.model_copy(update={"soft_split": bool(entry.soft_split)})
    return NO_ENTRY
