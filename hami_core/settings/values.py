"""Types of settings, which accept the same forms as HAMi's flags."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from hami_core.documents import none_of, shown
from hami_core.policies import DEVICE_POLICIES, NODE_POLICIES

if TYPE_CHECKING:
    from collections.abc import Collection

DAY: Final = 86400.0
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h|d)")
_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]*):(?P<port>\d{1,5})")
_RESOURCE: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


def parse_duration(text: Any) -> Any:  # noqa: ANN401 - pydantic hands in whatever was given
    """Read seconds (``90``, ``1.5``), Go's form (``5m``, ``1h30m``, ``250ms``) or days (``90d``) as seconds.

    Raises:
        ValueError: The text has neither form.
    """
    if not isinstance(text, str):
        return text
    plain = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", plain):
        return float(plain)
    parts = _PART.findall(plain)
    if not parts or "".join(number + unit for number, unit in parts) != plain:
        raise ValueError(f"{shown(text)} is not a duration; write seconds or a form such as 5m, 1h30m, 250ms")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def duration_text(seconds: float) -> str:
    """Write seconds in the largest unit that gives a whole number.

    Example:
        >>> duration_text(90 * DAY), duration_text(660.0), duration_text(90.0), duration_text(0.5), duration_text(0.0)
        ('90d', '11m', '90s', '0.5s', '0')
    """
    if not seconds:
        return "0"
    unit = next((unit for unit in ("d", "h", "m") if seconds % _UNITS[unit] == 0), "s")
    return f"{seconds / _UNITS[unit]:g}{unit}"


def check_address(text: str) -> str:
    """Accept ``host:port``, ``:port``, ``[v6]:port``, ``unix:/path``, or empty for none.

    Raises:
        ValueError: Anything else.
    """
    if not text or text.startswith(("unix:/", "/")):
        return text
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ValueError(f"{shown(text)} is no address; write host:port, :port or unix:/path")
    return text


def split_list(value: Any) -> Any:  # noqa: ANN401 - as above
    """Read ``a,b`` or a list as a tuple."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def split_selector(value: Any) -> Any:  # noqa: ANN401 - as above
    """Read ``key=value,key2=value2`` or a mapping as a mapping.

    Raises:
        ValueError: A part has no ``=``.
    """
    if not isinstance(value, str):
        return value
    pairs: dict[str, str] = {}
    for part in split_list(value):
        key, equals, given = part.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"{shown(part)} is no label; write key=value,key2=value2")
        pairs[key.strip()] = given.strip()
    return pairs


def check_policy(text: str, words: Collection[str]) -> str:
    """Accept one of the words.

    Raises:
        ValueError: Anything else.
    """
    if text not in words:
        raise ValueError(none_of(text, words))
    return text


def check_chain(text: str, words: Collection[str]) -> str:
    """Accept one of the words or a comma list of them.

    Raises:
        ValueError: Anything else.
    """
    for word in text.split(","):
        check_policy(word.strip(), words)
    return text


def check_resource(text: str) -> str:
    """Accept the name of an extended resource.

    Raises:
        ValueError: The text is another name, such as ``cpu``, which every pod may ask for.
    """
    domain = text.partition("/")[0]
    if _RESOURCE.fullmatch(text) is None or f".{domain}".endswith(".kubernetes.io"):
        raise ValueError(f"{shown(text)} is no name of an extended resource; write such as example.com/npu")
    return text


Folder = Annotated[Path, AfterValidator(Path.absolute)]
"""A folder; a relative path starts at the process's working folder."""

Seconds = Annotated[float, BeforeValidator(parse_duration), Field(ge=0, le=365 * DAY, allow_inf_nan=False)]
"""A duration: a number of seconds, Go's form ``5m30s``, or days ``90d``."""
Address = Annotated[str, AfterValidator(check_address)]
"""A listener: ``host:port``, ``:port``, ``unix:/path``; empty: none."""
ResourceName = Annotated[str, AfterValidator(check_resource)]
"""Name of an extended resource."""
Names = Annotated[tuple[str, ...], BeforeValidator(split_list)]
"""Words, as a list or separated by commas."""
ResourceNames = Annotated[tuple[ResourceName, ...], BeforeValidator(split_list)]
"""Names of extended resources, as a list or separated by commas."""
Labels = Annotated[dict[str, str], BeforeValidator(split_selector)]
"""Labels, as a mapping or ``key=value,key2=value2``."""
NodePolicyWord = Annotated[str, AfterValidator(partial(check_policy, words=NODE_POLICIES))]
"""How nodes are preferred."""
DevicePolicyWords = Annotated[str, AfterValidator(partial(check_chain, words=DEVICE_POLICIES))]
"""How devices are preferred: a word, or a comma list of them."""
