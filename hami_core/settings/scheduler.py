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
        description="Where the extender verbs are served; the webhook too unless it has its own address.",
        json_schema_extra=notes(flags=["--http_bind"], group=_LISTENERS),
    )
    webhook_bind: Address = Field(
        "",
        description="Where the webhook is served, always over TLS; empty: with the extender verbs.",
        json_schema_extra=notes(group=_LISTENERS),
    )
    metrics_bind_address: Address = Field(
        ":9395", description="Where /metrics is served; empty: nowhere.", json_schema_extra=notes(group=_LISTENERS)
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
        description="CA (PEM) whose client certificates alone may call the extender verbs.",
        json_schema_extra=notes(group=_LISTENERS),
    )
    metrics_token_file: Path | None = Field(
        None,
        description="File with the bearer token /metrics asks for; none: it asks for none.",
        json_schema_extra=notes(group=_LISTENERS),
    )
    extender_timeout: Seconds = Field(
        30.0,
        gt=5,
        description="The httpTimeout kube-scheduler has for this extender; waiting ends 5 s before.",
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
        description="The schedulerName the webhook writes into pods; also the name in events and of the Lease. Write "
        "default-scheduler, not nothing, where the default scheduler calls this extender.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    force_overwrite_default_scheduler: bool = Field(
        True,
        description="Take over pods that name default-scheduler.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    node_scheduler_policy: NodePolicyWord = Field(
        DEFAULT_NODE_POLICY,
        description=f"How nodes are preferred when a pod says nothing: {' or '.join(NODE_POLICIES)}.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    gpu_scheduler_policy: DevicePolicyWords = Field(
        DEFAULT_DEVICE_POLICY,
        description=f"How devices are preferred when a pod says nothing: {', '.join(DEVICE_POLICIES)}, or a comma "
        "chain.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    node_label_selector: Labels = Field(
        default_factory=dict,
        description="Labels a node must have for its devices to count, as key=value,key2=value2.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    filter_return: int | Literal["all"] = Field(
        16,
        description="How many of the best nodes Filter returns: a number, 1 as HAMi, or all.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    hold_time: Seconds = Field(
        15.0,
        description="How long a slice found by Filter is kept for its pod's Bind.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    hold_time_waiting: Seconds = Field(
        660.0,
        description="The same for pods kube-scheduler may keep waiting: unbound volumes, pod groups, nominated nodes.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    drift_interval: Seconds = Field(
        300.0,
        gt=0,
        description="How often usage is computed anew and compared.",
        json_schema_extra=notes(group=_PLACEMENT),
    )
    node_lock_timeout: Seconds = Field(
        300.0,
        gt=0,
        description="Age after which a node lock of a third party's node plugin counts as left behind.",
        json_schema_extra=notes(env=["HAMI_NODELOCK_EXPIRE"], group=_PLACEMENT),
    )
    node_lock_retry_timeout: Seconds = Field(
        28.0,
        description="How long Bind waits for a node lock, at most the extender's time-out less 5 s; 0: not at all.",
        json_schema_extra=notes(group=_PLACEMENT),
    )

    leader_elect: bool = Field(
        False,
        description="Bind only while leader, see --lease; off: this replica always binds.",
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
        description="Ed25519 private key (PEM) allocations are signed with; none: they are not signed, which agents in "
        "mode required refuse.",
        json_schema_extra=notes(group=_SECURITY),
    )

    namespace: str = Field(
        "",
        description="Namespace of this process and of its Secrets; empty: the service account's.",
        json_schema_extra=notes(env=["POD_NAMESPACE"], group=_SECURITY),
    )
    signing_secret: str = Field(
        "",
        description="In place of --signing-key: Secret in which this process keeps signing keys it makes and rotates.",
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
        description="With --signing-secret: from a key's publication until it signs; longer than a kubelet takes to "
        "bring a ConfigMap to its pods.",
        json_schema_extra=notes(group=_SECURITY),
    )
    tls_secret: str = Field(
        "",
        description="In place of --cert-file: Secret in which this process keeps the webhook's certificate, which it "
        "issues and rotates.",
        json_schema_extra=notes(group=_SECURITY),
    )
    webhook_service: str = Field(
        "",
        description="With --tls-secret: Service the API server calls the webhook by; the certificate is for its name.",
        json_schema_extra=notes(group=_SECURITY),
    )
    webhook_hosts: Names = Field(
        (),
        description="With --tls-secret: further DNS names and addresses the certificate is for.",
        json_schema_extra=notes(group=_SECURITY),
    )
    webhook_configuration: Names = Field(
        (),
        description="With --tls-secret: MutatingWebhookConfigurations whose caBundle this process keeps.",
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
        description="Vendors to serve, by name, each of which must be installed; none: all that are.",
        json_schema_extra=notes(group=_VENDORS),
    )
    managed_resources: ResourceNames = Field(
        (),
        description="Resource names that kube-scheduler leaves to this scheduler, its managedResources: a pod that "
        "asks for one that no loaded vendor serves is refused.",
        json_schema_extra=notes(group=_VENDORS),
    )
    hook_time_limit: Seconds = Field(
        30.0,
        description="A vendor whose hooks hold up the process for so long is closed and the process ends; 0: never.",
        json_schema_extra=notes(group=_VENDORS),
    )
    closed_vendors_file: Path | None = Field(
        None,
        description="Keeps closed vendors closed; must outlive the container. None: the next start opens them.",
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
        description="How long requests under way may take to end after SIGTERM.",
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
                raise ValueError("--tls-secret and --cert-file are two ways of one thing; give one")
            if not self.webhook_bind:
                raise ValueError("--tls-secret is for the webhook's own listener; give --webhook-bind")
            if not (self.webhook_service or self.webhook_hosts):
                raise ValueError("--tls-secret needs to know whom the certificate is for; give --webhook-service")
        if bool(self.signing_secret) != bool(self.signing_keys_configmap):
            raise ValueError("--signing-secret and --signing-keys-configmap belong together; give both or neither")
        if self.signing_secret and self.signing_key_delay > self.signing_key_lifetime / 2:
            raise ValueError("--signing-key-delay is more than half of --signing-key-lifetime: no key would be done")
        if self.signing_secret and self.signing_key is not None:
            raise ValueError("--signing-secret and --signing-key are two ways of one thing; give one")
        return self
