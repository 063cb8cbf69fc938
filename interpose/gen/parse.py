"""Reads NVIDIA's headers and writes the prototype tables that everything else is generated from.

    python gen/parse.py --cuda 11.8=DIR --cuda 12.9=DIR --cuda 13.5=DIR --nvml 12.9=DIR --nvml 13.5=DIR

Each DIR is an include folder of the PyPI wheels ``nvidia-cuda-runtime`` (13.x), ``-cu12``, ``-cu11`` and
``nvidia-nvml-dev`` (13.x), ``-cu12``. They are needed only for this step and are never copied: what is kept is
the names, the versions and the argument types of the exported functions, as data (``spec/*_prototypes.tsv``;
its columns are described at its top). Needs pycparser and a C preprocessor (``cc -E``).
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from pycparser import c_ast, c_parser  # type: ignore[import-untyped]

SPEC = Path(__file__).resolve().parent.parent / "spec"

COLUMNS = """\
# Prototypes of every function that {library} exports, from NVIDIA's headers {versions} (written by gen/parse.py).
#
# One line a symbol, columns separated by one tab:
#   name     exported symbol
#   base     name that programs ask cuGetProcAddress for (NVML: name without _vN)
#   since    first CUDA version of this variant, as cuGetProcAddress counts (3020 = 3.2); 0 = unknown or NVML
#   mode     "-", or the per-thread-default-stream variants: ptsz, ptds
#   headers  versions of the headers it is declared in, joined by commas
#   ret      kind of the result
#   args     "-", or kind:name:ctype joined by "; " (ctype: the header's type, for readers; blanks removed)
#
# Kinds (x86-64 and aarch64 calling conventions): ptr = any pointer or opaque handle; i32 u32 i64 u64 (size_t,
# CUdeviceptr: u64; enumerations: i32); i16 u16 i8 u8; f32 f64; bytesN = a structure of N bytes by value; void.
"""

STUBS = {
    "stdlib.h": "typedef unsigned long size_t;",
    "stddef.h": "typedef unsigned long size_t;",
    "stdint.h": "typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;"
    "typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;"
    "typedef unsigned long uint64_t; typedef long intptr_t; typedef unsigned long uintptr_t;",
    "GL/gl.h": "typedef unsigned int GLenum; typedef unsigned int GLuint;",
    "EGL/egl.h": "typedef int EGLint; typedef void *EGLDisplay;",
    "EGL/eglext.h": "typedef void *EGLImageKHR; typedef void *EGLStreamKHR; typedef void *EGLSyncKHR;",
    "vdpau/vdpau.h": "typedef unsigned int VdpDevice; typedef int VdpStatus; typedef unsigned int VdpFuncId;"
    "typedef unsigned int VdpVideoSurface; typedef unsigned int VdpOutputSurface;"
    "typedef void VdpGetProcAddress;",
}

# Exported by the libraries, declared in no header of the wheels. Columns: name, args, headers.
UNDECLARED = {
    "cuGetProcAddress_v2_ptsz": "ptr:symbol:const char*; ptr:pfn:void**; i32:cudaVersion:int; "
    "u64:flags:cuuint64_t; ptr:symbolStatus:CUdriverProcAddressQueryResult*",
    "cuProfilerInitialize": "ptr:configFile:const char*; ptr:outputFile:const char*; i32:outputMode:CUoutput_mode",
    "cuProfilerStart": "-",
    "cuProfilerStop": "-",
    "nvmlGetBlacklistDeviceCount": "ptr:deviceCount:unsigned int*",
    "nvmlGetBlacklistDeviceInfoByIndex": "u32:index:unsigned int; ptr:info:nvmlExcludedDeviceInfo_t*",
    "nvmlInternalGetExportTable": "ptr:table:const void**; ptr:id:const void*",
}

SCALARS = {
    "char": ("i8", 1),
    "signed char": ("i8", 1),
    "unsigned char": ("u8", 1),
    "short": ("i16", 2),
    "unsigned short": ("u16", 2),
    "int": ("i32", 4),
    "unsigned int": ("u32", 4),
    "unsigned": ("u32", 4),
    "long": ("i64", 8),
    "unsigned long": ("u64", 8),
    "long long": ("i64", 8),
    "unsigned long long": ("u64", 8),
    "float": ("f32", 4),
    "double": ("f64", 8),
    "void": ("void", 0),
}


@dataclass
class Prototype:
    """One exported function and the headers that declare it."""

    name: str
    ret: str
    args: str
    headers: list[str] = field(default_factory=list)


def preprocess(header: str, folder: Path, defines: list[str]) -> str:
    """Returns `header` of `folder` as one text without directives; system headers are our few typedefs."""
    with tempfile.TemporaryDirectory() as stubs:
        for name, text in STUBS.items():
            path = Path(stubs) / name
            path.parent.mkdir(exist_ok=True)
            guard = re.sub(r"\W", "_", name).upper()
            path.write_text(f"#ifndef HAMI_{guard}\n#define HAMI_{guard}\n{text}\n#endif\n")
        (Path(stubs) / "stdlib.h").write_text('#include "stddef.h"\n')
        command = ["cc", "-E", "-P", "-nostdinc", "-x", "c", f"-I{stubs}", f"-I{folder}"]
        command += ["-D__attribute__(x)=", "-D__declspec(x)=", "-D__inline__=", "-D__GNUC__=4"]
        command += [f"-D{define}" for define in defines] + ["-"]
        first = "#include <cuda.h>\n" if header.startswith("cuda") else ""
        first += "#include <vdpau/vdpau.h>\n" if "VDPAU" in header else ""
        text = f"{first}#include <{header}>\n"
        return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


class Types:
    """The typedefs and structures of one translation unit, enough to say how an argument is passed."""

    def __init__(self, unit: c_ast.FileAST) -> None:
        self.typedefs: dict[str, c_ast.Node] = {}
        self.structs: dict[str, c_ast.Node] = {}
        for node in unit.ext:
            if isinstance(node, c_ast.Typedef):
                self.typedefs[node.name] = node.type
            self._note(node)

    def _note(self, node: c_ast.Node) -> None:
        if isinstance(node, c_ast.Struct | c_ast.Union) and node.decls and node.name:
            self.structs[node.name] = node
        for _, child in node.children():
            self._note(child)

    def layout(self, node: c_ast.Node) -> tuple[str, int, int]:
        """Returns kind, size and alignment in bytes of a type."""
        if isinstance(node, c_ast.TypeDecl):
            return self.layout(node.type)
        if isinstance(node, c_ast.PtrDecl | c_ast.FuncDecl):
            return "ptr", 8, 8
        if isinstance(node, c_ast.Enum):
            return "i32", 4, 4
        if isinstance(node, c_ast.ArrayDecl):
            _, size, align = self.layout(node.type)
            return "ptr", size * constant(node.dim), align
        if isinstance(node, c_ast.IdentifierType):
            name = " ".join(node.names)
            if name in self.typedefs:
                return self.layout(self.typedefs[name])
            kind, size = SCALARS[name]
            return kind, size, max(size, 1)
        if isinstance(node, c_ast.Struct | c_ast.Union):
            return self._structure(node)
        raise TypeError(f"cannot lay out {type(node).__name__}")

    def _structure(self, node: c_ast.Node) -> tuple[str, int, int]:
        members = node.decls or getattr(self.structs.get(node.name), "decls", None)
        if not members:
            return "ptr", 8, 8
        offset, widest, largest = 0, 1, 0
        for member in members:
            _, size, align = self.layout(member.type)
            offset = (offset + align - 1) // align * align + size
            widest, largest = max(widest, align), max(largest, size)
        total = largest if isinstance(node, c_ast.Union) else offset
        total = (total + widest - 1) // widest * widest
        return f"bytes{total}", total, widest

    def kind(self, node: c_ast.Node) -> str:
        """Returns the kind of one argument or result."""
        return self.layout(node)[0]


def constant(node: c_ast.Node | None) -> int:
    """Evaluates an array bound; unbounded arrays are pointers and count as one."""
    if node is None:
        return 1
    if isinstance(node, c_ast.Constant):
        return int(node.value.rstrip("uUlL"), 0)
    if isinstance(node, c_ast.BinaryOp):
        left, right = constant(node.left), constant(node.right)
        return {"+": left + right, "-": left - right, "*": left * right, "/": left // max(right, 1)}[node.op]
    return 1


def spelled(node: c_ast.Node) -> str:
    """Returns the type as the header spells it, without blanks that carry no meaning."""
    if isinstance(node, c_ast.TypeDecl):
        inner = node.type
        names = " ".join(inner.names) if isinstance(inner, c_ast.IdentifierType) else f"{inner.name}"
        return " ".join([*node.quals, names])
    if isinstance(node, c_ast.PtrDecl):
        return "function*" if isinstance(node.type, c_ast.FuncDecl) else spelled(node.type) + "*"
    if isinstance(node, c_ast.ArrayDecl):
        return spelled(node.type) + "*"
    return "void"


def functions(unit: c_ast.FileAST, prefix: str) -> dict[str, Prototype]:
    """Returns the functions of a translation unit whose names start with `prefix`."""
    types, found = Types(unit), {}
    for node in unit.ext:
        declared = node.decl if isinstance(node, c_ast.FuncDef) else node
        if not isinstance(declared, c_ast.Decl) or not isinstance(declared.type, c_ast.FuncDecl):
            continue
        if isinstance(node, c_ast.FuncDef) or not declared.name.startswith(prefix):
            continue
        listed = declared.type.args.params if declared.type.args else []
        args = [
            f"{types.kind(p.type)}:{p.name or f'a{i}'}:{spelled(p.type)}"
            for i, p in enumerate(listed)
            if types.kind(p.type) != "void"
        ]
        found[declared.name] = Prototype(declared.name, types.kind(declared.type.type), "; ".join(args) or "-")
    return found


def parse_header(header: str, folder: Path, prefix: str, defines: list[str]) -> dict[str, Prototype]:
    """Parses one header with one set of macros."""
    return functions(c_parser.CParser().parse(preprocess(header, folder, defines)), prefix)


def versions(folder: Path) -> dict[str, tuple[str, int, str]]:
    """Reads export name → (base, since, mode) from the PFN_* names of cudaTypedefs.h and its companions."""
    known: dict[str, tuple[str, int, str]] = {}
    for path in folder.glob("cuda*Typedefs.h"):
        for match in re.finditer(r"\(CUDAAPI \*PFN_(cu\w+?)_v(\d+)(?:_(ptsz|ptds))?\)", path.read_text()):
            base, since, mode = match[1], int(match[2]), match[3] or "-"
            known[f"{base}|{since}|{mode}"] = (base, since, mode)
    return known


def variant(name: str) -> tuple[str, int, str]:
    """Splits an exported name into base, number of its _vN suffix (1 if none) and stream mode."""
    match = re.fullmatch(r"(\w+?)(?:_v(\d+))?(?:_(ptsz|ptds))?", name)
    if match is None:
        raise ValueError(f"not a symbol name: {name!r}")
    return match[1], int(match[2] or 1), match[3] or "-"


def since_of(names: list[str], known: dict[str, tuple[str, int, str]]) -> dict[str, int]:
    """Pairs each variant of a base with its version: the k-th oldest _vN has the k-th oldest version."""
    result: dict[str, int] = {}
    families: dict[tuple[str, str], list[str]] = {}
    for name in names:
        base, _, mode = variant(name)
        families.setdefault((base, mode), []).append(name)
    for (base, mode), members in families.items():
        dates = sorted(v for b, v, m in known.values() if (b, m) == (base, mode))
        members.sort(key=lambda n: variant(n)[1])
        for position, name in enumerate(reversed(members)):
            result[name] = dates[-1 - position] if position < len(dates) else 0
    return result


def gather(sources: list[str], headers: list[str], prefix: str, modes: list[list[str]]) -> dict[str, Prototype]:
    """Parses `headers` of all sources; the newest declaration of a name wins, all are remembered."""
    merged: dict[str, Prototype] = {}
    for source in sources:
        label, _, folder = source.partition("=")
        for header in headers:
            if not (Path(folder) / header).exists():
                continue
            for defines in modes:
                for name, found in parse_header(header, Path(folder), prefix, defines).items():
                    found.headers = merged[name].headers if name in merged else []
                    if label not in found.headers:
                        found.headers.append(label)
                    merged[name] = found
    for name, args in UNDECLARED.items():
        if name.startswith(prefix):
            merged.setdefault(name, Prototype(name, "i32", args, ["none"]))
    return merged


def write(path: Path, library: str, sources: list[str], rows: list[list[str]]) -> None:
    """Writes a table with its head."""
    labels = ", ".join(source.partition("=")[0] for source in sources)
    lines = [COLUMNS.format(library=library, versions=labels)]
    lines += ["\t".join(row) + "\n" for row in sorted(rows)]
    path.write_text("".join(lines))
    sys.stdout.write(f"{path}: {len(rows)} symbols\n")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuda", action="append", default=[], metavar="VERSION=DIR")
    parser.add_argument("--nvml", action="append", default=[], metavar="VERSION=DIR")
    options = parser.parse_args()
    cuda_headers = ["cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h", "cudaProfiler.h"]
    modes = [[], ["__CUDA_API_VERSION_INTERNAL"], ["CUDA_API_PER_THREAD_DEFAULT_STREAM"]]
    cuda = gather(options.cuda, cuda_headers, "cu", modes)
    known: dict[str, tuple[str, int, str]] = {}
    for source in options.cuda:
        known |= versions(Path(source.partition("=")[2]))
    since = since_of(list(cuda), known)
    rows = []
    for name, found in cuda.items():
        base, _, mode = variant(name)
        rows.append([name, base, str(since[name]), mode, ",".join(found.headers), found.ret, found.args])
    write(SPEC / "cuda_prototypes.tsv", "libcuda.so.1", options.cuda, rows)
    nvml = gather(options.nvml, ["nvml.h"], "nvml", [[], ["NVML_NO_UNVERSIONED_FUNC_DEFS"]])
    rows = [[n, variant(n)[0], "0", "-", ",".join(p.headers), p.ret, p.args] for n, p in nvml.items()]
    write(SPEC / "nvml_prototypes.tsv", "libnvidia-ml.so.1", options.nvml, rows)


if __name__ == "__main__":
    main()
