"""Quantities are read exactly and within bounds."""

from __future__ import annotations

import contextlib
import functools
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core.errors import RequestError, WireError
from hami_core.wire.quantity import (
    MAX_MEMORY_MIB,
    MIB,
    parse_amount,
    parse_bool_go,
    parse_int_go,
    parse_memory,
    parse_quantity,
)


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
def test_quantities_have_their_exact_value(text, value):
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
def test_text_that_is_not_a_quantity_is_refused(text):
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
    with contextlib.suppress(RequestError):
        assert 0 <= parse_memory(text, where="w", field="f") <= MAX_MEMORY_MIB
    with contextlib.suppress(ValueError):
        assert str(parse_int_go(text)) == str(int(text))


@pytest.mark.parametrize(
    ("text", "factor", "mib"),
    [
        ("0", 1, 0),
        ("0Gi", 1, 0),
        ("-0", 1, 0),
        ("0e1", 1, 0),
        ("1k", 1, 1000),
        ("20k", 1, 20_000),
        ("1e3", 1, 1000),
        ("1048576", 1, 1 << 20),
        ("4096", 256, 1 << 20),
        ("1k", 256, 256_000),
    ],
)
def test_plain_memory_is_read_whatever_the_api_server_made_of_it(text, factor, mib):
    assert parse_memory(text, where="w", field="f", factor=factor) == mib


@pytest.mark.parametrize("suffix", ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "M", "G", "T", "P", "E"])
@pytest.mark.parametrize("digits", ["1", "8", "24", "1500", "1.5", ".5"])
@pytest.mark.parametrize("factor", [1, 256])
def test_memory_in_bytes_is_refused_with_the_number_to_write(digits, suffix, factor):
    unit = MIB * factor
    meant = -(-Fraction(parse_quantity(digits + suffix)) // unit)
    number = f"write {meant}" if meant * factor <= MAX_MEMORY_MIB else f"write at most {MAX_MEMORY_MIB // factor}"
    with pytest.raises(RequestError, match=rf"^w: f: '{digits}{suffix}' has a unit .*{number}\b"):
        parse_memory(digits + suffix, where="w", field="f", factor=factor)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("1G", "asks for 1000000000 MiB here (in MiB that is 954: write 954)"),
        ("8G", "write 7630)"),
        ("1M", "in MiB that is 1: write 1, or 1000001 if MiB are meant"),
        ("3000m", "'3000m' has a unit (write 3, or 3000 if m stands for MiB)"),
        ("1500m", "'1500m' is not a whole number (write 2, or 1500 if m stands for MiB)"),
        ("500u", "write 1, or 500 if u stands for MiB"),
        ("3000500m", "'3000500m' is not a whole number (write 3001)"),
        ("7n", "write 1, or 7 if n stands for MiB"),
        ("0.5", "'0.5' is not a whole number (write 1)"),
        ("-1", "-1 is negative"),
        ("1048577", "above the largest amount 1048576, in MiB"),
        ("1500k", "above the largest amount 1048576, in MiB"),
        ("8e9", "if bytes are meant, in MiB that is 7630: write 7630"),
        ("8589934592", "if bytes are meant, in MiB that is 8192: write 8192"),
        ("1K", "unknown suffix 'K'"),
    ],
)
def test_meaningless_memory_is_refused_with_the_fix(text, told):
    with pytest.raises(RequestError, match=re.escape(told)):
        parse_memory(text, where="w", field="f")


def test_memory_in_mib_instead_of_units_is_told():
    with pytest.raises(RequestError, match=r"5000 is above .* in units of 256 MiB .if MiB are meant, write 20\)"):
        parse_memory("5000", where="w", field="f", factor=256)


def test_memory_of_many_cards_has_its_own_bound_and_millions():
    read = functools.partial(parse_memory, where="w", field="f", maximum_mib=10**8, whole_millions=True)
    assert [read("3M"), read("1500k"), read("2097152")] == [3_000_000, 1_500_000, 2_097_152]
    with pytest.raises(RequestError, match="in MiB that is 477: write 477"):
        read("500M")
    with pytest.raises(RequestError, match="'1G' has a unit"):
        read("1G")


@pytest.mark.parametrize("suffix", ["M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti"])
def test_counts_and_percent_with_a_unit_are_refused(suffix):
    with pytest.raises(RequestError, match=rf"'30{suffix}' has a unit .*: 30\)"):
        parse_amount(f"30{suffix}", where="w", field="f")
    assert parse_amount(f"0{suffix}", where="w", field="f") == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [("T", True), ("1", True), ("False", False), ("0", False), ("yes", None), ("", None), ("tRUE", None)],
)
def test_go_booleans(text, value):
    assert parse_bool_go(text) is value
