"""Trace spans, if OpenTelemetry is installed; otherwise nothing happens."""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@cache
def _tracer() -> Any:  # noqa: ANN401 - an optional dependency's type
    try:
        return importlib.import_module("opentelemetry.trace").get_tracer("hami")
    except ImportError:
        return None


@contextmanager
def span(name: str, **attributes: str | float | bool) -> Iterator[None]:
    """A trace span around the block, with attributes such as ``pod="default/a"``."""
    tracer = _tracer()
    if tracer is None:
        yield
        return
    with tracer.start_as_current_span(f"hami.{name}", attributes={f"hami.{k}": v for k, v in attributes.items()}):
        yield
