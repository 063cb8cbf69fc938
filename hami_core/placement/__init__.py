"""Placement: request → fit → score → policy. Pure functions and short-lived values; knows no vendor and does no I/O."""

from __future__ import annotations

from hami_core.placement.card import Card
from hami_core.placement.peak import Use, uses
from hami_core.placement.place import Plan, Rejection, place
from hami_core.placement.policy import PolicyDefaults, device_policy, prefers_low_score
from hami_core.placement.quota import QuotaBook, QuotaRow
from hami_core.placement.request import pod_request
from hami_core.placement.score import device_score, float32, node_score

__all__ = [
    "Card",
    "Plan",
    "PolicyDefaults",
    "QuotaBook",
    "QuotaRow",
    "Rejection",
    "Use",
    "device_policy",
    "device_score",
    "float32",
    "node_score",
    "place",
    "pod_request",
    "prefers_low_score",
    "uses",
]
