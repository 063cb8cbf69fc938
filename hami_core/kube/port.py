"""`KubeApi`, the Protocol by which the rest of the project reaches the Kubernetes API.

Every method raises only `ApiError`, when the server refuses or can't be reached. Every call ends within its deadline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from hami_core.errors import KubeError
from hami_core.kube.objects import (
    ConfigMap,
    Event,
    Lease,
    Node,
    Pod,
    ResourceQuota,
    Secret,
    WebhookConfiguration,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from hami_core.kube.objects import Binding
    from hami_core.kube.patch import Patch

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """One kind of object: its place in the API, and the struct for its bodies.

    Attributes:
        group_version: ``v1``, ``coordination.k8s.io/v1``, …
        plural: ``pods``, ``leases``, …
        type: Struct to decode into.
        namespaced: Whether it lives in namespaces.
        metadata_only: Whether a list asks for metadata alone (``PartialObjectMetadataList``). A server may send whole
            objects all the same, so ``type`` must decode both.
    """

    group_version: str
    plural: str
    type: type[T]
    namespaced: bool = True
    metadata_only: bool = False

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        """The URL path of the collection, of one object, or of an object's subresource."""
        root = "/api/" if "/" not in self.group_version else "/apis/"
        parts = [root + self.group_version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


PODS: Final = Resource("v1", "pods", Pod)
NODES: Final = Resource("v1", "nodes", Node, namespaced=False)
EVENTS: Final = Resource("v1", "events", Event)
RESOURCE_QUOTAS: Final = Resource("v1", "resourcequotas", ResourceQuota)
LEASES: Final = Resource("coordination.k8s.io/v1", "leases", Lease)
SECRETS: Final = Resource("v1", "secrets", Secret)
CONFIG_MAPS: Final = Resource("v1", "configmaps", ConfigMap)
MUTATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", WebhookConfiguration, namespaced=False
)


class ApiError(KubeError):
    """The API server refused a call or could not be reached.

    Attributes:
        reason: The server's machine-readable reason, such as ``NotFound``; for transport errors ``Timeout`` or
            ``Unreachable``.
        retry_after_s: Seconds that the server asks to wait; 0 if it does not say.
    """

    def __init__(self, verb: str, status: int, problem: str, *, reason: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(verb, status, problem, retryable=status in {0, 429} or status >= 500)
        self.reason = reason
        self.retry_after_s = retry_after_s

    @property
    def is_unknown_outcome(self) -> bool:
        """Whether a write may have happened in spite of the error (time-out, lost connection, 5xx)."""
        return self.status == 0 or self.status >= 500


class NotSentError(ApiError):
    """A call was cancelled before it was sent, so it certainly had no effect."""

    is_unknown_outcome = False


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An object whose body can't be decoded, with as much of its metadata as can be read.

    Attributes:
        key: ``namespace/name``, or the name alone; empty if it can't be read.
        uid: Its UID; empty if it can't be read.
        resource_version: Its version; empty if it can't be read.
        body: The JSON text.
        error: What is wrong with it.
    """

    key: str
    uid: str
    resource_version: str
    body: bytes = field(compare=False)  # a list leaves out kind and apiVersion, a watch does not
    error: str


@dataclass(frozen=True, slots=True)
class Page(Generic[T_co]):
    """One page of a list; ``undecodable`` has the objects that ``items`` leaves out."""

    items: tuple[T_co, ...]
    resource_version: str
    continue_token: str = ""
    undecodable: tuple[Undecodable, ...] = ()


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T_co]):
    """One event of a watch.

    Attributes:
        type: ``ADDED``, ``MODIFIED``, ``DELETED`` or ``BOOKMARK``.
        object: The object; None for a bookmark, or if it can't be decoded.
        resource_version: The version that the watch has reached.
        undecodable: The object, if it can't be decoded.
    """

    type: str
    object: T_co | None
    resource_version: str
    undecodable: Undecodable | None = None


class KubeApi(Protocol):
    """The calls that a Kubernetes client must offer."""

    async def list(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page[T]:
        """One page. Without ``resource_version`` it contains everything that was written before the call."""
        ...

    def watch(
        self,
        resource: Resource[T],
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_s: int = 300,
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Changes after a version, bookmarks included, until the server ends the watch.

        A version that is too old raises `ApiError` with status 410.
        """
        ...

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Read one object; status 404 if it does not exist."""
        ...

    async def create(self, resource: Resource[T], body: object, namespace: str = "", *, dry_run: bool = False) -> T:
        """Create an object; status 409 if it exists. ``dry_run``: only admit and check it."""
        ...

    async def patch(
        self, resource: Resource[T], name: str, patch: Patch, namespace: str = "", *, subresource: str = ""
    ) -> T:
        """Change an object; status 409 or 422 if a precondition does not hold."""
        ...

    async def delete(
        self,
        resource: Resource[T],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_s: int | None = None,
    ) -> None:
        """Delete an object; with ``uid``, status 409 if its UID is another."""
        ...

    async def bind(self, binding: Binding, may_send: Callable[[], bool] | None = None) -> None:
        """POST ``pods/binding``; status 409 if the pod is bound already or has another UID.

        Args:
            binding: The Binding.
            may_send: Called right before the bytes leave this process; if it returns False, `NotSentError` is raised.
        """
        ...

    async def call_pod(
        self,
        pod: str,
        namespace: str,
        port: int,
        path: str,
        *,
        query: Mapping[str, str | Sequence[str]] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The body of a pod's HTTP answer, through ``pods/proxy``: GET, or with a ``body`` POST.

        The API server checks the caller's right to get or create ``pods/proxy``, and passes ``Authorization`` on to
        nobody. An error status of the pod raises `ApiError`, as one of the API server does.
        """
        ...

    async def server_version(self) -> Mapping[str, str]:
        """``/version`` of the API server: ``major``, ``minor``, ``gitVersion``."""
        ...
