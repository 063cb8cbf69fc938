"""Permissions of our service accounts: those that roles grant, and those that the audit log shows in use."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.e2e.system import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bed.bed import Bed

SCHEDULER = f"system:serviceaccount:{NAMESPACE}:hami-scheduler"
AGENT = f"system:serviceaccount:{NAMESPACE}:hami-device-plugin"
PROGRAMS = ("hami-scheduler", "hami-agent", "kube-scheduler")
"""User agents of the programs that use these accounts. `hami doctor` is left out: the user who runs it decides."""
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Permission(NamedTuple):
    """One permission that a user has or has used.

    Attributes:
        user: Name of the user.
        group: API group; "" for the core group.
        resource: Resource with its subresource, as in roles.
        verb: Verb, as in roles.
        name: Name of the object. "" in a role means any object; in a request it means that none was named.
    """

    user: str
    group: str
    resource: str
    verb: str
    name: str = ""

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}".rstrip(".")
        return f"{self.user.rpartition(':')[2]}: {self.verb} {resource} {self.name}".rstrip()


def granted(bed: Bed) -> set[Permission]:
    """Permissions that our roles grant. Kubernetes' own roles for its schedulers are left out."""
    found: set[Permission] = set()
    for bindings, everywhere in (("clusterrolebindings", True), ("rolebindings", False)):
        for binding in bed.call("GET", f"{RBAC}/{bindings}")["items"]:
            users = [user for user in map(_user, binding.get("subjects", [])) if user in {SCHEDULER, AGENT}]
            role = binding["roleRef"]
            if not users or role["name"].startswith(("system:", "extension-apiserver-")):
                continue
            namespace = binding["metadata"].get("namespace", "")
            where = "clusterroles" if role["kind"] == "ClusterRole" else f"namespaces/{namespace}/roles"
            assert everywhere == (role["kind"] == "ClusterRole")
            for rule in bed.call("GET", f"{RBAC}/{where}/{role['name']}")["rules"]:
                found |= {permission for user in users for permission in _of_rule(user, rule)}
    return found


def _user(subject: dict[str, Any]) -> str:
    return f"system:serviceaccount:{subject.get('namespace', '')}:{subject['name']}"


def _of_rule(user: str, rule: dict[str, Any]) -> Iterator[Permission]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames") or [""]:
                    yield Permission(user, group, resource, verb, name)


class Use(NamedTuple):
    """One kind of request in the audit log.

    Attributes:
        what: The permission that it needs.
        program: User agent of the program that sent it.
        status: HTTP status of the answer; 0 for a watch that still runs.
        is_allowed: Whether the authorizers allowed it. Always True while an uninstallation removes our roles.
    """

    what: Permission
    program: str
    status: int
    is_allowed: bool


def uses(bed: Bed) -> set[Use]:
    """All kinds of requests in the audit log that our programs sent as our service accounts."""
    found: set[Use] = set()
    gone: set[str] = set()
    with (bed.work / "log/audit.log").open() as log:
        for line in log:
            if "hami" not in line or not line.endswith("\n"):
                continue
            event = json.loads(line)
            _see_binding(event, gone)
            is_over = event["stage"] == "ResponseComplete" or event["verb"] == "watch"
            program = event.get("userAgent", "").partition("/")[0]
            is_ours = event["user"].get("username") in {SCHEDULER, AGENT} and program in PROGRAMS
            if is_over and is_ours and "impersonatedUser" not in event:
                found.add(_of_event(event, program, is_bound=not gone))
    return found


def _see_binding(event: dict[str, Any], gone: set[str]) -> None:
    """Record which role bindings have been deleted and not created again."""
    target = event.get("objectRef", {})
    if target.get("resource") not in {"rolebindings", "clusterrolebindings"} or event["stage"] != "ResponseComplete":
        return
    name = f"{target['resource']}/{target.get('name', '')}"
    if event["verb"] == "delete":
        gone.add(name)
    elif event["verb"] in {"create", "patch", "update"}:
        gone.discard(name)


def _of_event(event: dict[str, Any], program: str, *, is_bound: bool) -> Use:
    target = event.get("objectRef") or {"resource": event["requestURI"].partition("?")[0]}
    resource = "/".join(filter(None, (target["resource"], target.get("subresource", ""))))
    user, verb = event["user"]["username"], event["verb"]
    what = Permission(user, target.get("apiGroup", ""), resource, verb, target.get("name", ""))
    status = event.get("responseStatus", {}).get("code", 0)
    is_forbidden = event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid" or status == 401
    return Use(what, program, status, is_allowed=not (is_forbidden and is_bound))


def unused(given: set[Permission], done: set[Use]) -> set[Permission]:
    """Permissions that are granted but were not used by our programs.

    kube-scheduler uses the same service account, but has permissions by Kubernetes' own roles. Only its Lease is in our
    role, so its requests for leases count too.
    """
    ours = {use.what for use in done if _is_done(use) and (_is_ours(use) or use.what.resource == "leases")}
    return {p for p in given if not any(_covers(p, what) for what in ours)}


def borrowed(given: set[Permission], done: set[Use]) -> set[Permission]:
    """Permissions that our programs used without our roles: those of kube-scheduler, which shares the account."""
    ours = {use.what for use in done if _is_done(use) and _is_ours(use)}
    return {what for what in ours if not what.resource.startswith("/") and not any(_covers(p, what) for p in given)}


def _is_done(use: Use) -> bool:
    return 200 <= use.status < 300 or use.status == 404


def _is_ours(use: Use) -> bool:
    return use.program.startswith("hami-")


def _covers(permission: Permission, what: Permission) -> bool:
    return permission[:4] == what[:4] and permission.name in ("", what.name)


def denied(done: set[Use]) -> set[Use]:
    """Requests that lacked a permission. Refusals by admission policies are not among them.

    For a moment after its start an API server knows no roles and denies everything. So requests that were allowed at
    another time are left out.
    """
    allowed = {use.what for use in done if _is_done(use)}
    return {use for use in done if not use.is_allowed and use.what not in allowed}
