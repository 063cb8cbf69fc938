"""What `top` shows: a screen of given width, plain lines, or JSON. All of it is pure."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from hami_interpose._show import bar, mib, printable

if TYPE_CHECKING:
    from hami_interpose._processes import Seen
    from hami_interpose._watch import Container, Frame, Rates
    from hami_interpose.region import DeviceUse, ProcessUse

_WIDEST_BAR: Final = 26
_STYLES: Final = {"": "", "bold": "\x1b[1m", "red": "\x1b[31m", "yellow": "\x1b[33m", "dim": "\x1b[2m"}
_RESET: Final = "\x1b[0m"


class Piece(NamedTuple):
    """Text in one style."""

    text: str
    style: str = ""


Line = tuple[Piece, ...]


def rendered(line: Line, width: int, *, colour: bool) -> str:
    """One line as a terminal takes it, cut to `width` columns."""
    out, left = [], width
    for piece in line:
        text = piece.text[:left]
        left -= len(text)
        styled = colour and piece.style and text
        out.append(f"{_STYLES[piece.style]}{text}{_RESET}" if styled else text)
    return "".join(out)


def screen(frame: Frame, width: int, height: int) -> list[Line]:
    """The frame for a terminal of this size; what does not fit is counted in the last line."""
    clock = datetime.fromtimestamp(frame.time, UTC).strftime("%H:%M:%S UTC")
    count = len(frame.containers)
    lines: list[Line] = [(Piece(f"{clock}  {count} container{'' if count == 1 else 's'}"), Piece("   q: quit", "dim"))]
    for container in frame.containers:
        lines += _container(container, width)
    if len(lines) <= height:
        return lines
    hidden = len(lines) - height + 1
    return [*lines[: max(height - 1, 0)], (Piece(f"{hidden} more lines: make the window taller", "dim"),)]


def _container(container: Container, width: int) -> list[Line]:
    lines: list[Line] = [(), (Piece(container.place.name, "bold"),)]
    if container.found is None:
        return [*lines, (Piece("  "), Piece(container.error, "red"))]
    region = container.found.region
    for index, (device, rates) in enumerate(zip(region.devices, container.rates, strict=True)):
        lines += _device(index, device, rates, width)
    for process in region.processes:
        lines.append((Piece(f"  {_process(container, process)}"),))
    if region.reason:
        lines.append((Piece(f"  last refusal: {region.reason}", "yellow"),))
    return lines


def _device(index: int, device: DeviceUse, rates: Rates | None, width: int) -> list[Line]:
    room = min(_WIDEST_BAR, max(width - 54, 0))
    filled = device.used_bytes / device.limit_bytes if device.limit_bytes else 0.0
    memory = f"{mib(device.used_bytes):>9} of {_limit(device):>9} MiB{_in_host(device)}"
    refused = f"  {device.denied:,} refused" + (f" (+{rates.denied:,})" if rates and rates.denied else "")
    style = "red" if filled >= 1 else "yellow" if filled >= 0.9 else ""
    head = (Piece(f"  {index} {printable(device.uuid)}"),)
    first = (Piece("    memory  "), Piece(bar(filled, room) + " ", style), Piece(memory), Piece(refused, "dim"))
    used, share = (rates.compute_percent if rates else 0.0), _share(device)
    waiting = f"  waiting {_waiting(rates)}"
    text = f"{_compute(rates):>9} of {share or 100:>7} %"
    second = (
        Piece("    compute "),
        Piece(bar(used / share if share else 0.0, room) + " "),
        Piece(text),
        Piece(waiting),
    )
    unlimited = (Piece("    compute  no limit, not measured", "dim"),)
    return [head, first, second if share else unlimited]


def _share(device: DeviceUse) -> int:
    return device.cores if 0 < device.cores < 100 else 0


def _in_host(device: DeviceUse) -> str:
    """The part in host memory, where the administrator scales memory."""
    host = device.oversubscription
    return f" ({mib(host.used_bytes)} in the host)" if host.limit_bytes or host.used_bytes else ""


def _limit(device: DeviceUse) -> str:
    return mib(device.limit_bytes) if device.limit_bytes else "unlimited"


def _compute(rates: Rates | None) -> str:
    return "-" if rates is None else f"{rates.compute_percent:,.0f} %"


def _waiting(rates: Rates | None) -> str:
    return "-" if rates is None else f"{rates.waiting_percent:,.0f} %"


def _process(container: Container, process: ProcessUse) -> str:
    seen = container.seen.get((process.pid, process.start_time))
    used = " + ".join(mib(used) for used in process.used_bytes)
    here = f" ({seen.pid} here)" if seen and seen.pid != process.pid else ""
    state = f", checkpointed ({' + '.join(map(mib, process.away_bytes))} MiB)" if process.suspended else ""
    return f"{process.pid:>9}{here} {seen.name if seen else '?'}: {used} MiB{state}"


def plain(frame: Frame) -> list[str]:
    """One line per device, for pipes and files: words and figures in a fixed order."""
    moment = datetime.fromtimestamp(frame.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = []
    for container in frame.containers:
        start = f"{moment} {container.place.name}"
        if container.found is None:
            lines.append(f"{start} error: {container.error}")
            continue
        region = container.found.region
        for index, (device, rates) in enumerate(zip(region.devices, container.rates, strict=True)):
            users = [process for process in region.processes if _is_user(process, index)]
            lines.append(f"{start} device {index} {_plain_device(container, device, rates, users)}")
    return lines


def _is_user(process: ProcessUse, device: int) -> bool:
    return bool(process.used_bytes[device] or (process.suspended and process.away_bytes[device]))


def _user(process: ProcessUse, seen: Seen | None) -> str:
    return f"{process.pid}:{seen.name if seen else '?'}" + ("(checkpointed)" if process.suspended else "")


def _plain_device(container: Container, device: DeviceUse, rates: Rates | None, users: list[ProcessUse]) -> str:
    names = [container.seen.get((process.pid, process.start_time)) for process in users]
    listed = ",".join(_user(user, seen) for user, seen in zip(users, names, strict=True))
    share = _share(device)
    compute = f"{_compute(rates)} of {share} %" if share else "no limit"
    return (
        f"{printable(device.uuid)} memory {mib(device.used_bytes)} of {_limit(device)} MiB{_in_host(device)} "
        f"compute {compute} waiting {_waiting(rates)} "
        f"refused {device.denied} processes {listed or '-'}"
    )


def as_json(frame: Frame) -> dict[str, object]:
    """The frame as one JSON object; figures of an interval are null at the first look."""
    containers = []
    for container in frame.containers:
        entry: dict[str, object] = {
            "name": container.place.name,
            "path": str(container.place.path),
            "error": container.error or None,
        }
        if container.found is not None:
            entry |= asdict(container.found.region) | {"agent_heartbeat": container.found.agent_heartbeat}
            devices = zip(container.found.region.devices, container.rates, strict=True)
            entry["devices"] = [asdict(device) | {"rates": rates and asdict(rates)} for device, rates in devices]
            entry["processes"] = [_json_process(container, p) for p in container.found.region.processes]
        containers.append(entry)
    return {"time": frame.time, "interval": frame.interval, "containers": containers}


def _json_process(container: Container, process: ProcessUse) -> dict[str, object]:
    seen = container.seen.get((process.pid, process.start_time))
    return asdict(process) | {"name": seen and seen.name, "seen_pid": seen and seen.pid}
