"""Quantities, exact and bounded."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core.errors import RequestError, WireError
from hami_core.wire.quantity import parse_amount, parse_bool_go, parse_int_go, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1k", 1000),
        ("1Ki", 1024),
        ("16.0Gi", 16 << 30),
        ("1.5Gi", 3 << 29),
        ("500m", Fraction(1, 2)),
        ("2000m", 2),
        ("1e3", 1000),
        ("1E", 10**18),
        ("1E2", 100),
        ("1e-3", Fraction(1, 1000)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("-1m", Fraction(-1, 1000)),
        ("+3M", 3_000_000),
    ],
)
def test_values(text, value):
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1K",
        "1ki",
        "1kk",
        "k",
        ".",
        "-",
        "1e",
        "1e9999",
        "1e99",
        "0x10",
        "1_0",
        "\u0663",
        "1\n",
        "9" * 99,
    ],
)
def test_no_quantity(text):
    with pytest.raises(WireError):
        parse_quantity(text)


@given(st.integers(-(2**62), 2**62))
def test_whole_numbers_are_themselves(number):
    assert parse_quantity(str(number)) == number
    if 0 <= number < 2**31:
        assert parse_amount(str(number), where="w", field="f") == number
    else:
        with pytest.raises(RequestError, match=r"^w: f: "):
            parse_amount(str(number), where="w", field="f")


@given(st.text(max_size=80) | st.from_regex(r"[+-]?[0-9.]{0,30}[eEKMGTPikmun]{0,2}[0-9]{0,4}", fullmatch=True))
def test_any_text_is_a_bounded_number_or_an_error(text):
    with contextlib.suppress(WireError):
        assert abs(parse_quantity(text)) < 10**130
    with contextlib.suppress(RequestError):
        assert 0 <= parse_amount(text, where="w", field="f") < 2**31
    with contextlib.suppress(ValueError):
        assert str(parse_int_go(text)) == str(int(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [("T", True), ("1", True), ("False", False), ("0", False), ("yes", None), ("", None), ("tRUE", None)],
)
def test_go_booleans(text, value):
    assert parse_bool_go(text) is value
