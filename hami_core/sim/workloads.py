"""What the API server does to Deployments, ReplicaSets and Jobs before it stores them: defaults, checks, ``/scale``."""

from __future__ import annotations

from typing import Any

from hami_core.sim import selection
from hami_core.sim.resources import DEPLOYMENTS, JOBS, Cause, Object, Resource, bad_request, invalid, unserved_part

_DEFAULTS: dict[Resource, Object] = {
    DEPLOYMENTS: {"progressDeadlineSeconds": 600, "revisionHistoryLimit": 10},
    JOBS: {"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False},
}
_ROLLING = {"maxSurge": "25%", "maxUnavailable": "25%"}


def default(resource: Resource, obj: Object) -> None:
    """Sets the defaults that controllers and kubectl read.

    Raises:
        ApiError: 400 if the spec or its template is not an object, 501 for an indexed Job.
    """
    spec = obj.setdefault("spec", {})
    template = spec.setdefault("template", {}) if isinstance(spec, dict) else None
    if not isinstance(template, dict) or not isinstance(template.setdefault("spec", {}), dict):
        raise bad_request(f"{resource.kind}: spec, spec.template and spec.template.spec are objects")
    for name, value in _DEFAULTS.get(resource, {}).items():
        spec.setdefault(name, value)
    if resource is JOBS:
        if spec["completionMode"] != "NonIndexed":
            raise unserved_part("Jobs with completionMode Indexed", "leave completionMode out")
        if "completions" not in spec and spec["parallelism"] == 1:
            spec["completions"] = 1
        return
    spec.setdefault("replicas", 1)
    if resource is DEPLOYMENTS:
        strategy = spec.setdefault("strategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            strategy["rollingUpdate"] = {**_ROLLING, **(strategy.get("rollingUpdate") or {})}


def select_pods_of_job(job: Object) -> None:
    """Gives a new Job its selector, and its template the labels for it."""
    meta, spec = job["metadata"], job["spec"]
    prefix = "batch.kubernetes.io/"
    labels = {"controller-uid": meta["uid"], f"{prefix}controller-uid": meta["uid"]}
    spec.setdefault("selector", {"matchLabels": {f"{prefix}controller-uid": meta["uid"]}})
    template = spec["template"].get("metadata") or {}
    names = {"job-name": meta["name"], f"{prefix}job-name": meta["name"]}
    spec["template"]["metadata"] = {**template, "labels": {**(template.get("labels") or {}), **labels, **names}}


def check(resource: Resource, obj: Object) -> None:
    """Checks that the selector selects the template's pods and that a Job's pods can end.

    Raises:
        ApiError: 422.
    """
    spec, name = obj["spec"], obj["metadata"]["name"]
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    if not spec.get("selector"):
        raise invalid(resource, name, Cause("spec.selector", "Required value", "FieldValueRequired"))
    if not selection.label_object(spec["selector"], labels):
        text = f"Invalid value: {labels}: `selector` does not match template `labels`"
        raise invalid(resource, name, Cause("spec.template.metadata.labels", text))
    if resource is JOBS and spec["template"]["spec"].get("restartPolicy") not in {"OnFailure", "Never"}:
        text = 'Required value: valid values: "OnFailure", "Never"'
        raise invalid(resource, name, Cause("spec.template.spec.restartPolicy", text, "FieldValueRequired"))


def scale(obj: Object) -> Object:
    """The `Scale` of a Deployment or ReplicaSet."""
    meta, labels = obj["metadata"], (obj["spec"].get("selector") or {}).get("matchLabels") or {}
    kept = {k: meta[k] for k in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
    status = {
        "replicas": (obj.get("status") or {}).get("replicas", 0),
        "selector": ",".join(f"{k}={v}" for k, v in labels.items()),
    }
    head = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": kept}
    return {**head, "spec": {"replicas": obj["spec"]["replicas"]}, "status": status}


def scaled(resource: Resource, obj: Object, wanted: Any) -> Object:  # noqa: ANN401 - JSON
    """The object with the replicas of a `Scale`.

    Raises:
        ApiError: 422 if they are not a number from 0 on.
    """
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        text = f"Invalid value: {replicas}: must be greater than or equal to 0"
        raise invalid(resource, obj["metadata"]["name"], Cause("spec.replicas", text))
    version = (wanted.get("metadata") or {}).get("resourceVersion")
    meta = {**obj["metadata"], "resourceVersion": version or obj["metadata"]["resourceVersion"]}
    return {**obj, "metadata": meta, "spec": {**obj["spec"], "replicas": replicas}}
