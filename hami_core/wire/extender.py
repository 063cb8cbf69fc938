"""Payloads of kube-scheduler's extender (v1) and of admission review (v1, v1beta1).

Extender structs have no JSON names in Go. So keys are capitalised, decoding ignores case, and the last of several equal
keys wins. Large parts (pod, nodes, node names) stay raw bytes until they are needed.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec
import orjson

from hami_core.errors import WireError

Names = Sequence[str]
Raw = msgspec.Raw
T = TypeVar("T")

_NULL: Final = (b"null", b"")
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NAMES = msgspec.json.Decoder(list[str] | None)
_TEXT = msgspec.json.Decoder(str | None)

MISSING_POD: Final = "extender args missing pod"
"""HAMi's words for a Filter call without a pod."""


class FilterArgs(msgspec.Struct, frozen=True):
    """ExtenderArgs: kube-scheduler's question to Filter and Prioritize.

    Attributes:
        pod: The pod object in JSON.
        node_names: JSON array of names, if the extender is ``nodeCacheCapable``; None: not given.
        nodes: JSON NodeList otherwise, as in cluster-autoscaler's dry run; None: not given.
    """

    pod: Raw
    node_names: Raw | None = None
    nodes: Raw | None = None

    def names(self) -> list[str] | None:
        """Decode the node names; None: not given."""
        return None if self.node_names is None else _decode(_NAMES, self.node_names, "NodeNames")


class BindingArgs(msgspec.Struct, frozen=True):
    """ExtenderBindingArgs."""

    name: str
    namespace: str
    uid: str
    node: str


class HostPriority(msgspec.Struct, frozen=True):
    """One node's score, from 0 to 10."""

    host: str
    score: int


class PreemptionArgs(msgspec.Struct, frozen=True):
    """ExtenderPreemptionArgs.

    Attributes:
        pod: The preempting pod in JSON.
        victims: Node → UIDs of its victims, from either form of the payload.
        violations: Node → NumPDBViolations.
    """

    pod: Raw
    victims: Mapping[str, tuple[str, ...]]
    violations: Mapping[str, int]


# --- extender, decode ------------------------------------------------------------------------------------------------


def decode_filter_args(body: bytes) -> FilterArgs:
    """Decode the body of a Filter or Prioritize call.

    Raises:
        WireError: The body is not a JSON object, or has no pod (`MISSING_POD`).
    """
    fields = _fields(body, "ExtenderArgs")
    pod = fields.get("pod")
    if pod is None:
        raise WireError("", -1, MISSING_POD)
    return FilterArgs(pod, fields.get("nodenames"), fields.get("nodes"))


def decode_binding_args(body: bytes) -> BindingArgs:
    """Decode the body of a Bind call.

    Raises:
        WireError: The body is not a JSON object, or a field is missing or is not text.
    """
    fields = _fields(body, "ExtenderBindingArgs")
    values = [
        _decode(_TEXT, fields[name.lower()], name) if name.lower() in fields else None
        for name in ("PodName", "PodNamespace", "PodUID", "Node")
    ]
    name, namespace, uid, node = (value or "" for value in values)
    if not name or not node:
        raise WireError("ExtenderBindingArgs", -1, f"missing {'PodName' if not name else 'Node'}")
    return BindingArgs(name, namespace, uid, node)


class _MetaPod(msgspec.Struct):
    UID: str = ""


class _MetaVictims(msgspec.Struct):
    Pods: list[_MetaPod] | None = None
    NumPDBViolations: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0


class _Metadata(msgspec.Struct):
    uid: str = ""


class _VictimPod(msgspec.Struct):
    metadata: _Metadata


class _Victims(msgspec.Struct):
    Pods: list[_VictimPod] | None = None
    NumPDBViolations: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0


_META_VICTIMS = msgspec.json.Decoder(dict[str, _MetaVictims] | None)
_VICTIMS = msgspec.json.Decoder(dict[str, _Victims] | None)


def decode_preemption_args(body: bytes) -> PreemptionArgs:
    """Decode the body of a Preempt call, in either of its forms.

    Raises:
        WireError: The body is not a JSON object, has no pod, or has malformed victims.
    """
    fields = _fields(body, "ExtenderPreemptionArgs")
    pod = fields.get("pod")
    if pod is None:
        raise WireError("", -1, MISSING_POD)
    victims: dict[str, tuple[str, ...]] = {}
    violations: dict[str, int] = {}
    meta, full = fields.get("nodenametometavictims"), fields.get("nodenametovictims")
    if meta is not None:
        for node, entry in (_decode(_META_VICTIMS, meta, "NodeNameToMetaVictims") or {}).items():
            victims[node] = tuple(p.UID for p in entry.Pods or ())
            violations[node] = entry.NumPDBViolations
    elif full is not None:
        for node, victim in (_decode(_VICTIMS, full, "NodeNameToVictims") or {}).items():
            victims[node] = tuple(p.metadata.uid for p in victim.Pods or ())
            violations[node] = victim.NumPDBViolations
    return PreemptionArgs(pod, victims, violations)


# --- extender, encode ------------------------------------------------------------------------------------------------


def encode_filter_result(
    *,
    names: Names | None = None,
    nodes: bytes | None = None,
    failed: Mapping[str, str] | None = None,
    unresolvable: Mapping[str, str] | None = None,
    error: str = "",
) -> bytes:
    """Encode ExtenderFilterResult with all its keys; a value that is not given is null.

    Args:
        names: Nodes that fit, for callers that gave names.
        nodes: JSON NodeList of nodes that fit, for callers that gave nodes.
        failed: Node → reason.
        unresolvable: Node → reason, for nodes on which removing pods would not help.
        error: Why there is no answer.
    """
    return orjson.dumps(
        {
            "Nodes": None if nodes is None else orjson.Fragment(nodes),
            "NodeNames": names,
            "FailedNodes": None if failed is None else dict(failed),
            "FailedAndUnresolvableNodes": None if unresolvable is None else dict(unresolvable),
            "Error": error,
        }
    )


def encode_binding_result(error: str = "") -> bytes:
    """Encode ExtenderBindingResult; an empty error is success."""
    return orjson.dumps({"Error": error})


def encode_priorities(priorities: Sequence[HostPriority]) -> bytes:
    """Encode HostPriorityList."""
    return orjson.dumps([{"Host": p.host, "Score": p.score} for p in priorities])


def encode_preemption_result(victims: Mapping[str, Sequence[str]], violations: Mapping[str, int]) -> bytes:
    """Encode ExtenderPreemptionResult: node → UIDs of the pods to remove there."""
    return orjson.dumps(
        {
            "NodeNameToMetaVictims": {
                node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations.get(node, 0)}
                for node, uids in victims.items()
            }
        }
    )


def encode_filter_args(pod: bytes, *, names: Names | None = None, nodes: bytes | None = None) -> bytes:
    """Encode ExtenderArgs, as kube-scheduler does."""
    return orjson.dumps(
        {
            "Pod": orjson.Fragment(pod),
            "Nodes": None if nodes is None else orjson.Fragment(nodes),
            "NodeNames": names,
        }
    )


def encode_binding_args(args: BindingArgs) -> bytes:
    """Encode ExtenderBindingArgs, as kube-scheduler does."""
    return orjson.dumps({"PodName": args.name, "PodNamespace": args.namespace, "PodUID": args.uid, "Node": args.node})


class FilterResult(msgspec.Struct, frozen=True):
    """ExtenderFilterResult, decoded (the caller's side)."""

    names: list[str] | None
    nodes: Raw | None
    failed: dict[str, str]
    unresolvable: dict[str, str]
    error: str


_TEXTS = msgspec.json.Decoder(dict[str, str] | None)
_PRIORITIES = msgspec.json.Decoder(list[dict[str, str | int]] | None)


def decode_filter_result(body: bytes) -> FilterResult:
    """Decode ExtenderFilterResult.

    Raises:
        WireError: Malformed.
    """
    fields = _fields(body, "ExtenderFilterResult")

    def texts(name: str) -> dict[str, str]:
        return (_decode(_TEXTS, fields[name.lower()], name) if name.lower() in fields else None) or {}

    return FilterResult(
        _decode(_NAMES, fields["nodenames"], "NodeNames") if "nodenames" in fields else None,
        fields.get("nodes"),
        texts("FailedNodes"),
        texts("FailedAndUnresolvableNodes"),
        decode_error(body, fields),
    )


def decode_error(body: bytes, fields: Mapping[str, Raw] | None = None) -> str:
    """Decode the ``Error`` of any extender result; empty: no error.

    Raises:
        WireError: Malformed.
    """
    found = (_fields(body, "extender result") if fields is None else fields).get("error")
    return "" if found is None else _decode(_TEXT, found, "Error") or ""


def decode_priorities(body: bytes) -> list[HostPriority]:
    """Decode HostPriorityList.

    Raises:
        WireError: Malformed.
    """
    found: list[HostPriority] = []
    for position, entry in enumerate(_decode(_PRIORITIES, body, "HostPriorityList") or []):
        folded = {name.lower(): value for name, value in entry.items()}
        host, score = folded.get("host"), folded.get("score", 0)
        if not isinstance(host, str) or not isinstance(score, int):
            raise WireError("HostPriorityList", position, "expected Host (text) and Score (whole number)")
        found.append(HostPriority(host, score))
    return found


# --- admission review ------------------------------------------------------------------------------------------------

_API_VERSIONS: Final = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")


class UserInfo(msgspec.Struct, frozen=True):
    """The user who makes the request."""

    username: str = ""
    groups: list[str] | None = None


class AdmissionRequest(msgspec.Struct, frozen=True):
    """The request of an AdmissionReview: the fields that a pod webhook needs."""

    uid: str
    namespace: str = ""
    name: str = ""
    operation: str = ""
    subResource: str = ""  # noqa: N815 - the wire's spelling
    object: Raw = Raw(b"null")
    oldObject: Raw = Raw(b"null")  # noqa: N815
    dryRun: bool | None = None  # noqa: N815 - the wire's spelling
    userInfo: UserInfo = UserInfo()  # noqa: N815


class _Review(msgspec.Struct):
    apiVersion: str = ""  # noqa: N815
    kind: str = ""
    request: AdmissionRequest | None = None


_REVIEW = msgspec.json.Decoder(_Review)


def decode_admission_review(body: bytes) -> tuple[str, AdmissionRequest]:
    """Decode an AdmissionReview.

    Returns:
        Its apiVersion, which the answer must have too, and the request.

    Raises:
        WireError: The review is malformed, has another kind or version, or has no request.
    """
    review = _decode(_REVIEW, body, "AdmissionReview")
    if review.kind != "AdmissionReview" or review.apiVersion not in _API_VERSIONS:
        raise WireError("AdmissionReview", -1, f"unsupported {review.apiVersion or '?'} {review.kind or '?'}")
    if review.request is None or not review.request.uid:
        raise WireError("AdmissionReview", -1, "no request with a uid")
    return review.apiVersion, review.request


def encode_admission_response(
    api_version: str,
    uid: str,
    *,
    allowed: bool,
    message: str = "",
    code: int = 0,
    patch: Sequence[Mapping[str, Any]] = (),
    warnings: Sequence[str] = (),
) -> bytes:
    """Encode the answer to an AdmissionReview.

    Args:
        api_version: The review's apiVersion.
        uid: The request's UID.
        allowed: Whether the object may be created.
        message: Message for the user.
        code: HTTP status of a refusal; 0: none.
        patch: JSON patch operations; empty: no change.
        warnings: Warnings that kubectl shows.
    """
    response: dict[str, Any] = {"uid": uid, "allowed": allowed}
    if message or code:
        response["status"] = {**({"message": message} if message else {}), **({"code": code} if code else {})}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(list(patch))).decode()
    if warnings:
        response["warnings"] = list(warnings)
    return orjson.dumps({"apiVersion": api_version, "kind": "AdmissionReview", "response": response})


# --- inside ----------------------------------------------------------------------------------------------------------


def _fields(body: bytes, what: str) -> dict[str, Raw]:
    """Decode the top-level keys in lower case; null counts as absent."""
    found = _decode(_FIELDS, body, what)
    return {name.lower(): value for name, value in found.items() if bytes(value).strip() not in _NULL}


def _decode(decoder: msgspec.json.Decoder[T], body: bytes | Raw, what: str) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise WireError(what, -1, str(error)) from None
