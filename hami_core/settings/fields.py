"""Names of a setting on the command line, in the environment and in HAMi."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic.fields import FieldInfo

PREFIX: Final = "HAMI_"
"""Prefix of our environment variables."""


def notes(*, flags: Sequence[str] = (), env: Sequence[str] = (), group: str = "") -> dict[str, Any]:
    """Make a field's ``json_schema_extra``: HAMi's names of the flag, HAMi's variables, the heading in ``--help``."""
    return {"flags": list(flags), "env": list(env), "group": group}


def note(field: FieldInfo, name: str) -> Any:  # noqa: ANN401 - a list or a string of `notes`
    """Return one entry of a field's `notes`."""
    extra = field.json_schema_extra
    empty: Any = "" if name == "group" else []
    return extra.get(name, empty) if isinstance(extra, dict) else empty


def flag_names(name: str, field: FieldInfo) -> tuple[str, ...]:
    """Return all names of a setting's flag, ours first."""
    return tuple(dict.fromkeys([f"--{name.replace('_', '-')}", *note(field, "flags")]))


def env_names(name: str, field: FieldInfo) -> tuple[str, ...]:
    """Return all environment variables of a setting, in order of precedence."""
    return (PREFIX + name.upper(), *note(field, "env"))
