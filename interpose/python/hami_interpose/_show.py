"""Words and figures for people. A container writes its region itself, so its texts may hold anything."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

MIB: Final = 1 << 20
_NS_UNITS: Final = (("s", 10**9), ("ms", 10**6), ("µs", 10**3))


def printable(text: str) -> str:
    """Returns the text with whatever could move a terminal's cursor, or confuse its width, replaced by `?`."""
    return "".join(char if " " <= char <= "~" else "?" for char in text)


def mib(size: int) -> str:
    """Bytes as whole MiB."""
    return f"{size / MIB:,.0f}"


def span(ns: int) -> str:
    """A length of time, in the largest unit that it fills."""
    for unit, length in _NS_UNITS:
        if ns >= length:
            return f"{ns / length:,.1f} {unit}"
    return f"{ns} ns"


def since(when: int, now: float) -> str:
    """How long ago a moment was (both in seconds since 1970), and the moment itself."""
    if not when:
        return "never"
    try:
        moment = datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"at no possible time ({when})"
    age = now - when
    return f"{max(age, 0):,.0f} s ago ({moment})" if age > -2 else f"{-age:,.0f} s from now ({moment})"


def bar(part: float, width: int) -> str:
    """A bar of `width` characters, brackets included, filled to `part` of 1; empty where there is no room for one."""
    inner = width - 2
    if inner < 3:
        return ""
    filled = round(min(max(part, 0.0), 1.0) * inner)
    return f"[{'#' * filled}{'.' * (inner - filled)}]"
