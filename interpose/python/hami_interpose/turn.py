"""The turn page: one file per device that all containers with a core limit on it share.

The agent makes it, ``<folder>/<uuid>``, and mounts the folder of a container's devices as ``turns`` beside ``limits``.
Without it a container's core limit still holds, less exactly beside other tenants.
"""

from __future__ import annotations

from ctypes import sizeof
from typing import Final

from hami_interpose import _region_layout as at

MAGIC: Final = at.TURN_MAGIC
VERSION: Final = at.TURN_VERSION
SIZE: Final = sizeof(at.TurnPage)
SLOTS: Final = at.TURN_SLOTS


def initial() -> bytes:
    """Returns the content of a fresh page; nobody has the turn."""
    return bytes(at.TurnPage(magic=MAGIC, version=VERSION, size=SIZE))
