"""JSON that stands in an annotation: decoded into typed structs by msgspec, its errors told as `WireError`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from hami_core.errors import WireError

if TYPE_CHECKING:
    from msgspec.json import Decoder

T = TypeVar("T")

MAX_BYTES: Final = 1 << 20
"""Longest annotation text looked at; the API server allows 256 KiB for all annotations of an object."""

_BYTE = re.compile(r"\(byte (\d+)\)")
_ELEMENT = re.compile(r"at `\$\[(\d+)\]")


def decode(decoder: Decoder[T], text: str, *, key: str) -> T:
    """Decode an annotation's JSON.

    Raises:
        WireError: Position is the byte of a syntax error, or the index of the list element that does not conform.
    """
    if len(text) > MAX_BYTES:
        raise WireError(key, MAX_BYTES, f"text of {len(text)} characters is too long")
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        problem = str(error)
        found = _BYTE.search(problem) or _ELEMENT.search(problem)
        end = len(text) if "truncated" in problem else -1
        raise WireError(key, int(found[1]) if found else end, problem) from None


def encode(value: Any) -> str:  # noqa: ANN401 - whatever msgspec encodes
    """Encode compactly, in the order of the fields."""
    return msgspec.json.encode(value).decode()
