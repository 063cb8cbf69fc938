"""Logging of the daemons by structlog, on stderr: colours on a terminal, else JSON."""

from __future__ import annotations

import logging
import sys
import threading
from typing import TYPE_CHECKING, Any, Literal, TextIO

import structlog

from hami_core.errors import ConfigError

if TYPE_CHECKING:
    from types import TracebackType

    from structlog.typing import Processor

_log = structlog.get_logger(__name__)

LEVELS = ("debug", "info", "warning", "error")
_without_locals = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)
"""Writes exceptions with their frames. Local variables may hold a whole cluster, or a key."""


def configure(
    level: str = "info",
    form: Literal["auto", "json", "console"] = "auto",
    *,
    stream: TextIO | None = None,
    **context: str,
) -> None:
    """Set up this process's logging, including the standard library's loggers, warnings and uncaught exceptions.

    Args:
        level: One of `LEVELS`.
        form: ``json``, ``console``, or ``auto`` (``console`` on a terminal, else ``json``).
        stream: Where lines go; default: stderr.
        context: Fields of every line, such as ``component="scheduler"``.

    Raises:
        ConfigError: The level is unknown.
    """
    if level not in LEVELS:
        raise ConfigError("log level", f"{level!r} is unknown", f"set one of {', '.join(LEVELS)}")
    out = stream if stream is not None else sys.stderr
    console = form == "console" or (form == "auto" and out.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    renderer: list[Processor] = (
        [structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback)]
        if console
        else [_without_locals, structlog.processors.JSONRenderer(serializer=_dumps)]
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    sys.excepthook = _log_uncaught
    sys.unraisablehook = _log_unraisable
    threading.excepthook = _log_thread
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(**context)


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    _log.critical("the process ends: uncaught exception", exc_info=(kind, error, trace))


def _log_unraisable(found: sys.UnraisableHookArgs) -> None:
    _log.error(
        "uncaught exception in a finalizer or callback",
        at=f"{found.err_msg or 'exception ignored in'} {found.object!r}",
        exc_info=(found.exc_type, found.exc_value, found.exc_traceback),
    )


def _log_thread(found: threading.ExceptHookArgs) -> None:
    if found.exc_type is SystemExit:
        return
    name = found.thread.name if found.thread is not None else "?"
    _log.error("a thread ended: uncaught exception", thread=name, exc_info=found[:3])


def _dumps(value: Any, default: Any = None, **_: Any) -> str:  # noqa: ANN401 - structlog's serializer signature
    import orjson  # noqa: PLC0415 - only the JSON form needs it

    return orjson.dumps(value, default=default, option=orjson.OPT_NON_STR_KEYS).decode()
