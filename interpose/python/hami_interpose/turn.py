"""The turn page: one file per device that all containers with a core limit on it share.

The agent makes it, ``<folder>/<uuid>``, and mounts the folder of a container's devices as ``turns`` beside ``limits``.
Without it a container's core limit still holds, less exactly beside other tenants. The layout is that of
`interpose/src/compute_abi.h`.
"""

from __future__ import annotations

import struct
from typing import Final

MAGIC: Final = 0x314E525554494D48  # "HMITURN1"
VERSION: Final = 1
SIZE: Final = 4096
SLOTS: Final = 63

_HEADER = struct.Struct("<QII")


def initial() -> bytes:
    """Returns the content of a fresh page; nobody has the turn."""
    content = bytearray(SIZE)
    _HEADER.pack_into(content, 0, MAGIC, VERSION, SIZE)
    return bytes(content)
