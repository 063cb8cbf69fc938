"""Writes the exported functions of the simulated libraries into ``generated/``.

    python gpusim/gen_stubs.py [--check]

The names come from the prototype tables ``spec/*_prototypes.tsv``. A function is implemented if one of our C files
defines ``sim_<name>``; its wrapper looks for injected faults and calls it. A ``_ptsz`` or ``_ptds`` variant of it calls
it with the per-thread stream in place of the default one. Every other exported name answers "not supported".
``--check`` writes nothing and fails if a file would change.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SPEC = HERE.parent / "spec"
NOTE = "/* Written by gpusim/gen_stubs.py. Do not edit. */\n"
C_NOTE = NOTE + "/* clang-format off */\n"
DEFINITION = re.compile(
    r"^(CUresult|nvmlReturn_t|const char \*)\s*sim_((?:cu|nvml)[A-Z]\w+)\(([^{;]*?)\)\s*\{", re.MULTILINE | re.DOTALL
)
SCALAR = re.compile(r"^SIM_SCALAR\((nvml\w+),", re.MULTILINE)

# Older exported names whose arguments are those of a newer one.
SAME_AS = {
    "cuCtxCreate": "cuCtxCreate_v2",
    "cuCtxDestroy": "cuCtxDestroy_v2",
    "cuCtxPopCurrent": "cuCtxPopCurrent_v2",
    "cuCtxPushCurrent": "cuCtxPushCurrent_v2",
    "cuDevicePrimaryCtxRelease": "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxReset": "cuDevicePrimaryCtxReset_v2",
    "cuDevicePrimaryCtxSetFlags": "cuDevicePrimaryCtxSetFlags_v2",
    "cuEventDestroy": "cuEventDestroy_v2",
    "cuGetProcAddress_v2_ptsz": "cuGetProcAddress_v2_ptsz",
    "cuIpcOpenMemHandle": "cuIpcOpenMemHandle_v2",
    "cuLinkAddData": "cuLinkAddData_v2",
    "cuLinkAddFile": "cuLinkAddFile_v2",
    "cuLinkCreate": "cuLinkCreate_v2",
    "cuMemHostRegister": "cuMemHostRegister_v2",
    "cuStreamBeginCapture": "cuStreamBeginCapture_v2",
    "cuStreamDestroy": "cuStreamDestroy_v2",
    "nvmlDeviceGetCount": "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex": "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByPciBusId": "nvmlDeviceGetHandleByPciBusId_v2",
    "nvmlEventSetWait": "nvmlEventSetWait_v2",
    "nvmlInit": "nvmlInit_v2",
}


# What a suspended process may call all the same: nothing of it concerns a device.
UNGATED = re.compile(
    r"cuCheckpoint|cuInit$|cuDriverGetVersion$|cuGetError|cuGetProcAddress|cuGetExportTable$|cuDeviceGetCount$"
)

# How a call's parameter tells the card that it concerns.
DEVICES = {
    r"(CUdevice|nvmlDevice_t) \w+$": "SIM_DEVICE",
    r"unsigned index$": "SIM_INDEX_DEVICE",
    r"nvmlGpuInstance_t \w+$": "SIM_GPU_INSTANCE_DEVICE",
    r"nvmlComputeInstance_t \w+$": "SIM_COMPUTE_INSTANCE_DEVICE",
    r"nvmlEventSet_t \w+$": "SIM_EVENT_SET_DEVICE",
}


@dataclass(frozen=True)
class Symbol:
    """One exported name, from the prototype table."""

    name: str
    base: str
    since: int
    mode: str


@dataclass(frozen=True)
class Definition:
    """One implemented function, from our C files."""

    result: str
    name: str
    parameters: tuple[str, ...]

    @property
    def arguments(self) -> list[str]:
        """The parameters' names."""
        return [re.findall(r"\w+", p.split("[")[0])[-1] for p in self.parameters]


def symbols(table: str) -> list[Symbol]:
    """The exported names of one library."""
    rows = (r.split("\t") for r in (SPEC / table).read_text().splitlines() if r and not r.startswith("#"))
    return sorted((Symbol(r[0], r[1], int(r[2]), r[3]) for r in rows), key=lambda s: s.name)


def definitions(folder: str) -> dict[str, Definition]:
    """The functions implemented in one folder, by exported name."""
    found = {}
    for path in sorted((HERE / "src" / folder).glob("*.c")):
        content = path.read_text()
        for name in SCALAR.findall(content):
            found[name] = Definition("nvmlReturn_t", name, ("nvmlDevice_t device", "unsigned *value"))
        for result, name, text in DEFINITION.findall(content):
            parameters = tuple(" ".join(p.split()) for p in text.split(",") if p.strip() not in {"", "void"})
            found[name] = Definition(result, name, parameters)
    return found


def fnv1a(name: str) -> int:
    """64-bit FNV-1a, as faults name their symbol."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def hashes(symbol: Symbol) -> str:
    """C text of what faults know a symbol by."""
    return f"{fnv1a(symbol.name):#018x}ull, {fnv1a(symbol.base):#018x}ull"


def chosen(symbol: Symbol, defined: dict[str, Definition]) -> tuple[Definition, bool] | None:
    """What an exported name calls, and whether with the per-thread stream."""
    for name, threaded in ((symbol.name, False), (re.sub(r"_pt[sd][sz]$", "", symbol.name), True)):
        found = defined.get(name) or defined.get(SAME_AS.get(name, ""))
        if found:
            return found, threaded and symbol.mode == "ptsz"
    return None


def device_of(definition: Definition) -> str:
    """Expression for the device a call concerns, for faults on the k-th device."""
    for parameter, argument in zip(definition.parameters, definition.arguments, strict=True):
        for pattern, macro in DEVICES.items():
            if re.match(pattern, parameter):
                return f"{macro}({argument})"
    return "SIM_CALLER_DEVICE"


def wrapper(symbol: Symbol, defined: dict[str, Definition], result: str, unsupported: str) -> str:
    """C text of one exported function."""
    found = chosen(symbol, defined)
    if found is None:
        return (
            f"SIM_EXPORT {result} {symbol.name}(void) {{\n"
            f"    SIM_FAULTS({hashes(symbol)}, SIM_CALLER_DEVICE);\n    return {unsupported};\n}}\n"
        )
    definition, threaded = found
    passed = [
        f"SIM_PER_THREAD({a})" if threaded and re.match(r"CUstream \w+$", p) else a
        for p, a in zip(definition.parameters, definition.arguments, strict=True)
    ]
    device = device_of(definition)
    faults = "SIM_EVENT_SET_FAULTS" if device.startswith("SIM_EVENT_SET_DEVICE") else "SIM_FAULTS"
    check = f"    {faults}({hashes(symbol)}, {device});\n" if definition.result == result else ""
    space = "" if definition.result.endswith("*") else " "
    call = f"sim_{definition.name}({', '.join(passed)})"
    if result == "CUresult" and not UNGATED.match(symbol.name):
        call = f"SIM_GATED({call})"
    return (
        f"SIM_EXPORT {definition.result}{space}{symbol.name}({', '.join(definition.parameters) or 'void'}) {{\n"
        f"{check}    return {call};\n}}\n"
    )


def prototypes(defined: dict[str, Definition], guard: str, include: str) -> str:
    """Header with the implemented functions."""
    lines = [
        f"{d.result}{'' if d.result.endswith('*') else ' '}sim_{d.name}({', '.join(d.parameters) or 'void'});\n"
        for d in sorted(defined.values(), key=lambda d: d.name)
    ]
    return f'{C_NOTE}#ifndef {guard}\n#define {guard}\n\n#include "{include}"\n\n{"".join(lines)}\n#endif\n'


def version_script(names: list[str]) -> str:
    """Linker script: these names and no others."""
    return NOTE + "{\n    global:\n" + "".join(f"        {n};\n" for n in names) + "    local:\n        *;\n};\n"


def exports(rows: list[Symbol], defined: dict[str, Definition], result: str, unsupported: str, head: str) -> str:
    """All exported functions of one library."""
    return C_NOTE + head + "\n" + "\n".join(wrapper(s, defined, result, unsupported) for s in rows)


def entries(rows: list[Symbol]) -> str:
    """The table behind cuGetProcAddress: by base name, then version, plain before per-thread."""
    listed = sorted((s for s in rows if s.since), key=lambda s: (s.base, s.since, s.mode != "-", s.name))
    lines = [f'    {{"{s.base}", (void *){s.name}, {s.since}, {int(s.mode != "-")}}},\n' for s in listed]
    return (
        "\nconst struct sim_entry sim_entries[] = {\n" + "".join(lines) + "};\n"
        f"const size_t sim_entry_count = {len(lines)};\n"
    )


def errors(table: str) -> str:
    """The table behind cuGetErrorName, cuGetErrorString and nvmlErrorString."""
    rows = [r.split("\t") for r in (HERE / "data" / table).read_text().splitlines() if not r.startswith("#")]
    lines = "".join(f'    {{{value}, "{name}", "{text}"}},\n' for value, name, text in rows)
    return f"\nconst struct sim_error sim_errors[] = {{\n{lines}}};\nconst size_t sim_error_count = {len(rows)};\n"


def generate() -> dict[str, str]:
    """File name → content."""
    cuda, nvml = symbols("cuda_prototypes.tsv"), symbols("nvml_prototypes.tsv")
    cuda_defined, nvml_defined = definitions("cuda"), definitions("nvml")
    for rows, defined in ((cuda, cuda_defined), (nvml, nvml_defined)):
        unknown = defined.keys() - {s.name for s in rows}
        if unknown:
            sys.exit(f"gen_stubs: implemented, but in no header: {', '.join(sorted(unknown))}")
    return {
        "cuda_impl.h": prototypes(cuda_defined, "SIM_CUDA_IMPL_H", "cuda_abi.h"),
        "cuda_exports.c": exports(
            cuda, cuda_defined, "CUresult", "CUDA_ERROR_NOT_SUPPORTED", '#include "cuda_export.h"\n'
        )
        + entries(cuda)
        + errors("cuda_errors.tsv"),
        "cuda.map": version_script([s.name for s in cuda]),
        "nvml_impl.h": prototypes(nvml_defined, "SIM_NVML_IMPL_H", "nvml_abi.h"),
        "nvml_exports.c": exports(
            nvml, nvml_defined, "nvmlReturn_t", "NVML_ERROR_NOT_SUPPORTED", '#include "nvml_export.h"\n'
        )
        + errors("nvml_errors.tsv"),
        "nvml.map": version_script([s.name for s in nvml]),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if a generated file is out of date")
    check = parser.parse_args().check
    stale = []
    for name, content in generate().items():
        path = HERE / "generated" / name
        if not path.exists() or path.read_text() != content:
            stale.append(name)
            if not check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(content)
    if check and stale:
        sys.exit(f"gen_stubs: out of date: {', '.join(stale)}; run gpusim/gen_stubs.py")


if __name__ == "__main__":
    main()
