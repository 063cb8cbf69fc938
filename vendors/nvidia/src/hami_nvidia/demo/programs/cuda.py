"""Fill every visible device through NVIDIA's cuda-bindings, and report what happened.

Prints one JSON line. For each device it has the size that the driver reports, the allocated amount, and the driver's
answer to the first block that did not fit. With ``--hold SECONDS`` the program keeps the memory that long.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any

from cuda.bindings import driver

MIB = 1 << 20
STEPS = tuple(size * MIB for size in (1024, 256, 64, 16, 4, 2))


def check(answer: tuple[Any, ...]) -> Any:  # noqa: ANN401 - whatever the call returns
    """Unwrap a driver call, or end the program with the call's error."""
    code, *values = answer
    if int(code) != 0:
        sys.exit(f"driver call failed: {code.name}")
    return values[0] if len(values) == 1 else values


def fill(index: int) -> tuple[dict[str, Any], list[Any]]:
    """Allocate on one device until nothing more fits. The blocks shrink from 1 GiB to 2 MiB."""
    device = check(driver.cuDeviceGet(index))
    uuid = check(driver.cuDeviceGetUuid(device)).bytes
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(device))))
    total = int(check(driver.cuDeviceTotalMem(device)))
    free_before, _ = check(driver.cuMemGetInfo())
    blocks, taken, refusal = [], 0, 0
    for size in STEPS:
        while True:
            code, pointer = driver.cuMemAlloc(size)
            if int(code) != 0:
                refusal = int(code)
                break
            blocks.append((pointer, size))
            taken += size
    result = {
        "index": index,
        "uuid": "GPU-" + _dashed(bytes(uuid)[:16].hex()),
        "total_bytes": total,
        "free_before_bytes": int(free_before),
        "allocated_bytes": taken,
        "refusal": refusal,
    }
    return result, blocks


def _dashed(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hold", type=float, default=0, metavar="SECONDS", help="keep the memory this long")
    options = parser.parse_args()
    check(driver.cuInit(0))
    filled = [fill(index) for index in range(check(driver.cuDeviceGetCount()))]
    # A freed block must fit again, which shows that the account also goes down correctly.
    again = True
    for result, blocks in filled:
        check(
            driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(result["index"])))))
        )
        if blocks:
            pointer, size = blocks[-1]
            check(driver.cuMemFree(pointer))
            code, _ = driver.cuMemAlloc(size)
            again = again and int(code) == 0
    report = {"program": "cuda-bindings", "pid": os.getpid(), "again": again, "devices": [r for r, _ in filled]}
    print(json.dumps(report), flush=True)
    time.sleep(options.hold)


if __name__ == "__main__":
    main()
