"""Makes generated/ from spec/: the tables, wrappers and stubs that nobody writes by hand.

    python gen/emit.py            rewrite generated/
    python gen/emit.py --check    fail with a diff when generated/ is not what spec/ says

Needs the standard library only.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTE = "/* Made by gen/emit.py from spec/; do not edit. */\n"

POLICIES = """\
/*
 * The functions that the generated wrappers call: one for each policy of spec/. A policy gets the hook that it was
 * called through and the wrapped function's arguments. It calls the driver's function of that hook once and returns the
 * driver's answer, or it refuses with CUDA_ERROR_OUT_OF_MEMORY. hami_call_<policy> calls the
 * driver's function of a hook.
 */
#ifndef HAMI_GENERATED_POLICIES_H
#define HAMI_GENERATED_POLICIES_H

#include "doors/calls.h"
#include "doors/hook.h"

"""

LIBRARIES = ("cuda", "nvml")
CLASSES = ("pass", "account", "enforce", "throttle", "translate")

C_TYPES = {
    "ptr": "void *",
    "i8": "int8_t ",
    "u8": "uint8_t ",
    "i16": "int16_t ",
    "u16": "uint16_t ",
    "i32": "int32_t ",
    "u32": "uint32_t ",
    "i64": "int64_t ",
    "u64": "uint64_t ",
    "f32": "float ",
    "f64": "double ",
    "void": "void ",
}

# What policies call the headers' pointers; all others are `void *` to them.
POINTERS = {
    "CUDA_ARRAY3D_DESCRIPTOR": "struct hami_array3d_descriptor *",
    "CUDA_EXTERNAL_MEMORY_HANDLE_DESC": "struct hami_external_memory *",
    "CUDA_LAUNCH_PARAMS": "struct hami_launch_params *",
    "CUarrayMapInfo": "struct hami_array_map *",
    "CUdeviceptr": "CUdeviceptr *",
    "CUdeviceptr_v1": "CUdeviceptr_v1 *",
    "CUlaunchConfig": "struct hami_launch_config *",
    "CUmemAllocationProp": "struct hami_allocation_prop *",
    "CUmemGenericAllocationHandle": "CUmemHandle *",
    "CUmemLocation": "const struct hami_mem_location *",
    "CUmemPoolProps": "struct hami_allocation_prop *",
    "CUmemPoolPtrExportData": "const void *",
    "char": "char *",
    "nvmlAccountingStats_t": "struct nvml_accounting *",
    "nvmlAccountingStats_v2_t": "struct nvml_accounting_v2 *",
    "nvmlMemory_t": "struct nvml_memory *",
    "nvmlMemory_v2_t": "struct nvml_memory_v2 *",
    "nvmlProcessDetailList_t": "struct nvml_process_details *",
    "nvmlProcessInfo_t": "struct nvml_process *",
    "nvmlProcessInfo_v2_t": "struct nvml_process *",
    "nvmlProcessUtilizationSample_t": "struct nvml_utilization_sample *",
    "nvmlProcessesUtilizationInfo_t": "struct nvml_utilization_infos *",
    "size_t": "size_t *",
    "unsigned int": "uint32_t *",
    "void*": "void **",
} | {
    f"CU{handle}": "void **"
    for handle in (
        *("array", "context", "externalMemory", "function", "graph", "graphExec", "greenCtx", "library"),
        *("memoryPool", "mipmappedArray", "module"),
    )
}


@dataclass(frozen=True)
class Symbol:
    """One exported function, as a line of the prototype table says."""

    name: str
    base: str
    since: int
    mode: str
    ret: str
    args: tuple[tuple[str, str], ...]
    types: tuple[str, ...]

    @property
    def params(self) -> str:
        """The C parameter list, in parentheses."""
        listed = ", ".join(c_type(kind) + name for kind, name in self.args)
        return f"({listed or 'void'})"

    @property
    def names(self) -> str:
        """The names of the arguments, separated by commas."""
        return ", ".join(name for _, name in self.args)


def c_type(kind: str) -> str:
    """Returns the C type of a kind, ending in a blank or star."""
    return f"struct hami_{kind} " if kind.startswith("bytes") else C_TYPES[kind]


def read_table(path: Path) -> list[Symbol]:
    """Reads a prototype table."""
    symbols = []
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        name, base, since, mode, _, ret, args = line.split("\t")
        listed = [] if args == "-" else [arg.split(":", 2) for arg in args.split("; ")]
        kinds, types = tuple((kind, name) for kind, name, _ in listed), tuple(arg[2] for arg in listed)
        symbols.append(Symbol(name, base, int(since), mode, ret, kinds, types))
    return symbols


def symbol_list(symbols: list[Symbol]) -> str:
    """Returns every symbol as SYMBOL(name, base, since, mode, result, (parameters)), for includers to define."""
    lines = [NOTE, "/* SYMBOL(name, base, since, mode, result type, (parameters)); see spec/ for the columns. */\n"]
    for s in symbols:
        mode = s.mode.upper() if s.mode != "-" else "LEGACY"
        lines.append(f"SYMBOL({s.name}, {s.base}, {s.since}, {mode}, {c_type(s.ret).strip()}, {s.params})\n")
    return "".join(lines)


@dataclass(frozen=True)
class Family:
    """Symbols that are treated alike: by a policy, or by C code before and after the driver's function.

    `before` is a statement, `refuse_if` a condition under which the driver is not called, `after` the answer. In them
    stand the symbol's arguments by their names, HOOK for its number, PER_THREAD for whether it works on the per-thread
    default stream, and in `after` `status` for the driver's answer.
    """

    name: str
    group: str
    reason: str
    symbols: tuple[str, ...]
    policy: str | None
    before: str | None
    refuse_if: str | None
    after: str | None


def read_families(path: Path) -> list[Family]:
    """Reads a classification; faults name the file and the family."""
    families = []
    for entry in tomllib.loads(path.read_text())["family"]:
        name, group = entry["name"], entry["class"]
        if group not in CLASSES:
            raise SystemExit(f"{path.name}: family {name}: class {group!r} is none of {', '.join(CLASSES)}")
        policy, before, refuse_if, after = (entry.get(key) for key in ("policy", "before", "refuse_if", "after"))
        if (group == "pass") != (policy is None and after is None) or (policy is not None and after is not None):
            raise SystemExit(
                f"{path.name}: family {name}: a class other than pass needs a policy or code to run after the driver's "
                "function, and pass has none"
            )
        families.append(Family(name, group, entry["reason"], tuple(entry["symbols"]), policy, before, refuse_if, after))
    return families


def check_families(path: Path, symbols: list[Symbol], families: list[Family]) -> None:
    """Fails unless every symbol has exactly one family."""
    seen: dict[str, str] = {}
    for family in families:
        for name in family.symbols:
            if name in seen:
                raise SystemExit(f"{path.name}: {name} is in families {seen[name]} and {family.name}")
            seen[name] = family.name
    exported = {symbol.name for symbol in symbols}
    missing, unknown = sorted(exported - seen.keys()), sorted(seen.keys() - exported)
    if missing:
        raise SystemExit(f"{path.name}: unclassified: {', '.join(missing)}")
    if unknown:
        raise SystemExit(f"{path.name}: not exported by any header version: {', '.join(unknown)}")


@dataclass(frozen=True)
class Hook:
    """A symbol that libvgpu.so wraps."""

    symbol: Symbol
    family: Family
    library: str


def hooks_of(library: str) -> list[Hook]:
    """Returns the wrapped symbols of one library, after checking its classification."""
    path = ROOT / f"spec/{library}.toml"
    symbols = read_table(ROOT / f"spec/{library}_prototypes.tsv")
    families = read_families(path)
    check_families(path, symbols, families)
    named = {name: family for family in families for name in family.symbols}
    return [Hook(s, named[s.name], library) for s in symbols if named[s.name].group != "pass"]


def calls_of(library: str) -> list[tuple[Symbol, str]]:
    """Returns the driver's functions that the library calls by itself, each with the expression that finds it."""
    wrapped = {hook.symbol.name for hook in hooks_of(library)}
    symbols = {symbol.name: symbol for symbol in read_table(ROOT / f"spec/{library}_prototypes.tsv")}
    names = tomllib.loads((ROOT / f"spec/{library}.toml").read_text())["calls"]
    if names != sorted(set(names)) or not symbols.keys() >= set(names):
        raise SystemExit(f"{library}.toml: calls is not a sorted list of exported functions")
    found = {name: f"hami_driver_function(HAMI_{name})" for name in wrapped}
    return [(symbols[name], found.get(name, f'hami_{library}_function("{name}")')) for name in names]


def call_head(symbol: Symbol) -> str:
    """Returns the head of the function that calls a driver's function."""
    listed = [kind + name for kind, (_, name) in zip(policy_types(symbol), symbol.args, strict=True)]
    return f"int32_t hami_call_{symbol.name}({', '.join(listed) or 'void'})"


def call_header() -> str:
    """Returns the prototypes of the functions that call the driver."""
    note = (
        "/*\n * Each function calls the driver's own function of its name. Where the driver has none, it answers\n"
        " * CUDA_ERROR_NOT_SUPPORTED or NVML_ERROR_FUNCTION_NOT_FOUND.\n */\n"
    )
    heads = [f"{call_head(symbol)};\n" for library in LIBRARIES for symbol, _ in calls_of(library)]
    guard = "HAMI_GENERATED_CALLS_H"
    include = '#include "cuda_abi.h"\n\n'
    return "".join([NOTE, f"#ifndef {guard}\n#define {guard}\n\n", include, note, *heads, "\n#endif\n"])


def call_source() -> str:
    """Returns the functions that call the driver: each finds its function once."""
    lines = [NOTE, '#include "doors/calls.h"\n\n#include "doors/hook.h"\n\n']
    absent = {"cuda": "CUDA_ERROR_NOT_SUPPORTED", "nvml": "NVML_ERROR_FUNCTION_NOT_FOUND"}
    for library in LIBRARIES:
        for symbol, found in calls_of(library):
            types = ", ".join(kind.strip() for kind in policy_types(symbol)) or "void"
            call = f"driver({symbol.names})"
            if not found.startswith("hami_driver"):
                call = f"driver == NULL ? {absent[library]} : {call}"
            lines += [f"{call_head(symbol)} {{\n    int32_t (*driver)({types}) = {found};\n    return {call};\n}}\n\n"]
    return "".join(lines).removesuffix("\n")


def hook_header(hooks: list[Hook]) -> str:
    """Returns the enumeration of hooks, in the order of their names."""
    cuda = sum(hook.library == "cuda" for hook in hooks)
    lines = [NOTE, "#ifndef HAMI_GENERATED_HOOKS_H\n#define HAMI_GENERATED_HOOKS_H\n\nenum hami_hook {\n"]
    lines += [f"    HAMI_{hook.symbol.name},\n" for hook in hooks]
    lines += ["    HAMI_HOOKS\n};\n\n"]
    lines += [
        f"/* CUDA hooks come first, in the order of their names; NVML's follow. */\n#define HAMI_CUDA_HOOKS {cuda}\n"
    ]
    return "".join([*lines, "\n#endif\n"])


def policy_types(symbol: Symbol) -> list[str]:
    """Returns the types in which a policy takes a symbol's arguments, each ending in a blank or star."""
    types = []
    for (kind, _), written in zip(symbol.args, symbol.types, strict=True):
        constant = "const " if written.startswith("const ") else ""
        pointed = written.removeprefix("const ").removesuffix("*") if written.endswith("*") else ""
        types.append(constant + POINTERS.get(pointed, "void *") if kind == "ptr" else c_type(kind))
    return types


def merged_types(hooks: list[Hook]) -> dict[str, tuple[Symbol, list[str]]]:
    """Returns each policy's first symbol and types; where its symbols point to different things it gets `void *`."""
    policies: dict[str, tuple[Symbol, list[str]]] = {}
    for hook in hooks:
        if hook.family.policy is None:
            continue
        types = policy_types(hook.symbol)
        first, before = policies.setdefault(hook.family.policy, (hook.symbol, types))
        if [kind for kind, _ in first.args] != [kind for kind, _ in hook.symbol.args]:
            raise SystemExit(f"{hook.symbol.name}: policy {hook.family.policy} has other arguments for {first.name}")
        for i, (old, new) in enumerate(zip(before, types, strict=True)):
            before[i] = old if old == new else ("const " if old.startswith("const ") else "") + "void *"
    return policies


def policy_header(hooks: list[Hook]) -> str:
    """Returns the policies' prototypes and, for each, the call of the driver's function of a hook."""
    policies = merged_types(hooks)
    lines = [NOTE, POLICIES]
    for policy, (symbol, types) in policies.items():
        listed = [kind + name for kind, (_, name) in zip(types, symbol.args, strict=True)]
        params = ", ".join(["enum hami_hook hook", *listed])
        types_only = ", ".join(kind.strip() for kind in types) or "void"
        lines += [
            f"int32_t hami_{policy}({params});\n",
            f"static inline int32_t hami_call_{policy}({params}) {{\n",
            f"    int32_t (*driver)({types_only}) = hami_driver_function(hook);\n",
            f"    return driver({symbol.names});\n}}\n\n",
        ]
    return "".join([*lines, "#endif\n"])


def wrapper_body(hook: Hook) -> list[str]:
    """Returns the lines of a symbol's wrapper."""
    s, family = hook.symbol, hook.family
    if family.after is None:
        return [f"return hami_{family.policy}({', '.join([f'HAMI_{s.name}', *([s.names] if s.names else [])])});"]
    types = ", ".join(kind.strip() for kind in policy_types(s)) or "void"
    lines = [f"{c_type(s.ret)}(*driver)({types}) = hami_driver_function(HAMI_{s.name});"]
    if family.before is not None:
        lines.append(f"{family.before};")
    if family.refuse_if is not None:
        lines += [f"if ({family.refuse_if}) {{", "    return CUDA_ERROR_OUT_OF_MEMORY;", "}"]
    lines += [f"{c_type(s.ret)}status = driver({s.names});", f"return {family.after};"]
    words = {"HOOK": f"HAMI_{s.name}", "PER_THREAD": "true" if s.mode != "-" else "false"}
    return [re.sub(r"\b(HOOK|PER_THREAD)\b", lambda found: words[found[0]], line) for line in lines]


def hook_source(hooks: list[Hook]) -> str:
    """Returns the wrappers and the table of names."""
    rooms = ("compute/compute", "memory/around", "memory/graph", "memory/records", "memory/stream_pool")
    headers = (*(f"{room}.h" for room in rooms), "policies.h")
    lines = [NOTE, *(f'#include "{header}"\n' for header in headers), "\n"]
    for hook in hooks:
        s = hook.symbol
        listed = [kind + name for kind, (_, name) in zip(policy_types(s), s.args, strict=True)]
        head = f"{c_type(s.ret)}{s.name}({', '.join(listed) or 'void'})"
        body = "".join(f"    {line}\n" for line in wrapper_body(hook))
        lines += [f"HAMI_EXPORT {head};\n{head} {{\n{body}}}\n\n"]
    lines += ["const struct hami_hook_entry hami_hooks[HAMI_HOOKS] = {\n"]
    for hook in hooks:
        s = hook.symbol
        per_thread = "true" if s.mode != "-" else "false"
        lines += [f'    {{"{s.name}", "{s.base}", (void *){s.name}, {s.since}, {per_thread}}},\n']
    return "".join([*lines, "};\n"])


def coverage(library: str, title: str) -> list[str]:
    """Returns the rows of the coverage page for one library."""
    families = read_families(ROOT / f"spec/{library}.toml")
    lines = [f"\n## {title}\n\n| family | class | wrapped | symbols | why |\n| --- | --- | --- | ---: | --- |\n"]
    for family in families:
        wrapped = "no" if family.group == "pass" else "yes"
        lines.append(f"| {family.name} | {family.group} | {wrapped} | {len(family.symbols)} | {family.reason} |\n")
    return lines


def coverage_page() -> str:
    """Returns docs/reference/interposer-coverage.md."""
    head = (
        "# Interposer coverage\n\n"
        "Every symbol that the CUDA driver (11.8 to 13.5) and NVML export belongs to a family, and each family has\n"
        "one class. `interpose/gen/emit.py` makes this page and the wrappers from the same tables, `interpose/spec/`,\n"
        "which list each family's symbols.\n\n"
        "| class | what the interposer does |\n| --- | --- |\n"
        "| pass | nothing: programs call the driver's own function |\n"
        "| translate | answers with the container's figures, or with a wrapper, in place of the driver's |\n"
        "| account | keeps the account right when memory is shared, moves or comes back; may refuse an import |\n"
        "| enforce | refuses what would exceed the memory limit |\n"
        "| throttle | lets a launch wait for device time |\n"
    )
    return "".join([head, *coverage("cuda", "CUDA driver"), *coverage("nvml", "NVML")])


def generate() -> dict[Path, str]:
    """Returns file → content of everything that is made from spec/."""
    hooks = hooks_of("cuda") + hooks_of("nvml")
    made = ROOT / "generated"
    files = {
        made / f"{lib}_symbols.def": symbol_list(read_table(ROOT / f"spec/{lib}_prototypes.tsv")) for lib in LIBRARIES
    }
    files[made / "hooks.h"] = hook_header(hooks)
    files[made / "policies.h"] = policy_header(hooks)
    files[made / "doors/calls.h"] = call_header()
    files[made / "doors/calls.c"] = call_source()
    files[made / "hooks.c"] = hook_source(hooks)
    files[ROOT.parent / "docs/reference/interposer-coverage.md"] = coverage_page()
    return files


def update(files: dict[Path, str], *, check: bool) -> int:
    """Writes files, or compares them and shows what differs; returns the exit status."""
    stale = 0
    for path, content in files.items():
        name = path.relative_to(ROOT.parent)
        if not path.parent.is_dir():
            continue  # built from an sdist: the documentation is elsewhere
        found = path.read_text() if path.exists() else ""
        if found == content:
            continue
        stale = 1
        if check:
            diff = difflib.unified_diff(found.splitlines(), content.splitlines(), str(name), "generated", lineterm="")
            sys.stderr.write("\n".join([*diff, ""]))
        else:
            path.write_text(content)
    return stale if check else 0


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    return update(generate(), check=parser.parse_args().check)


if __name__ == "__main__":
    raise SystemExit(main())
