"""As much of an ELF file as tells whether a preloaded library can reach its program."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

MAGIC: Final = b"\x7fELF"
_MACHINES: Final = {3: "x86", 40: "arm", 62: "x86-64", 183: "aarch64", 243: "riscv"}
_PT_DYNAMIC, _PT_INTERP = 2, 3
_MOST_HEADERS = 512
_LONGEST_PATH = 4096


class ElfError(ValueError):
    """It is no ELF file, or a broken one."""


@dataclass(frozen=True, slots=True)
class Elf:
    """What it was built for, and by whom it is loaded.

    Attributes:
        bits: 32 or 64.
        machine: as `uname -m` would put it, or its number.
        loader: the dynamic loader it names; empty: none.
        dynamic: it has a dynamic section. Without a loader it is a static program at a free address, or a library.
    """

    bits: int
    machine: str
    loader: str
    dynamic: bool


def read(path: Path) -> Elf:
    """Reads the headers of a file.

    Raises:
        ElfError: it is no ELF file, or a broken one.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(64)
        if head[:4] != MAGIC or len(head) < 52 or head[4] not in {1, 2} or head[5] not in {1, 2}:
            raise ElfError(f"{path}: not an ELF file")
        wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
        if wide and len(head) < 64:
            raise ElfError(f"{path}: cut short")
        (machine,) = struct.unpack_from(f"{order}H", head, 18)
        (table,) = struct.unpack_from(f"{order}{'Q' if wide else 'I'}", head, 32 if wide else 28)
        size, count = struct.unpack_from(f"{order}HH", head, 54 if wide else 42)
        entry = struct.Struct(f"{order}IIQQQQ" if wide else f"{order}IIIII")
        if count > _MOST_HEADERS or size < entry.size:
            raise ElfError(f"{path}: {count} program headers of {size} bytes")
        file.seek(table)
        headers = file.read(size * count)
        if len(headers) < size * count:
            raise ElfError(f"{path}: cut short")
        loader, dynamic = "", False
        for at in range(0, size * count, size):
            fields = entry.unpack_from(headers, at)
            kind, offset, length = fields[0], fields[2 if wide else 1], fields[5 if wide else 4]
            dynamic = dynamic or kind == _PT_DYNAMIC
            if kind == _PT_INTERP:
                file.seek(offset)
                loader = file.read(min(length, _LONGEST_PATH)).split(b"\0", 1)[0].decode("utf-8", "replace")
    return Elf(64 if wide else 32, _MACHINES.get(machine, f"machine {machine}"), loader, dynamic)
