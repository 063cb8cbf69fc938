"""Regions of HAMi's own library, written at the vectors' offsets and read as HAMi's monitor does."""

from __future__ import annotations

import os
import struct

import pytest
from hami_interpose import hami_region
from hami_interpose.region import MemoryParts, RegionError

from .cases import Case, cases, value

pytestmark = pytest.mark.vectors

LAYOUTS = {0: value("vendors/sharedRegion.v0"), 1: value("vendors/sharedRegion.v1")}
MAGIC = value("vendors/sharedRegion.magic")
SIZES = {"<12": 11, "[1197896,2008952)": 1197896, ">=2008952": 2008952}


def written(version: int, *, processes: int = 3) -> bytearray:
    """A region of two devices. Each process is at its place in the list, and the second one is free."""
    at = LAYOUTS[version]
    fields, slot = at["region"]["fields"], at["procSlot"]
    content = bytearray(at["region"]["size"])

    def put(place: int, field: list[int], number: int, index: int = 0, size: int = 0) -> None:
        begin, length = place + field[0] + index * size, size or field[1]
        content[begin : begin + length] = number.to_bytes(length, "little")

    put(0, fields["initializedFlag"], MAGIC)
    if version:
        put(0, fields["majorVersion"], 1)
    put(0, fields["num"], 2)
    put(0, fields["procnum"], processes)
    for index, name in enumerate((b"GPU-a", b"GPU-b")):
        begin = fields["uuids"][0] + index * value("vendors/sharedRegion.uuidBytes")
        content[begin : begin + len(name)] = name
        put(0, fields["limit"], (index + 1) << 30, index, 8)
    for number in range(processes):
        place = fields["procs"][0] + number * slot["size"]
        put(place, slot["fields"]["status"], number % 2 == 0)
        for index in range(2):
            memory = place + slot["fields"]["used"][0] + index * at["deviceMemory"]["size"]
            for column, name in enumerate(("contextSize", "moduleSize", "bufferSize", "offset", "total")):
                put(memory, at["deviceMemory"]["fields"][name], 10 ** (column + index) * (number + 1))
            busy = place + slot["fields"]["deviceUtil"][0] + index * at["deviceUtilization"]["size"]
            for column, name in enumerate(("decUtil", "encUtil", "smUtil")):
                put(busy, at["deviceUtilization"]["fields"][name], 10 * column + index + number)
    return content


def read(tmp_path, content: bytes):
    path = tmp_path / "one.cache"
    path.write_bytes(content)
    fd = os.open(path, os.O_RDONLY)
    try:
        return hami_region.read("one.cache", fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize("version", [0, 1])
def test_a_region_of_each_version_is_read_at_hamis_offsets(tmp_path, version: int) -> None:
    a, b = read(tmp_path, written(version))
    assert a == hami_region.HamiDevice("GPU-a", 1 << 30, 4 * 10**4, MemoryParts(4, 40, 400), 20 + 22)
    assert b == hami_region.HamiDevice("GPU-b", 2 << 30, 4 * 10**5, MemoryParts(40, 400, 4000), 21 + 23)


@pytest.mark.parametrize("case", cases("vendors/sharedRegion.casting"))
def test_the_version_is_found_as_hami_finds_it(case: Case) -> None:
    major, size = case.get("major", 1), SIZES[case.get("size", ">=2008952")]
    if "otherwise" in case:
        result, major = case["otherwise"], 2
    else:
        result = case["result"]
    magic = MAGIC + 1 if "magic" in case and case["magic"] == "mismatch" else MAGIC
    header = struct.pack("<iii", magic, major, 0)[:size]
    if result.startswith("error"):
        with pytest.raises(RegionError):
            hami_region.layout("one.cache", header, size)
        return
    assert f"v{hami_region.layout('one.cache', header, size).version}" == result.split()[0]
    if "not consulted" in result:
        assert hami_region.layout("one.cache", struct.pack("<iii", MAGIC, 7, 0), size).version == 0


def test_a_byte_more_than_v0_is_v0(tmp_path) -> None:
    size = value("vendors/sharedRegion.legacyObservedV0FileSize")
    assert len(read(tmp_path, bytes(written(0)).ljust(size, b"\0"))) == 2


@pytest.mark.parametrize("version", [0, 1])
def test_what_a_container_wrote_is_bounded(tmp_path, version: int) -> None:
    """Counts beyond HAMi's limits, negative counts, text that is none, and a file that is too short."""
    fields = LAYOUTS[version]["region"]["fields"]
    content = written(version)
    content[fields["num"][0] : fields["num"][0] + 8] = b"\xff" * 8
    content[fields["procnum"][0] : fields["procnum"][0] + 4] = (2**31 - 1).to_bytes(4, "little")
    content[fields["uuids"][0] : fields["uuids"][0] + 4] = b"\xff\xfe{}"
    assert [device.uuid for device in read(tmp_path, content)] == ["GPU-b"]
    content[fields["procnum"][0] : fields["procnum"][0] + 4] = b"\xff" * 4
    assert [device.used_bytes for device in read(tmp_path, content)] == [0]
    with pytest.raises(RegionError):
        read(tmp_path, content[:-1] if version == 0 else content[:100])
    with pytest.raises(RegionError):
        read(tmp_path, content[:4])
