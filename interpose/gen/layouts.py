"""Writes the layouts of shared memory as Python ctypes structures, from the C headers.

    python gen/layouts.py            rewrite the modules
    python gen/layouts.py --check    fail with a diff when a module is not what its headers say

The compiler lays the structures out; this script reads the result from the debugging information in the object file.
So every offset, size and constant is the compiler's. Needs ``cc`` and ``readelf``; the layouts are the same on x86-64
and aarch64.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from emit import ROOT, update

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Layout:
    """One module to write.

    Attributes:
        module: where, from `interpose/` on.
        title: first line of its docstring.
        prefix: what every name in the headers starts with; Python's names leave it out.
        include: folder that the headers are named from.
        headers: what to read. Every constant and enumerator in them is written.
        structures: what to write, with every structure that they contain.
    """

    module: str
    title: str
    prefix: str
    include: str
    headers: tuple[str, ...]
    structures: tuple[str, ...]


LAYOUTS = (
    Layout(
        module="python/hami_interpose/_region_layout.py",
        title="The region of a container and the turn page of a device, as ctypes structures.",
        prefix="hami",
        include="src",
        headers=("abi.h", "compute_abi.h"),
        structures=("hami_v1", "hami_block", "hami_compute", "hami_turn_page"),
    ),
    Layout(
        module="gpusim/python/hami_gpusim/_layout.py",
        title="The two files of simulated devices, as ctypes structures.",
        prefix="sim",
        include="gpusim/include",
        headers=("books.h", "engine.h"),
        structures=("sim_books", "sim_engines"),
    ),
)

HEAD = '''\
"""{title}

Made by gen/layouts.py from {headers}; do not edit. The headers say what each field is for.
The number behind a field is its offset in bytes.
"""

from __future__ import annotations

import ctypes as c
from typing import Final
'''


@dataclass
class Entry:
    """An entry of the debugging information: a type, a member, an enumerator."""

    tag: str
    values: dict[str, str] = field(default_factory=dict)
    parts: list[Entry] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name in C; empty if it has none."""
        return self.values.get("name", "").rsplit(": ", 1)[-1]

    def number(self, key: str) -> int:
        """Returns one of its values, a number like ``12``, ``0xc`` or ``7 (unsigned)``."""
        return int(self.values[key].split()[0], 0)


ENTRY = re.compile(r" *<(\d+)><(\w+)>: Abbrev Number: \d+ \(DW_TAG_(\w+)\)")
VALUE = re.compile(r" *<\w+> +DW_AT_(\w+) *: (.*)")


def read_entries(listing: str) -> dict[str, Entry]:
    """Reads what ``readelf`` shows of the debugging information: reference → entry."""
    entries: dict[str, Entry] = {}
    path: list[Entry] = []
    for line in listing.splitlines():
        if found := ENTRY.match(line):
            depth, reference, tag = int(found[1]), found[2], found[3]
            entries[f"<0x{reference}>"] = entry = Entry(tag)
            path[depth:] = [entry]
            if depth:
                path[depth - 1].parts.append(entry)
        elif path and (found := VALUE.match(line)):
            path[-1].values[found[1]] = found[2].strip()
    return entries


def compile_headers(layout: Layout, macros: list[str]) -> dict[str, Entry]:
    """Compiles the headers and returns what the compiler says of them; each macro's value as an enumerator."""
    lines = [f'#include "{header}"' for header in layout.headers]
    lines += [f"enum {{ value_of_{name} = {name} }};" for name in macros]
    english = os.environ | {"LC_ALL": "C"}
    with tempfile.TemporaryDirectory() as folder:
        made = f"{folder}/layout.o"
        command = ["cc", "-std=gnu11", "-g", "-fno-eliminate-unused-debug-types", f"-I{ROOT / layout.include}"]
        subprocess.run([*command, "-x", "c", "-c", "-o", made, "-"], input="\n".join(lines), text=True, check=True)
        command = ["readelf", "--debug-dump=info", made]
        listing = subprocess.run(command, capture_output=True, text=True, check=True, env=english).stdout
    return read_entries(listing)


def constants(prefix: str, macros: list[str], entries: dict[str, Entry]) -> Iterator[str]:
    """Yields the lines of all macros, then those of the enumerators; in hexadecimal from 2³² on."""
    values = {e.name: e.number("const_value") for e in entries.values() if e.tag == "enumerator"}
    enumerators = [name for name in values if name.startswith(prefix)]
    for group in ({name: values[f"value_of_{name}"] for name in macros}, {name: values[name] for name in enumerators}):
        yield "\n"
        for name, value in group.items():
            text = f"0x{value:X}" if value >= 1 << 32 else str(value)
            yield f"{name.removeprefix(prefix)}: Final = {text}\n"


class Structures:
    """Structures in Python, by name, each behind those that it contains."""

    def __init__(self, prefix: str, entries: dict[str, Entry]) -> None:
        self._prefix = prefix
        self._entries = entries
        self.texts: dict[str, str] = {}

    def add(self, structure: Entry) -> str:
        """Adds a structure and what it contains, unless it is there; returns its name in Python."""
        name = "".join(word.capitalize() for word in structure.name.removeprefix(self._prefix).split("_"))
        if name in self.texts:
            return name
        size, end, lines = structure.number("byte_size"), 0, []
        for member in structure.parts:
            offset = member.number("data_member_location")
            kind, length = self._type(self._entries[member.values["type"]])
            lines += [*padding(end, offset), f'        ("{member.name}", {kind}),  # {offset}\n']
            end = offset + length
        head = f'class {name}(c.Structure):\n    """`struct {structure.name}`, {size} bytes."""\n\n    _fields_ = [\n'
        self.texts[name] = "".join([head, *lines, *padding(end, size), "    ]\n"])
        return name

    def _type(self, entry: Entry) -> tuple[str, int]:
        """Returns the name of a type in Python, and its size."""
        if entry.tag == "structure_type":
            return self.add(entry), entry.number("byte_size")
        if entry.tag in {"base_type", "enumeration_type"}:
            size = entry.number("byte_size")
            sign = "u" if "unsigned" in entry.values["encoding"] else ""
            return "c.c_char" if entry.name == "char" else f"c.c_{sign}int{8 * size}", size
        name, size = self._type(self._entries[entry.values["type"]])
        for part in reversed(entry.parts):  # the bounds of an array; typedef, _Atomic and const have no parts
            count = part.number("upper_bound") + 1
            name, size = f"{name} * {count}", size * count
        return name, size


def padding(end: int, offset: int) -> list[str]:
    """Returns the field that fills a gap: ctypes does not know `_Alignas`, so it must not find any."""
    return [f'        ("_{end}", c.c_uint8 * {offset - end}),\n'] if end < offset else []


def module(layout: Layout) -> str:
    """Returns the text of a module."""
    headers = "".join((ROOT / layout.include / header).read_text() for header in layout.headers)
    macros = re.findall(rf"^#define ({layout.prefix.upper()}_\w+) ", headers, re.MULTILINE)
    entries = compile_headers(layout, macros)
    by_name = {e.name: e for e in entries.values() if e.tag == "structure_type" and e.parts}
    structures = Structures(f"{layout.prefix}_", entries)
    for name in layout.structures:
        structures.add(by_name[name])
    head = HEAD.format(title=layout.title, headers=" and ".join(layout.headers))
    lines = constants(f"{layout.prefix.upper()}_", macros, entries)
    return "".join([head, *lines, *(f"\n\n{text}" for text in structures.texts.values())])


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    return update({ROOT / layout.module: module(layout) for layout in LAYOUTS}, check=check)


if __name__ == "__main__":
    raise SystemExit(main())
