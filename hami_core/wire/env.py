"""Names of container environment variables and of the paths a container sees (HAMi v2.10 and HAMi-core)."""

from __future__ import annotations

from typing import Final

# --- set at admission ------------------------------------------------------------------------------------------------

CUDA_TASK_PRIORITY: Final = "CUDA_TASK_PRIORITY"
"""0 = high, larger = lower."""
GPU_CORE_UTILIZATION_POLICY: Final = "GPU_CORE_UTILIZATION_POLICY"
"""``default``, ``force`` or ``disable``."""
NVIDIA_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
"""``none`` hides every card, ``void`` keeps NVIDIA's runtime out."""
ASCEND_VISIBLE_DEVICES: Final = "ASCEND_VISIBLE_DEVICES"
SOL_CONTAINER_NAME: Final = "SOL_CONTINER_NAME"
"""Iluvatar's; the spelling is theirs."""

# --- set on the node -------------------------------------------------------------------------------------------------

MEMORY_LIMIT_PREFIX: Final = "CUDA_DEVICE_MEMORY_LIMIT_"
"""Followed by the container's device ordinal; value ``<MiB>m``."""
SM_LIMIT: Final = "CUDA_DEVICE_SM_LIMIT"
"""Percent of a device's compute."""
SHARED_CACHE: Final = "CUDA_DEVICE_MEMORY_SHARED_CACHE"
"""Path of the shared region file in the container."""
OVERSUBSCRIBE: Final = "CUDA_OVERSUBSCRIBE"
DISABLE_CONTROL: Final = "CUDA_DISABLE_CONTROL"
"""``true`` on a container asks for no interposer."""
LIBCUDA_LOG_LEVEL: Final = "LIBCUDA_LOG_LEVEL"

# --- read by processes -----------------------------------------------------------------------------------------------

NODE_NAME: Final = "NODE_NAME"
POD_NAME: Final = "POD_NAME"
POD_NAMESPACE: Final = "POD_NAMESPACE"
NODE_LOCK_EXPIRE: Final = "HAMI_NODELOCK_EXPIRE"

# --- paths in a container --------------------------------------------------------------------------------------------

VGPU_ROOT: Final = "/usr/local/vgpu"
LIBRARY_PATH: Final = f"{VGPU_ROOT}/libvgpu.so"
PRELOAD_PATH: Final = "/etc/ld.so.preload"
LIMITS_DIR: Final = f"{VGPU_ROOT}/limits"
REGION_DIR: Final = f"{VGPU_ROOT}/region"
REGION_PATH: Final = f"{REGION_DIR}/vgpu.cache"
MARKS_DIR: Final = "/.hami"
"""Holds an empty file for each resource that the container has by CDI, such as ``nvidia.com/gpu``: the agent's mark."""


def memory_limit(ordinal: int) -> str:
    """Name of the variable with the memory limit of the container's device ``ordinal``."""
    return f"{MEMORY_LIMIT_PREFIX}{ordinal}"
