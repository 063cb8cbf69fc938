"""Finds the hook that a thread is in from the thread's stack, so that calls of hooks need no bookkeeping.

Every call of a plugin goes through a function of this package that has the `HookCall` or the `Source` in a local
variable. The innermost such frame names the hook.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hami_core.plugins.call import HookCall
from hami_core.plugins.discovery import Source

if TYPE_CHECKING:
    from types import CodeType, FrameType

IMPORT: Final = "import"
"""The name of the hook while a plugin is imported."""
_PACKAGE: Final = "hami_core.plugins."


@dataclass(frozen=True, slots=True)
class Running:
    """The plugin code that a thread runs now.

    Attributes:
        owner: The vendor whose hook was called.
        culprit: The plugin whose code runs: the vendor, or a wrapper around its hook.
        hook: The hook; empty for a constructor, `IMPORT` while the plugin is imported.
        at_load: Whether the vendor is being loaded.
    """

    owner: Source
    culprit: Source
    hook: str
    at_load: bool = False

    def __str__(self) -> str:
        by = f", in {self.culprit.label} that wraps it" if self.culprit != self.owner else ""
        return f"vendor {self.owner.name} ({self.owner.label}), {self.hook or 'its constructor'}{by}"


def running(frame: FrameType | None) -> Running | None:
    """Return the hook that a thread with this innermost frame is in; None: it is in no hook."""
    codes: list[CodeType] = []
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if isinstance(module, str) and module.startswith(_PACKAGE):
            found = _named_by(frame, codes)
            if found is not None:
                return found
        codes.append(frame.f_code)
        frame = frame.f_back
    return None


def _named_by(frame: FrameType, codes: list[CodeType]) -> Running | None:
    known = frame.f_locals
    call, hook, source = known.get("call", known.get("self")), known.get("hook"), known.get("source")
    if isinstance(call, HookCall):
        return Running(call.owner, call.culprit(reversed(codes)), call.name)
    if isinstance(source, Source):
        imports = frame.f_globals.get("__name__") == "hami_core.plugins.discovery"
        name = IMPORT if imports else hook if isinstance(hook, str) else ""
        return Running(source, source, name, at_load=True)
    return None
