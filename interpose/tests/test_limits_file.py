"""The limits file: the C reader and the Python reader and writer agree, on samples and on whatever hypothesis finds."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hami_interpose.limits import CorePolicy, DeviceLimit, Limits, LimitsError, Mode, decode, encode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.each_machine

SAMPLES = Path(__file__).resolve().parent / "data/limits"
MODES = [Mode.OFF, Mode.OBSERVE, Mode.ENFORCE]
BAD_LIMITS = 3


class Reader:
    """The library's own reader, in a process of its own."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.path = folder / "limits"
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([program], stdin=pipe, stdout=pipe, text=True)

    def read(self, content: bytes) -> str:
        self.path.write_bytes(content)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{self.path}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@pytest.fixture
def reader(programs, processor, tmp_path):
    sanitized = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all") if processor == "here" else ()
    started = Reader(programs("parse_limits", "-D_GNU_SOURCE", *sanitized), tmp_path)
    yield started
    started.process.communicate()
    assert started.process.returncode == 0


def values(limits: Limits) -> str:
    """What parse_limits.c prints for valid limits."""
    policy = list(CorePolicy).index(limits.core_policy)
    words = [0, limits.generation, MODES.index(limits.mode), policy, limits.priority]
    for device in limits.devices:
        words += [device.uuid, device.memory_bytes, device.physical_bytes, device.cores]
    return " ".join(map(str, words))


@pytest.mark.parametrize("path", sorted((SAMPLES / "good").iterdir()), ids=lambda path: path.name)
def test_good_sample_is_read_alike_and_written_back(reader, path):
    content = path.read_bytes()
    limits = decode(content)
    assert encode(limits) == content
    assert reader.read(content) == values(limits)


BAD = {path.name: path.read_bytes() for path in sorted((SAMPLES / "bad").iterdir())}
BAD["too long"] = b"hami-limits 1\n" + b"x" * 65536


@pytest.mark.parametrize("name", BAD)
def test_bad_sample_is_refused_by_both(reader, name):
    with pytest.raises(LimitsError, match="65536" if name == "too long" else "limits"):
        decode(BAD[name])
    assert reader.read(BAD[name]).startswith(f"{BAD_LIMITS} ")


U64 = st.integers(0, 2**64 - 1)
UUIDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=95)
DEVICES = st.builds(DeviceLimit, UUIDS, U64, U64, st.integers(0, 100))
LIMITS = st.builds(
    Limits,
    st.lists(DEVICES, min_size=1, max_size=16, unique_by=lambda device: device.uuid).map(tuple),
    U64,
    st.sampled_from(Mode),
    st.sampled_from(CorePolicy),
    st.integers(0, 9),
)
FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(limits=LIMITS)
def test_written_limits_are_read_alike(reader, limits):
    content = encode(limits)
    assert decode(content) == limits
    assert reader.read(content) == values(limits)


@FUZZ
@given(limits=LIMITS, data=st.data())
def test_damaged_file_is_judged_alike(reader, limits, data):
    content = bytearray(encode(limits))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        kind = data.draw(st.sampled_from(["cut", "insert", "replace", "delete"]))
        byte = data.draw(st.sampled_from(b" \n0123456789-+end\0\xff") | st.integers(0, 255))
        if kind == "cut":
            del content[at:]
        elif kind == "insert":
            content.insert(at, byte)
        elif kind == "replace":
            content[at : at + 1] = bytes([byte])
        else:
            del content[at : at + 1]
    try:
        expected = values(decode(bytes(content)))
    except LimitsError:
        expected = None
    found = reader.read(bytes(content))
    assert found == expected if expected is not None else found.startswith(f"{BAD_LIMITS} ")


GOOD = DeviceLimit("GPU-1", 1, 1)
UNWRITABLE = [
    (Limits(devices), 6)
    for devices in (
        (),
        (replace(GOOD, memory_bytes=-1),),
        (replace(GOOD, memory_bytes=2**64),),
        (replace(GOOD, uuid="GPU 1"),),
        (replace(GOOD, cores=101),),
    )
]
UNWRITABLE += [(Limits((GOOD, GOOD)), 7), (Limits((GOOD,), generation=-1), 2), (Limits((GOOD,), priority=10), 5)]


@pytest.mark.parametrize(("limits", "line"), UNWRITABLE, ids=str)
def test_writer_names_the_line_it_cannot_write(limits, line):
    with pytest.raises(LimitsError) as caught:
        encode(limits)
    assert caught.value.line == line
