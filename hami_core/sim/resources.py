"""The resources that the API server serves, their names, and its errors."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]
"""A Kubernetes object as plain JSON."""

PROTOBUF = "application/vnd.kubernetes.protobuf"
"""Media type of a Kubernetes object in protobuf."""


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
        status: Whether `/status` is a subresource, so that plain writes do not change the status.
        fields: Field-selector keys in addition to ``metadata.name`` and ``metadata.namespace``.
        unconditional: Whether a replacement may leave out the version that it replaces.
        made_by_update: Whether replacing a missing object creates it.
        scale: Whether `/scale` is a subresource.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    short: tuple[str, ...] = ()
    status: bool = False
    fields: tuple[str, ...] = ()
    unconditional: bool = True
    made_by_update: bool = False
    scale: bool = False

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
    Resource(
        "coordination.k8s.io", "v1", "leases", "Lease", namespaced=True, unconditional=False, made_by_update=True
    ),
    Resource("", "v1", "services", "Service", namespaced=True, short=("svc",), status=True),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", namespaced=True),
    Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True, short=("ds",), status=True),
    Resource("apps", "v1", "deployments", "Deployment", namespaced=True, short=("deploy",), status=True, scale=True),
    Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True, short=("rs",), status=True, scale=True),
    Resource("batch", "v1", "jobs", "Job", namespaced=True, status=True),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False),
    Resource(
        "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration",
        namespaced=False, unconditional=False,
    ),
    Resource(
        "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy",
        namespaced=False, status=True, unconditional=False,
    ),
    Resource(
        "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding",
        namespaced=False, unconditional=False,
    ),
)  # fmt: skip

BY_PATH = {(r.group, r.version, r.plural): r for r in RESOURCES}
PODS = BY_PATH["", "v1", "pods"]
NODES = BY_PATH["", "v1", "nodes"]
NAMESPACES = BY_PATH["", "v1", "namespaces"]
DEPLOYMENTS = BY_PATH["apps", "v1", "deployments"]
REPLICA_SETS = BY_PATH["apps", "v1", "replicasets"]
JOBS = BY_PATH["batch", "v1", "jobs"]
WORKLOADS = (DEPLOYMENTS, REPLICA_SETS, JOBS)
"""The resources that have a controller here."""
QUOTAS = BY_PATH["", "v1", "resourcequotas"]
WEBHOOKS = BY_PATH["admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations"]


class ApiError(Exception):
    """A refusal in the API's own words, sent as a `Status` object.

    Args:
        code: HTTP status.
        reason: Machine-readable reason, such as ``Conflict``.
        message: Text for people.
        details: `Status.details`.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        **details: Any,  # noqa: ANN401 - JSON
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details: Object | None = {k: v for k, v in details.items() if v} if details else None

    def status(self) -> Object:
        """The `Status` object."""
        status: Object = {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        }  # fmt: skip
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        return status


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why an object is not valid.

    Args:
        field: Path of the field.
        message: What is wrong, beginning with the kind of error.
        reason: Machine-readable kind of error.
    """

    field: str
    message: str
    reason: str = "FieldValueInvalid"


def not_found(resource: Resource, name: str) -> ApiError:
    """404 for one object."""
    message = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", message, name=name, group=resource.group, kind=resource.plural)


def unserved() -> ApiError:
    """404 for a path."""
    error = ApiError(404, "NotFound", "the server could not find the requested resource")
    error.details = {}
    return error


def not_allowed() -> ApiError:
    """405."""
    text = "the server does not allow this method on the requested resource"
    error = ApiError(405, "MethodNotAllowed", text)
    error.details = {}
    return error


def unsupported_type(why: str = "") -> ApiError:
    """415: the body's type, or its kind in this type, is not taken."""
    text = "415: Unsupported Media Type"
    error = ApiError(415, "UnsupportedMediaType", f"{text}: {why}" if why else text)
    error.details = {}
    return error


def unserved_part(what: str, instead: str = "") -> ApiError:
    """501: Kubernetes has this, the embedded cluster does not."""
    text = f"the embedded cluster does not serve {what}{f'; {instead}' if instead else ''}"
    return ApiError(501, "NotImplemented", text)


def conflict(resource: Resource, name: str, why: str, *, subresource: str = "") -> ApiError:
    """409: the object is not in the state that the caller assumes."""
    sub = f"/{subresource}" if subresource else ""
    what = f"{resource.plural}{sub}.{resource.group}" if resource.group else f"{resource.plural}{sub}"
    message = f'Operation cannot be fulfilled on {what} "{name}": {why}'
    return ApiError(409, "Conflict", message, name=name, group=resource.group, kind=f"{resource.plural}{sub}")


def precondition(resource: Resource, meta: Object, part: str, wanted: str) -> ApiError:
    """409: the stored uid or version differs from the caller's precondition.

    Args:
        resource: Resource of the object.
        meta: The stored metadata.
        part: ``UID`` or ``ResourceVersion``.
        wanted: The value that the caller named.
    """
    found = meta["uid" if part == "UID" else "resourceVersion"]
    key = "/".join(p for p in ("/registry", resource.plural, meta.get("namespace", ""), meta["name"]) if p)
    why = f"Precondition failed: {part} in precondition: {wanted}, {part} in object meta: {found}"
    store = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    return conflict(resource, meta["name"], store)


def invalid(resource: Resource, name: str, *causes: Cause, kind: str = "") -> ApiError:
    """422: fields have values that are not allowed."""
    texts = [f"{c.field}: {c.message}" for c in causes]
    what = f"{kind or resource.kind}.{resource.group}" if resource.group else kind or resource.kind
    message = f'{what} "{name}" is invalid: {texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"}'
    listed = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    return ApiError(422, "Invalid", message, name=name, group=resource.group, kind=kind or resource.kind, causes=listed)


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def now() -> str:
    """The current time as `metav1.Time`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_micro() -> str:
    """The current time as `metav1.MicroTime`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
