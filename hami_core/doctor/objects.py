"""The parts of Kubernetes objects that the checks read and `hami_core.kube.objects` does not have.

Only the certificates of a TLS Secret are decoded, never its private key.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from hami_core.kube import objects
from hami_core.kube.objects import (
    ContainerStatus,
    Event,
    KubeObject,
    Lease,
    Node,
    Object,
    PodStatus,
    ResourceQuota,
)
from hami_core.kube.port import Resource

# --- pods ------------------------------------------------------------------------------------------------------------


class KeyToPath(Object, frozen=True, gc=False):
    """A key of a ConfigMap or Secret, mounted at its own path."""

    key: str = ""
    path: str = ""


class ConfigMapSource(Object, frozen=True, gc=False):
    """A volume from a ConfigMap."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()


class SecretSource(Object, frozen=True, gc=False):
    """A volume from a Secret."""

    secret_name: str = ""


class HostPathSource(Object, frozen=True, gc=False):
    """A volume from the node."""

    path: str = ""


class Volume(Object, frozen=True, gc=False):
    """A volume of a pod."""

    name: str = ""
    config_map: ConfigMapSource | None = None
    secret: SecretSource | None = None
    host_path: HostPathSource | None = None


class ContainerPort(Object, frozen=True, gc=False):
    """A port that a container listens on."""

    name: str = ""
    container_port: int = 0


class Container(objects.Container, frozen=True, gc=False):
    """A container with its command line and ports."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    ports: tuple[ContainerPort, ...] = ()


class PodSpec(Object, frozen=True, gc=False):
    """A pod's specification, or that of a template."""

    containers_: list[Container] | None = msgspec.field(default=None, name="containers")
    init_containers_: list[Container] | None = msgspec.field(default=None, name="initContainers")
    node_name: str = ""
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    scheduler_name: str = ""
    runtime_class_name: str | None = None
    host_network: bool = False
    volumes: tuple[Volume, ...] = ()

    @property
    def containers(self) -> list[Container]:
        """App containers, never None."""
        return self.containers_ or []

    @property
    def init_containers(self) -> list[Container]:
        """Init containers and sidecars, never None."""
        return self.init_containers_ or []

    @property
    def all_containers(self) -> list[Container]:
        """Init containers and app containers."""
        return [*self.init_containers, *self.containers]


class Pod(KubeObject, frozen=True, gc=False):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_over(self) -> bool:
        """Whether all its containers have ended and none will be restarted."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def is_ready(self) -> bool:
        """Whether its condition Ready is true."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    @property
    def container_statuses(self) -> list[ContainerStatus]:
        """Status of init and app containers."""
        return [*self.status.init_container_statuses, *self.status.container_statuses]

    @property
    def owner(self) -> str:
        """``Kind/name`` of the pod's controller; ``Pod/name`` if it has none."""
        for reference in self.metadata.owner_references:
            if reference.controller:
                return f"{reference.kind}/{reference.name}"
        return f"Pod/{self.metadata.name}"


# --- workloads, services ---------------------------------------------------------------------------------------------


class PodTemplate(Object, frozen=True, gc=False):
    """A pod template."""

    spec: PodSpec = PodSpec()


class DaemonSetSpec(Object, frozen=True, gc=False):
    """A DaemonSet's specification."""

    template: PodTemplate = PodTemplate()


class DaemonSet(KubeObject, frozen=True, gc=False):
    """A DaemonSet (apps/v1)."""

    spec: DaemonSetSpec = DaemonSetSpec()


class EndpointConditions(Object, frozen=True, gc=False):
    """Whether an endpoint is ready; a missing value means yes."""

    ready: bool | None = None


class Endpoint(Object, frozen=True, gc=False):
    """One endpoint."""

    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()


class EndpointSlice(KubeObject, frozen=True, gc=False):
    """Endpoints of a Service (discovery.k8s.io/v1)."""

    endpoints: list[Endpoint] | None = None


class ServicePort(Object, frozen=True, gc=False):
    """A port of a Service."""

    name: str = ""
    port: int = 0


class ServiceSpec(Object, frozen=True, gc=False):
    """A Service's specification."""

    ports: tuple[ServicePort, ...] = ()


class Service(KubeObject, frozen=True, gc=False):
    """A Service."""

    spec: ServiceSpec = ServiceSpec()


# --- configuration ---------------------------------------------------------------------------------------------------


class TlsData(Object, frozen=True, gc=False):
    """The public half of a TLS Secret, PEM."""

    certificate: bytes = msgspec.field(default=b"", name="tls.crt")
    authority: bytes = msgspec.field(default=b"", name="ca.crt")


class TlsSecret(KubeObject, frozen=True, gc=False):
    """A Secret of type kubernetes.io/tls, without its private key."""

    data: TlsData = TlsData()


# --- admission -------------------------------------------------------------------------------------------------------


class Rule(Object, frozen=True, gc=False):
    """One rule of a webhook or policy: which requests it applies to."""

    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()

    def touches(self, resource: str, operation: str) -> bool:
        """Whether the rule covers an operation on a core resource or subresource (``pods/status``)."""
        groups = bool({"*", ""} & set(self.api_groups))
        name, _, subresource = resource.partition("/")
        wide = {f"{name}/*", f"*/{subresource}"} if subresource else {"*"}
        resources = bool({"*/*", resource, *wide} & set(self.resources))
        return groups and resources and bool({"*", operation} & set(self.operations))


class ServiceReference(Object, frozen=True, gc=False):
    """The Service that serves a webhook."""

    namespace: str = ""
    name: str = ""
    path: str = ""
    port: int = 443


class ClientConfig(Object, frozen=True, gc=False):
    """How the API server reaches a webhook."""

    url: str = ""
    service: ServiceReference | None = None
    ca_bundle: bytes = b""


class MatchCondition(Object, frozen=True, gc=False):
    """A CEL condition."""

    name: str = ""
    expression: str = ""


class Webhook(Object, frozen=True, gc=False):
    """One webhook of a configuration."""

    name: str = ""
    client_config: ClientConfig = ClientConfig()
    failure_policy: str = "Fail"
    reinvocation_policy: str = "Never"
    match_conditions: tuple[MatchCondition, ...] = ()
    rules: tuple[Rule, ...] = ()
    timeout_seconds: int = 10
    namespace_selector: dict[str, Any] = msgspec.field(default_factory=dict)
    object_selector: dict[str, Any] = msgspec.field(default_factory=dict)


class WebhookConfiguration(KubeObject, frozen=True, gc=False):
    """A MutatingWebhookConfiguration."""

    webhooks: tuple[Webhook, ...] = ()


class NamedRule(Rule, frozen=True, gc=False):
    """A rule of a policy."""


class MatchResources(Object, frozen=True, gc=False):
    """The requests that a policy applies to."""

    resource_rules: tuple[NamedRule, ...] = ()


class Validation(Object, frozen=True, gc=False):
    """One CEL rule of a policy."""

    expression: str = ""
    message_expression: str = ""


class PolicySpec(Object, frozen=True, gc=False):
    """A ValidatingAdmissionPolicy's specification."""

    failure_policy: str = "Fail"
    match_constraints: MatchResources = MatchResources()
    validations: tuple[Validation, ...] = ()
    variables: tuple[MatchCondition, ...] = ()


class Policy(KubeObject, frozen=True, gc=False):
    """A ValidatingAdmissionPolicy."""

    spec: PolicySpec = PolicySpec()


class PolicyBindingSpec(Object, frozen=True, gc=False):
    """A ValidatingAdmissionPolicyBinding's specification."""

    policy_name: str = ""
    validation_actions: tuple[str, ...] = ()


class PolicyBinding(KubeObject, frozen=True, gc=False):
    """A ValidatingAdmissionPolicyBinding."""

    spec: PolicyBindingSpec = PolicyBindingSpec()


class RuntimeClass(KubeObject, frozen=True, gc=False):
    """A RuntimeClass; its handler names the runtime's configuration."""

    handler: str = ""


# --- resources -------------------------------------------------------------------------------------------------------

_ADMISSION: Final = "admissionregistration.k8s.io/v1"
PODS: Final = Resource("v1", "pods", Pod)
NODES: Final = Resource("v1", "nodes", Node, namespaced=False)
EVENTS: Final = Resource("v1", "events", Event)
LEASES: Final = Resource("coordination.k8s.io/v1", "leases", Lease)
QUOTAS: Final = Resource("v1", "resourcequotas", ResourceQuota)
DAEMON_SETS: Final = Resource("apps/v1", "daemonsets", DaemonSet)
SERVICES: Final = Resource("v1", "services", Service)
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io/v1", "endpointslices", EndpointSlice)
TLS_SECRETS: Final = Resource("v1", "secrets", TlsSecret)
WEBHOOKS: Final = Resource(_ADMISSION, "mutatingwebhookconfigurations", WebhookConfiguration, namespaced=False)
POLICIES: Final = Resource(_ADMISSION, "validatingadmissionpolicies", Policy, namespaced=False)
POLICY_BINDINGS: Final = Resource(_ADMISSION, "validatingadmissionpolicybindings", PolicyBinding, namespaced=False)
RUNTIME_CLASSES: Final = Resource("node.k8s.io/v1", "runtimeclasses", RuntimeClass, namespaced=False)
