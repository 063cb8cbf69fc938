"""Admission: turns the user's pod into an explicit request, or refuses it with container, field and fix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from hami_core.errors import HamiError, RequestError, VendorError, WireError
from hami_core.http.serve import Request, Response, text
from hami_core.kube.objects import Pod
from hami_core.kube.patch import diff
from hami_core.model import ContainerKind, ContainerSpec, PodFacts
from hami_core.scheduler import admission_warnings, pods
from hami_core.scheduler.filter import wait_synced
from hami_core.wire import keys
from hami_core.wire.extender import decode_admission_review, encode_admission_response

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hami_core.model import Mutation, PodRequest
    from hami_core.scheduler.cluster import Cluster
    from hami_core.wire.extender import AdmissionRequest

log = structlog.get_logger(__name__)

NO_CONTAINERS: Final = "pod has no containers"
OTHER_SCHEDULER: Final = "pod already has different scheduler assigned"
NODE_ASSIGNED: Final = (
    "pod has node assigned (spec.nodeName bypasses the scheduler, so no devices can be booked: remove it, and choose "
    "the node by spec.nodeSelector kubernetes.io/hostname)"
)
"""HAMi's words, then the fix. A ReplicaSet's event shows the message only, so the fix is no warning."""
_PRIVILEGED_FIX: Final = (
    "(it would see every device of the node: remove securityContext.privileged, or request the devices in a pod "
    "without that container)"
)
SYNC_WAIT_S: Final = 5.0
"""How long a review waits for the first sync. The API server waits 10 s for our answer."""
EPHEMERAL: Final = "ephemeralcontainers"
"""The subresource of pods that adds ephemeral containers."""
OVER_QUOTA: Final = "exceeding resource quota"

_pod = msgspec.json.Decoder(Pod)
_before = msgspec.json.Decoder(Pod | None)
_document = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer to one review. A refusal has a code; a permission may have a patch and warnings for the user."""

    allowed: bool
    message: str = ""
    code: int = 0
    patch: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()


class Webhook:
    """Answers ``/webhook``.

    Args:
        cluster: Vendors and quotas.
        scheduler_name: Set on pods that ask for devices; empty: left alone.
        overwrite_default: Whether ``default-scheduler`` may be replaced too.
    """

    def __init__(self, cluster: Cluster, *, scheduler_name: str, overwrite_default: bool = True) -> None:
        self._cluster = cluster
        self._scheduler_name = scheduler_name
        self._overwrite_default = overwrite_default
        families = cluster.families.values()
        self._resources = {name for family in families for name in family.resources.names()}
        self._system_keys = set(keys.SYSTEM_POD_KEYS)
        for family in families:
            self._system_keys |= {key for key in (family.allocated_key, family.to_allocate_key) if key}

    async def __call__(self, request: Request) -> Response:
        """Serve one AdmissionReview. An invalid body gets status 400, and ``failurePolicy`` decides about the pod."""
        try:
            version, review = decode_admission_review(request.body)
        except WireError as error:
            return text(400, f"{error}\n")
        try:
            await wait_synced(self._cluster, SYNC_WAIT_S)
        except WireError as error:
            return text(503, f"{error}\n")
        verdict = self.review(review)
        if not verdict.allowed:
            log.info("pod refused", namespace=review.namespace, pod=review.name, reason=verdict.message)
        answer = encode_admission_response(
            version,
            review.uid,
            allowed=verdict.allowed,
            message=verdict.message,
            code=verdict.code,
            patch=verdict.patch,
            warnings=verdict.warnings,
        )
        return Response(200, answer)

    def review(self, review: AdmissionRequest) -> Verdict:
        """Decide on one pod."""
        try:
            pod = _pod.decode(review.object)
            document = _document.decode(review.object)
            before = _before.decode(review.oldObject) or Pod()
        except (msgspec.MsgspecError, RecursionError) as error:
            return Verdict(False, f"the pod can't be decoded: {error}", 400)
        namespace = pod.metadata.namespace or review.namespace
        try:
            if review.subResource == EPHEMERAL:
                return self._decide_ephemeral(pod, document, before)
            return self._decide(pod, document, namespace)
        except RequestError as error:
            return Verdict(False, str(error), 400)
        except VendorError as error:
            log.warning("a vendor plugin failed at admission", pod=review.name, error=str(error))
            return Verdict(False, str(error), 500)
        except HamiError as error:
            return Verdict(False, str(error), 400)

    def _decide(self, pod: Pod, document: dict[str, Any], namespace: str) -> Verdict:
        if not pod.spec.containers:
            return Verdict(False, NO_CONTAINERS, 403)
        forged = sorted(k for k in pod.metadata.annotations if k in self._system_keys or keys.is_allocated_key(k))
        if forged:
            fix = "only the scheduler sets it; remove it from the pod (template)"
            return Verdict(False, f"pod: metadata.annotations: {forged[0]} is set ({fix})", 403)
        if not self._may_take(pod.spec.scheduler_name):
            return Verdict(True, OTHER_SCHEDULER)
        after = writable(document)
        asks = self._mutate(pod, after, namespace)
        if asks:
            privileged = next((s.name for s in pods.container_specs(pod) if s.privileged), "")
            if privileged:
                return Verdict(False, f"container {privileged} is privileged {_PRIVILEGED_FIX}", 403)
            if self._scheduler_name:
                after["spec"]["schedulerName"] = self._scheduler_name
                if pod.spec.node_name:
                    return Verdict(False, NODE_ASSIGNED, 403)
        wanted = self._wanted(after, namespace)
        refusal = self._over_quota(wanted)
        if refusal:
            return Verdict(False, refusal, 403)
        warnings = (
            *self._amount_warnings(pod, wanted),
            *(admission_warnings.on_policies(pod.metadata.annotations) if asks else ()),
        )
        return Verdict(True, patch=tuple(diff(document, after)), warnings=warnings)

    def _decide_ephemeral(self, pod: Pod, document: dict[str, Any], before: Pod) -> Verdict:
        """Impose variables on the ephemeral containers that an UPDATE of ``pods/ephemeralcontainers`` adds.

        Nothing else of a running pod can change. An ephemeral container can't ask for devices, so vendors are shown a
        container without any request.
        """
        if not self._may_take(pod.spec.scheduler_name):
            return Verdict(True, OTHER_SCHEDULER)
        known = {container.name for container in before.spec.ephemeral_containers}
        after = writable(document)
        facts = pods.facts(pod)
        for container in after["spec"].get("ephemeralContainers") or []:
            name = container.get("name", "")
            mutation = None if name in known else self._cluster.loaded.mutate(_asks_nothing(name), facts)
            if mutation is not None:
                impose(mutation, container)
        return Verdict(True, patch=tuple(diff(document, after)))

    def _amount_warnings(self, pod: Pod, wanted: PodRequest) -> Iterator[str]:
        """Warnings about amounts. They compare the user's limits with the request that vendors made of them."""
        for written, container in zip(pods.container_specs(pod), wanted.containers, strict=True):
            if written.limits.keys().isdisjoint(self._resources):
                continue
            requests = {request.family: request for request in container.requests}
            for word, family in self._cluster.families.items():
                largest = self._cluster.inventory.largest_memory_mib(word)
                yield from admission_warnings.on_amounts(written, family, requests.get(word), largest)

    def _may_take(self, scheduler_name: str) -> bool:
        overwritable = self._overwrite_default and scheduler_name == "default-scheduler"
        return not scheduler_name or overwritable or scheduler_name == self._scheduler_name

    def _mutate(self, pod: Pod, after: dict[str, Any], namespace: str) -> bool:
        """Apply every vendor's changes to the document. Returns whether any container asks for devices."""
        asks = False
        annotations = dict(pod.metadata.annotations)
        runtime_class = pod.spec.runtime_class_name or ""
        name = pod.metadata.name or pod.metadata.generate_name
        for spec, document in zip(pods.container_specs(pod), _containers(after), strict=True):
            facts = PodFacts(namespace, name, pod.uid, annotations, runtime_class)
            mutation = self._cluster.loaded.mutate(spec, facts)
            if mutation is None:
                continue
            asks |= mutation.uses_devices
            apply(mutation, document)
            annotations |= mutation.pod_annotations
            runtime_class = runtime_class or mutation.runtime_class
        if annotations != pod.metadata.annotations:
            after["metadata"] = {**(after.get("metadata") or {}), "annotations": annotations}
        if runtime_class and not pod.spec.runtime_class_name:
            after["spec"]["runtimeClassName"] = runtime_class
        return asks

    def _wanted(self, after: dict[str, Any], namespace: str) -> PodRequest:
        """The request of the changed pod.

        Raises:
            RequestError: Names the container, resource or annotation at fault and the fix.
        """
        pod = msgspec.convert(after, Pod)
        meta = msgspec.structs.replace(pod.metadata, namespace=namespace, name=pod.metadata.name or "pod")
        named = msgspec.structs.replace(pod, metadata=meta)
        return self._cluster.request_of(named)

    def _over_quota(self, wanted: PodRequest) -> str:
        """Why the namespace's quota forbids the pod; empty: it allows the pod."""
        reason = self._cluster.inventory.quota.admission_refusal(wanted)
        if reason is None:
            return ""
        return f"{OVER_QUOTA}: {reason.needed} asked for, {reason.available} {reason.detail}"


def writable(document: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the parts of a pod document that `Webhook` writes: containers, spec and metadata.

    The copy shares all other parts with the original, and `diff` skips shared parts. A deep copy of a pod of 5 kB takes
    as long as the whole review.
    """
    spec = {**document["spec"]}
    for field in ("initContainers", "containers", "ephemeralContainers"):
        if spec.get(field):
            spec[field] = [{**container} for container in spec[field]]
    return {**document, "spec": spec}


def apply(mutation: Mutation, document: dict[str, Any]) -> None:
    """Write a vendor's changes into a container of the pod document."""
    for field, amounts in (("limits", mutation.limits), ("requests", mutation.requests)):
        if amounts:
            resources = document.get("resources") or {}
            document["resources"] = {**resources, field: {**(resources.get(field) or {}), **amounts}}
    impose(mutation, document)


def impose(mutation: Mutation, document: dict[str, Any]) -> None:
    """Set and remove environment variables of a container as the vendors demand, whatever the pod says.

    In Kubernetes the last of several entries with one name wins, and any entry wins over ``envFrom``. A list that
    already complies is not changed.
    """
    written = document.get("env") or []
    imposed = {name: {"name": name, "value": value} for name, value in mutation.env}
    kept = [entry for entry in written if entry.get("name") not in mutation.env_removed - imposed.keys()]
    for name, entry in imposed.items():
        present = [found for found in kept if found.get("name") == name]
        if len(present) != 1 or not _says(present[0], entry["value"]):
            kept = [found for found in kept if found.get("name") != name] + [entry]
    if kept != written:
        document["env"] = kept


def _asks_nothing(name: str) -> ContainerSpec:
    return ContainerSpec(name, ContainerKind.APP)


def _says(entry: Mapping[str, Any], value: str) -> bool:
    """Whether an entry gives its variable exactly this value. The API server omits an empty value."""
    return not entry.get("valueFrom") and (entry.get("value") or "") == value


def _containers(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The container documents in the order of `pods.container_specs`."""
    spec = document["spec"]
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
