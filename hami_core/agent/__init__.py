"""The node agent: device plugin, late binding, CDI, records, health and metrics of one node's devices.

What a vendor's node side may import from here stands in ``__all__``: how registers are written, and the names of
what a container sees.
"""

from __future__ import annotations

from hami_core.wire import env, keys
from hami_core.wire.node import encode_devices_json, encode_pair_scores

__all__ = ["encode_devices_json", "encode_pair_scores", "env", "keys"]
