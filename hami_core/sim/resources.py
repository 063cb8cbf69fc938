"""The resources the API server serves, their names, and how their metadata and errors look."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]
"""A Kubernetes object as plain JSON."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource.

    Args:
        group: API group; empty for the core group.
        version: API version.
        plural: Name in paths.
        kind: Kind of one object.
        namespaced: Whether objects live in a namespace.
        short: Short names for kubectl.
        status: Whether `/status` is a subresource, and plain writes therefore leave the status alone.
        fields: Field-selector keys beside ``metadata.name`` and ``metadata.namespace``.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    short: tuple[str, ...] = ()
    status: bool = False
    fields: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """``v1`` or ``group/version``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Name for messages: ``pods``, ``leases.coordination.k8s.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_POD_FIELDS = (
    "spec.nodeName", "spec.schedulerName", "spec.restartPolicy", "spec.serviceAccountName", "spec.hostNetwork",
    "status.phase", "status.podIP", "status.nominatedNodeName",
)  # fmt: skip
_EVENT_FIELDS = (
    "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
    "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
    "reason", "reportingComponent", "source", "type",
)  # fmt: skip

RESOURCES = (
    Resource("", "v1", "pods", "Pod", namespaced=True, short=("po",), status=True, fields=_POD_FIELDS),
    Resource("", "v1", "nodes", "Node", namespaced=False, short=("no",), status=True, fields=("spec.unschedulable",)),
    Resource(
        "", "v1", "namespaces", "Namespace", namespaced=False, short=("ns",), status=True, fields=("status.phase",)
    ),
    Resource("", "v1", "events", "Event", namespaced=True, short=("ev",), fields=_EVENT_FIELDS),
    Resource("", "v1", "configmaps", "ConfigMap", namespaced=True, short=("cm",)),
    Resource("", "v1", "secrets", "Secret", namespaced=True, fields=("type",)),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True, short=("sa",)),
    Resource("", "v1", "resourcequotas", "ResourceQuota", namespaced=True, short=("quota",), status=True),
    Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True),
    Resource("", "v1", "services", "Service", namespaced=True, short=("svc",), status=True),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", namespaced=True),
    Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True, short=("ds",), status=True),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False),
    Resource(
        "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration",
        namespaced=False,
    ),
    Resource(
        "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy",
        namespaced=False, status=True,
    ),
    Resource(
        "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding",
        namespaced=False,
    ),
)  # fmt: skip

BY_PATH = {(r.group, r.version, r.plural): r for r in RESOURCES}
PODS = BY_PATH["", "v1", "pods"]
NODES = BY_PATH["", "v1", "nodes"]
NAMESPACES = BY_PATH["", "v1", "namespaces"]
WEBHOOKS = BY_PATH["admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations"]


class ApiError(Exception):
    """A refusal in the API's own words, sent as a `Status` object.

    Args:
        code: HTTP status.
        reason: Machine-readable reason, such as ``Conflict``.
        message: Text for people.
        details: `Status.details`.
    """

    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:  # noqa: ANN401 - JSON
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> Object:
        """The `Status` object."""
        status: Object = {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        }  # fmt: skip
        if self.details:
            status["details"] = self.details
        return status


def not_found(resource: Resource, name: str) -> ApiError:
    """404 for one object."""
    message = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", message, name=name, group=resource.group, kind=resource.plural)


def conflict(what: str, name: str, why: str) -> ApiError:
    """409: the object is not as the caller believes."""
    message = f'Operation cannot be fulfilled on {what} "{name}": {why}'
    return ApiError(409, "Conflict", message, name=name, kind=what)


def invalid(resource: Resource, name: str, field: str, problem: str) -> ApiError:
    """422: a field has a value that is not allowed."""
    message = f'{resource.kind} "{name}" is invalid: {field}: {problem}'
    cause = {"reason": "FieldValueInvalid", "message": problem, "field": field}
    return ApiError(422, "Invalid", message, name=name, kind=resource.kind, causes=[cause])


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def now() -> str:
    """This moment as `metav1.Time`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_micro() -> str:
    """This moment as `metav1.MicroTime`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
