"""As much of an ELF file as tells whether a preloaded library can reach it, and what it imports and exports."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAGIC: Final = b"\x7fELF"
_MACHINES: Final = {3: "x86", 40: "arm", 62: "x86-64", 183: "aarch64", 243: "riscv"}
_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_PLTRELSZ, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_RELA, _DT_RELASZ, _DT_STRSZ, _DT_JMPREL = 2, 4, 5, 6, 7, 8, 10, 23
_DT_GNU_HASH = 0x6FFFFEF5
_STT_OBJECT = 1
_MOST_BYTES = 64 << 20  # of one table
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


class Tables:
    """The dynamic tables of a 64-bit little-endian file.

    It is read by system calls: a mapping of a file that somebody cuts short would end the reader.

    Attributes:
        start: address of its first segment, from which the loader counts; page-aligned.
        size: bytes from there to the end of its last segment.
    """

    def __init__(self, file: IO[bytes]) -> None:
        """Reads the headers. What is broken raises ValueError, OverflowError or struct.error, here and later."""
        self._file = file
        head = self._at(0, 64)
        if head[:6] != MAGIC + b"\2\1":
            raise ElfError("not a 64-bit little-endian ELF file")
        (table,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
        rows = [struct.unpack("<IIQQQQ", self._at(table + at * size, 40)) for at in range(count)]
        segments = [row for row in rows if row[0] == _PT_LOAD]
        self._loads = [(address, offset, length) for _, _, offset, address, _, length in segments]
        self.start = min((address for address, _, _ in self._loads), default=0) & ~0xFFF
        self.size = max((address + length for address, _, length in self._loads), default=0) - self.start
        self._tags: dict[int, int] = {}
        for _, _, offset, _, _, length in (row for row in rows if row[0] == _PT_DYNAMIC):
            self._tags |= dict(struct.iter_unpack("<QQ", self._at(offset, length)))
        self._names = self._table(_DT_STRTAB, self._tags.get(_DT_STRSZ, 0))

    def _at(self, offset: int, length: int) -> bytes:
        if length > _MOST_BYTES:
            raise ElfError(f"a table of {length} bytes")
        self._file.seek(offset)
        content = self._file.read(length)
        if len(content) < length:
            raise ElfError("cut short")
        return content

    def _table(self, tag: int, length: int, skip: int = 0) -> bytes:
        address = self._tags.get(tag, 0) + skip
        for first, offset, size in self._loads:
            if tag in self._tags and first <= address < first + size:
                return self._at(offset + address - first, length)
        return b""

    def _name(self, at: int) -> str:
        return self._names[at : max(self._names.find(b"\0", at), at)].decode("ascii", "replace")

    def mentions(self, name: str) -> bool:
        """Whether a symbol, imported or exported, has that name."""
        return b"\0" + name.encode() + b"\0" in self._names

    def _symbols(self) -> int:
        """How many there are: the loader needs no such number, so it follows from a hash table."""
        if _DT_HASH in self._tags:
            return int(struct.unpack("<II", self._table(_DT_HASH, 8))[1])
        if _DT_GNU_HASH not in self._tags:
            return 0
        buckets, first, words = struct.unpack("<III", self._table(_DT_GNU_HASH, 12))
        chains = 16 + 8 * words + 4 * buckets
        last = max(struct.unpack(f"<{buckets}I", self._table(_DT_GNU_HASH, 4 * buckets, 16 + 8 * words)), default=0)
        while last >= first and not self._table(_DT_GNU_HASH, 4, chains + 4 * (last - first))[0] & 1:
            last += 1
        return last + 1 if last >= first else int(first)

    def functions(self) -> set[str]:
        """Names of the exported functions; variables are left out."""
        symbols = self._table(_DT_SYMTAB, 24 * self._symbols())
        rows = struct.iter_unpack("<IBBHQQ", symbols)
        return {self._name(name) for name, info, _, section, _, _ in rows if section and info & 15 != _STT_OBJECT}

    def slots(self) -> Iterator[tuple[str, int]]:
        """The names that it imports, each with the address where the loader puts what it has found."""
        for table, size in ((_DT_RELA, _DT_RELASZ), (_DT_JMPREL, _DT_PLTRELSZ)):
            for offset, info, _ in struct.iter_unpack("<QQq", self._table(table, self._tags.get(size, 0))):
                if info >> 32:
                    (name,) = struct.unpack("<I", self._table(_DT_SYMTAB, 4, 24 * (info >> 32)))
                    yield self._name(name), offset
