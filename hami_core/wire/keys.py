"""Every annotation and label key the framework itself reads or writes. Vendors name their own in their families."""

from __future__ import annotations

import re
from typing import Final

# --- pod: written by the scheduler ---------------------------------------------------------------------------------

NODE: Final = "hami.io/vgpu-node"
"""Chosen node; annotation and label (a label value has at most 63 characters)."""
ASSIGNED_TIME: Final = "hami.io/vgpu-time"
"""Unix seconds of the decision."""
BIND_TIME: Final = "hami.io/bind-time"
"""Unix seconds of the Bind."""
BIND_PHASE: Final = "hami.io/bind-phase"
"""One of the ``PHASE_`` words."""
MIG_ALLOCATIONS: Final = "hami.io/vgpu-mig-allocations"
"""JSON list of planned and realised MIG instances."""
SIGNATURE: Final = "hami.io/allocation-signature"
"""Ours: signature over the allocation, see `hami_core.wire.signature`."""

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
"""Label; the value ``ignore`` keeps a pod or namespace out of the webhook."""

# --- node ----------------------------------------------------------------------------------------------------------

NODE_LOCK: Final = "hami.io/mutex.lock"
AGENT_MODE: Final = "hami.io/agent-mode"
"""Ours: how the node's agent gives devices; ``serial``: one pod at a time, for runtimes without CDI."""
MODE_CDI: Final = "cdi"
MODE_SERIAL: Final = "serial"
DEVICE_CORDON: Final = "hami.io/device-cordon"
"""Comma list of device ids that get no new containers."""
AGENT_READY: Final = "ready"
"""Value of `agent_label`: every resource of the vendor is registered with the kubelet."""
AGENT_STOPPING: Final = "stopping"
"""… its agent ends, and gives no more devices than those it has been asked for."""
AGENT_UNREGISTERED: Final = "unregistered"
"""… its agent runs, and the kubelet does not know it yet, or not any more."""

AGENT_LABEL_PREFIX: Final = "hami.io/agent-"
_TAG_UNFIT: Final = re.compile(r"[^a-z0-9-]+")
_TAG_LIMIT: Final = 48


def agent_label(vendor: str) -> str:
    """Ours: label of a node that says how a vendor's agent stands with the kubelet; one of the ``AGENT_`` words."""
    return f"{AGENT_LABEL_PREFIX}{_tag(vendor)}"


def _tag(vendor: str) -> str:
    return _TAG_UNFIT.sub("-", vendor.lower())[:_TAG_LIMIT].strip("-") or "vendor"


# --- scheduler pods --------------------------------------------------------------------------------------------------

SCHEDULER_ROLE_LABEL: Final = "hami.io/scheduler-role"
ROLE_LEADER: Final = "leader"
ROLE_FOLLOWER: Final = "follower"

SCHEDULING_RETRY: Final = "hami.io/scheduling-retry"
"""Ours, pod: changed to make kube-scheduler before 1.32 look at a pod again."""

SYSTEM_POD_KEYS: Final = frozenset({NODE, ASSIGNED_TIME, BIND_TIME, BIND_PHASE, MIG_ALLOCATIONS, SIGNATURE})
"""Pod keys that only the system may set, besides the families' allocation keys."""

ALLOCATED_PREFIX: Final = "hami.io/"
ALLOCATED_SUFFIX: Final = "-allocated"


def is_allocated_key(key: str) -> bool:
    """Whether a pod annotation key holds a durable allocation by HAMi's naming (``hami.io/…-allocated``)."""
    return key.startswith(ALLOCATED_PREFIX) and key.endswith(ALLOCATED_SUFFIX)
