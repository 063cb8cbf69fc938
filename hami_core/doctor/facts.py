"""What is known of a cluster when the checks begin. Pure data: all time and all I/O are in the past."""

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
        problem: Why there are none or not all, such as ``not allowed to list pods``; empty: all were read.
    """

    items: tuple[T, ...] = ()
    problem: str = ""

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)


@dataclass(frozen=True, slots=True)
class Lookup(Generic[T]):
    """Single objects that were asked for by name.

    Attributes:
        found: ``namespace/name`` → object.
        problems: ``namespace/name`` → why it could not be read. In neither: there is none.
    """

    found: Mapping[str, T] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)

    def get(self, namespace: str, name: str) -> T | None:
        """The object, None where there is none or it could not be read."""
        return self.found.get(f"{namespace}/{name}")

    def problem(self, namespace: str, name: str) -> str:
        """Why it could not be read; empty where it was read or does not exist."""
        return self.problems.get(f"{namespace}/{name}", "")


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything the cluster's checks look at.

    Attributes:
        now: When it was read, by the API server's clock where it told.
        version: ``gitVersion`` of the API server.
        namespace: The namespace the user named; empty: wherever it is found.
        node: The node the user named; empty: all.
        vendors: The vendors installed here, set up as the cluster's scheduler is; None: not known.
        config_problem: Why the scheduler's device-config is refused; ``vendors`` then has the defaults.
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
        """What the vendors installed here serve."""
        return () if self.vendors is None else tuple(self.vendors.families.values())
