"""What the API server does to each kind on the way in: defaults, immutable fields, Binding, deletion."""

from __future__ import annotations

import copy
import secrets
import string
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from hami_core.sim.resources import NODES, PODS, ApiError, Object, Resource, bad_request, conflict, invalid, now

_SYSTEM_METADATA = ("uid", "creationTimestamp", "namespace", "name", "deletionTimestamp", "deletionGracePeriodSeconds")
_ALPHABET = "".join(c for c in string.ascii_lowercase + string.digits if c not in "aeiou013")


def prepare_create(resource: Resource, namespace: str, obj: Object) -> Object:
    """A new object with its metadata and defaults.

    Raises:
        ApiError: 400 or 422 when it lacks a name, is of another kind, or names another namespace.
    """
    if not isinstance(obj.get("metadata", {}), dict):
        raise bad_request("metadata is not an object")
    if (
        obj.get("kind", resource.kind) != resource.kind
        or obj.get("apiVersion", resource.api_version) != resource.api_version
    ):
        given = f"{obj.get('apiVersion')}, Kind={obj.get('kind')}"
        raise bad_request(
            f"the object provided is {given}, this path takes {resource.api_version}, Kind={resource.kind}"
        )
    obj = copy.deepcopy(obj)
    meta = obj.setdefault("metadata", {})
    if resource.namespaced:
        if meta.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    else:
        meta.pop("namespace", None)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"] + "".join(secrets.choice(_ALPHABET) for _ in range(5))
    if not meta.get("name"):
        raise invalid(resource, "", "metadata.name", "Required value: name or generateName is required")
    if meta.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    meta.update(uid=str(uuid.uuid4()), creationTimestamp=now())
    meta.pop("deletionTimestamp", None)
    obj.update(apiVersion=resource.api_version, kind=resource.kind)
    if resource is PODS:
        default_pod(obj)
    elif resource.plural == "namespaces":
        meta.setdefault("labels", {}).setdefault("kubernetes.io/metadata.name", meta["name"])
        obj["status"] = {"phase": "Active"}
    return obj


def default_pod(pod: Object) -> None:
    """Fills in what the API server fills in and this project's parts look at.

    Raises:
        ApiError: 422 when there is no container or one lacks a name, or two share one.
    """
    name, spec = pod["metadata"]["name"], pod.setdefault("spec", {})
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    if not spec.get("containers"):
        raise invalid(PODS, name, "spec.containers", "Required value")
    for index, container in enumerate(containers):
        if not isinstance(container, dict) or not container.get("name"):
            raise invalid(PODS, name, f"spec.containers[{index}].name", "Required value")
        container.setdefault("image", "")
        container.setdefault("imagePullPolicy", "IfNotPresent")
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        _default_resources(name, container)
    names = [c["name"] for c in containers]
    for twice in {n for n in names if names.count(n) > 1}:
        raise invalid(PODS, name, "spec.containers[].name", f'Duplicate value: "{twice}"')
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("securityContext", {})
    spec.setdefault("enableServiceLinks", True)
    pod["status"] = {"phase": "Pending", "qosClass": _qos(containers)}


def _default_resources(pod: str, container: Object) -> None:
    resources = container.setdefault("resources", {})
    for part in ("limits", "requests"):
        if not isinstance(resources.get(part) or {}, dict):
            raise invalid(PODS, pod, f"spec.containers[{container['name']}].resources.{part}", "must be an object")
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for key, value in limits.items():
        requests.setdefault(key, value)
    if requests:
        resources["requests"] = requests


def _qos(containers: list[Object]) -> str:
    def core(c: Object, part: str) -> dict[str, Any]:
        found = c["resources"].get(part) or {}
        return {k: v for k, v in found.items() if k in {"cpu", "memory"}}

    if not any(core(c, "limits") or core(c, "requests") for c in containers):
        return "BestEffort"
    guaranteed = all(len(core(c, "limits")) == 2 and core(c, "limits") == core(c, "requests") for c in containers)
    return "Guaranteed" if guaranteed else "Burstable"


def prepare_update(resource: Resource, old: Object, new: Object, subresource: str) -> Object:
    """The object to store for a replacement or the result of a patch.

    Raises:
        ApiError: 409 when uid or resourceVersion differ from the stored ones, 422 when a fixed field changes.
    """
    meta, old_meta = new.get("metadata") or {}, old["metadata"]
    name = old_meta["name"]
    if meta.get("name", name) != name:
        raise bad_request(f"the name of the object ({meta.get('name')}) does not match the name on the URL ({name})")
    if meta.get("resourceVersion") and meta["resourceVersion"] != old_meta["resourceVersion"]:
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise conflict(resource.qualified, name, why)
    if meta.get("uid") and meta["uid"] != old_meta["uid"]:
        raise conflict(resource.qualified, name, uid_mismatch(meta["uid"], old_meta["uid"]))
    result = {**new, "apiVersion": resource.api_version, "kind": resource.kind}
    result["metadata"] = {k: v for k, v in meta.items() if k not in _SYSTEM_METADATA and v not in (None, {}, [])}
    result["metadata"].update({k: old_meta[k] for k in _SYSTEM_METADATA if k in old_meta})
    kept = ("spec",) if subresource == "status" else ("status",) if resource.status else ()
    for part in kept:
        result.pop(part, None)
        if part in old:
            result[part] = old[part]
    if resource is PODS and not subresource:
        _check_pod_spec(name, old["spec"], result.get("spec") or {})
    return result


def uid_mismatch(wanted: str, found: str) -> str:
    """The server's words for a failed UID precondition."""
    return f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"


def _check_pod_spec(name: str, old: Object, new: Object) -> None:
    def fixed(spec: Object) -> Object:
        spec = {k: v for k, v in spec.items() if k not in {"tolerations", "activeDeadlineSeconds", "schedulingGates"}}
        for part in ("containers", "initContainers"):
            if part in spec:
                spec[part] = [{k: v for k, v in c.items() if k != "image"} for c in spec[part]]
        return spec

    if fixed(old) != fixed(new):
        text = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
        raise invalid(PODS, name, "spec", f"Forbidden: {text}`spec.activeDeadlineSeconds`,`spec.tolerations`")
    gates = {g["name"] for g in old.get("schedulingGates") or []}
    if any(g["name"] not in gates for g in new.get("schedulingGates") or []):
        raise invalid(PODS, name, "spec.schedulingGates", "Forbidden: only deletion is allowed")


def bind(pod: Object, binding: Object, *, copy_labels: bool) -> Object:
    """The pod after a Binding: node, annotations and (from 1.35 on) labels in one write.

    Raises:
        ApiError: 409 when the pod is bound, deleting, gated or another one than the Binding means; 422 without a node.
    """
    meta, wanted, spec = pod["metadata"], binding.get("metadata") or {}, pod["spec"]
    name, target = meta["name"], binding.get("target") or {}
    if not target.get("name") or target.get("kind", "Node") != "Node":
        raise ApiError(422, "Invalid", f'Binding "{name}" is invalid: target: Required value: kind Node and its name')
    why = ""
    if wanted.get("uid") and wanted["uid"] != meta["uid"]:
        why = uid_mismatch(wanted["uid"], meta["uid"])
    elif wanted.get("resourceVersion") and wanted["resourceVersion"] != meta["resourceVersion"]:
        given, found = wanted["resourceVersion"], meta["resourceVersion"]
        why = f"Precondition failed: ResourceVersion in precondition: {given}, ResourceVersion in object meta: {found}"
    elif meta.get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict("pods/binding", name, why)
    result = {**pod, "metadata": dict(meta), "spec": {**spec, "nodeName": target["name"]}}
    for part in ("annotations", *(["labels"] if copy_labels else [])):
        if wanted.get(part):
            result["metadata"][part] = {**(meta.get(part) or {}), **wanted[part]}
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now()}
    others = [c for c in (pod.get("status") or {}).get("conditions") or [] if c["type"] != "PodScheduled"]
    result["status"] = {**(pod.get("status") or {}), "conditions": [*others, condition]}
    return result


def delete(resource: Resource, obj: Object, options: Object) -> Object | None:
    """The object while it terminates, or None when it is to go at once.

    Raises:
        ApiError: 409 when a precondition does not hold.
    """
    meta, preconditions = obj["metadata"], options.get("preconditions") or {}
    if preconditions.get("uid") and preconditions["uid"] != meta["uid"]:
        raise conflict(resource.qualified, meta["name"], uid_mismatch(preconditions["uid"], meta["uid"]))
    if preconditions.get("resourceVersion") and preconditions["resourceVersion"] != meta["resourceVersion"]:
        raise conflict(resource.qualified, meta["name"], "Precondition failed: ResourceVersion differs")
    grace = _grace(obj, options.get("gracePeriodSeconds")) if resource is PODS else 0
    if grace == 0 and not meta.get("finalizers"):
        return None
    if meta.get("deletionTimestamp") and grace >= meta.get("deletionGracePeriodSeconds", 0):
        return obj
    end = datetime.now(UTC) + timedelta(seconds=grace)
    marks = {"deletionTimestamp": end.strftime("%Y-%m-%dT%H:%M:%SZ"), "deletionGracePeriodSeconds": grace}
    return {**obj, "metadata": {**meta, **marks}}


def _grace(pod: Object, asked: int | None) -> int:
    """Seconds a pod may take to stop: none for one that never reached a node or has ended."""
    if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        return 0
    return max(0, int(pod["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked))


def keeps_status(resource: Resource) -> bool:
    """Whether a create keeps the status it was sent, as it does for nodes."""
    return resource is NODES
