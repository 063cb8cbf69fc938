"""Keys of all annotations and labels that the framework reads or writes. Vendors name theirs in their families."""

from __future__ import annotations

import re
from typing import Final

# --- pod: written by the scheduler ---------------------------------------------------------------------------------

NODE: Final = "hami.io/vgpu-node"
"""The chosen node, as an annotation and as a label. (A label's value has at most 63 characters.)"""
ASSIGNED_TIME: Final = "hami.io/vgpu-time"
"""Time of the decision in Unix seconds."""
BIND_TIME: Final = "hami.io/bind-time"
"""Time of the Bind in Unix seconds."""
BIND_PHASE: Final = "hami.io/bind-phase"
"""State of the Bind: a ``PHASE_`` word."""
MIG_ALLOCATIONS: Final = "hami.io/vgpu-mig-allocations"
"""JSON list of planned and existing MIG instances."""
SIGNATURE: Final = "hami.io/allocation-signature"
"""Signature over the allocation, see `hami_core.wire.signature`. HAMi does not have this key."""

PHASE_ALLOCATING: Final = "allocating"
PHASE_SUCCESS: Final = "success"
PHASE_FAILED: Final = "failed"
PHASES: Final = frozenset({PHASE_ALLOCATING, PHASE_SUCCESS, PHASE_FAILED})

# --- pod: written by users -----------------------------------------------------------------------------------------

NODE_POLICY: Final = "hami.io/node-scheduler-policy"
DEVICE_POLICY: Final = "hami.io/gpu-scheduler-policy"
SCORING_WEIGHTS: Final = "hami.io/device-scoring-weights"
POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
WEBHOOK_LABEL: Final = "hami.io/webhook"
"""Label whose value ``ignore`` excludes a pod or namespace from the webhook."""

# --- node ----------------------------------------------------------------------------------------------------------

NODE_LOCK: Final = "hami.io/mutex.lock"
AGENT_MODE_PREFIX: Final = "hami.io/agent-mode-"
MODE_CDI: Final = "cdi"
MODE_SERIAL: Final = "serial"
DEVICE_CORDON: Final = "hami.io/device-cordon"
"""Comma list of the ids of devices that get no new containers."""
AGENT_READY: Final = "ready"
"""Value of `agent_label`: every resource of the vendor is registered with the kubelet."""
AGENT_STOPPING: Final = "stopping"
"""Value of `agent_label`: the agent is ending, and serves only requests for devices that it has already received."""
AGENT_UNREGISTERED: Final = "unregistered"
"""Value of `agent_label`: the agent runs, but the kubelet does not know it, either not yet or no longer."""

AGENT_LABEL_PREFIX: Final = "hami.io/agent-"
_TAG_UNFIT: Final = re.compile(r"[^a-z0-9-]+")
_TAG_LIMIT: Final = 48


def agent_label(vendor: str) -> str:
    """Return the availability label of a vendor's agent on a node; its value is an ``AGENT_`` word."""
    return f"{AGENT_LABEL_PREFIX}{_tag(vendor)}"


def agent_mode(vendor: str) -> str:
    """Return the annotation that says how a vendor's agent on a node gives devices; its value is a ``MODE_`` word.

    ``serial``: to one pod at a time, for runtimes without CDI. HAMi does not have this key.
    """
    return f"{AGENT_MODE_PREFIX}{_tag(vendor)}"


def agent_lease(vendor: str, node: str) -> str:
    """Return the name of the Lease that a vendor's agent on a node renews.

    A vendor's part has no dot, so the name of another node never fits.
    """
    return f"hami-agent-{_tag(vendor)}.{node}"


def _tag(vendor: str) -> str:
    return _TAG_UNFIT.sub("-", vendor.lower())[:_TAG_LIMIT].strip("-") or "vendor"


# --- scheduler pods --------------------------------------------------------------------------------------------------

SCHEDULER_ROLE_LABEL: Final = "hami.io/scheduler-role"
ROLE_LEADER: Final = "leader"
ROLE_FOLLOWER: Final = "follower"

SCHEDULING_RETRY: Final = "hami.io/scheduling-retry"
"""Pod annotation that we change so that kube-scheduler before 1.32 tries the pod again. HAMi does not have this key."""

SYSTEM_POD_KEYS: Final = frozenset({NODE, ASSIGNED_TIME, BIND_TIME, BIND_PHASE, MIG_ALLOCATIONS, SIGNATURE})
"""Pod annotations that only the system may set, besides the families' allocation keys."""

ALLOCATED_PREFIX: Final = "hami.io/"
ALLOCATED_SUFFIX: Final = "-allocated"


def is_allocated_key(key: str) -> bool:
    """Whether a pod annotation's key has HAMi's form for durable allocations (``hami.io/…-allocated``)."""
    return key.startswith(ALLOCATED_PREFIX) and key.endswith(ALLOCATED_SUFFIX)
