"""Settings of ``hami agent``. Vendors have their own settings for devices and drivers (``HAMI_<VENDOR>_…``)."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - pydantic needs it at run time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, model_validator

from hami_core.compatibility import HAMI
from hami_core.model import Enforcement, Serial  # noqa: TC001 - pydantic too
from hami_core.settings.base import Settings
from hami_core.settings.fields import notes
from hami_core.settings.values import Address, Folder, Names, Seconds  # noqa: TC001 - pydantic too

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNREAD: Final = "HAMi declares it and never reads it; the device-config file and the node configuration decide"

_NODE = "Node"
_TRUST = "Trust"
_KUBELET = "Kubelet and runtime"
_TIMES = "Times"
_RUNNING = "Running"


def _variables(found: Mapping[str, str]) -> dict[str, str]:
    return {f"--{name}": variable for name, variable in found.items()}


def _folder_of_socket(value: Any) -> Any:  # noqa: ANN401 - whatever was given
    """Read HAMi's path of the socket as its folder.

    Raises:
        ValueError: There is no path, or the socket has another name than the kubelet gives it.
    """
    if not isinstance(value, str):
        return value
    if not value:
        raise ValueError("is empty; the agent always registers with the kubelet")
    if value.endswith(".sock"):
        folder, _, name = value.rpartition("/")
        if name != "kubelet.sock" or not folder:
            raise ValueError(f"{value!r} is not kubelet.sock in a folder")
        return folder
    return value


class AgentSettings(Settings):
    """Settings of the node agent."""

    IGNORED: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            "--device-split-count",
            "--device-memory-scaling",
            "--device-cores-scaling",
            "--disable-core-limit",
            "--resource-name",
        ),
        _UNREAD,
    )
    VARIABLES: ClassVar[Mapping[str, str]] = _variables({**HAMI.plugin_flags, **HAMI.plugin_switches})
    SWITCHES: ClassVar[frozenset[str]] = frozenset(_variables(HAMI.plugin_switches))

    vendor: str = Field(
        "",
        description="The vendor to serve, whose node side must be installed; empty: the only one installed.",
        json_schema_extra=notes(group=_NODE),
    )
    node_name: str = Field(
        min_length=1,
        description="Name of this node's object in Kubernetes.",
        json_schema_extra=notes(env=["NODE_NAME"], group=_NODE),
    )
    kubeconfig: Path | None = Field(
        None,
        description="Cluster to talk to; none: the service account, else ~/.kube/config.",
        json_schema_extra=notes(env=["KUBECONFIG"], group=_NODE),
    )
    device_config_file: Path | None = Field(
        None,
        description="HAMi's device-config.yaml; none: the vendors' defaults.",
        json_schema_extra=notes(flags=["--config-file"], env=["CONFIG_FILE"], group=_NODE),
    )
    node_config_file: Path = Field(
        Path("/config/config.json"),
        description="HAMi's per-node configuration (nodeconfig list); it need not exist.",
        json_schema_extra=notes(group=_NODE),
    )
    state_dir: Folder = Field(
        Path("/var/lib/hami"),
        description="Records of the containers served; must outlive a reboot.",
        json_schema_extra=notes(group=_NODE),
    )
    selinux_type: str = Field(
        "",
        pattern=r"^([a-z][a-z0-9_]*)?$",
        description="SELinux type of the files that containers mount from --state-dir, such as container_file_t; "
        "empty: they stay as they are. Without effect on a node without SELinux.",
        json_schema_extra=notes(group=_NODE),
    )
    selinux_level: str = Field(
        "s0",
        pattern=r"^s[0-9]+(-s[0-9]+)?(:c[0-9]+([.,]c[0-9]+)*)?$",
        description="SELinux level of these files. Containers of every category may use s0.",
        json_schema_extra=notes(group=_NODE),
    )
    proc_dir: Path = Field(
        Path("/proc"), description="The host's /proc as seen from here.", json_schema_extra=notes(group=_NODE)
    )

    mode: Literal["required", "adopt", "trust"] = Field(
        "required",
        description="Which allocations are accepted. required: signed ones; adopt: also those of unsigned pods older "
        "than --adopt-before; trust (or trust:NAME,…): unsigned ones of the named schedulers.",
        json_schema_extra=notes(group=_TRUST),
    )
    signing_keys: Path | None = Field(
        None,
        description="Public keys (PEM) that verify allocations: a file, or a folder of *.pem.",
        json_schema_extra=notes(group=_TRUST),
    )
    adopt_before: datetime | None = Field(
        None,
        description="In mode adopt: latest creationTimestamp of an unsigned pod that is accepted (RFC 3339).",
        json_schema_extra=notes(group=_TRUST),
    )
    adopted_dir: Path = Field(
        Path("/usr/local/vgpu/containers"),
        description="In mode adopt: where HAMi's device plugin kept the regions of its containers, for their metrics.",
        json_schema_extra=notes(group=_TRUST),
    )
    trust_schedulers: Names = Field(
        (),
        description="In mode trust: schedulerNames whose unsigned allocations are accepted.",
        json_schema_extra=notes(group=_TRUST),
    )
    enforcement: Enforcement = Field(
        "enforce",
        description="What the interposer does with a container's limits.",
        json_schema_extra=notes(group=_TRUST),
    )
    evict_unlimited: bool = Field(
        False,
        description="Delete pods that run without the limits that they were given; off: event and metric only.",
        json_schema_extra=notes(group=_TRUST),
    )

    kubelet_plugin_dir: Annotated[Folder, BeforeValidator(_folder_of_socket)] = Field(
        Path("/var/lib/kubelet/device-plugins"),
        description="The kubelet's folder with kubelet.sock and the device checkpoint; the path of kubelet.sock, as in "
        "HAMi, names its folder.",
        json_schema_extra=notes(flags=["--kubelet-socket"], env=["KUBELET_SOCKET"], group=_KUBELET),
    )
    cdi_dir: Folder = Field(
        Path("/var/run/cdi"),
        description="Folder in which CDI specs are written; the runtime must watch it.",
        json_schema_extra=notes(group=_KUBELET),
    )
    cdi_search_dirs: Names = Field(
        ("/etc/cdi", "/var/run/cdi"),
        description="Folders with other programs' CDI specs, such as those of a vendor's toolkit.",
        json_schema_extra=notes(group=_KUBELET),
    )
    serial: Serial = Field(
        "auto",
        description="Serial mode, for runtimes without CDI. auto: switch to it if CDI is found not to work.",
        json_schema_extra=notes(group=_KUBELET),
    )

    prestart_timeout: Seconds = Field(
        5.0,
        gt=0,
        le=30,
        description="How long PreStartContainer waits until a container's slice is known.",
        json_schema_extra=notes(group=_TIMES),
    )
    reconcile_interval: Seconds = Field(
        30.0,
        gt=0,
        description="How often records, specs, checkpoint and pods are compared if nothing changes.",
        json_schema_extra=notes(group=_TIMES),
    )
    health_interval: Seconds = Field(
        5.0, gt=0, description="How often the health of devices is read.", json_schema_extra=notes(group=_TIMES)
    )
    drain_time: Seconds = Field(
        10.0,
        description="How long running calls may take to end after SIGTERM.",
        json_schema_extra=notes(group=_TIMES),
    )

    handover_time: Seconds = Field(
        10.0,
        le=300,
        description="How long after SIGTERM the agent still gives devices to pods bound to the node. No new pods are "
        "bound in this time. 0: the agent ends at once, without a label that says so.",
        json_schema_extra=notes(group=_TIMES),
    )

    metrics_bind_address: Address = Field(
        ":9394",
        description="Address of /metrics and of health probes; empty: not served.",
        json_schema_extra=notes(group=_RUNNING),
    )
    metrics_token_file: Path | None = Field(
        None,
        description="File with the bearer token that /metrics requires; none: no token is required.",
        json_schema_extra=notes(group=_RUNNING),
    )
    legacy_metrics: bool = Field(
        False, description="Also serve metrics under their old names.", json_schema_extra=notes(group=_RUNNING)
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe level that is logged; -v=5 is debug.", json_schema_extra=notes(group=_RUNNING)
    )
    log_format: Literal["auto", "json", "console"] = Field(
        "auto",
        description="json, console, or auto: console on a terminal.",
        json_schema_extra=notes(group=_RUNNING),
    )

    @model_validator(mode="before")
    @classmethod
    def _split_mode(cls, values: Any) -> Any:  # noqa: ANN401 - whatever was given
        if isinstance(values, dict) and isinstance(values.get("mode"), str):
            mode, colon, names = values["mode"].partition(":")
            if colon and mode == "trust":
                return {**values, "mode": mode, "trust_schedulers": names}
        return values

    @model_validator(mode="after")
    def _fits_together(self) -> AgentSettings:
        if self.mode != "trust" and self.signing_keys is None:
            raise ValueError(
                f"--mode={self.mode} verifies signatures; give --signing-keys, or --mode=trust:<scheduler>"
            )
        if self.mode == "adopt" and self.adopt_before is None:
            raise ValueError("--mode=adopt needs --adopt-before")
        if self.mode == "trust" and not self.trust_schedulers:
            raise ValueError("--mode=trust needs the schedulers to trust; write --mode=trust:<scheduler>")
        return self
