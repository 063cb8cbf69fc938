"""The scheduler process's options: `SchedulerSettings` resolved, with the files that they name read."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_core.errors import ConfigError
from hami_core.http.serve import BODY_LIMIT
from hami_core.http.tls import TlsFiles
from hami_core.http.token import TokenFile, no_token
from hami_core.kube.lease import LeaseElector, LeaseFollower
from hami_core.policies import PolicyDefaults
from hami_core.scheduler.credentials.ring import Times
from hami_core.scheduler.credentials.signing import SigningNames
from hami_core.scheduler.credentials.webhook import WebhookNames
from hami_core.scheduler.leadership import Leadership
from hami_core.wire.signature import load_private_key

if TYPE_CHECKING:
    from hami_core.kube.port import KubeApi
    from hami_core.settings import SchedulerSettings
    from hami_core.wire.signature import PrivateKey, PublicKey

NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

LeadershipFactory = Callable[[Callable[[bool], None]], Leadership]


@dataclass(frozen=True, slots=True)
class Options:
    """The process's resolved settings.

    Attributes:
        scheduler_name: Set on pods that ask for devices, and the source of events.
        overwrite_default: Whether ``default-scheduler`` may be replaced.
        defaults: Policies of pods that name none.
        filter_return: Most nodes in an answer to Filter; 0: all that fit.
        extender: Listen address of the extender verbs.
        extender_tls: Its TLS files, or None.
        webhook: Listen address of the webhook; empty: the extender's.
        webhook_tls: Its TLS files, or None.
        metrics: Listen address of the metrics; empty: none.
        metrics_token: Returns the bearer token that a scrape needs; empty: none.
        body_limit: Most bytes in a request.
        managed: Resource names that kube-scheduler leaves to us.
        node_labels: Only nodes with these labels are registered.
        signing_key: Signs allocations; None: they are unsigned.
        public_keys: Further keys whose signatures count.
        hold_s: How long a hold lasts if neither Bind nor a change of the pod ends it.
        long_hold_s: As ``hold_s``, if kube-scheduler may wait for volumes, a pod group or preemption.
        sync_wait_s: How long an extender call may wait for the first sync.
        drift_s: How often usage is recomputed and compared.
        lock_expiry_s: Age from which a node lock counts as abandoned.
        lock_wait_s: How long a pod waits for a node lock; 0: not at all.
        turn_wait_s: How long a pod waits for its turn on a node whose agent serves one pod at a time.
        legacy_metrics: Also serve HAMi's old metric names.
        profiling: Serve stacks under ``/debug``.
        drain_s: How long running requests may take when the process ends.
        instance: Name of this replica in events.
        namespace: Namespace of our Secrets and ConfigMaps.
        webhook_names: Objects with the webhook's certificate, if this process issues it.
        signing_names: Objects with the signing keys, if this process makes them.
        own_pod: Namespace and name of our own pod, which gets a label with our role; empty: unknown.
    """

    scheduler_name: str = "hami-scheduler"
    overwrite_default: bool = True
    defaults: PolicyDefaults = field(default_factory=PolicyDefaults)
    filter_return: int = 16
    extender: str = "127.0.0.1:8080"
    extender_tls: TlsFiles | None = None
    webhook: str = ""
    webhook_tls: TlsFiles | None = None
    metrics: str = ":9395"
    metrics_token: Callable[[], str] = no_token
    body_limit: int = BODY_LIMIT
    managed: tuple[str, ...] = ()
    node_labels: dict[str, str] = field(default_factory=dict)
    signing_key: PrivateKey | None = None
    public_keys: tuple[PublicKey, ...] = ()
    hold_s: float = 15.0
    long_hold_s: float = 660.0
    sync_wait_s: float = 20.0
    drift_s: float = 300.0
    lock_expiry_s: float = 300.0
    lock_wait_s: float = 20.0
    turn_wait_s: float = 20.0
    legacy_metrics: bool = False
    profiling: bool = False
    drain_s: float = 10.0
    instance: str = ""
    namespace: str = "kube-system"
    webhook_names: WebhookNames | None = None
    signing_names: SigningNames | None = None
    own_pod: tuple[str, str] = ("", "")


def from_settings(settings: SchedulerSettings) -> Options:
    """Resolve settings.

    Raises:
        ConfigError: A file can't be read, or settings don't fit together.
    """
    if settings.extender_client_ca_file and not (settings.webhook_bind and settings.cert_file):
        problem = "the API server has no client certificate for the webhook"
        raise ConfigError("extender_client_ca_file", problem, "give webhook_bind, cert_file and key_file too")
    certificate, key = settings.cert_file, settings.key_file
    files = TlsFiles(certificate, key) if certificate and key else None
    extender = TlsFiles(files.certificate, files.key, settings.extender_client_ca_file) if files else None
    return Options(
        scheduler_name=settings.scheduler_name,
        overwrite_default=settings.force_overwrite_default_scheduler,
        defaults=PolicyDefaults(
            settings.node_scheduler_policy, settings.gpu_scheduler_policy, settings.mutex_keeps_devices
        ),
        filter_return=0 if settings.filter_return == "all" else settings.filter_return,
        extender=settings.http_bind,
        extender_tls=extender,
        webhook=settings.webhook_bind,
        webhook_tls=files,
        metrics=settings.metrics_bind_address,
        metrics_token=TokenFile(token, "metrics_token_file") if (token := settings.metrics_token_file) else no_token,
        managed=settings.managed_resources,
        node_labels=settings.node_label_selector,
        signing_key=_signing_key(settings.signing_key),
        hold_s=settings.hold_time,
        long_hold_s=settings.hold_time_waiting,
        sync_wait_s=settings.extender_timeout - 5,
        drift_s=settings.drift_interval,
        lock_expiry_s=settings.node_lock_timeout,
        lock_wait_s=min(settings.node_lock_retry_timeout, settings.extender_timeout - 5),
        turn_wait_s=settings.extender_timeout - 5,
        legacy_metrics=settings.legacy_metrics,
        profiling=settings.profiling,
        drain_s=settings.drain_time,
        instance=settings.identity or socket.gethostname(),
        namespace=_own_namespace(settings),
        webhook_names=_webhook_names(settings),
        signing_names=_signing_names(settings),
        own_pod=(_own_namespace(settings), os.environ.get("POD_NAME", "")),
    )


def leadership(settings: SchedulerSettings, api: KubeApi) -> LeadershipFactory | None:
    """Makes this replica's leadership; None: it always leads."""
    if not settings.leader_elect:
        return None
    host = settings.identity or socket.gethostname()
    name = settings.leader_elect_resource_name or settings.scheduler_name
    namespace = _namespace(settings)
    if settings.lease == "own":
        identity = f"{host}_{uuid.uuid4()}"
        return lambda changed: LeaseElector(api, namespace, name, identity, on_change=changed)
    return lambda changed: LeaseFollower(api, namespace, name, host, on_change=changed)


def _namespace(settings: SchedulerSettings) -> str:
    return settings.leader_elect_resource_namespace or _own_namespace(settings)


def _own_namespace(settings: SchedulerSettings) -> str:
    if settings.namespace:
        return settings.namespace
    return NAMESPACE_FILE.read_text().strip() if NAMESPACE_FILE.exists() else "kube-system"


def _webhook_names(settings: SchedulerSettings) -> WebhookNames | None:
    if not settings.tls_secret:
        return None
    service, namespace = settings.webhook_service, _own_namespace(settings)
    hosts = (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local") if service else ()
    lifetime = timedelta(seconds=settings.certificate_lifetime)
    configurations = settings.webhook_configuration
    return WebhookNames(settings.tls_secret, configurations, (*hosts, *settings.webhook_hosts), lifetime)


def _signing_names(settings: SchedulerSettings) -> SigningNames | None:
    if not settings.signing_secret:
        return None
    times = Times(timedelta(seconds=settings.signing_key_lifetime), timedelta(seconds=settings.signing_key_delay))
    return SigningNames(settings.signing_secret, settings.signing_keys_configmap, times)


def _signing_key(path: Path | None) -> PrivateKey | None:
    if path is None:
        return None
    return load_private_key(_read(path, "signing_key"), where=f"signing_key {path}")


def _read(path: Path | None, setting: str) -> bytes:
    if path is None:
        return b""
    try:
        return path.read_bytes()
    except OSError as error:
        problem = f"{path} can't be read: {error.strerror}"
        raise ConfigError(setting, problem, "name a file this process can read") from error
