"""JSON in annotations: decoded by msgspec into typed structs, with `WireError` for all errors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from hami_core.errors import WireError

if TYPE_CHECKING:
    from msgspec.json import Decoder

T = TypeVar("T")

MAX_BYTES: Final = 1 << 20
"""Limit of an annotation's text; the API server allows 256 KiB for all annotations of an object."""

_BYTE = re.compile(r"\(byte (\d+)\)")
_ELEMENT = re.compile(r"at `\$\[(\d+)\]")


def decode(decoder: Decoder[T], text: str, *, key: str) -> T:
    """Decode an annotation's JSON.

    Raises:
        WireError: The text is malformed. Position is the byte of a syntax error, or the index of a wrong list element.
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
    """Encode without blanks, in the order of the fields."""
    return msgspec.json.encode(value).decode()
