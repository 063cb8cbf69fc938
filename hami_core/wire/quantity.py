"""Kubernetes quantities, and HAMi's plain numbers. Arithmetic is exact: integers and fractions, never floats."""

from __future__ import annotations

import re
from fractions import Fraction
from string import ascii_letters
from typing import Final

from hami_core.errors import RequestError, WireError
from hami_core.model import INT32_MAX

MIB: Final = 1 << 20
"""Bytes in a MiB."""

MAX_MEMORY_MIB: Final = 1 << 20
"""Limit of memory of one device in MiB: 1 TiB, more than any device has."""

MAX_TEXT: Final = 64
"""Limit of a quantity's characters; the API server writes at most about 25."""

_QUANTITY = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([eE])([+-]?[0-9]{1,3})|([A-Za-z]{0,2}))", re.ASCII)
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_PLAIN: Final = frozenset({"", "k"})
"""Suffixes of plain numbers: the API server writes 1000 as 1k."""
_FRACTIONS: Final = frozenset({"m", "u", "n"})
_MAX_EXPONENT: Final = 64
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def parse_quantity(text: str) -> int | Fraction:
    """Read a Kubernetes quantity (``2``, ``1k``, ``16Gi``, ``500m``, ``1e3``) exactly.

    Returns:
        An integer if the value is whole, else a fraction.

    Raises:
        WireError: The text is not a quantity, or its exponent is larger than any real amount needs.

    Example:
        >>> parse_quantity("16Gi"), parse_quantity("1500m")
        (17179869184, Fraction(3, 2))
    """
    if len(text) <= MAX_TEXT and text.isascii() and text.isdigit():
        return int(text)
    match = _QUANTITY.fullmatch(text) if len(text) <= MAX_TEXT else None
    if match is None:
        raise WireError("quantity", 0, f"{text[:MAX_TEXT]!r} is not a Kubernetes quantity")
    sign, digits, exponential, exponent, suffix = match.groups()
    value = Fraction(digits)
    if exponential:
        if abs(int(exponent)) > _MAX_EXPONENT:
            raise WireError("quantity", match.start(4), f"{text!r}: exponent beyond {_MAX_EXPONENT}")
        value *= Fraction(10) ** int(exponent)
    elif suffix in _BINARY:
        value *= 1 << (10 * _BINARY[suffix])
    elif suffix in _DECIMAL:
        value *= Fraction(10) ** _DECIMAL[suffix]
    else:
        raise WireError("quantity", match.start(5), f"{text!r}: unknown suffix {suffix!r}")
    if sign == "-":
        value = -value
    return value.numerator if value.denominator == 1 else value


def parse_whole(text: str, *, where: str, field: str) -> int:
    """Read a quantity that must be a whole number without a unit, of either sign and any size.

    ``1k`` is accepted, because the API server rewrites ``1000`` to it. Other suffixes are refused. HAMi reads ``1M``
    and ``1Gi`` as so many devices or percent, which no user means.

    Raises:
        RequestError: The text is not such a number; names the object, the field and what to write.

    Example:
        >>> parse_whole("-1k", where="container trainer", field="acme.example/priority")
        -1000
    """
    value = _value(text, where, field)
    suffix = _suffix(text)
    if suffix not in _PLAIN and suffix not in _FRACTIONS and value:
        fix = f"write a plain whole number: {_written(text)}"
        raise RequestError(where, field, f"{text!r} has a unit", fix)
    if isinstance(value, Fraction):
        raise RequestError(where, field, f"{text!r} is not a whole number", f"write {value.__ceil__()}")
    return value


def parse_memory(
    text: str,
    *,
    where: str,
    field: str,
    factor: int = 1,
    maximum_mib: int = MAX_MEMORY_MIB,
    whole_millions: bool = False,
) -> int:
    """Read an amount of device memory: a plain number, in the resource's unit.

    The API server rewrites quantities before we read them: ``1000`` to ``1k``, ``1000000`` to ``1M``, ``3000M`` to
    ``3G``, ``3000m`` to ``3``. So ``k`` may be part of a plain number. Suffixes of sizes in bytes are refused, with the
    number to write instead. An amount above ``maximum_mib`` is refused in any spelling.

    Args:
        text: The quantity as the API server keeps it.
        where: The object, such as ``container trainer``.
        field: The resource name.
        factor: MiB per unit of the resource.
        maximum_mib: Largest amount allowed, in MiB.
        whole_millions: Whether ``M`` may also be part of a plain number. One card never has a million MiB, but a
            namespace's quota may, and the API server writes 2000000 as 2M.

    Returns:
        The amount in MiB.

    Raises:
        RequestError: The text is not such an amount; names the object, the field, the value and what to write.
    """
    value = _value(text, where, field)
    if value < 0:
        raise RequestError(where, field, f"{text} is negative", "write a whole number from 0 up")
    suffix = _suffix(text)
    plain = suffix in _PLAIN or (whole_millions and suffix == "M")
    unit = "MiB" if factor == 1 else f"units of {factor} MiB"
    meant = (value / (MIB * factor)).__ceil__()
    offer = f"in {unit} that is {meant}: write {meant}"
    if meant * factor > maximum_mib:
        offer = f"write at most {maximum_mib // factor}"
    if not plain and suffix not in _FRACTIONS and value:
        as_plain = value.__ceil__() + 1
        if as_plain * factor <= maximum_mib and suffix in _DECIMAL:
            offer += f", or {as_plain} if {unit} are meant"
        raise RequestError(where, field, f"{text!r} has a unit and asks for {value.__ceil__()} {unit} here", offer)
    if suffix in _FRACTIONS and value:
        problem = f"{text!r} is not a whole number" if isinstance(value, Fraction) else f"{text!r} has a unit"
        fix, written = f"write {value.__ceil__()}", _written(text)
        if written * factor <= maximum_mib:
            fix += f", or {written} if {suffix} stands for {unit}"
        raise RequestError(where, field, problem, fix)
    if isinstance(value, Fraction):
        raise RequestError(where, field, f"{text!r} is not a whole number", f"write {value.__ceil__()}")
    if value * factor > maximum_mib:
        problem = f"{text} is above the largest amount {maximum_mib // factor}, in {unit}"
        raise RequestError(where, field, problem, _meant(value, factor, offer))
    return value * factor


def _meant(value: int, factor: int, offer: str) -> str:
    """What to write instead of an amount that is too large for its unit: it was meant in MiB, or in bytes."""
    if value < MIB:  # less than 1 MiB in bytes
        return f"if MiB are meant, write {-(-value // factor)}"
    return f"if bytes are meant, {offer}" if "that is" in offer else offer


def parse_amount(text: str, *, where: str, field: str, maximum: int = INT32_MAX) -> int:
    """Read a whole number from 0 up, which HAMi requires for counts, memory and cores.

    Args:
        text: The quantity as the API server keeps it.
        where: The object, such as ``container trainer``.
        field: The resource name.
        maximum: Largest amount allowed.

    Raises:
        RequestError: The text is not such a number; names the object, the field, the value and what to write.

    Example:
        >>> parse_amount("16", where="container trainer", field="acme.example/npu")
        16
    """
    value = parse_whole(text, where=where, field=field)
    if value < 0:
        raise RequestError(where, field, f"{text} is negative", "write a whole number from 0 up")
    if value > maximum:
        raise RequestError(where, field, f"{text} is above the largest amount {maximum}", "ask for less")
    return value


def parse_int_go(text: str, *, minimum: int = -INT32_MAX - 1, maximum: int = INT32_MAX) -> int:
    """Read a decimal integer as Go's ``strconv.ParseInt`` does: an optional sign and ASCII digits, without blanks.

    Raises:
        ValueError: The text is not such a number. The message is Go's; callers put it after HAMi's own.
    """
    if _INTEGER.fullmatch(text) is None:
        too_long = re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII) is not None
        why = "value out of range" if too_long else "invalid syntax"
        raise ValueError(f"strconv.ParseInt: parsing {_quoted(text)}: {why}")
    value = int(text)
    if not minimum <= value <= maximum:
        raise ValueError(f"strconv.ParseInt: parsing {_quoted(text)}: value out of range")
    return value


def parse_bool_go(text: str) -> bool | None:
    """Read a boolean in any of Go's spellings (1, t, T, TRUE, true, True and their opposites); None: another text.

    Example:
        >>> parse_bool_go("T"), parse_bool_go("0"), parse_bool_go("yes")
        (True, False, None)
    """
    if text in _TRUE:
        return True
    return False if text in _FALSE else None


def _value(text: str, where: str, field: str) -> int | Fraction:
    try:
        return parse_quantity(text)
    except WireError as error:
        raise RequestError(where, field, error.problem, "write a plain whole number") from None


def _suffix(text: str) -> str:
    """Return the letters at the end of a quantity. An exponent's letter is not one, since digits follow it."""
    return text[len(text.rstrip(ascii_letters)) :]


def _written(text: str) -> int:
    """Return the number before a quantity's suffix, rounded up."""
    return Fraction(text.rstrip(ascii_letters)).__ceil__()


def _quoted(text: str) -> str:
    shown = text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"
    return '"' + shown.encode("unicode_escape").decode().replace('"', '\\"') + '"'
