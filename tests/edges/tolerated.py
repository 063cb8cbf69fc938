"""Known differences of the embedded cluster from Kubernetes. test_replay.py fails if one no longer occurs."""

from __future__ import annotations

from tests.edges.compare import Tolerated

_JSON = "the text of another JSON parser; status and reason are the same"
_GENERATION = "pods have a generation since 1.33; the embedded server always sets one"
_PREEMPTION = "1.30 does not mention resource claims, and says that preemption can help a request larger than the node"
_KEYS = "1.30 says qualified name where later versions say label key"
_NUMBERS = "1.30 prints numbers in Go's debug format"

TOLERATED = (
    # ---- every version
    Tolerated("api-lists:bad token.body.message", _JSON),
    Tolerated("api-patches:no JSON.body.message", _JSON),
    Tolerated("api-refusals:no JSON.body.message", _JSON),
    Tolerated("scheduler-filter-fails:nonsense.events.0.message", _JSON),
    Tolerated("webhook-bad-patches:no JSON.*message", _JSON),
    Tolerated("webhook-bad-patches:no such place.*message", "the text of another JSON patch implementation"),
    Tolerated("webhook-bad-patches:not a pod.*message", _JSON),
    Tolerated("webhook-failing:nonsense, fail.*message", _JSON),
    Tolerated("api-patches:fixed field.*message", "the server adds a comparison of its internal structures"),
    Tolerated("api-refusals:another kind.body.message", "the server's text is about its internal conversion"),
    Tolerated("api-refusals:bad label selector.body.message", "the text of another selector parser"),
    Tolerated("webhook-selected:condition fails, Fail.answer.body.message", "the text of another CEL interpreter"),
    Tolerated(
        "api-watches:streamed list*",
        "recorded on etcd 3.5.1, which can't serve streamed lists; 1.30 has them switched off. "
        "The embedded server serves them, as API servers with a newer etcd do",
    ),
    # ---- 1.36
    Tolerated("webhook-review:*.request.userInfo.extra", "the embedded server does not authenticate", "1.36.*"),
    Tolerated(
        "scheduler-refused:paths",
        "1.36 retries once at once, because of its own write of the refusal; "
        "1.30 and the embedded scheduler wait for an event",
        "1.36.*",
    ),
    # ---- 1.30
    Tolerated("*.generation", _GENERATION, "1.30.*"),
    Tolerated("*.observedGeneration", _GENERATION, "1.30.*"),
    Tolerated("scheduler-*:*end.*message", _PREEMPTION, "1.30.*"),
    Tolerated("api-binding-poison:*message", _KEYS, "1.30.*"),
    Tolerated("api-patches:bad key.*message", _KEYS, "1.30.*"),
    Tolerated("api-refusals:bad annotation.*message", _KEYS, "1.30.*"),
    Tolerated("api-refusals:half a device.*message", _NUMBERS, "1.30.*"),
    Tolerated("api-conflicts:lease, no version.*message", _NUMBERS, "1.30.*"),
    Tolerated(
        "scheduler-refused:tried again after.node_*",
        "1.30 retries a pod after a change of a node only if an in-tree plugin that refused it asks for it",
        "1.30.*",
    ),
    Tolerated(
        "webhook-review:*.request.object.metadata.creationTimestamp", "1.30 writes a missing time as null", "1.30.*"
    ),
    Tolerated("plugin-kubelet-restart:left in the folder", "1.30 also removes plain files, not only sockets", "1.30.*"),
)
