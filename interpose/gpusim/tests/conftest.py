"""Simulated machines to test: a state directory each, programs run on it in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hami_gpusim as sim
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent


# What scripts begin with: cuda-bindings, a check that unpacks or raises, and steps that several tests take.
PRELUDE = """
import json, os, sys, time
from cuda.bindings import driver as cuda

def ck(result):
    error, *values = result
    assert error == cuda.CUresult.CUDA_SUCCESS, error
    return values[0] if len(values) == 1 else tuple(values)

def context(ordinal=0):
    ck(cuda.cuInit(0))
    ctx = ck(cuda.cuDevicePrimaryCtxRetain(ck(cuda.cuDeviceGet(ordinal))))
    ck(cuda.cuCtxSetCurrent(ctx))
    return ctx

def answer(**values):
    print(json.dumps(values), flush=True)

def error_of(call, *arguments):
    import pynvml
    try:
        call(*arguments)
    except pynvml.NVMLError as error:
        return error.value
    return 0

def shared(address):  # what another process opens the memory by, as text
    import ctypes
    return ctypes.string_at(ck(cuda.cuIpcGetMemHandle(address)).getPtr(), 64).hex()

def opened(text):
    import ctypes
    handle = cuda.CUipcMemHandle()
    ctypes.memmove(handle.getPtr(), bytes.fromhex(text), 64)
    return cuda.cuIpcOpenMemHandle(handle, 1)
"""


class Program(subprocess.Popen[str]):
    """A script at work: it answers in lines of JSON, and may wait for a line to go on."""

    def answer(self) -> Any:
        assert self.stdout is not None
        return json.loads(self.stdout.readline())

    def go_on(self) -> Any:
        assert self.stdin is not None
        self.stdin.write("\n")
        self.stdin.flush()
        return self.answer()

    def end(self) -> None:
        self.kill()
        if self.stdout is not None and not self.stdout.closed:
            self.communicate()


@dataclass
class Machine:
    """One simulated machine."""

    directory: Path

    def state(self) -> sim.State:
        return sim.State(self.directory)

    def popen(self, script: str, **env: str) -> Program:
        """Starts a Python script on it."""
        command = [sys.executable, "-c", PRELUDE + textwrap.dedent(script)]
        pipe = subprocess.PIPE
        environment = sim.environment(self.directory) | {"HAMI_SIM_POOL_STEP_MIB": "2"} | env
        return Program(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def python(self, script: str, **env: str) -> dict[str, Any]:
        """Runs a Python script to its end and returns what it answered."""
        process = self.popen(script, **env)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, f"exit {process.returncode}\n{out}\n{err}"
        return json.loads(out.splitlines()[-1]) if out.strip() else {}


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., Machine]:
    """Makes machines from profiles."""

    def make(profile: str | Path = "h100x2") -> Machine:
        directory = tmp_path / f"state{len(list(tmp_path.glob('state*')))}"
        sim.create(directory, profile)
        return Machine(directory)

    return make


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compiles programs/NAME.c against the simulated libraries, once."""
    folder = tmp_path_factory.mktemp("sim-programs")

    def build(name: str) -> Path:
        out = folder / name
        if not out.exists():
            libraries = sim.library_dir()
            source = HERE / "programs" / f"{name}.c"
            command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", str(source), "-o", str(out)]
            command += [f"-I{HERE.parent / folder}" for folder in ("include", "generated")]
            command += [f"-L{libraries}", "-l:libcuda.so.1", "-l:libnvidia-ml.so.1", "-lpthread", "-ldl"]
            subprocess.run(command, check=True)
        return out

    return build
