"""Names of our processes' environment variables, and the paths that containers with limits see (HAMi v2.10)."""

from __future__ import annotations

from typing import Final

# --- read by processes -----------------------------------------------------------------------------------------------

NODE_NAME: Final = "NODE_NAME"
POD_NAME: Final = "POD_NAME"
POD_NAMESPACE: Final = "POD_NAMESPACE"
NODE_LOCK_EXPIRE: Final = "HAMI_NODELOCK_EXPIRE"

# --- paths in a container --------------------------------------------------------------------------------------------

VGPU_ROOT: Final = "/usr/local/vgpu"
"""Everything of ours in a container lies below. A pod that mounts a volume there is refused."""
PRELOAD_PATH: Final = "/etc/ld.so.preload"
"""Names the library that keeps the limits; the dynamic loader reads it for every program."""
LIMITS_DIR: Final = f"{VGPU_ROOT}/limits"
"""What the container may take, read-only: the files of `ContainerEdits.limits`."""
REGION_DIR: Final = f"{VGPU_ROOT}/region"
"""Where the container's processes count what they hold: the files of `ContainerEdits.region`."""
MARKS_DIR: Final = "/.hami"
"""Holds an empty file for each resource that the container has by CDI, such as ``nvidia.com/gpu``: the agent's mark."""
