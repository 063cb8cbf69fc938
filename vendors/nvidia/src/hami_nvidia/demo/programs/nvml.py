"""Report what NVIDIA's management library (nvidia-ml-py) shows inside this container.

Prints one JSON line. For each device it has the id, the name, the total and used memory, and the processes that use it.
"""

from __future__ import annotations

import argparse
import json
import os
import time

import pynvml


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hold", type=float, default=0, metavar="SECONDS", help="stay this long")
    options = parser.parse_args()
    pynvml.nvmlInit()
    devices = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        devices.append(
            {
                "index": index,
                "uuid": pynvml.nvmlDeviceGetUUID(handle),
                "name": pynvml.nvmlDeviceGetName(handle),
                "total_bytes": int(memory.total),
                "used_bytes": int(memory.used),
                "processes": [
                    {"pid": process.pid, "used_bytes": int(process.usedGpuMemory or 0)}
                    for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
                ],
            }
        )
    print(json.dumps({"program": "nvidia-ml-py", "pid": os.getpid(), "devices": devices}), flush=True)
    time.sleep(options.hold)


if __name__ == "__main__":
    main()
