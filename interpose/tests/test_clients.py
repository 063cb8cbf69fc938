"""Real client programs, unchanged: nvidia-ml-py and cuda-bindings."""

from __future__ import annotations

import sys

import pytest

MIB = 1 << 20

NVML = """
import pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
first = pynvml.nvmlDeviceGetMemoryInfo(handle)
second = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
print(first.total, first.free, first.used, second.total, second.reserved + second.free + second.used)
print([(p.pid, p.usedGpuMemory) for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)])
"""

BINDINGS = """
from cuda.bindings import driver
def call(answer):
    assert answer[0] == driver.CUresult.CUDA_SUCCESS, answer
    return answer[1] if len(answer) == 2 else answer[1:]
call(driver.cuInit(0))
device = call(driver.cuDeviceGet(0))
call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(device))))
free, total = call(driver.cuMemGetInfo())
blocks = 0
while True:
    status, address = driver.cuMemAlloc(64 << 20)
    if status != driver.CUresult.CUDA_SUCCESS:
        break
    blocks += 1
print(total, blocks == free // (64 << 20) and status.name == "CUDA_ERROR_OUT_OF_MEMORY")
"""


NUMBA = """
from numba import cuda
memory = cuda.current_context().get_memory_info()
array = cuda.to_device([1, 2, 3])
try:
    cuda.device_array(5000 << 20, dtype="uint8")
except cuda.cudadrv.driver.CudaAPIError as error:
    print(memory.total, array.copy_to_host().tolist() == [1, 2, 3] and "OUT_OF_MEMORY" in str(error))
"""


@pytest.mark.parametrize("client", [BINDINGS, NUMBA], ids=["cuda-bindings", "numba"])
def test_client_gets_the_limit_and_no_more(make_container, client):
    assert make_container(4000).run(sys.executable, "-W", "ignore", "-c", client) == f"{4000 * MIB} True\n"


def test_nvidia_ml_py_sees_the_slice(started):
    container, shell = started(4000)
    used = container.region().devices[0].used_bytes
    memory, processes = container.run(sys.executable, "-W", "ignore", "-c", NVML).splitlines()
    assert memory == f"{4000 * MIB} {4000 * MIB - used} {used} {4000 * MIB} {4000 * MIB}"
    assert processes == f"[({shell.process.pid}, {used})]"
