"""Environment variables of our processes, and paths in containers with limits, as in HAMi v2.10."""

from __future__ import annotations

from typing import Final

# --- environment variables -------------------------------------------------------------------------------------------

NODE_NAME: Final = "NODE_NAME"
POD_NAME: Final = "POD_NAME"
POD_NAMESPACE: Final = "POD_NAMESPACE"
NODE_LOCK_EXPIRE: Final = "HAMI_NODELOCK_EXPIRE"

# --- paths in a container --------------------------------------------------------------------------------------------

VGPU_ROOT: Final = "/usr/local/vgpu"
"""Folder of all our files in a container. A pod that mounts a volume there is refused."""
PRELOAD_PATH: Final = "/etc/ld.so.preload"
"""File that names the interposer; the dynamic loader reads it for every program."""
LIMITS_DIR: Final = f"{VGPU_ROOT}/limits"
"""Read-only folder with the container's limits: the files of `ContainerEdits.limits`."""
REGION_DIR: Final = f"{VGPU_ROOT}/region"
"""Folder in which the container's processes count what they use: the files of `ContainerEdits.region`."""
MARKS_DIR: Final = "/.hami"
"""Folder in which the agent makes an empty file for each resource that the container has by CDI."""
