"""A digest of what is registered on a node, for a label.

kube-scheduler before 1.31 looks at a refused pod again when a node's labels change, not when its annotations do, and
what an agent registers is annotations. Device ids count by their place only, so that equal nodes in equal states have
equal labels: cluster-autoscaler takes nodes whose labels differ for different kinds.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

LENGTH: Final = 8


def digest(annotations: Mapping[str, str], ids: Sequence[str], cordoned: Collection[str]) -> str:
    """The digest: hexadecimal, fit for a label.

    Args:
        annotations: What is registered.
        ids: Device ids in order.
        cordoned: Ids of devices that get no new pods.
    """
    places = {device: f"#{place}" for place, device in enumerate(ids)}
    text = "\n".join(f"{key}={annotations[key]}" for key in sorted(annotations))
    for device in sorted(places, key=len, reverse=True):  # an id may begin with another one
        text = text.replace(device, places[device])
    closed = ",".join(sorted(places[device] for device in cordoned if device in places))
    return hashlib.sha256(f"{text}\n{closed}".encode()).hexdigest()[:LENGTH]
