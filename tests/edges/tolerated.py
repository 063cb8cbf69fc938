"""Where the embedded cluster knowingly does something else than Kubernetes; every line must still be true."""

from __future__ import annotations

from tests.edges.compare import Tolerated

_JSON = "the words of another JSON parser; status and reason are the same"
_GENERATION = "pods have had a generation since 1.33; the embedded server gives them one always"
_PREEMPTION = "1.30 says nothing of resource claims, and calls a request larger than the node curable"
_KEYS = "1.30 calls a label key a qualified name"
_NUMBERS = "1.30 prints numbers as Go's debugger would"

TOLERATED = (
    # ---- every version
    Tolerated("api-lists:bad token.body.message", _JSON),
    Tolerated("api-patches:no JSON.body.message", _JSON),
    Tolerated("api-refusals:no JSON.body.message", _JSON),
    Tolerated("scheduler-filter-fails:nonsense.events.0.message", _JSON),
    Tolerated("webhook-bad-patches:no JSON.*message", _JSON),
    Tolerated("webhook-bad-patches:no such place.*message", "the words of another implementation of JSON patch"),
    Tolerated("webhook-bad-patches:not a pod.*message", _JSON),
    Tolerated("webhook-failing:nonsense, fail.*message", _JSON),
    Tolerated("api-patches:fixed field.*message", "the server adds a comparison of its internal structures"),
    Tolerated("api-refusals:another kind.body.message", "the server speaks of its internal conversion"),
    Tolerated("api-refusals:bad label selector.body.message", "the words of another parser of selectors"),
    Tolerated("webhook-selected:condition fails, Fail.answer.body.message", "the words of another CEL interpreter"),
    Tolerated(
        "api-watches:streamed list*",
        "recorded on an etcd (3.5.1) that cannot serve streamed lists, and on 1.30 they are off; the embedded server "
        "serves them as servers with a newer etcd do",
    ),
    # ---- 1.36
    Tolerated("webhook-review:*.request.userInfo.extra", "there is no authentication, so no credential", "1.36.*"),
    Tolerated(
        "scheduler-refused:paths",
        "1.36's own note of a refusal makes it try once more, at once; 1.30 waits for something to happen, and so does "
        "the embedded one",
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
        "1.30 tries a pod again for a node's sake only when the in-tree plugin that refused it elsewhere says so",
        "1.30.*",
    ),
    Tolerated(
        "webhook-review:*.request.object.metadata.creationTimestamp", "1.30 writes the time it lacks as null", "1.30.*"
    ),
    Tolerated("plugin-kubelet-restart:left in the folder", "1.30 removes plain files too, not only sockets", "1.30.*"),
)
