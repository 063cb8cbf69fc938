"""Makes generated/ from spec/: the tables, wrappers and stubs that nobody writes by hand.

    python gen/emit.py            rewrite generated/
    python gen/emit.py --check    fail with a diff when generated/ is not what spec/ says

Needs the standard library only.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTE = "/* Made by gen/emit.py from spec/; do not edit. */\n"

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


@dataclass(frozen=True)
class Symbol:
    """One exported function, as a line of the prototype table says."""

    name: str
    base: str
    since: int
    mode: str
    ret: str
    args: tuple[tuple[str, str], ...]

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
        listed = [] if args == "-" else [tuple(arg.split(":")[:2]) for arg in args.split("; ")]
        symbols.append(Symbol(name, base, int(since), mode, ret, tuple((k, n) for k, n in listed)))
    return symbols


def symbol_list(symbols: list[Symbol]) -> str:
    """Returns every symbol as SYMBOL(name, base, since, mode, result, (parameters)), for includers to define."""
    lines = [NOTE, "/* SYMBOL(name, base, since, mode, result type, (parameters)); see spec/ for the columns. */\n"]
    for s in symbols:
        mode = s.mode.upper() if s.mode != "-" else "LEGACY"
        lines.append(f"SYMBOL({s.name}, {s.base}, {s.since}, {mode}, {c_type(s.ret).strip()}, {s.params})\n")
    return "".join(lines)


def generate() -> dict[str, str]:
    """Returns file name → content of generated/."""
    cuda = read_table(ROOT / "spec/cuda_prototypes.tsv")
    nvml = read_table(ROOT / "spec/nvml_prototypes.tsv")
    return {"cuda_symbols.def": symbol_list(cuda), "nvml_symbols.def": symbol_list(nvml)}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    stale = 0
    for name, content in generate().items():
        path = ROOT / "generated" / name
        found = path.read_text() if path.exists() else ""
        if found == content:
            continue
        stale = 1
        if check:
            diff = difflib.unified_diff(found.splitlines(), content.splitlines(), f"generated/{name}", "spec", lineterm="")
            sys.stderr.write("\n".join([*diff, ""]))
        else:
            path.write_text(content)
    return stale if check else 0


if __name__ == "__main__":
    raise SystemExit(main())
