"""Settings of ``hami scheduler``: HAMi's flags under their names, and ours."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic needs it at run time
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field, field_validator, model_validator

from hami_core.compatibility import HAMI
from hami_core.policies import DEFAULT_DEVICE_POLICY, DEFAULT_NODE_POLICY, DEVICE_POLICIES, NODE_POLICIES
from hami_core.settings.base import Settings
from hami_core.settings.fields import notes
from hami_core.settings.values import (
    DAY,
    Address,
    DevicePolicyWords,
    Labels,
    Names,
    NodePolicyWord,
    ResourceNames,
    Seconds,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES: Final = "resource names come from the device-config file, which overwrote this flag in HAMi too"
_INSTALLED: Final = "a vendor is enabled by installing its package; see --vendors"

_LISTENERS = "Listeners"
_PLACEMENT = "Placement"
_LEADER = "Leadership"
_KUBE = "Kubernetes"
_SECURITY = "Security"
_VENDORS = "Vendors"
_RUNNING = "Running"


class SchedulerSettings(Settings):
    """Settings of the scheduler extender and admission webhook."""

    IGNORED: ClassVar[Mapping[str, str]] = {f"--{name}": _NAMES for name in HAMI.resource_flags} | {
        f"--{name}": _INSTALLED for name in HAMI.vendor_flags
    }

    http_bind: Address = Field(
        "127.0.0.1:8080",
        description="Address of the extender's verbs, and of the webhook unless it has its own address.",
        json_schema_extra=notes(flags=["--http_bind"], group=_LISTENERS),
    )
    webhook_bind: Address = Field(
        "",
        description="Address of the webhook, always with TLS; empty: the extender's address.",
        json_schema_extra=notes(group=_LISTENERS),
    )
    metrics_bind_address: Address = Field(
        ":9395", description="Address of /metrics; empty: not served.", json_schema_extra=notes(group=_LISTENERS)
    )
    cert_file: Path | None = Field(
        None,
        description="TLS certificate (PEM) of webhook and extender, reloaded when it changes.",
        json_schema_extra=notes(flags=["--cert_file"], group=_LISTENERS),
    )
    key_file: Path | None = Field(
        None,
        description="TLS private key (PEM) that belongs to the certificate.",
        json_schema_extra=notes(flags=["--key_file"], group=_LISTENERS),
    )
    extender_client_ca_file: Path | None = Field(
        None,
        description="CA (PEM) of client certificates; only their holders may call the extender's verbs.",
        json_schema_extra=notes(group=_LISTENERS),
    )
    metrics_token_file: Path | None = Field(
        None,
        description="File with the bearer token that /metrics requires; none: no token is required.",
        json_schema_extra=notes(group=_LISTENERS),
    )
    extender_timeout: Seconds = Field(
        30.0,
        gt=5,
        description="kube-scheduler's httpTimeout for this extender; waiting ends 5 s earlier.",
        json_schema_extra=notes(group=_LISTENERS),
    )
    legacy_metrics: bool = Field(
        False, description="Also serve metrics under their old names.", json_schema_extra=notes(group=_LISTENERS)
    )
    profiling: bool = Field(
        False, description="Serve stacks and profiles under /debug.", json_schema_extra=notes(group=_LISTENERS)
    )

    scheduler_name: str = Field(
        "hami-scheduler",
        description="The schedulerName that the webhook writes into pods; also the name in events and of the Lease. "
        "Write default-scheduler if the default scheduler calls this extender; it may not be empty.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    force_overwrite_default_scheduler: bool = Field(
        True,
        description="Take over pods that name default-scheduler.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    node_scheduler_policy: NodePolicyWord = Field(
        DEFAULT_NODE_POLICY,
        description=f"Which nodes are preferred if a pod names no policy: {' or '.join(NODE_POLICIES)}.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    gpu_scheduler_policy: DevicePolicyWords = Field(
        DEFAULT_DEVICE_POLICY,
        description=f"Which devices are preferred if a pod names no policy: {', '.join(DEVICE_POLICIES)}, or a comma "
        "list.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    mutex_keeps_devices: bool = Field(
        False,
        description="A pod with the device policy mutex keeps later pods off its devices while it is alone there. "
        "Otherwise, as in HAMi, they may join it.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    node_label_selector: Labels = Field(
        default_factory=dict,
        description="Labels that a node must have for its devices to be used, as key=value,key2=value2.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    filter_return: int | Literal["all"] = Field(
        16,
        description="How many of the best nodes Filter returns: a number (1 as in HAMi), or all.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    hold_time: Seconds = Field(
        15.0,
        description="How long a slice that Filter found is held for its pod's Bind.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    hold_time_waiting: Seconds = Field(
        660.0,
        description="As --hold-time, for pods that kube-scheduler may keep waiting: unbound volumes, pod groups, "
        "nominated nodes.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    drift_interval: Seconds = Field(
        300.0,
        gt=0,
        description="How often usage is computed again from the API server and compared (drift).",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    node_lock_timeout: Seconds = Field(
        300.0,
        gt=0,
        description="Age from which a node lock of a third party's node plugin counts as abandoned.",
        json_schema_extra=notes(env=["HAMI_NODELOCK_EXPIRE"], group=_PLACEMENT),
    )
    node_lock_retry_timeout: Seconds = Field(
        28.0,
        description="How long Bind waits for a node lock, at most --extender-timeout less 5 s; 0: not at all.",
        json_schema_extra=notes(group=_PLACEMENT),
    )

    leader_elect: bool = Field(
        False,
        description="Bind only while this replica is leader, see --lease; off: it always binds.",
        json_schema_extra=notes(group=_LEADER),
    )
    lease: Literal["follow", "own"] = Field(
        "follow",
        description="follow: lead while kube-scheduler in the same pod does; own: hold a Lease, for an extender "
        "behind a Service.",
        json_schema_extra=notes(group=_LEADER),
    )
    leader_elect_resource_name: str = Field(
        "", description="Name of the Lease; empty: the scheduler name.", json_schema_extra=notes(group=_LEADER)
    )
    leader_elect_resource_namespace: str = Field(
        "",
        description="Namespace of the Lease; empty: --namespace.",
        json_schema_extra=notes(group=_LEADER),
    )
    identity: str = Field(
        "",
        description="What kube-scheduler's holderIdentity begins with; empty: the host name.",
        json_schema_extra=notes(group=_LEADER),
    )

    kubeconfig: Path | None = Field(
        None,
        description="Cluster to talk to; none: the service account, else ~/.kube/config.",
        json_schema_extra=notes(env=["KUBECONFIG"], group=_KUBE),
    )
    kube_qps: float = Field(
        100.0,
        ge=0,
        description="Requests a second to the API server, 0: no limit. (HAMi: 5.)",
        json_schema_extra=notes(group=_KUBE),
    )
    kube_burst: int = Field(
        200, ge=1, description="Requests at once above that. (HAMi: 10.)", json_schema_extra=notes(group=_KUBE)
    )
    kube_timeout: Seconds = Field(
        0.0,
        description="Limit of one API call; 0: each call's own, at most 3 s within a Bind.",
        json_schema_extra=notes(group=_KUBE),
    )

    signing_key: Path | None = Field(
        None,
        description="Ed25519 private key (PEM) that signs allocations; none: they are unsigned, and agents in mode "
        "required refuse them.",
        json_schema_extra=notes(group=_SECURITY),
    )

    namespace: str = Field(
        "",
        description="Namespace of this process and of its Secrets; empty: the service account's.",
        json_schema_extra=notes(env=["POD_NAMESPACE"], group=_SECURITY),
    )
    signing_secret: str = Field(
        "",
        description="Instead of --signing-key: Secret for the signing keys, which this process makes and rotates.",
        json_schema_extra=notes(group=_SECURITY),
    )
    signing_keys_configmap: str = Field(
        "",
        description="With --signing-secret: ConfigMap for the public keys, which agents mount as --signing-keys.",
        json_schema_extra=notes(group=_SECURITY),
    )
    signing_key_lifetime: Seconds = Field(
        90 * DAY,
        gt=0,
        description="With --signing-secret: how long a key signs before the next one is made.",
        json_schema_extra=notes(group=_SECURITY),
    )
    signing_key_delay: Seconds = Field(
        300.0,
        description="With --signing-secret: time from a key's publication until it signs. It must be longer than a "
        "kubelet needs to update a ConfigMap in its pods.",
        json_schema_extra=notes(group=_SECURITY),
    )
    tls_secret: str = Field(
        "",
        description="Instead of --cert-file: Secret for the webhook's certificate, which this process issues and "
        "rotates.",
        json_schema_extra=notes(group=_SECURITY),
    )
    webhook_service: str = Field(
        "",
        description="With --tls-secret: Service of the webhook; the certificate is for its name.",
        json_schema_extra=notes(group=_SECURITY),
    )
    webhook_hosts: Names = Field(
        (),
        description="With --tls-secret: further DNS names and addresses in the certificate.",
        json_schema_extra=notes(group=_SECURITY),
    )
    webhook_configuration: Names = Field(
        (),
        description="With --tls-secret: MutatingWebhookConfigurations whose caBundle this process updates.",
        json_schema_extra=notes(group=_SECURITY),
    )
    certificate_lifetime: Seconds = Field(
        365 * DAY,
        gt=0,
        description="With --tls-secret: how long a certificate is valid; it is renewed after two thirds of that.",
        json_schema_extra=notes(group=_SECURITY),
    )

    device_config_file: Path | None = Field(
        None,
        description="HAMi's device-config.yaml; none: the vendors' defaults.",
        json_schema_extra=notes(group=_VENDORS),
    )
    vendors: Names = Field(
        (),
        description="Names of the vendors to serve, each of which must be installed; none: all installed ones.",
        json_schema_extra=notes(group=_VENDORS),
    )
    managed_resources: ResourceNames = Field(
        (),
        description="Resources that kube-scheduler leaves to this scheduler (its managedResources). A pod is refused "
        "if it asks for one that no loaded vendor serves.",
        json_schema_extra=notes(group=_VENDORS),
    )
    hook_time_limit: Seconds = Field(
        30.0,
        description="A vendor whose hooks block the process for this time is closed, and the process ends; 0: never.",
        json_schema_extra=notes(group=_VENDORS),
    )
    closed_vendors_file: Path | None = Field(
        None,
        description="File that keeps closed vendors closed; it must outlive the container. None: the next start opens "
        "them.",
        json_schema_extra=notes(group=_VENDORS),
    )

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe level that is logged; -v=5 is debug.", json_schema_extra=notes(group=_RUNNING)
    )
    log_format: Literal["auto", "json", "console"] = Field(
        "auto",
        description="json, console, or auto: console on a terminal.",
        json_schema_extra=notes(group=_RUNNING),
    )
    debug: bool = Field(False, description="The same as --log-level=debug.", json_schema_extra=notes(group=_RUNNING))
    drain_time: Seconds = Field(
        10.0,
        description="How long running requests may take to end after SIGTERM.",
        json_schema_extra=notes(group=_RUNNING),
    )

    @field_validator("scheduler_name")
    @classmethod
    def _is_named(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("is empty; write default-scheduler where the default scheduler calls this extender")
        return value

    @field_validator("filter_return", mode="before")
    @classmethod
    def _how_many(cls, value: Any) -> Any:  # noqa: ANN401 - whatever was given
        if value == "all":
            return value
        count = int(value) if isinstance(value, str) and value.isdigit() else value
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise ValueError("expected a number from 1, or all")
        return count

    @model_validator(mode="after")
    def _fits_together(self) -> SchedulerSettings:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("--cert-file and --key-file belong together; give both or neither")
        if self.webhook_bind and self.cert_file is None and not self.tls_secret:
            raise ValueError("--webhook-bind serves TLS; give --cert-file and --key-file, or --tls-secret")
        if self.tls_secret:
            if self.cert_file is not None:
                raise ValueError("--tls-secret and --cert-file exclude each other; give one")
            if not self.webhook_bind:
                raise ValueError("--tls-secret is for the webhook's own listener; give --webhook-bind")
            if not (self.webhook_service or self.webhook_hosts):
                raise ValueError("--tls-secret needs a name for the certificate; give --webhook-service")
        if bool(self.signing_secret) != bool(self.signing_keys_configmap):
            raise ValueError("--signing-secret and --signing-keys-configmap belong together; give both or neither")
        if self.signing_secret and self.signing_key_delay > self.signing_key_lifetime / 2:
            raise ValueError("--signing-key-delay may be at most half of --signing-key-lifetime")
        if self.signing_secret and self.signing_key is not None:
            raise ValueError("--signing-secret and --signing-key exclude each other; give one")
        return self
