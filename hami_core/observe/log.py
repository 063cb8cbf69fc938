"""Logging of the daemons: structlog, JSON where nobody looks, colours on a terminal, always on stderr."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Literal, TextIO

import structlog

from hami_core.errors import ConfigError

if TYPE_CHECKING:
    from structlog.typing import Processor

LEVELS = ("debug", "info", "warning", "error")


def configure(
    level: str = "info",
    form: Literal["auto", "json", "console"] = "auto",
    *,
    stream: TextIO | None = None,
    **context: str,
) -> None:
    """Set up logging of this process, the standard library's loggers included.

    Args:
        level: One of `LEVELS`.
        form: ``json``, ``console`` or by whether the stream is a terminal.
        stream: Where to; default stderr.
        context: Bound to every line, such as ``component="scheduler"``.

    Raises:
        ConfigError: Unknown level.
    """
    if level not in LEVELS:
        raise ConfigError("log level", f"{level!r} is unknown", f"one of {', '.join(LEVELS)}")
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
        [structlog.dev.ConsoleRenderer(colors=out.isatty())]
        if console
        else [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer(serializer=_dumps)]
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
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(**context)


def _dumps(value: Any, default: Any = None, **_: Any) -> str:  # noqa: ANN401 - structlog's serializer signature
    import orjson  # noqa: PLC0415 - only the JSON form needs it

    return orjson.dumps(value, default=default, option=orjson.OPT_NON_STR_KEYS).decode()
