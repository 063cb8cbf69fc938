"""A tenant that allocates and frees a block of device memory again and again, and prints the result of each try.

It runs in a simulated container and needs only the standard library.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import time

BLOCK = 64 << 20

cuda = ctypes.CDLL("libcuda.so.1")


def must(result: int) -> None:
    if result:
        raise SystemExit(f"driver call failed: {result}")


context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
must(cuda.cuInit(0))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
for number in itertools.count():
    result = cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(BLOCK))
    if result == 0:
        must(cuda.cuMemFree_v2(pointer))
    print(json.dumps({"try": number, "result": result}), flush=True)
    time.sleep(0.1)
