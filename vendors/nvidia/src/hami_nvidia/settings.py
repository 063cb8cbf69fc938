"""Settings of the NVIDIA node side: environment ``HAMI_NVIDIA_…`` before HAMi's per-node file before device-config.

Settings that the agent itself has, such as its folder and the CDI folders, come as `hami_core.NodeContext`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

import structlog
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import NoDecode, SettingsConfigDict

from hami_core import DeviceError, Preference
from hami_core.documents import explained, none_of
from hami_core.vendorkit.node import EnvironmentSettings
from hami_nvidia import node_config
from hami_nvidia.driver_places import AUTO
from hami_nvidia.node_config import MigStrategy, Mode
from hami_nvidia.strategies import LIST_STRATEGIES, ListStrategy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hami_core import NodeContext

log = structlog.get_logger(__name__)

CorePolicy = Literal["default", "force", "disable"]
HEALTH_WORDS: Final = ("all", "xids")


def _check_health_words(text: str) -> str:
    for word in text.lower().split(","):
        name = word.strip()
        if name and name not in HEALTH_WORDS and not (name.isascii() and name.isdigit()):
            raise ValueError(f"{none_of(name, HEALTH_WORDS)}, nor the number of an XID")
    return text


HealthWords = Annotated[str, AfterValidator(_check_health_words)]
"""XIDs by number, or ``all`` or ``xids`` for every XID, separated by commas."""


def _check_driver_root(path: Path) -> Path:
    if path.is_absolute() or path == AUTO:
        return path
    raise ValueError(f"{str(path)!r} is neither an absolute path nor auto")


DriverRootPath = Annotated[Path, AfterValidator(_check_driver_root)]
"""An absolute path, or ``auto``."""


def _check_absolute(path: Path) -> Path:
    if path.is_absolute():
        return path
    raise ValueError(f"{str(path)!r} is no absolute path")


AbsolutePath = Annotated[Path, AfterValidator(_check_absolute)]


class NodeSettings(EnvironmentSettings):
    """The administrator's settings for this node.

    Every field is the environment variable ``HAMI_NVIDIA_<NAME>``; lists are separated by commas. The value of a field
    that is None comes from HAMi's per-node file, or else from the ``nvidia`` section of device-config.yaml.
    """

    model_config = SettingsConfigDict(env_prefix="HAMI_NVIDIA_")

    nvml_library: str = ""
    """libnvidia-ml.so.1 to load; empty: found below driver_root, or by name if that is this process's own root."""
    driver_root: DriverRootPath = Field(
        default=Path("/"), validation_alias=AliasChoices("HAMI_NVIDIA_DRIVER_ROOT", "NVIDIA_DRIVER_ROOT")
    )
    """Root of the driver's installation on the host; ``auto``: see `hami_nvidia.driver_places`."""
    agent_driver_root: Path | None = Field(
        default=None,
        validation_alias=AliasChoices("HAMI_NVIDIA_AGENT_DRIVER_ROOT", "DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"),
    )
    """Where the agent sees driver_root, or the host's ``/`` for ``auto``; None: at the same path."""
    driver_libraries: Annotated[tuple[Path, ...], NoDecode] = ()
    """Host files to mount as the driver's libraries; empty: from NVIDIA's own CDI spec, else below driver_root."""
    container_library_dir: str = ""
    """Where containers see the driver's libraries; empty: the same folder as on the host."""
    dev_root: Path = Path("/dev")
    """Folder of the device nodes on the host."""
    sys_root: Path = Path("/sys")
    """Root of sysfs."""
    proc_root: Path = Path("/proc")
    """Root of procfs."""
    library_dir: Path | None = None
    """Host folder for libvgpu.so, at the same path here; None: ``lib`` in the agent's folder."""
    split_count: int | None = Field(default=None, ge=1, le=1000)
    memory_scaling: float | None = Field(default=None, gt=0, le=100)
    core_scaling: float | None = Field(default=None, gt=0, le=100)
    preconfigured_memory_mib: int | None = Field(default=None, ge=0)
    numa_topology: bool | None = None
    operating_mode: Mode | None = None
    core_policy: CorePolicy | None = None
    topology_score: bool = Field(
        default=False, validation_alias=AliasChoices("HAMI_NVIDIA_TOPOLOGY_SCORE", "ENABLE_TOPOLOGY_SCORE")
    )
    disable_health_checks: HealthWords = Field(
        default="", validation_alias=AliasChoices("HAMI_NVIDIA_DISABLE_HEALTH_CHECKS", "DP_DISABLE_HEALTHCHECKS")
    )
    enable_health_checks: HealthWords = Field(
        default="", validation_alias=AliasChoices("HAMI_NVIDIA_ENABLE_HEALTH_CHECKS", "DP_ENABLE_HEALTHCHECKS")
    )
    subtract_reserved_memory: bool = False
    """Register a card's memory without the part that its driver reserves; False: all of it, as HAMi does."""
    xid_recovery_s: float = Field(default=0.0, ge=0)
    """Seconds after its last critical error until an answering card counts as recovered; 0: only after a restart."""
    turn_pages: bool = True
    """Containers with a core limit on one card take turns through a shared page; False: no page is mounted."""
    driver_limits: Literal["auto", "off"] = "auto"
    """Memory limits of the driver below the interposer's, where the driver has them (615 and later); off: none."""
    cgroup_root: Path = Path("/sys/fs/cgroup")
    """Where the agent sees the host's cgroup v2."""
    mig_strategy: MigStrategy | None = Field(
        default=None, validation_alias=AliasChoices("HAMI_NVIDIA_MIG_STRATEGY", "MIG_STRATEGY")
    )
    preferred_allocation: Preference | None = Field(
        default=None,
        validation_alias=AliasChoices("HAMI_NVIDIA_PREFERRED_ALLOCATION", "SHARED_DEVICES_ALLOCATION_POLICY"),
    )
    mig_enable: bool = True
    """Operating mode mig: turn on MIG mode of a card that nobody uses; False: never change a card's MIG mode."""
    mps_dir: Path = Path("/run/hami/mps")
    """Folder of the MPS control daemon's sockets and shared memory, at the same path on the host and here."""
    mps_control: Path | None = None
    """nvidia-cuda-mps-control; None: in usr/bin below the driver's root."""
    feature_labels: bool = False
    """Label the node as NVIDIA's GPU feature discovery does, unless that runs here."""
    nvidia_dev_root: AbsolutePath | None = Field(default=None, validation_alias="NVIDIA_DEV_ROOT")
    """HAMi's form of dev_root: the folder in which ``dev`` lies; None: as the driver's root has it."""
    device_list_strategy: Annotated[tuple[ListStrategy, ...], NoDecode] = Field(
        default=(), validation_alias=AliasChoices("HAMI_NVIDIA_DEVICE_LIST_STRATEGY", "DEVICE_LIST_STRATEGY")
    )
    """HAMi's words; see `hami_nvidia.strategies`."""
    device_id_strategy: Literal["uuid", "index"] = Field(
        default="uuid", validation_alias=AliasChoices("HAMI_NVIDIA_DEVICE_ID_STRATEGY", "DEVICE_ID_STRATEGY")
    )
    """How cards are named to NVIDIA's runtime, where device_list_strategy does that."""
    device_discovery_strategy: Literal["auto", "nvml", "tegra"] = Field(
        default="auto",
        validation_alias=AliasChoices("HAMI_NVIDIA_DEVICE_DISCOVERY_STRATEGY", "DEVICE_DISCOVERY_STRATEGY"),
    )
    """What a node without cards is taken for; see `hami_nvidia.unsupported_nodes`."""
    gds: bool = Field(default=False, validation_alias=AliasChoices("HAMI_NVIDIA_GDS", "GDS_ENABLED"))
    """Containers get the devices of GPUDirect Storage."""
    mofed: bool = Field(default=False, validation_alias=AliasChoices("HAMI_NVIDIA_MOFED", "MOFED_ENABLED"))
    """Containers get the RDMA devices of MOFED."""
    gdrcopy: bool = Field(default=False, validation_alias=AliasChoices("HAMI_NVIDIA_GDRCOPY", "GDRCOPY_ENABLED"))
    """Containers get the device of GDRCopy."""
    imex_channel_ids: Annotated[tuple[Literal[0], ...], NoDecode] = Field(
        default=(), validation_alias=AliasChoices("HAMI_NVIDIA_IMEX_CHANNEL_IDS", "IMEX_CHANNEL_IDS")
    )
    """IMEX channels that containers get: none or channel 0."""
    imex_required: bool = Field(
        default=False, validation_alias=AliasChoices("HAMI_NVIDIA_IMEX_REQUIRED", "IMEX_REQUIRED")
    )
    """While a channel of imex_channel_ids is missing, no card is offered."""

    @field_validator("imex_channel_ids", mode="before")
    @classmethod
    def _channels(cls, value: Any) -> Any:  # noqa: ANN401 - text from the environment, or a sequence
        if not isinstance(value, str):
            return value
        word = value.strip().removeprefix("[").removesuffix("]").strip()
        if word not in {"", "0"}:
            raise ValueError(f"{value!r} is neither [] nor [0]; NVIDIA's plugin knows no other channel")
        return (0,) if word else ()

    @field_validator("device_list_strategy", mode="before")
    @classmethod
    def _strategies(cls, value: Any) -> Any:  # noqa: ANN401 - text from the environment, or a sequence
        words = cls._split(value)
        unknown = [word for word in words if word not in LIST_STRATEGIES]
        if unknown:
            raise ValueError(none_of(unknown[0], LIST_STRATEGIES))
        return words

    @field_validator("driver_libraries", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:  # noqa: ANN401 - text from the environment, or a sequence
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


class NodeOptions(BaseModel):
    """The options of this node, merged from all sources."""

    model_config = ConfigDict(frozen=True)

    mode: Mode = "hami-core"
    split_count: int = Field(default=10, ge=1)
    memory_scaling: float = Field(default=1.0, gt=0)
    core_scaling: float = Field(default=1.0, gt=0)
    preconfigured_memory_mib: int = 0
    log_level: str | int = ""
    numa_topology: bool = False
    core_policy: CorePolicy = "default"
    hidden_uuids: frozenset[str] = frozenset()
    hidden_indices: frozenset[int] = frozenset()
    mig_strategy: MigStrategy = "none"
    preferred_allocation: Preference = Preference.DISTRIBUTED

    @model_validator(mode="after")
    def _one_maker(self) -> Self:
        if self.mode == "mig" and self.mig_strategy == "single":
            raise ValueError(
                "operatingmode mig makes MIG instances, and migStrategy single only offers those of an administrator: "
                "use migStrategy mixed or none with operatingmode mig, or another operatingmode with single"
            )
        return self


_FROM_CONFIG: Final = {
    "deviceSplitCount": "split_count",
    "deviceMemoryScaling": "memory_scaling",
    "deviceCoreScaling": "core_scaling",
    "preConfiguredDeviceMemory": "preconfigured_memory_mib",
    "libCudaLogLevel": "log_level",
    "enableNumaTopology": "numa_topology",
    "gpuCorePolicy": "core_policy",
    "migStrategy": "mig_strategy",
}
_FROM_NODE: Final = {
    "operatingmode": "mode",
    "devicesplitcount": "split_count",
    "devicememoryscaling": "memory_scaling",
    "devicecorescaling": "core_scaling",
    "preconfigureddevicememory": "preconfigured_memory_mib",
    "libcudaloglevel": "log_level",
    "enablenumatopology": "numa_topology",
    "migstrategy": "mig_strategy",
}
_FROM_SETTINGS: Final = {
    "operating_mode": "mode",
    "split_count": "split_count",
    "memory_scaling": "memory_scaling",
    "core_scaling": "core_scaling",
    "preconfigured_memory_mib": "preconfigured_memory_mib",
    "numa_topology": "numa_topology",
    "core_policy": "core_policy",
    "mig_strategy": "mig_strategy",
    "preferred_allocation": "preferred_allocation",
}


class OptionsOfNode:
    """This node's options, merged from all sources. The per-node file is read once, the node's labels each time.

    Args:
        settings: The node's settings, which take precedence.
        section: The ``nvidia`` section of device-config by HAMi's keys, which gives the defaults.
        node: The node, its labels and the path of its per-node file; None: no node is served.

    Raises:
        ConfigError: The per-node file is invalid.
    """

    def __init__(self, settings: NodeSettings, section: Mapping[str, Any], node: NodeContext | None) -> None:
        self._settings = settings
        self._section = section
        self._node = node
        self._file = (
            node_config.read(node.config_file, node.name) if node and node.config_file else node_config.NodeFile()
        )
        self._warned: list[str] = []
        for warning in self._file.warnings:
            log.warning("problem in the per-node file", warning=warning)

    def now(self) -> NodeOptions:
        """The options as the node's labels select them now.

        Raises:
            ConfigError: An entry of this node, or a value, is invalid.
            DeviceError: The file has entries by label, and the node's labels are not known yet.
        """
        labels = self._node.labels() if self._node else {}
        if labels is None and self._file.by_label:
            raise DeviceError("the labels of this node are not known yet, and the per-node file has entries by label")
        return self._merged(labels or {})

    def at_start(self) -> NodeOptions:
        """The options, or the default ones if they depend on labels that are not known yet. The first discovery knows.

        Raises:
            ConfigError: An entry of this node, or a value, is invalid.
        """
        try:
            return self.now()
        except DeviceError:
            return NodeOptions()

    def _merged(self, labels: Mapping[str, str]) -> NodeOptions:
        entries, warnings = self._file.applying(labels)
        for warning in warnings:
            if warning not in self._warned:
                log.warning("problem in the per-node file", warning=warning)
        self._warned = warnings
        return self._options(entries)

    def _options(self, entries: Iterable[tuple[str, node_config.NodeEntry]]) -> NodeOptions:
        section = self._section
        found: dict[str, Any] = {}
        found.update({ours: section[key] for key, ours in _FROM_CONFIG.items() if section.get(key) not in (None, "")})
        if section.get("disableCoreLimit"):
            found["core_policy"] = "disable"
        for _, entry in entries:
            values = entry.model_dump()
            # As in HAMi, zero in an entry means "not set". But false overrides.
            found.update(
                {o: values[k] for k, o in _FROM_NODE.items() if values[k] not in (None, "", 0) or values[k] is False}
            )
            if entry.enablegetpreferredallocation is not None:
                wanted = entry.enablegetpreferredallocation
                found["preferred_allocation"] = Preference.DISTRIBUTED if wanted else Preference.NONE
            if entry.filterdevices:
                found["hidden_uuids"] = found.get("hidden_uuids", frozenset()).union(entry.filterdevices.uuid)
                found["hidden_indices"] = found.get("hidden_indices", frozenset()).union(entry.filterdevices.index)
        for key, ours in _FROM_SETTINGS.items():
            value = getattr(self._settings, key)
            if value is not None:
                found[ours] = value
        try:
            return NodeOptions(**found)
        except ValidationError as error:
            raise explained(error, "options of this NVIDIA node") from error


def options(settings: NodeSettings, section: Mapping[str, Any], node: NodeContext | None) -> NodeOptions:
    """The options of a node at once (`OptionsOfNode`)."""
    return OptionsOfNode(settings, section, node).now()
