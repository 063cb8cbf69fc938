"""Compare what containers asked for with what their programs measured. These functions have no side effects."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hami_core.demo.manifests import Ask

MIB: Final = 1 << 20
SMALLEST_BLOCK: Final = 2 * MIB
OUT_OF_MEMORY: Final = 2
"""CUDA_ERROR_OUT_OF_MEMORY, the only right answer to an allocation beyond the limit."""


class ReportedDevice(msgspec.Struct, frozen=True):
    """One device in a program's report.

    ``total_bytes`` is the size that the driver tells the program. A program that allocates until nothing more fits adds
    what it got, and the driver's answer to the next block.
    """

    uuid: str
    total_bytes: int
    allocated_bytes: int | None = None
    refusal: int | None = None


class Report(msgspec.Struct, frozen=True):
    """The JSON line by which a program in a container says what it measured.

    ``pid`` is its own process id. ``again`` is false if a block that it gave back did not fit again.
    """

    program: str
    pid: int
    devices: tuple[ReportedDevice, ...]
    again: bool = True


def read_report(line: str) -> Report | str | None:
    """Read a line of a program's output.

    Returns:
        The report; a text that says what is wrong with it; or None if the line is no report, but ordinary output.
    """
    if not line.startswith("{") or '"devices"' not in line:
        return None
    try:
        return msgspec.json.decode(line, type=Report)
    except msgspec.MsgspecError as error:
        return f"its report is wrong: {error}"


@dataclass(frozen=True, slots=True)
class DeviceVerdict:
    """One device as one container saw it. All sizes are bytes.

    ``driver_used`` is what the process holds according to the driver, its allocations and its context together.
    """

    uuid: str
    asked: int
    seen: int
    allocated: int | None
    driver_used: int | None
    overshoot: int
    refusal: int | None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GivenSlice:
    """What the scheduler gave a container of one device. 0 MiB or 0 percent means no limit."""

    device: str
    memory_mib: int
    cores: int


@dataclass(frozen=True, slots=True)
class Given:
    """What a container got: its slices, and what the vendor's node side put into it.

    Attributes:
        slices: The scheduler's allocation.
        env: Environment variables that come neither from the image nor from the manifest.
        devices: Paths of device nodes in the container.
        exit_code: Exit code of the latest attempt. None while it runs or before it started.
    """

    slices: tuple[GivenSlice, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class ContainerVerdict:
    """One container: what its program measured, and whether that matches the request.

    ``devices`` is what its program measured. It is empty for a program that is not the demo's.
    """

    container: str
    program: str
    devices: tuple[DeviceVerdict, ...] = ()
    problems: tuple[str, ...] = ()
    given: Given = field(default_factory=Given)

    @property
    def ok(self) -> bool:
        """Whether everything is as asked."""
        return not self.problems and not any(device.problems for device in self.devices)


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """One pod. ``output`` has the last lines of each container that printed no report."""

    name: str
    phase: str
    node: str = ""
    reason: str = ""
    explanation: str = ""
    containers: tuple[ContainerVerdict, ...] = ()
    problems: tuple[str, ...] = field(default=())
    output: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether everything is as asked."""
        return not self.problems and all(container.ok for container in self.containers)

    def as_json(self) -> dict[str, Any]:
        """Plain data, with ``ok`` at each level."""
        plain = asdict(self)
        plain["ok"] = self.ok
        for container, entry in zip(self.containers, plain["containers"], strict=True):
            entry["ok"] = container.ok
        return plain


def judge_container(
    ask: Ask,
    report: Report | str | None,
    card_bytes: Mapping[str, int],
    driver_used: Mapping[str, int],
) -> ContainerVerdict:
    """Judge one container.

    Args:
        ask: What its manifest says.
        report: What its program printed; a text if it is no valid report; None if it printed none.
        card_bytes: Size of each card by UUID.
        driver_used: Bytes that its process holds according to the driver, by UUID; empty once it has ended.
    """
    if not isinstance(report, Report):
        return ContainerVerdict(ask.container, "", (), (report or "its program printed no report",))
    devices = tuple(_judge_device(ask, device, card_bytes, driver_used) for device in report.devices)
    problems = []
    if len(devices) != ask.count:
        problems.append(f"asked for {ask.count} cards, saw {len(devices)}")
    if not report.again:
        problems.append("a block given back could not be taken again")
    return ContainerVerdict(ask.container, report.program, devices, tuple(problems))


def judge_given(ask: Ask, given: Given, device_mib: Mapping[str, int]) -> ContainerVerdict:
    """Judge a container whose program measures nothing, by the allocation.

    Args:
        ask: What its manifest says.
        given: What it got.
        device_mib: Memory that containers can have of each device, by id.
    """
    problems = []
    if len(given.slices) != ask.count:
        problems.append(f"asked for {ask.count} devices, was given {len(given.slices)}")
    for piece in given.slices:
        asked = ask.memory_on(device_mib.get(piece.device, 0))
        # A vendor may round up to a size into which its devices can be cut. 0: no memory limit.
        if piece.memory_mib and piece.memory_mib < asked:
            problems.append(f"asked for {asked} MiB, was given {piece.memory_mib} MiB of {piece.device}")
    return ContainerVerdict(ask.container, "", (), tuple(problems), given)


def _judge_device(
    ask: Ask, device: ReportedDevice, card_bytes: Mapping[str, int], driver_used: Mapping[str, int]
) -> DeviceVerdict:
    card = card_bytes.get(device.uuid, 0)
    is_whole = ask.memory_mib is None and ask.memory_percent in {None, 100}
    asked = card if is_whole else ask.memory_on(card // MIB) * MIB
    seen, allocated, refusal = device.total_bytes, device.allocated_bytes, device.refusal
    used = driver_used.get(device.uuid)
    problems = []
    if not card:
        problems.append("is no card of this node")
    if seen != asked:
        problems.append(f"asked for {asked // MIB} MiB, saw {seen // MIB} MiB")
    if refusal is not None and refusal != OUT_OF_MEMORY:
        problems.append(f"the block that did not fit was answered with {refusal}, not CUDA_ERROR_OUT_OF_MEMORY")
    held = max(used or 0, allocated or 0)
    overshoot = max(0, held - asked)
    if overshoot:
        problems.append(f"holds {overshoot} bytes more than its limit")
    if allocated is not None and used is not None and asked - used >= SMALLEST_BLOCK:
        problems.append(f"was refused with {(asked - used) // MIB} MiB left")
    return DeviceVerdict(device.uuid, asked, seen, allocated, used, overshoot, refusal, tuple(problems))


def judge_refused(name: str, phase: str, reason: str, explanation: str = "") -> PodVerdict:
    """Judge a pod that no card can hold: it must be pending, and its status must say why.

    Args:
        name: Name of the pod.
        phase: Its phase.
        reason: The scheduler's short reason, from its status.
        explanation: The scheduler's explanation for people, from its events.
    """
    problems = []
    if phase != "Pending":
        problems.append(f"is {phase}, though no card can hold it")
    if not reason:
        problems.append("is refused without a reason")
    return PodVerdict(name, phase, "", reason, explanation, (), tuple(problems))


def fits_nowhere(asks: Sequence[Ask], largest_mib: Mapping[str, int]) -> bool:
    """Whether a container asks for more memory on one device than the largest device of that family has.

    Args:
        asks: What the pod's containers ask for.
        largest_mib: Family's common word → memory of its largest device.
    """
    return any(ask.memory_mib is not None and ask.memory_mib > largest_mib.get(ask.family, 0) for ask in asks)
