"""Runs one library in a process of its own: ``python clients.py LIBRARY WHAT``. Answers are lines of JSON.

``view``   starts the library, does a little work and reports the library's view of device memory: ``total`` in bytes,
           null if the library does not say
``fill``   allocates until an error: ``taken`` in bytes, ``error``, and ``out_of_memory``, which says whether it is the
           library's own out-of-memory error. Then keeps the memory until a line comes
``serve``  runs a PyTorch load by commands as of `programs/load.c`: ``go MS`` answers ``{"marks": [[ns, units], ...]}``,
           ``request MS EVERY_US`` answers ``{"us": [...]}``

If a library is not installed, the answer is ``{"missing": NAME}``.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20
BLOCK = 64 * MIB
MOST_BLOCKS = 4096  # 256 GiB: no card has more, so a client that gets this much has no limit


def version_of(*names: str) -> str:
    """The version of the first installed one of these distributions."""
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "?"


def say(**what: Any) -> None:
    """Print an answer."""
    print(json.dumps(what), flush=True)


def fill(take: Callable[[], object], own: Callable[[Exception], bool], each: int = BLOCK) -> None:
    """Take blocks until an error, answer, and keep them until a line comes."""
    kept: list[object] = []
    error = ""
    fits = True
    while len(kept) < MOST_BLOCKS and fits:
        try:
            kept.append(take())
        except Exception as raised:  # noqa: BLE001 - which kind it is, is the question
            fits, error = False, f"{type(raised).__module__}.{type(raised).__qualname__}: {raised}"
            say(taken=len(kept) * each, error=error[:300], out_of_memory=own(raised))
    if fits:
        say(taken=len(kept) * each, error="", out_of_memory=False)
    sys.stdin.readline()


class Torch:
    """PyTorch."""

    def __init__(self) -> None:
        import torch

        self.torch = torch

    def view(self) -> None:
        x = self.torch.ones(1024, device="cuda")
        free, total = self.torch.cuda.mem_get_info()
        properties = self.torch.cuda.get_device_properties(0).total_memory
        say(total=total, free=free, also=properties, right=float(x.sum()) == 1024.0, version=self.torch.__version__)

    def fill(self) -> None:
        torch = self.torch
        fill(
            lambda: torch.empty(BLOCK, dtype=torch.uint8, device="cuda"),
            lambda error: isinstance(error, torch.cuda.OutOfMemoryError),
        )


class Cupy:
    """CuPy."""

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy

    def view(self) -> None:
        x = self.cupy.arange(1024)
        free, total = self.cupy.cuda.runtime.memGetInfo()
        say(total=total, free=free, right=int(x.sum()) == 523776, version=self.cupy.__version__)

    def fill(self) -> None:
        cupy = self.cupy
        fill(
            lambda: cupy.empty(BLOCK, dtype=cupy.uint8),
            lambda error: isinstance(error, cupy.cuda.memory.OutOfMemoryError),
        )


class CupyAsync(Cupy):
    """CuPy on the driver's stream-ordered pool."""

    def __init__(self) -> None:
        super().__init__()
        self.cupy.cuda.set_allocator(self.cupy.cuda.MemoryAsyncPool().malloc)


class Jax:
    """JAX."""

    def __init__(self) -> None:
        import jax

        self.jax = jax

    def view(self) -> None:
        jax = self.jax
        device = jax.devices("gpu")[0]
        x = jax.device_put(jax.numpy.ones(1024), device)
        # JAX preallocates a part of the free memory (XLA_PYTHON_CLIENT_MEM_FRACTION). This is its size.
        limit = (device.memory_stats() or {}).get("bytes_limit")
        say(total=None, free=limit, right=float(x.sum()) == 1024.0, version=jax.__version__)

    def fill(self) -> None:
        jax = self.jax
        device = jax.devices("gpu")[0]
        host = jax.numpy.zeros(BLOCK, dtype="uint8", device=device)
        fill(
            lambda: jax.block_until_ready(host + 1),
            lambda error: "RESOURCE_EXHAUSTED" in str(error),
        )


class Triton:
    """Triton, which gets its memory from PyTorch."""

    def __init__(self) -> None:
        import torch
        import triton

        self.torch, self.triton = torch, triton

    def view(self) -> None:
        import triton.language as tl

        @self.triton.jit
        def add(x, y, out, n, BLOCK: tl.constexpr):  # noqa: N803
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)

        x = self.torch.ones(1024, device="cuda")
        out = self.torch.empty_like(x)
        add[(4,)](x, x, out, 1024, BLOCK=256)
        free, total = self.torch.cuda.mem_get_info()
        say(total=total, free=free, right=float(out.sum()) == 2048.0, version=self.triton.__version__)


class Numba:
    """numba-cuda."""

    def __init__(self) -> None:
        from numba import cuda

        self.cuda = cuda
        self.context = cuda.current_context()

    def view(self) -> None:
        array = self.cuda.to_device([1, 2, 3])
        memory = self.context.get_memory_info()
        right = array.copy_to_host().tolist() == [1, 2, 3]
        say(total=memory.total, free=memory.free, right=right, version=version_of("numba-cuda", "numba"))

    def fill(self) -> None:
        cuda = self.cuda
        fill(
            lambda: cuda.device_array(BLOCK, dtype="uint8"),
            lambda error: isinstance(error, cuda.cudadrv.driver.CudaAPIError) and "OUT_OF_MEMORY" in str(error),
        )


class Bindings:
    """cuda-bindings (cuda-python)."""

    def __init__(self) -> None:
        try:
            from cuda.bindings import driver
        except ImportError:
            from cuda import cuda as driver  # cuda-python before 12.8

        self.driver = driver
        self.call(driver.cuInit(0))
        device = self.call(driver.cuDeviceGet(0))
        self.call(driver.cuCtxSetCurrent(self.call(driver.cuDevicePrimaryCtxRetain(device))))

    def call(self, answer: tuple[Any, ...]) -> Any:
        if answer[0] != self.driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(answer[0].name)
        return answer[1] if len(answer) == 2 else answer[1:]

    def view(self) -> None:
        free, total = self.call(self.driver.cuMemGetInfo())
        say(total=total, free=free, right=True, version=version_of("cuda-bindings", "cuda-python"))

    def fill(self) -> None:
        fill(lambda: self.call(self.driver.cuMemAlloc(BLOCK)), lambda error: str(error) == "CUDA_ERROR_OUT_OF_MEMORY")


class Nvml:
    """nvidia-ml-py."""

    def __init__(self) -> None:
        import pynvml

        self.nvml = pynvml
        pynvml.nvmlInit()

    def view(self) -> None:
        card = os.environ.get("CUDA_VISIBLE_DEVICES")
        nvml = self.nvml
        handle = nvml.nvmlDeviceGetHandleByUUID(card) if card else nvml.nvmlDeviceGetHandleByIndex(0)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        say(total=memory.total, free=memory.free, right=True, version=version_of("nvidia-ml-py"))


class OnnxRuntime:
    """ONNX Runtime with its CUDA provider."""

    def __init__(self) -> None:
        import onnxruntime

        self.runtime = onnxruntime

    def view(self) -> None:
        import numpy as np
        from onnx import TensorProto, helper

        if "CUDAExecutionProvider" not in self.runtime.get_available_providers():
            say(missing="onnxruntime's CUDA provider")
            return
        sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "y")]
        graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "twice", sides[:1], sides[1:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        session = self.runtime.InferenceSession(model.SerializeToString(), providers=["CUDAExecutionProvider"])
        (found,) = session.run(None, {"x": np.ones(4, dtype=np.float32)})
        say(total=None, free=None, right=found.tolist() == [2.0] * 4, version=self.runtime.__version__)


class Transformers:
    """A small GPT-2 of Hugging Face's transformers, with random weights."""

    def __init__(self) -> None:
        import torch
        import transformers

        self.torch, self.transformers = torch, transformers

    def view(self) -> None:
        torch = self.torch
        config = self.transformers.GPT2Config(
            n_layer=2, n_head=4, n_embd=128, vocab_size=1000, bos_token_id=None, eos_token_id=None
        )
        model = self.transformers.GPT2LMHeadModel(config).to("cuda").eval()
        with torch.no_grad():
            out = model.generate(
                torch.ones((1, 4), dtype=torch.long, device="cuda"), max_new_tokens=4, do_sample=False, pad_token_id=0
            )
        free, total = torch.cuda.mem_get_info()
        say(total=total, free=free, right=tuple(out.shape) == (1, 8), version=self.transformers.__version__)


class Load:
    """A PyTorch load. One unit is one call of `unit`. A mark is an event behind some units."""

    device = "cuda"

    def __init__(self) -> None:
        import torch

        self.torch = torch
        torch.manual_seed(0)

    def unit(self) -> None:
        """Queue one unit of work."""
        raise NotImplementedError

    def wait(self) -> None:
        """Wait for all queued work."""
        self.torch.cuda.synchronize()

    def go(self, ms: int) -> None:
        """Work for `ms` milliseconds and answer with the marks."""
        began = time.monotonic_ns()
        marks, units, end = [[began, 0]], 0, began + ms * 1_000_000
        under_way: list[Any] = []
        while time.monotonic_ns() < end or under_way:
            if time.monotonic_ns() < end and len(under_way) < 3:
                self.unit()
                under_way.append(self.mark())
                continue
            under_way.pop(0).synchronize()
            units += 1
            marks.append([time.monotonic_ns(), units])
        say(marks=marks)

    def mark(self) -> Any:
        """Record an event behind all queued work."""
        event = self.torch.cuda.Event(blocking=True)
        event.record()
        return event

    def request(self, ms: int, every_us: int) -> None:
        """Run one unit every `every_us` microseconds, wait for each, and answer with their times."""
        due = time.monotonic_ns()
        end, found = due + ms * 1_000_000, []
        while time.monotonic_ns() < end:
            time.sleep(max(0, due - time.monotonic_ns()) / 1e9)
            began = time.monotonic_ns()
            self.unit()
            self.wait()
            found.append((time.monotonic_ns() - began) // 1000)
            due = max(due + every_us * 1000, time.monotonic_ns())
        say(us=found)

    def serve(self) -> None:
        """Warm up and answer commands."""
        for _ in range(5):
            self.unit()
        self.wait()
        say(ready=True)
        for line in sys.stdin:
            command, *numbers = line.split()
            {"go": self.go, "request": self.request}[command](*map(int, numbers))


class Matmul(Load):
    """A bf16 matrix product of some milliseconds."""

    def __init__(self, side: int = 4096) -> None:
        super().__init__()
        bf16 = self.torch.bfloat16
        self.a, self.b = (self.torch.randn(side, side, dtype=bf16, device=self.device) for _ in range(2))

    def unit(self) -> None:
        for _ in range(4):
            self.torch.mm(self.a, self.b)


class Decode(Load):
    """A transformer's decode loop with a KV cache. One unit is one token for each sequence of a batch.

    The model is so wide that the card is the bottleneck, not the launches. Otherwise it could do its share of work in
    less than its share of time.
    """

    def __init__(self, *, layers: int = 8, width: int = 4096, batch: int = 64) -> None:
        super().__init__()
        torch, heads, context = self.torch, width // 128, 512
        dtype, device = torch.bfloat16, self.device

        def weights(rows: int, columns: int) -> Any:
            return torch.randn(rows, columns, dtype=dtype, device=device) / columns**0.5

        self.shape = (batch, heads, 1, width // heads)
        self.layers = [
            {
                "qkv": weights(3 * width, width),
                "out": weights(width, width),
                "up": weights(4 * width, width),
                "down": weights(width, 4 * width),
                "keys": torch.randn(batch, heads, context, width // heads, dtype=dtype, device=device),
                "values": torch.randn(batch, heads, context, width // heads, dtype=dtype, device=device),
            }
            for _ in range(layers)
        ]
        self.vocabulary = weights(32000, width)
        self.token = torch.randn(batch, width, dtype=dtype, device=device)
        self.position = 0

    def unit(self) -> None:
        torch, functional = self.torch, self.torch.nn.functional
        with torch.no_grad():
            x = self.token
            at = self.position % self.layers[0]["keys"].shape[2]
            for layer in self.layers:
                parts = (functional.layer_norm(x, x.shape[-1:]) @ layer["qkv"].T).chunk(3, -1)
                q, k, v = (part.view(self.shape) for part in parts)
                layer["keys"][:, :, at : at + 1] = k
                layer["values"][:, :, at : at + 1] = v
                seen = functional.scaled_dot_product_attention(q, layer["keys"], layer["values"])
                x = x + seen.reshape(x.shape) @ layer["out"].T
                x = x + functional.gelu(functional.layer_norm(x, x.shape[-1:]) @ layer["up"].T) @ layer["down"].T
            best = (functional.layer_norm(x, x.shape[-1:]) @ self.vocabulary.T).argmax(-1)
            self.token = self.vocabulary[best]
            self.position += 1


class Train(Load):
    """A training step of a transformer encoder."""

    def __init__(self, *, layers: int = 4, width: int = 512, batch: int = 16) -> None:
        super().__init__()
        nn = self.torch.nn
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, dropout=0.0)
        self.model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(self.device)
        self.optimizer = self.torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.x = self.torch.randn(batch, 256, width, device=self.device)

    def unit(self) -> None:
        with self.torch.autocast(self.device, dtype=self.torch.bfloat16):
            loss = (self.model(self.x) - self.x).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


LIBRARIES: dict[str, Callable[[], Any]] = {
    "torch": Torch,
    "cupy": Cupy,
    "cupy-async": CupyAsync,
    "jax": Jax,
    "triton": Triton,
    "numba-cuda": Numba,
    "cuda-bindings": Bindings,
    "nvidia-ml-py": Nvml,
    "onnxruntime": OnnxRuntime,
    "transformers": Transformers,
    "matmul": Matmul,
    "decode": Decode,
    "train": Train,
}


def main() -> None:
    """Start a library and run the command."""
    name, what = sys.argv[1:]
    try:
        client = LIBRARIES[name]()
    except ImportError as error:
        say(missing=error.name or name)
        return
    getattr(client, what)()


if __name__ == "__main__":
    main()
