"""The limits file: what a container may take of each of its devices, as `libvgpu.so` reads it.

Format, version 1 (ASCII, LF, single spaces, this order)::

    hami-limits 1
    generation <u64>
    mode enforce|observe|off
    core_policy default|force|disable
    priority <0..9>
    device <uuid> <memory_bytes> <physical_bytes> <cores_percent>      1..16 lines
    end

A file that differs in any byte from this is invalid, and then every allocation is denied.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

MAX_BYTES = 65536
MAX_DEVICES = 16
_U64 = (1 << 64) - 1
_UUID = re.compile(r"[!-~]{1,95}\Z")
_NUMBER = re.compile(r"(?:0|[1-9][0-9]{0,19})\Z")


class LimitsError(ValueError):
    """A limits file, or what should become one, is wrong. `line` counts from 1; 0 means no line."""

    def __init__(self, line: int, problem: str) -> None:
        self.line = line
        self.problem = problem
        super().__init__(f"limits, line {line}: {problem}" if line else f"limits: {problem}")


class Mode(StrEnum):
    """What happens beyond a limit."""

    ENFORCE = "enforce"
    OBSERVE = "observe"
    OFF = "off"


class CorePolicy(StrEnum):
    """HAMi's GPU_CORE_UTILIZATION_POLICY."""

    DEFAULT = "default"
    FORCE = "force"
    DISABLE = "disable"


@dataclass(frozen=True, slots=True)
class DeviceLimit:
    """The slice of one device.

    Attributes:
        uuid: as NVML prints it (`GPU-…`, `MIG-…`).
        memory_bytes: what may be taken, context reserve included; 0 = no limit.
        physical_bytes: the same before memory scaling.
        cores: percent of the device's time; 0 or 100 = no limit.
    """

    uuid: str
    memory_bytes: int
    physical_bytes: int
    cores: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one container; `devices` in the container's device order."""

    devices: tuple[DeviceLimit, ...]
    generation: int = 1
    mode: Mode = Mode.ENFORCE
    core_policy: CorePolicy = CorePolicy.DEFAULT
    priority: int = 1


def _check_number(line: int, name: str, value: int, most: int) -> None:
    if type(value) is not int or not 0 <= value <= most:
        raise LimitsError(line, f"{name} must be a whole number from 0 to {most}, not {value!r}")


def check(limits: Limits) -> None:
    """Raises LimitsError, naming the line it would stand in, unless `limits` can be written."""
    _check_number(2, "generation", limits.generation, _U64)
    _check_number(5, "priority", limits.priority, 9)
    if not 1 <= len(limits.devices) <= MAX_DEVICES:
        raise LimitsError(6, f"1 to {MAX_DEVICES} devices are needed, not {len(limits.devices)}")
    seen = set()
    for line, device in enumerate(limits.devices, start=6):
        if not _UUID.match(device.uuid):
            raise LimitsError(line, f"device uuid must be 1 to 95 printable characters without blanks: {device.uuid!r}")
        if device.uuid in seen:
            raise LimitsError(line, f"device {device.uuid} is named twice")
        seen.add(device.uuid)
        _check_number(line, f"memory_bytes of {device.uuid}", device.memory_bytes, _U64)
        _check_number(line, f"physical_bytes of {device.uuid}", device.physical_bytes, _U64)
        _check_number(line, f"cores of {device.uuid}", device.cores, 100)


def encode(limits: Limits) -> bytes:
    """Returns the content of a limits file.

    Raises:
        LimitsError: a value is out of its range.
    """
    check(limits)
    lines = [
        "hami-limits 1",
        f"generation {limits.generation}",
        f"mode {Mode(limits.mode)}",
        f"core_policy {CorePolicy(limits.core_policy)}",
        f"priority {limits.priority}",
        *(f"device {d.uuid} {d.memory_bytes} {d.physical_bytes} {d.cores}" for d in limits.devices),
        "end",
    ]
    return ("\n".join(lines) + "\n").encode("ascii")


def _number(line: int, name: str, text: str) -> int:
    if not _NUMBER.match(text):
        raise LimitsError(line, f"{name} must be a decimal number without sign or leading zeros, not {text!r}")
    return int(text)


def _value(lines: list[str], line: int, name: str) -> str:
    text = lines[line - 1] if line <= len(lines) else ""
    key, blank, value = text.partition(" ")
    if key != name or not blank:
        raise LimitsError(line, f"expected '{name} <value>', found {text!r}")
    return value


def _device(line: int, text: str) -> DeviceLimit:
    parts = text.split(" ")
    if len(parts) != 5:
        raise LimitsError(line, f"expected 'device <uuid> <memory> <physical> <cores>', found {text!r}")
    return DeviceLimit(
        uuid=parts[1],
        memory_bytes=_number(line, "memory_bytes", parts[2]),
        physical_bytes=_number(line, "physical_bytes", parts[3]),
        cores=_number(line, "cores", parts[4]),
    )


def decode(content: bytes) -> Limits:
    """Reads a limits file, as strictly as `libvgpu.so` does.

    Raises:
        LimitsError: with the first line that is wrong.
    """
    if len(content) > MAX_BYTES:
        raise LimitsError(0, f"the file has {len(content)} bytes, more than {MAX_BYTES}")
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError as error:
        raise LimitsError(content.count(b"\n", 0, error.start) + 1, "the file is not ASCII") from error
    lines = text.split("\n")
    if lines[0] != "hami-limits 1":
        raise LimitsError(1, f"expected 'hami-limits 1', found {lines[0]!r}")
    generation = _number(2, "generation", _value(lines, 2, "generation"))
    mode, policy = _value(lines, 3, "mode"), _value(lines, 4, "core_policy")
    if mode not in list(Mode):
        raise LimitsError(3, f"mode must be one of {', '.join(Mode)}, not {mode!r}")
    if policy not in list(CorePolicy):
        raise LimitsError(4, f"core_policy must be one of {', '.join(CorePolicy)}, not {policy!r}")
    priority = _number(5, "priority", _value(lines, 5, "priority"))
    devices = []
    line = 6
    while line <= len(lines) and lines[line - 1].startswith("device "):
        devices.append(_device(line, lines[line - 1]))
        line += 1
    if lines[line - 1 :] != ["end", ""]:
        raise LimitsError(line, "expected the line 'end', and nothing after it")
    limits = Limits(tuple(devices), generation, Mode(mode), CorePolicy(policy), priority)
    check(limits)
    return limits
