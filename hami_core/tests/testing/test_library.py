"""Simulated driver libraries are built from their C source."""

from __future__ import annotations

import ctypes

import pytest

from hami_core.errors import ConfigError
from hami_core.testing import build_library


def test_a_source_becomes_a_library_that_loads(tmp_path):
    source = tmp_path / "acme.c"
    source.write_text("int acme_count(void);\nint acme_count(void) { return 3; }\n")
    built = build_library(source, tmp_path / "lib" / "libacme.so")
    assert ctypes.CDLL(str(built)).acme_count() == 3


def test_a_source_with_a_fault_is_named_with_the_compilers_words(tmp_path):
    source = tmp_path / "acme.c"
    source.write_text("int acme_count(void) { return }\n")
    with pytest.raises(ConfigError, match=r"acme\.c: does not compile: (?s:.*)error"):
        build_library(source, tmp_path / "libacme.so")
