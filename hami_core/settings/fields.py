"""What one field of a settings model is called: on the command line, in the environment, in HAMi."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic.fields import FieldInfo

PREFIX: Final = "HAMI_"
"""What our environment variables begin with."""


def notes(*, flags: Sequence[str] = (), env: Sequence[str] = (), group: str = "") -> dict[str, Any]:
    """What a field's ``json_schema_extra`` tells beyond pydantic: HAMi's flag names, HAMi's variables, the heading."""
    return {"flags": list(flags), "env": list(env), "group": group}


def note(field: FieldInfo, name: str) -> Any:  # noqa: ANN401 - a list or a string of `notes`
    """One entry of a field's `notes`."""
    extra = field.json_schema_extra
    empty: Any = "" if name == "group" else []
    return extra.get(name, empty) if isinstance(extra, dict) else empty


def flag_names(name: str, field: FieldInfo) -> tuple[str, ...]:
    """All spellings of a setting's flag, the main one first."""
    return tuple(dict.fromkeys([f"--{name.replace('_', '-')}", *note(field, "flags")]))


def env_names(name: str, field: FieldInfo) -> tuple[str, ...]:
    """All environment variables of a setting, the strongest first."""
    return (PREFIX + name.upper(), *note(field, "env"))
