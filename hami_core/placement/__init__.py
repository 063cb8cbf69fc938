"""Placement of one pod on one node: request, order, fit, score. Pure functions; no vendor is known, no I/O is done."""

from __future__ import annotations

from hami_core.placement.card import Card
from hami_core.placement.order import DeviceOrder, device_order
from hami_core.placement.place import Plan, Rejection, place
from hami_core.placement.pod_usage import Use, uses
from hami_core.placement.quota import QuotaBook, QuotaRow
from hami_core.placement.request import pod_request
from hami_core.placement.score import device_score, float32, node_score

__all__ = [
    "Card",
    "DeviceOrder",
    "Plan",
    "QuotaBook",
    "QuotaRow",
    "Rejection",
    "Use",
    "device_order",
    "device_score",
    "float32",
    "node_score",
    "place",
    "pod_request",
    "uses",
]
