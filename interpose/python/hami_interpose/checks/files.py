"""Limits, region and turn pages: what the agent mounts into a container, and whether it agrees with itself."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_interpose import turn
from hami_interpose._regions import REGION_PART, STANDARD_ROOT, Found, load
from hami_interpose._show import mib, printable, since
from hami_interpose.checks.finding import not_applicable, ok, wrong
from hami_interpose.limits import MAX_BYTES, CorePolicy, Limits, LimitsError, Mode, decode
from hami_interpose.region import REASONS, RegionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hami_interpose.checks.finding import Finding

FRESH_S: Final = 60
"""After so long without the agent `libvgpu.so` counts it as gone (suspend.c)."""
_ANEW: Final = "delete the pod, so that the agent makes it anew, and look at the agent's log"
_DENIED: Final = "every allocation is denied until then"


def mount_points(mountinfo: Path = Path("/proc/self/mountinfo")) -> frozenset[str]:
    """Where something is mounted, as this process sees it."""
    text = mountinfo.read_text(encoding="utf-8", errors="replace")
    fields = [line.split() for line in text.splitlines()]
    return frozenset(
        re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), line[4]) for line in fields if len(line) > 4
    )


@dataclass(frozen=True, slots=True)
class Mounted:
    """The mounted files, as found. What could not be read is None, and the findings say why."""

    root: Path
    limits: Limits | None
    found: Found | None
    findings: tuple[Finding, ...]


def look(root: Path, now: float | None = None) -> Mounted:
    """Reads everything under `root` and judges it."""
    limits, about_limits = _limits(root)
    found, about_region = _region(root, limits)
    findings = [*about_limits, *about_region]
    if limits is not None:
        findings += _turns(root, limits)
    if found is not None:
        findings.append(_agent(found, time.time() if now is None else now))
    return Mounted(root, limits, found, tuple(findings))


# ---- limits ----


def _limits(root: Path) -> tuple[Limits | None, list[Finding]]:
    folder = root / "limits"
    if not folder.is_dir():
        found = f"{folder} is not there: this container is held by HAMi's environment variables, if at all"
        fix = "right for a container that was given whole cards or none; else " + _ANEW
        return None, [wrong("limits.folder", found, fix)]
    limits, about_file = _limits_file(folder / "limits")
    return limits, [ok("limits.folder", str(folder)), about_file, _limits_mount(root, folder)]


def _limits_file(path: Path) -> tuple[Limits | None, Finding]:
    check = "limits.file"
    try:
        # The library follows no link at its end, and waits for no pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            limits = decode(file.read(MAX_BYTES + 1))
    except OSError as error:
        what = "is a symbolic link" if error.errno == errno.ELOOP else f"cannot be read: {error.strerror}"
        return None, wrong(check, f"{path} {what}; {_DENIED}", _ANEW)
    except LimitsError as error:
        return None, wrong(check, f"{path}, line {error.line}: {error.problem}; {_DENIED}", _ANEW)
    devices = "; ".join(f"{d.uuid} {_memory(d.memory_bytes)}, {_cores(d.cores)}" for d in limits.devices)
    mode = {Mode.ENFORCE: "", Mode.OBSERVE: ", which refuses nothing", Mode.OFF: ", which does nothing"}[limits.mode]
    policy = "" if limits.core_policy == CorePolicy.DEFAULT else f", core policy {limits.core_policy}"
    return limits, ok(check, f"generation {limits.generation}, mode {limits.mode}{mode}{policy}: {devices}")


def _memory(size: int) -> str:
    return f"{mib(size)} MiB" if size else "all memory"


def _cores(percent: int) -> str:
    return f"{percent} % of the time" if 0 < percent < 100 else "all of the time"


def _limits_mount(root: Path, folder: Path) -> Finding:
    check = "limits.mount"
    mounted = os.path.realpath(folder) in mount_points()
    read_only = bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    if mounted and read_only:
        return ok(check, f"{folder} is a mount of its own, read-only")
    if mounted:
        return wrong(check, f"{folder} is mounted so that programs here may change their own limits", _ANEW)
    return _not_mounted(check, root, folder)


def _not_mounted(check: str, root: Path, folder: Path) -> Finding:
    if root == STANDARD_ROOT:
        return wrong(check, f"{folder} is no mount: it came with the image, and the agent does not see it", _ANEW)
    return not_applicable(check, f"{folder} is a plain folder, as in development")


# ---- region ----


def _region(root: Path, limits: Limits | None) -> tuple[Found | None, list[Finding]]:
    path, check = root / REGION_PART, "region.file"
    try:
        found = load(path)
    except RegionError as error:
        what = f"{path}, offset {error.offset}: {error.what}; {_DENIED}"
        return None, [wrong(check, what, _ANEW)]
    except OSError as error:
        what = "is a symbolic link" if error.errno == errno.ELOOP else f"cannot be read: {error.strerror}"
        return None, [wrong(check, f"{path} {what}; {_DENIED}", _ANEW)]
    region = found.region
    used = f"{len(region.processes)} processes, last at work {since(region.heartbeat, time.time())}"
    findings = [ok(check, f"{path}, limits generation {region.generation}, {used}"), _writable(path)]
    mounted = os.path.realpath(path.parent) in mount_points()
    own = ok("region.mount", f"{path.parent} is a mount of its own")
    findings.append(own if mounted else _not_mounted("region.mount", root, path.parent))
    if limits is not None:
        findings.append(_devices(found, limits))
    findings.append(_refusals(found))
    return found, findings


def _writable(path: Path) -> Finding:
    check = "region.writable"
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK))
    except OSError as error:
        fix = f"it has to be mounted read-write, with mode 0666; {_ANEW}"
        return wrong(check, f"{path} cannot be written by uid {os.geteuid()}: {error.strerror}; {_DENIED}", fix)
    return ok(check, f"by uid {os.geteuid()}")


def _devices(found: Found, limits: Limits) -> Finding:
    check = "region.devices"
    listed = [device.uuid for device in found.region.devices]
    expected = [device.uuid for device in limits.devices]
    if listed != expected:
        shown = ", ".join(map(printable, listed)) or "none"
        return wrong(check, f"the region is for {shown}; the limits name {', '.join(expected)}", _ANEW)
    if found.region.generation != limits.generation:
        newer = f"generation {found.region.generation} is in force, the file has {limits.generation}"
        return ok(check, f"the same {len(listed)} as in the limits file; {newer}, read at the next call")
    return ok(check, f"the same {len(listed)} as in the limits file")


def _refusals(found: Found) -> Finding:
    """A refusal beyond the limit is no fault; one for want of a valid set-up is, while it is the last."""
    check, region = "region.refusals", found.region
    count = sum(device.denied for device in region.devices)
    if not region.reason:
        return ok(check, "nothing was ever refused")
    said = f"{count:,} refused; the last {since(region.reason_time, time.time())}: {region.reason}"
    if region.reason == REASONS[1]:
        return ok(check, said)
    return wrong(check, said, "if all else here is well, it is over: the next refusal for want of memory replaces it")


# ---- turns and the agent ----


def _turns(root: Path, limits: Limits) -> Iterator[Finding]:
    shared = limits.mode == Mode.ENFORCE and limits.core_policy != CorePolicy.DISABLE
    limited = [device.uuid for device in limits.devices if shared and 0 < device.cores < 100]
    if not limited:
        yield not_applicable("turns.page", "no device has a core limit in force")
    for uuid in limited:
        yield _turn_page(root / "turns" / uuid)


def _turn_page(path: Path) -> Finding:
    check, less = "turns.page", "the core limit holds all the same, less exactly beside other containers of the card"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        return wrong(check, f"{path} cannot be opened for writing: {error.strerror}", f"{less}; {_ANEW}")
    try:
        status = os.fstat(descriptor)
        regular = stat.S_ISREG(status.st_mode) and status.st_size == turn.SIZE
        if not regular or os.pread(descriptor, 16, 0) != turn.initial()[:16]:
            return wrong(check, f"{path} is not a turn page of this version", f"{less}; {_ANEW}")
    finally:
        os.close(descriptor)
    return ok(check, str(path))


def _agent(found: Found, now: float) -> Finding:
    check, beat = "agent.heartbeat", found.agent_heartbeat
    if not beat:
        return not_applicable(check, "no agent has written one to this region")
    if abs(now - beat) <= FRESH_S:
        return ok(check, since(beat, now))
    fix = "see whether the agent runs on this node; limits hold without it, metrics and priorities do not"
    return wrong(check, f"the agent last looked {since(beat, now)}", fix)
