"""Facts about a cluster, read before the checks begin. Pure data: checks do no I/O and read no clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from hami_core.doctor import objects as k8s
    from hami_core.kube.objects import ConfigMap, Event, Lease, Node, ResourceQuota
    from hami_core.model import Family
    from hami_core.plugins.loaded import Loaded
    from hami_core.wire.signature import PublicKey

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Seen(Generic[T]):
    """Objects of one kind, or why they could not be read.

    Attributes:
        items: The objects.
        problem: Why some or all are missing, such as ``not allowed to list pods``; empty: all were read.
    """

    items: tuple[T, ...] = ()
    problem: str = ""

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)


@dataclass(frozen=True, slots=True)
class Lookup(Generic[T]):
    """Single objects that were read by name. An object in neither mapping does not exist.

    Attributes:
        found: ``namespace/name`` → object.
        problems: ``namespace/name`` → why it could not be read.
    """

    found: Mapping[str, T] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)

    def get(self, namespace: str, name: str) -> T | None:
        """The object; None when it does not exist or could not be read."""
        return self.found.get(f"{namespace}/{name}")

    def problem(self, namespace: str, name: str) -> str:
        """Why it could not be read; empty when it was read or does not exist."""
        return self.problems.get(f"{namespace}/{name}", "")


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything the cluster's checks read.

    Attributes:
        now: Time of reading. If this machine's clock is ahead of the cluster's, the newest Lease renewal instead.
        version: ``gitVersion`` of the API server.
        namespace: The namespace that the user named; empty: any.
        node: The node that the user named; empty: all.
        vendors: The vendors installed here, configured as the cluster's scheduler is; None: not known.
        config_problem: Why the scheduler's device-config is refused; ``vendors`` then has the default settings.
        signing_keys: Public keys of the scheduler's signing Secret by ``namespace/name``.
    """

    now: datetime
    version: str = ""
    namespace: str = ""
    node: str = ""
    nodes: Seen[Node] = Seen()
    pods: Seen[k8s.Pod] = Seen()
    daemon_sets: Seen[k8s.DaemonSet] = Seen()
    services: Seen[k8s.Service] = Seen()
    endpoint_slices: Seen[k8s.EndpointSlice] = Seen()
    webhooks: Seen[k8s.WebhookConfiguration] = Seen()
    policies: Seen[k8s.Policy] = Seen()
    policy_bindings: Seen[k8s.PolicyBinding] = Seen()
    runtime_classes: Seen[k8s.RuntimeClass] = Seen()
    quotas: Seen[ResourceQuota] = Seen()
    leases: Seen[Lease] = Seen()
    events: Seen[Event] = Seen()
    config_maps: Lookup[ConfigMap] = field(default_factory=Lookup)
    tls_secrets: Lookup[k8s.TlsSecret] = field(default_factory=Lookup)
    signing_keys: Lookup[tuple[PublicKey, ...]] = field(default_factory=Lookup)
    vendors: Loaded | None = None
    config_problem: str = ""

    @property
    def families(self) -> tuple[Family, ...]:
        """The families of the vendors installed here."""
        return () if self.vendors is None else tuple(self.vendors.families.values())
