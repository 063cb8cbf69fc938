"""What the API server does to objects before it stores them: defaults, immutable fields, Binding, deletion."""

from __future__ import annotations

import copy
import secrets
import string
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from hami_core.sim import validation, workloads
from hami_core.sim.resources import (
    JOBS,
    NODES,
    PODS,
    QUOTAS,
    WORKLOADS,
    ApiError,
    Cause,
    Object,
    Resource,
    bad_request,
    conflict,
    invalid,
    now,
    precondition,
)

_SYSTEM_METADATA = (
    "uid", "creationTimestamp", "namespace", "name", "generation", "deletionTimestamp", "deletionGracePeriodSeconds",
)  # fmt: skip
EPHEMERAL = "ephemeralcontainers"
"""The subresource by which ephemeral containers are added to a running pod."""
_ALPHABET = "".join(c for c in string.ascii_lowercase + string.digits if c not in "aeiou013")


def prepare_create(resource: Resource, namespace: str, obj: Object) -> Object:
    """A new object with its defaults, as admission sees it: without uid and time, and without a generated name.

    Raises:
        ApiError: 400 if the object has another kind or names another namespace.
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
    if meta.get("resourceVersion"):
        raise bad_request("resourceVersion should not be set on objects to be created")
    for given in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        meta.pop(given, None)
    obj.update(apiVersion=resource.api_version, kind=resource.kind)
    _default(resource, obj)
    return obj


def _default(resource: Resource, obj: Object) -> None:
    if resource is PODS:
        obj["status"] = {}
        default_pod(obj)
        return
    if resource is NODES:
        obj.setdefault("spec", {})
    elif resource in WORKLOADS:
        workloads.default(resource, obj)
    validation.quantities(resource, obj)


def complete(resource: Resource, obj: Object) -> None:
    """Gives an admitted object its name, uid and time, and validates it.

    Raises:
        ApiError: 422 if the object is not valid.
    """
    meta = obj["metadata"]
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"] + "".join(secrets.choice(_ALPHABET) for _ in range(5))
    if not meta.get("name"):
        text = "Required value: name or generateName is required"
        raise invalid(resource, "", Cause("metadata.name", text, "FieldValueRequired"))
    meta.update(uid=str(uuid.uuid4()), creationTimestamp=now())
    validation.metadata(resource, meta)
    if resource is QUOTAS:
        validation.quota(resource, obj)
    if resource in WORKLOADS:
        meta["generation"] = 1
        if resource is JOBS:
            workloads.select_pods_of_job(obj)
        workloads.check(resource, obj)
    if resource is PODS:
        validation.containers(PODS, obj)
        meta["generation"] = 1
        spec = obj["spec"]
        obj["status"] = {
            "phase": "Pending",
            "qosClass": _qos([*(spec.get("initContainers") or []), *spec["containers"]]),
        }
    elif resource.plural == "namespaces":
        meta.setdefault("labels", {}).setdefault("kubernetes.io/metadata.name", meta["name"])
        obj["status"] = {"phase": "Active"}
    elif resource.status and not keeps_status(resource):
        obj.pop("status", None)


def default_pod(pod: Object) -> None:
    """Sets those of the API server's defaults that this project's parts read.

    Raises:
        ApiError: 400 if containers or their resources have the wrong type.
    """
    spec = pod.setdefault("spec", {})
    lists = [spec.get(part) or [] for part in ("initContainers", "containers", "ephemeralContainers")]
    containers = [c for listed in lists if isinstance(listed, list) for c in listed]
    if not all(isinstance(listed, list) for listed in lists) or not all(isinstance(c, dict) for c in containers):
        raise bad_request('Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal into Go struct field')
    for container in containers:
        container.setdefault("image", "")
        container.setdefault("imagePullPolicy", "IfNotPresent")
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        _default_resources(container)
    validation.quantities(PODS, pod)
    account = spec.setdefault("serviceAccountName", "default")
    for name, value in (
        ("restartPolicy", "Always"), ("terminationGracePeriodSeconds", 30), ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"), ("serviceAccount", account), ("securityContext", {}),
        ("enableServiceLinks", True), ("priority", 0), ("preemptionPolicy", "PreemptLowerPriority"),
    ):  # fmt: skip
        spec.setdefault(name, value)
    _default_tolerations(spec)


def _default_tolerations(spec: Object) -> None:
    """Lets a pod stay on a lost node for five minutes, unless its tolerations say otherwise."""
    known = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(t.get("key") in {key, None, ""} and t.get("effect") in {"NoExecute", None, ""} for t in known):
            known.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def _default_resources(container: Object) -> None:
    resources = container.setdefault("resources", {})
    if not all(isinstance(resources.get(part) or {}, dict) for part in ("limits", "requests")):
        raise bad_request('Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal into ResourceList')
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
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


def prepare_update(resource: Resource, old: Object, new: Object, subresource: str, *, patched: bool = False) -> Object:
    """The object to store for a replacement or, with `patched`, for the result of a patch.

    Raises:
        ApiError: 409 if uid or resourceVersion differ from the stored ones, 422 if an immutable field changes. In a
            patch, the uid is an immutable field.
    """
    meta, old_meta = new.get("metadata") or {}, old["metadata"]
    name = old_meta["name"]
    if meta.get("name", name) != name:
        raise bad_request(f"the name of the object ({meta.get('name')}) does not match the name on the URL ({name})")
    _check_preconditions(resource, meta, old_meta, patched=patched)
    if subresource == EPHEMERAL:
        return _with_ephemeral(old, (new.get("spec") or {}).get("ephemeralContainers") or [])
    result = {**new, "apiVersion": resource.api_version, "kind": resource.kind}
    result["metadata"] = {k: v for k, v in meta.items() if k not in _SYSTEM_METADATA and v not in (None, {}, [])}
    result["metadata"].update({k: old_meta[k] for k in _SYSTEM_METADATA if k in old_meta})
    kept = ("spec",) if subresource == "status" else ("status",) if resource.status else ()
    for part in kept:
        result.pop(part, None)
        if part in old:
            result[part] = old[part]
    validation.quantities(resource, result)
    if resource is QUOTAS:
        validation.quota(resource, result)
    validation.metadata(resource, result["metadata"], patched=patched)
    validation.finalizers(resource, old_meta, result["metadata"])
    _check_update(resource, old, result, subresource)
    return result


def _check_update(resource: Resource, old: Object, result: Object, subresource: str) -> None:
    if resource in WORKLOADS:
        workloads.default(resource, result)
        workloads.check(resource, result)
        result["metadata"]["generation"] = old["metadata"]["generation"] + (result["spec"] != old["spec"])
    elif resource is PODS:
        for condition in (result.get("status") or {}).get("conditions") or []:
            for moment in ("lastProbeTime", "lastTransitionTime"):
                condition.setdefault(moment, None)
        if not subresource:
            _check_pod_spec(old["metadata"]["name"], old["spec"], result.get("spec") or {})


def _with_ephemeral(old: Object, containers: Any) -> Object:  # noqa: ANN401 - JSON
    """The pod with the given ephemeral containers. This subresource changes nothing else."""
    result = copy.deepcopy(old)
    result["spec"]["ephemeralContainers"] = copy.deepcopy(containers)
    default_pod(result)
    validation.ephemeral(PODS, old, result)
    return result


def _check_preconditions(resource: Resource, meta: Object, old: Object, *, patched: bool) -> None:
    name = old["name"]
    if meta.get("resourceVersion") and meta["resourceVersion"] != old["resourceVersion"]:
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise conflict(resource, name, why)
    if meta.get("uid") and meta["uid"] != old["uid"]:
        if not patched:
            raise precondition(resource, old, "UID", meta["uid"])
        raise invalid(resource, name, Cause("metadata.uid", f'Invalid value: "{meta["uid"]}": field is immutable'))
    if not resource.unconditional and not meta.get("resourceVersion"):
        cause = Cause("metadata.resourceVersion", "Invalid value: 0: must be specified for an update")
        raise invalid(resource, name, cause, kind=resource.plural)


def _check_pod_spec(name: str, old: Object, new: Object) -> None:
    def fixed(spec: Object) -> Object:
        spec = {k: v for k, v in spec.items() if k not in {"tolerations", "activeDeadlineSeconds", "schedulingGates"}}
        for part in ("containers", "initContainers"):
            if part in spec:
                spec[part] = [{k: v for k, v in c.items() if k != "image"} for c in spec[part]]
        return spec

    if fixed(old) != fixed(new):
        text = (
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
            "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously "
            "negative)"
        )
        raise invalid(PODS, name, Cause("spec", text, "FieldValueForbidden"))
    gates = {g["name"] for g in old.get("schedulingGates") or []}
    if any(g["name"] not in gates for g in new.get("schedulingGates") or []):
        cause = Cause("spec.schedulingGates", "Forbidden: only deletion is allowed", "FieldValueForbidden")
        raise invalid(PODS, name, cause)


def _check_binding(meta: Object, spec: Object, wanted: Object, target: Object) -> None:
    if target.get("kind", "Node") not in {"Node", ""}:
        text = f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"'
        raise ApiError(500, "", text)  # the real server answers 500 although the caller is at fault
    if not target.get("name"):
        raise ApiError(500, "", "target.name: Required value")
    for part, key in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
        if wanted.get(key) and wanted[key] != meta[key]:
            raise precondition(PODS, meta, part, wanted[key])
    name, why = meta["name"], ""
    if meta.get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict(PODS, name, why, subresource="binding")


def bind(pod: Object, binding: Object, *, copy_labels: bool) -> Object:
    """The pod after a Binding: node, annotations and, with ``copy_labels``, labels in one write.

    Raises:
        ApiError: 409 if the pod is bound, is being deleted, has scheduling gates or is not the pod that the Binding
            names; 500 if the Binding names no node.
    """
    meta, wanted, spec = pod["metadata"], binding.get("metadata") or {}, pod["spec"]
    target = binding.get("target") or {}
    _check_binding(meta, spec, wanted, target)
    result = {**pod, "metadata": dict(meta), "spec": {**spec, "nodeName": target["name"]}}
    for part in ("annotations", *(["labels"] if copy_labels else [])):
        if wanted.get(part):
            result["metadata"][part] = {**(meta.get(part) or {}), **wanted[part]}
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now()}
    others = [c for c in (pod.get("status") or {}).get("conditions") or [] if c["type"] != "PodScheduled"]
    result["status"] = {**(pod.get("status") or {}), "conditions": [*others, condition]}
    return result


def delete(resource: Resource, obj: Object, options: Object) -> Object | None:
    """The object with its deletion time, or None if it is deleted at once.

    Raises:
        ApiError: 409 if a precondition does not hold.
    """
    meta, preconditions = obj["metadata"], options.get("preconditions") or {}
    what = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    for key, word in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if preconditions.get(key) and preconditions[key] != meta[key]:
            why = f"the {word} in the precondition ({preconditions[key]}) does not match the {word} in record"
            after = "The object might have been deleted and then recreated"
            if key == "resourceVersion":
                after = "The object might have been modified"
            text = f'Operation cannot be fulfilled on {what} "{meta["name"]}": {why} ({meta[key]}). {after}'
            raise ApiError(409, "Conflict", text, name=meta["name"], group=resource.group, kind=resource.kind)
    grace = _grace(obj, options.get("gracePeriodSeconds")) if resource is PODS else 0
    if grace == 0 and not meta.get("finalizers"):
        return None
    if meta.get("deletionTimestamp") and grace >= meta.get("deletionGracePeriodSeconds", 0):
        return obj
    end = datetime.now(UTC) + timedelta(seconds=grace)
    marks = {"deletionTimestamp": end.strftime("%Y-%m-%dT%H:%M:%SZ"), "deletionGracePeriodSeconds": grace}
    return {**obj, "metadata": {**meta, **marks}}


def _grace(pod: Object, asked: int | None) -> int:
    """Seconds that a pod may take to stop; 0 for a pod that has no node or has ended."""
    if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        return 0
    return max(0, int(pod["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked))


def keeps_status(resource: Resource) -> bool:
    """Whether a create keeps the status in the request, as the server does for nodes."""
    return resource is NODES
