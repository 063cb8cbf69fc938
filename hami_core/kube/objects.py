"""The parts of Kubernetes objects that we read, as small frozen structs. Everything else in a body is skipped.

Decoding a node into these structs takes a thirtieth of the official models' time. Fields have the API's names in snake
case, and its meaning. Lists and maps that the API may leave out default to empty. Go may write ``null`` for a missing
list (``containers``, ``items``); a property then returns an empty list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from hami_core.model import ContainerKind

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")


class Object(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of every struct here: camelCase in JSON, default values left out when encoded."""


class OwnerReference(Object, frozen=True, gc=False):
    """A reference to an object's owner."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Object, frozen=True, gc=False):
    """Metadata of any object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    owner_references: list[OwnerReference] = []


class ListMeta(Object, frozen=True, gc=False):
    """Metadata of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ObjectList(msgspec.Struct, Generic[T], frozen=True, rename="camel"):
    """A list answer; ``items`` may be null for an empty list."""

    metadata: ListMeta = ListMeta()
    items: list[T] | None = None


class KubeObject(Object, frozen=True, gc=False):
    """Base of the objects that have a name, a namespace and a version."""

    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone if the object has no namespace."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


# --- pods ----------------------------------------------------------------------------------------------------


class ResourceRequirements(Object, frozen=True, gc=False):
    """Limits and requests. The API server stores quantities as strings; manifests may hold numbers."""

    limits: dict[str, str | int | float] = {}
    requests: dict[str, str | int | float] = {}


class SecurityContext(Object, frozen=True, gc=False):
    """Security settings of a container."""

    privileged: bool | None = None


class EnvVar(Object, frozen=True, gc=False):
    """An environment variable; ``value`` is empty if it comes from ``valueFrom``."""

    name: str = ""
    value: str = ""


class VolumeMount(Object, frozen=True, gc=False):
    """The path where a volume is mounted in a container."""

    name: str = ""
    mount_path: str = ""


class Container(Object, frozen=True, gc=False):
    """A container or init container. An init container with ``restart_policy`` ``Always`` is a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    security_context: SecurityContext | None = None
    env: list[EnvVar] = []
    volume_mounts: list[VolumeMount] = []

    @property
    def is_privileged(self) -> bool:
        """Whether the container runs privileged."""
        return self.security_context is not None and self.security_context.privileged is True


C = TypeVar("C", bound=Container)


def in_start_order(init: Iterable[C], app: Iterable[C]) -> list[tuple[ContainerKind, C]]:
    """Containers in HAMi's order: init containers and sidecars as listed, then app containers.

    Lists in allocation annotations follow this order.
    """
    early = [(ContainerKind.SIDECAR if c.restart_policy == "Always" else ContainerKind.INIT, c) for c in init]
    return early + [(ContainerKind.APP, c) for c in app]


class PersistentVolumeClaimSource(Object, frozen=True, gc=False):
    """A volume from a claim."""

    claim_name: str = ""


class Volume(Object, frozen=True, gc=False):
    """A volume. We read only claims, because kube-scheduler may wait for them."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: dict[str, Any] | None = None


class NamedGate(Object, frozen=True, gc=False):
    """A scheduling gate."""

    name: str = ""


class SchedulingGroup(Object, frozen=True, gc=False):
    """The pod group of a pod (Kubernetes 1.35 and later)."""

    pod_group_name: str = ""


class PodSpec(Object, frozen=True, gc=False):
    """A pod's specification."""

    containers_: list[Container] | None = msgspec.field(default=None, name="containers")
    init_containers_: list[Container] | None = msgspec.field(default=None, name="initContainers")
    ephemeral_containers_: list[Container] | None = msgspec.field(default=None, name="ephemeralContainers")
    node_name: str = ""
    scheduler_name: str = ""
    runtime_class_name: str | None = None
    priority: int | None = None
    host_network: bool = False
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    volumes: list[Volume] = []
    scheduling_gates: list[NamedGate] = []
    scheduling_group: SchedulingGroup | None = None

    @property
    def containers(self) -> list[Container]:
        """App containers, never None."""
        return self.containers_ or []

    @property
    def init_containers(self) -> list[Container]:
        """Init containers and sidecars in their order, never None."""
        return self.init_containers_ or []

    @property
    def ephemeral_containers(self) -> list[Container]:
        """Containers added to the running pod, as ``kubectl debug`` does, never None."""
        return self.ephemeral_containers_ or []


class StateTerminated(Object, frozen=True, gc=False):
    """A container that ended."""

    exit_code: int = 0
    reason: str = ""
    finished_at: str | None = None


class StateRunning(Object, frozen=True, gc=False):
    """A container that runs."""

    started_at: str | None = None


class StateWaiting(Object, frozen=True, gc=False):
    """A container that has not started."""

    reason: str = ""
    message: str = ""


class ContainerState(Object, frozen=True, gc=False):
    """One of three states; if none is set, the container is waiting."""

    running: StateRunning | None = None
    terminated: StateTerminated | None = None
    waiting: StateWaiting | None = None


class ContainerStatus(Object, frozen=True, gc=False):
    """A container's status, written by the kubelet."""

    name: str = ""
    container_id: str = msgspec.field(default="", name="containerID")
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class Condition(Object, frozen=True, gc=False):
    """A condition of a pod or node."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class PodStatus(Object, frozen=True, gc=False):
    """A pod's status."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    conditions: list[Condition] = []
    init_container_statuses: list[ContainerStatus] = []
    container_statuses: list[ContainerStatus] = []


POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
"""Label of the scheduler-plugins project for members of a pod group."""


class Pod(KubeObject, frozen=True, gc=False):
    """A pod: the fields that scheduler and agent need."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.metadata.uid

    def containers(self) -> list[tuple[ContainerKind, Container]]:
        """Its containers in HAMi's order, without ephemeral containers, which get no devices."""
        return in_start_order(self.spec.init_containers, self.spec.containers)

    @property
    def is_terminal(self) -> bool:
        """Whether all its containers have ended and none will be restarted, so that its devices are free."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def is_deleting(self) -> bool:
        """Whether its deletion was requested; its containers may still run."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_in_group(self) -> bool:
        """Whether it belongs to a pod group."""
        group = self.spec.scheduling_group
        return bool(group and group.pod_group_name) or bool(self.metadata.labels.get(POD_GROUP_LABEL))

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type, or None."""
        return next((c for c in self.status.conditions if c.type == kind), None)


# --- nodes, leases, quotas -----------------------------------------------------------------------------------


class Taint(Object, frozen=True, gc=False):
    """A taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Object, frozen=True, gc=False):
    """A node's specification."""

    unschedulable: bool = False
    taints: list[Taint] = []


class NodeSystemInfo(Object, frozen=True, gc=False):
    """Versions on a node."""

    architecture: str = ""
    kubelet_version: str = ""
    container_runtime_version: str = ""
    boot_id: str = msgspec.field(default="", name="bootID")


class NodeStatus(Object, frozen=True, gc=False):
    """A node's status, written by the kubelet."""

    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: list[Condition] = []
    node_info: NodeSystemInfo = NodeSystemInfo()


class Node(KubeObject, frozen=True, gc=False):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class LeaseSpec(Object, frozen=True, gc=False):
    """A Lease's holder, duration and times."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(KubeObject, frozen=True, gc=False):
    """A Lease (coordination.k8s.io/v1)."""

    spec: LeaseSpec = LeaseSpec()


class ResourceQuotaSpec(Object, frozen=True, gc=False):
    """Limits of a namespace. Quantities are usually text, but may be numbers or malformed."""

    hard_: dict[str, Any] | None = msgspec.field(default=None, name="hard")

    @property
    def hard(self) -> dict[str, Any]:
        """Resource name → limit of the namespace, never None."""
        return self.hard_ or {}


class ResourceQuota(KubeObject, frozen=True, gc=False):
    """A namespace's quota."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()


class Secret(KubeObject, frozen=True, gc=False):
    """A Secret; values are base64 on the wire and bytes here."""

    type: str = ""
    data: dict[str, bytes] = {}


class ConfigMap(KubeObject, frozen=True, gc=False):
    """A ConfigMap."""

    data: dict[str, str] = {}
    binary_data: dict[str, bytes] = {}


class WebhookClientConfig(Object, frozen=True, gc=False):
    """How the API server reaches a webhook; ``ca_bundle`` holds the certificates (PEM) that it trusts there."""

    ca_bundle: bytes | None = None


class WebhookEntry(Object, frozen=True, gc=False):
    """One webhook of a configuration."""

    name: str = ""
    client_config: WebhookClientConfig = WebhookClientConfig()


class WebhookConfiguration(KubeObject, frozen=True, gc=False):
    """A MutatingWebhookConfiguration."""

    webhooks: list[WebhookEntry] = []


# --- objects that we write -----------------------------------------------------------------------------------


class ObjectReference(Object, frozen=True, gc=False):
    """A reference to the object of an event, or to the target of a Binding."""

    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""


class BindingMeta(Object, frozen=True, gc=False):
    """A Binding's metadata. The UID is a precondition; the API server copies annotations and labels to the pod."""

    name: str
    namespace: str
    uid: str
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}


class Binding(Object, frozen=True, gc=False):
    """``pods/binding``: one write that binds a pod and sets its allocation."""

    metadata: BindingMeta
    target: ObjectReference
    api_version: str = msgspec.field(default="v1")
    kind: str = "Binding"

    @classmethod
    def to_node(cls, meta: BindingMeta, node: str) -> Binding:
        """A Binding of the pod named by ``meta`` to ``node``."""
        return cls(metadata=meta, target=ObjectReference(kind="Node", name=node))


class EventSource(Object, frozen=True, gc=False):
    """The component that reports an event."""

    component: str = ""
    host: str = ""


class Event(KubeObject, frozen=True, gc=False):
    """A core/v1 Event."""

    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""
    reporting_instance: str = ""


class Status(Object, frozen=True, gc=False):
    """The API server's answer to a request that it refuses."""

    status: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0
