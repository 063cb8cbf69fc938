"""Doors and views: every library runs under the preload and sees the slice. Nothing of ours is printed."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

from .bed import MIB, EndedError, missing, run_compiler

if TYPE_CHECKING:
    from pathlib import Path

    from .bed import Bed, Container
    from .report import Part

LIMIT_MIB: Final = 3000
LIBRARIES: Final = (
    "torch",
    "cupy",
    "jax",
    "triton",
    "numba-cuda",
    "cuda-bindings",
    "nvidia-ml-py",
    "onnxruntime",
    "transformers",
)
DOORS: Final = ("cuGetProcAddress", "cuGetProcAddress_v2")
# A program may ask for any version of these functions. The limits depend on getting ours.
FUNCTIONS: Final = (
    "cuMemAlloc",
    "cuMemAllocPitch",
    "cuMemAllocManaged",
    "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemCreate",
    "cuMemFree",
    "cuMemGetInfo",
    "cuDeviceTotalMem",
    "cuArrayCreate",
    "cuArray3DCreate",
    "cuMipmappedArrayCreate",
    "cuModuleLoadData",
    "cuLibraryLoadData",
    "cuIpcOpenMemHandle",
    "cuGraphLaunch",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuLaunchCooperativeKernel",
    "cuGetProcAddress",
)
VERSIONS: Final = (2000, 3020, 4000, 5000, 6000, 6050, 7000, 7050, 8000, 9000, 9020, 10000, 10020, 11000, 11020, 11030)
VERSIONS_SINCE: Final = (
    11040,
    11050,
    11060,
    11070,
    11080,
    12000,
    12010,
    12020,
    12040,
    12050,
    12060,
    12080,
    12090,
    13000,
)
FLAGS: Final = (0, 1, 2)
CUDART: Final = """
#include <cuda_runtime.h>
#include <stdio.h>
int main(void) {
    size_t left = 0, total = 0;
    void *memory = NULL;
    int status = cudaMalloc(&memory, 16 << 20);
    status = status ? status : cudaMemGetInfo(&left, &total);
    int refused = cudaMalloc(&memory, (size_t)LIMIT_MIB << 20);
    printf("{\\"status\\": %d, \\"total\\": %zu, \\"refused\\": %d}\\n", status, total, refused);
    return 0;
}
"""


def run(bed: Bed, part: Part) -> None:
    """Start each program and library with a slice."""
    container = bed.container(memory_mib=LIMIT_MIB)
    _driver(bed, container, part)
    _requests(bed, container, part)
    for library in LIBRARIES:
        _library(container, part, library)
    _smi(container, part)
    for kind in ("shared", "static"):
        _cudart(bed, container, part, kind)


def _silent(errors: Path) -> str:
    """The first line of the library on a program's stderr."""
    lines = errors.read_text(errors="replace").splitlines()
    return next((line for line in lines if any(word in line.lower() for word in ("hami", "vgpu"))), "")


def _driver(bed: Bed, container: Container, part: Part) -> None:
    """A C program that calls the driver sees the slice, and nothing is printed."""
    shell = container.shell()
    shell.numbers("use", 0)
    _, free, total = shell.numbers("info")
    whole, (_, nvml, *_) = shell.numbers("total", 0)[1], shell.numbers("nvml", bed.card["index"])
    shell.end()
    said = shell.errors.read_text()
    seen = {"cuMemGetInfo": total, "cuDeviceTotalMem": whole, "nvmlDeviceGetMemoryInfo": nvml}
    wrong = {name: value // MIB for name, value in seen.items() if value != LIMIT_MIB * MIB}
    holds = not wrong and not said and 0 < free < total
    says = (
        f"sees {total // MIB} MiB"
        if holds
        else f"sees {wrong or total // MIB}, {free // MIB} MiB free; printed {said!r}"
    )
    part.add("driver API and NVML, from C", holds, says, total_mib=total // MIB)


def _requests(bed: Bed, container: Container, part: Part) -> None:
    """`cuGetProcAddress` answers with our function for each version and flag for which the bare driver has one."""
    asked = [(name, version, flag) for name in FUNCTIONS for version in (*VERSIONS, *VERSIONS_SINCE) for flag in FLAGS]
    text = "".join(f"{name}\t{version}\t{flag}\n" for name, version, flag in asked)
    past: list[str] = []
    found = 0
    for door in DOORS:
        program = [str(bed.program("requests")), door]
        answers = [
            subprocess.run(program, input=text, env=where.env(), text=True, capture_output=True, check=False)
            for where in (bed.bare(), container)
        ]
        if any(answer.returncode != 0 for answer in answers):
            part.leave_out(f"{door}, every version", "the driver does not have this function")
            continue
        bare, ours = (answer.stdout.splitlines() for answer in answers)
        there = [
            (a, b, request)
            for a, b, request in zip(bare, ours, asked, strict=True)
            if a.startswith("0 ") and not a.endswith(" -")
        ]
        found += len(there)
        past += [f"{door} {' '.join(map(str, request))}: {b}" for _, b, request in there if not b.endswith("*")]
    says = f"{found - len(past)} of {found} answers are ours" + (f"; not: {'; '.join(past[:3])}" if past else "")
    part.add("cuGetProcAddress, every version", found > 0 and not past, says, answers=found)


def _library(container: Container, part: Part, library: str) -> None:
    client = container.client(library, "view")
    try:
        found = client.json()
    except EndedError as error:
        part.add(library, False, f"did not start: {error}")
        return
    status = client.end()
    if why := missing(found):
        part.leave_out(library, why)
        return
    total, free, said = found["total"], found["free"], _silent(client.errors)
    limit = LIMIT_MIB * MIB
    sees = (total == limit if total is not None else True) and (free is None or 0 < free <= limit)
    sees = sees and found.get("also", limit) == limit
    says = f"{found['version']}: sees {(total if total is not None else free or 0) / MIB:.0f} MiB"
    if total is None:
        says = f"{found['version']}: starts and works" + (f", may take {free / MIB:.0f} MiB" if free else "")
    wrong = [] if sees else [f"total {total}, free {free}, properties {found.get('also')}"]
    wrong += [] if found["right"] else ["its result is wrong"]
    wrong += [f"exit status {status}"] if status else []
    wrong += [f"printed {said!r}"] if said else []
    part.add(library, not wrong, "; ".join([says, *wrong]), version=found["version"])


def _smi(container: Container, part: Part) -> None:
    if shutil.which("nvidia-smi") is None:
        part.leave_out("nvidia-smi", "nvidia-smi is not installed")
        return
    command = ["nvidia-smi", "-i", container.bed.uuid, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, env=container.env(), text=True, capture_output=True, check=False)
    total = done.stdout.strip().splitlines()[:1]
    holds = done.returncode == 0 and total == [str(LIMIT_MIB)] and not done.stderr
    part.add("nvidia-smi", holds, f"shows {' '.join(total)} MiB{done.stderr and f', prints {done.stderr!r}'}")


def _cudart(bed: Bed, container: Container, part: Part, kind: str) -> None:
    name = f"cudart, {kind}"
    compiler = shutil.which("nvcc")
    if compiler is None:
        part.leave_out(name, "nvcc is not installed")
        return
    source, program = bed.work / "cudart.cu", bed.work / f"cudart-{kind}"
    source.write_text(CUDART.replace("LIMIT_MIB", str(LIMIT_MIB)))
    run_compiler([compiler, "-cudart", kind, str(source), "-o", str(program)])
    done = subprocess.run([str(program)], env=container.env(), text=True, capture_output=True, check=False)
    found = json.loads(done.stdout or '{"status": -1, "total": 0, "refused": 0}')
    holds = found == {"status": 0, "total": LIMIT_MIB * MIB, "refused": 2} and not done.stderr
    part.add(
        name, holds, f"sees {found['total'] // MIB} MiB, cudaMalloc beyond it answers {found['refused']}{done.stderr}"
    )
