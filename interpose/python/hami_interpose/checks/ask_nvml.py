"""A program of its own: asks NVML for the memory of the devices named by UUID, and answers in JSON.

It runs in a child because a driver's library may hang or crash, and because reading a region in a process that uses
NVML under `libvgpu.so` would end the lock by which others see that process alive.
"""

from __future__ import annotations

import ctypes
import json
import sys


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def _device(nvml: ctypes.CDLL, uuid: str) -> dict[str, int | str]:
    handle, memory = ctypes.c_void_p(), _Memory()
    status = nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle))
    if status:
        return {"call": "nvmlDeviceGetHandleByUUID", "status": status}
    status = nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
    if status:
        return {"call": "nvmlDeviceGetMemoryInfo", "status": status}
    return {"total": memory.total, "used": memory.used}


def main(uuids: list[str]) -> dict[str, object]:
    """What NVML says: `missing`, or `call` and `status` of a failure, or `devices`."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return {"missing": str(error)}
    status = nvml.nvmlInit_v2()
    if status:
        return {"call": "nvmlInit_v2", "status": status}
    found = {uuid: _device(nvml, uuid) for uuid in uuids}
    nvml.nvmlShutdown()
    return {"devices": found}


if __name__ == "__main__":
    json.dump(main(sys.argv[1:]), sys.stdout)
