"""Command lines in the form of HAMi's programs: Go's flag forms, HAMi's flag names, and help from the models."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any, Final

from hami_core.documents import did_you_mean
from hami_core.errors import ConfigError
from hami_core.model import EMPTY
from hami_core.settings.fields import env_names, flag_names, note
from hami_core.settings.values import duration_text, parse_duration

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

_KLOG: Final = "klog's own flag; see --log-level and --log-format"
KLOG: Final = {
    f"--{name}": _KLOG
    for name in (
        "add_dir_header",
        "alsologtostderr",
        "log_backtrace_at",
        "log_dir",
        "log_file",
        "log_file_max_size",
        "logtostderr",
        "one_output",
        "skip_headers",
        "skip_log_headers",
        "stderrthreshold",
        "vmodule",
    )
}
_BOOLS: Final = {"add_dir_header", "alsologtostderr", "logtostderr", "one_output", "skip_headers", "skip_log_headers"}
_DEBUG_VERBOSITY: Final = 5
"""klog verbosity from which HAMi's programs log details."""


@dataclass(frozen=True, slots=True)
class Given:
    """The content of a command line.

    Attributes:
        values: Setting name → text.
        config: The settings file; empty: none was named.
        warnings: One sentence for each flag without effect.
        variables: Environment variable → text, of flags that a vendor's settings answer.
    """

    values: dict[str, Any]
    config: str
    warnings: tuple[str, ...]
    variables: dict[str, str]


def parse_arguments(
    fields: Mapping[str, FieldInfo],
    ignored: Mapping[str, str],
    arguments: Sequence[str],
    variables: Mapping[str, str] = EMPTY,
    switches: Collection[str] = (),
) -> Given:
    """Read flags: ``--name value``, ``--name=value``, one dash or two, switches as ``--name`` or ``--name=false``.

    Args:
        fields: The settings by name.
        ignored: Flags that are accepted and do nothing, beside klog's: flag → why.
        arguments: The words of the command line.
        variables: Flags that stand for an environment variable: flag → variable. Several values are joined by commas.
        switches: Those of them that need no value.

    Raises:
        ConfigError: An unknown flag, a word that belongs to no flag, or a flag without its value.
    """
    known = _names_by_flag(fields)
    ignored = {**KLOG, **ignored}
    values: dict[str, Any] = {}
    config = ""
    warnings: list[str] = []
    told: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word.strip("-") == "":
            raise ConfigError("command line", f"{word!r} belongs to no flag", "write --name=value")
        flag, equals, text = ("--" + word.lstrip("-")).partition("=")
        dashed = flag.replace("_", "-")
        flag = dashed if flag not in known and (dashed in known or dashed in variables) else flag
        name = known.get(flag)
        if not name and flag not in ignored and flag not in variables and flag not in {"--config", "--v"}:
            fix = did_you_mean(flag, [*known, *ignored, *variables, "--config"]) or "see --help"
            raise ConfigError(flag, "there is no such flag", fix)
        switch = _is_switch(fields[name]) if name else flag[2:] in _BOOLS or flag in switches
        if not equals:
            text = "true" if switch else _next(rest, flag)
        if flag == "--config":
            config = text
        elif flag == "--v":
            values.setdefault("log_level", _level(text))
        elif name:
            values[name] = text
        elif flag in variables:
            before = told.get(variables[flag])
            told[variables[flag]] = f"{before},{text}" if before and flag not in switches else text
        else:
            warnings.append(f"{flag} has no effect here: {ignored[flag]}")
    return Given(values, config, tuple(warnings), told)


def help_text(model: type[BaseModel], usage: str) -> str:
    """Write the ``--help`` of a process: every setting with flag, default, meaning and variable, by heading."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name, field in model.model_fields.items():
        head = f"  {', '.join(flag_names(name, field))}"
        shown = "" if field.is_required() else f" (default {default_text(field)})"
        body = fill(f"{field.description}{shown}", 96, initial_indent=" " * 8, subsequent_indent=" " * 8)
        groups[note(field, "group")].append(f"{head}\n{body}\n        {', '.join(env_names(name, field))}")
    sections = [f"{group}:\n" + "\n".join(lines) for group, lines in groups.items()]
    intro = (
        f"Usage: {usage}\n\n{model.__doc__ or ''}".rstrip()
        + "\n\nA flag outranks its environment variable, which outranks the settings file (--config FILE or"
        "\nHAMI_CONFIG), which outranks the default. Switches take --name and --name=false."
    )
    return "\n\n".join([intro, *sections]) + "\n"


def default_text(field: FieldInfo) -> str:
    """Write a default as on a command line."""
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or value in ("", (), {}):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if not isinstance(value, float):
        return str(value)
    is_duration = any(getattr(check, "func", None) is parse_duration for check in field.metadata)
    return duration_text(value) if is_duration else f"{value:g}"


def _next(rest: list[str], flag: str) -> str:
    """Take a flag's value, which is the next word."""
    if not rest:
        raise ConfigError(flag, "needs a value", f"write {flag}=…")
    return rest.pop(0)


def _names_by_flag(fields: Mapping[str, FieldInfo]) -> dict[str, str]:
    return {flag: name for name, field in fields.items() for flag in flag_names(name, field)}


def _is_switch(field: FieldInfo) -> bool:
    return field.annotation is bool


def _level(verbosity: str) -> str:
    """Return the log level for a klog verbosity, such as the 4 of ``-v=4``."""
    if verbosity == "false":  # HAMi's charts up to 2.5 start their agent with -v=false.
        return "info"
    if not verbosity.isdigit():
        raise ConfigError("-v", f"{verbosity!r} is not a whole number", "or use --log-level")
    return "debug" if int(verbosity) >= _DEBUG_VERBOSITY else "info"
