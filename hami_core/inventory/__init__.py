"""Inventory: the cluster's devices, bookings, holds and quotas. It is the scheduler's only allocator.

::

    inventory = Inventory(plugins.rules(), PolicyDefaults("binpack", "spread"))
    inventory.set_node(facts, {"NVIDIA": devices})          # informer
    inventory.set_pod(booking, init_done=False)             # informer
    outcome = inventory.filter(request, names)              # Filter: outcome.best, outcome.refused
    inventory.hold(request, outcome.hold_node, until=now + 15)
    answer = inventory.book(request, node)                  # Bind: Allocation or Rejection
    inventory.release(request.uid)                          # the Binding failed
"""

from __future__ import annotations

from hami_core.inventory.index import Inventory
from hami_core.inventory.names import RawNames
from hami_core.inventory.outcome import FilterOutcome, Refusals
from hami_core.placement.place import Rejection
from hami_core.policies import PolicyDefaults

__all__ = ["FilterOutcome", "Inventory", "PolicyDefaults", "RawNames", "Refusals", "Rejection"]
