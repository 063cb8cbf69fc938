"""Spans go to OpenTelemetry if it is installed. Here, a stand-in of its API records the calls."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import ModuleType

import pytest

from hami_core.observe import trace


@pytest.fixture
def told(monkeypatch):
    calls: list[tuple[str, dict[str, object]]] = []

    class Tracer:
        @contextmanager
        def start_as_current_span(self, name, attributes):
            calls.append((name, attributes))
            yield

    module = ModuleType("opentelemetry.trace")
    module.get_tracer = lambda name: Tracer()
    monkeypatch.setitem(sys.modules, "opentelemetry", ModuleType("opentelemetry"))
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", module)
    trace._tracer.cache_clear()
    yield calls
    trace._tracer.cache_clear()


def test_a_span_has_our_prefix_and_attributes(told):
    with trace.span("bind", pod="default/a"):
        pass
    assert told == [("hami.bind", {"hami.pod": "default/a"})]


def test_errors_pass_through(told):
    with pytest.raises(ValueError, match="inside"), trace.span("bind"):
        raise ValueError("inside")
