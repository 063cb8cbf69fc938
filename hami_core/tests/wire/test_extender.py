"""Extender and admission payloads."""

from __future__ import annotations

import base64
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core.errors import WireError
from hami_core.wire import extender

names = st.lists(st.text(st.characters(codec="utf-8"), max_size=12), max_size=5)


@given(names)
def test_filter_arguments_come_back_as_written(wanted):
    args = extender.decode_filter_args(extender.encode_filter_args(b'{"metadata":{"name":"p"}}', names=wanted))
    assert json.loads(bytes(args.pod)) == {"metadata": {"name": "p"}}
    assert args.names() == wanted
    assert args.nodes is None


def test_keys_are_read_without_regard_to_case_and_the_last_wins():
    args = extender.decode_filter_args(b'{"pod":null,"POD":{"a":1},"nodeNAMES":["a"],"NodeNames":["b"],"x":1}')
    assert bytes(args.pod) == b'{"a":1}'
    assert args.names() == ["b"]


@pytest.mark.parametrize("body", [b'{"NodeNames":["n"]}', b'{"Pod":null,"NodeNames":["n"]}', b"{}"])
def test_missing_pod_is_reported_in_hamis_words(body):
    with pytest.raises(WireError) as caught:
        extender.decode_filter_args(body)
    assert str(caught.value) == "extender args missing pod"


@given(names, st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), st.just("r"), max_size=3))
def test_filter_results_come_back_as_written(fitting, failed):
    body = extender.encode_filter_result(names=fitting, failed=failed)
    assert list(json.loads(body)) == ["Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"]
    result = extender.decode_filter_result(body)
    assert (result.names, result.failed, result.unresolvable, result.error) == (fitting, failed, {}, "")


def test_an_error_leaves_every_other_key_null():
    assert json.loads(extender.encode_filter_result(error="no")) == {
        "Nodes": None,
        "NodeNames": None,
        "FailedNodes": None,
        "FailedAndUnresolvableNodes": None,
        "Error": "no",
    }


def test_nodes_pass_through_as_they_are():
    body = extender.encode_filter_result(nodes=b'{"items":[{"a": 1}]}')
    assert b'{"items":[{"a": 1}]}' in body
    result = extender.decode_filter_result(body)
    assert result.nodes is not None
    assert bytes(result.nodes) == b'{"items":[{"a": 1}]}'


def test_binding_arguments():
    args = extender.BindingArgs("p", "ns", "u", "n")
    assert extender.decode_binding_args(extender.encode_binding_args(args)) == args
    with pytest.raises(WireError, match="missing Node"):
        extender.decode_binding_args(b'{"PodName":"p","Node":null}')
    assert extender.encode_binding_result() == b'{"Error":""}'
    assert extender.decode_error(extender.encode_binding_result("why")) == "why"


def test_priorities():
    listed = [extender.HostPriority("a", 10), extender.HostPriority("b", 0)]
    body = extender.encode_priorities(listed)
    assert body == b'[{"Host":"a","Score":10},{"Host":"b","Score":0}]'
    assert extender.decode_priorities(body) == listed


def test_preemption_in_both_forms():
    meta = b'{"Pod":{},"NodeNameToMetaVictims":{"n":{"Pods":[{"UID":"u"}],"NumPDBViolations":1}}}'
    full = b'{"Pod":{},"NodeNameToVictims":{"n":{"Pods":[{"metadata":{"uid":"u"}}],"NumPDBViolations":1}}}'
    for body in (meta, full):
        args = extender.decode_preemption_args(body)
        assert (dict(args.victims), dict(args.violations)) == ({"n": ("u",)}, {"n": 1})
    told = json.loads(extender.encode_preemption_result({"n": ["u"]}, {"n": 1}))
    assert told == {"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}}}


@pytest.mark.parametrize("version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
def test_reviews_are_answered_in_their_version(version):
    review = {
        "apiVersion": version,
        "kind": "AdmissionReview",
        "request": {"uid": "u", "namespace": "ns", "operation": "CREATE", "object": {"kind": "Pod"}, "dryRun": True},
    }
    api_version, request = extender.decode_admission_review(json.dumps(review).encode())
    assert (api_version, request.uid, request.dryRun) == (version, "u", True)
    assert json.loads(bytes(request.object)) == {"kind": "Pod"}
    patch = [{"op": "add", "path": "/spec/schedulerName", "value": "hami-scheduler"}]
    answer = json.loads(extender.encode_admission_response(api_version, request.uid, allowed=True, patch=patch))
    assert answer["apiVersion"] == version
    assert json.loads(base64.b64decode(answer["response"].pop("patch"))) == patch
    assert answer["response"] == {"uid": "u", "allowed": True, "patchType": "JSONPatch"}


def test_refusal_has_message_and_code():
    answer = json.loads(extender.encode_admission_response("v", "u", allowed=False, message="no", code=403))
    assert answer["response"] == {"uid": "u", "allowed": False, "status": {"message": "no", "code": 403}}


DECODERS = (
    extender.decode_filter_args,
    extender.decode_binding_args,
    extender.decode_preemption_args,
    extender.decode_filter_result,
    extender.decode_priorities,
    extender.decode_admission_review,
    extender.decode_error,
)
words = st.sampled_from(
    [
        "Pod",
        "NodeNames",
        "PodName",
        "Node",
        "Error",
        "kind",
        "apiVersion",
        "request",
        "uid",
        "Host",
        "Score",
        "NodeNameToVictims",
    ]
)
bodies = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.sampled_from(["AdmissionReview", "admission.k8s.io/v1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=10,
).map(lambda value: json.dumps(value).encode())


@given(bodies | st.binary(max_size=60))
def test_reading_anything_raises_wire_errors_only(body):
    for decode in DECODERS:
        with contextlib.suppress(WireError):
            found = decode(body)
            if isinstance(found, extender.FilterArgs):
                found.names()


def test_deep_nesting_is_an_error_not_a_crash():
    for decode in DECODERS:
        with contextlib.suppress(WireError):
            decode(b'{"Pod":' + b"[" * 100_000)
