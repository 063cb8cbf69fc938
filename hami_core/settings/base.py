"""Reads settings from their sources. Errors name the source of the wrong value.

Precedence, highest first: flag, environment variable ``HAMI_<NAME>``, HAMi's own environment variable if it has one,
settings file (``--config`` or ``HAMI_CONFIG``), default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from pydantic import ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, InitSettingsSource, SettingsConfigDict

from hami_core.documents import below, did_you_mean, finding_in_words, load_mapping, read_text, resembling, shown
from hami_core.errors import ConfigError
from hami_core.model import EMPTY
from hami_core.settings.fields import PREFIX, env_names, flag_names
from hami_core.settings.flags import Given, parse_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pydantic_core import ErrorDetails
    from pydantic_settings import PydanticBaseSettingsSource

_TOLD: Final = 5
CONFIG: Final = "HAMI_CONFIG"
"""Environment variable that names the settings file."""


class _Environment(EnvSettingsSource):
    """Environment variables of a given mapping. Lists and mappings are comma lists, not JSON."""

    def __init__(self, settings_cls: type[BaseSettings], environment: Mapping[str, str]) -> None:
        self._environment = environment
        super().__init__(settings_cls)

    def __call__(self) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, field in self.settings_cls.model_fields.items():
            for variable in env_names(name, field):
                if variable in self._environment:
                    values[name] = self._environment[variable]
                    break
        return values


class Settings(BaseSettings):
    """Base of the processes' settings. Use `load`, or `from_arguments` for a command line, to make an instance."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, validate_default=True, env_prefix=PREFIX)

    IGNORED: ClassVar[Mapping[str, str]] = EMPTY
    """HAMi's flags that are accepted but have no effect: flag → why."""
    VARIABLES: ClassVar[Mapping[str, str]] = EMPTY
    """HAMi's flags that a vendor's settings answer: flag → HAMi's environment variable for it."""
    SWITCHES: ClassVar[frozenset[str]] = frozenset()
    """Those of `VARIABLES` that need no value."""

    @classmethod
    def load(
        cls,
        flags: Mapping[str, Any] = EMPTY,
        *,
        environment: Mapping[str, str] | None = None,
        file: Path | str | None = None,
    ) -> Self:
        """Read the settings from all sources.

        Args:
            flags: Setting name → value, for the settings given on the command line.
            environment: Environment variables; None: the process's own.
            file: The settings file; None: the file that ``HAMI_CONFIG`` names, if any.

        Raises:
            ConfigError: A value is wrong or a key is unknown; names where it was set and what is expected.
        """
        variables = os.environ if environment is None else environment
        path = file if file is not None else variables.get(CONFIG) or None
        content = load_mapping(read_text(Path(path)), str(path)) if path else {}
        in_file: dict[str, Any] = {}
        written: dict[str, str] = {}
        for key, value in content.items():
            name = key.replace("-", "_")
            if name not in cls.model_fields:
                fix = did_you_mean(name, cls.model_fields) or "see --help for all settings"
                raise ConfigError(f"{path}: {shown(name)[1:-1]}", "there is no such setting", fix)
            if name in in_file:
                raise ConfigError(f"{path}: {name}", "is given twice, with - and with _", "leave one of them out")
            in_file[name], written[name] = value, key
        sources: dict[str, Any] = {"_sources": (dict(flags), dict(variables), in_file)}
        try:
            return cls(**sources)
        except ValidationError as error:
            raise cls._explained(error, flags, variables, written, path) from error

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> tuple[Self, tuple[str, ...]]:
        """Read the settings from a command line in the form of HAMi's programs, and from all other sources.

        Returns:
            The settings, and one warning for each flag without effect and for each misspelt environment variable.

        Raises:
            ConfigError: An unknown flag, a flag without its value, or what `load` raises.
        """
        given = cls._parsed(arguments)
        settings = cls.load(given.values, file=given.config or None)
        misspelt = (
            f"environment variable {variable} has no effect: there is no such setting (did you mean {name}?)"
            for variable, name in cls._misspelt(os.environ)
        )
        return settings, (*given.warnings, *misspelt)

    @classmethod
    def variables_of(cls, arguments: Sequence[str]) -> Mapping[str, str]:
        """Read HAMi's flags that a vendor's settings answer: HAMi's environment variable → text.

        As in HAMi, such a flag outranks its variable. So the process sets these before it loads a vendor.

        Raises:
            ConfigError: An unknown flag, or a flag without its value.
        """
        return cls._parsed(arguments).variables

    @classmethod
    def _parsed(cls, arguments: Sequence[str]) -> Given:
        return parse_arguments(cls.model_fields, cls.IGNORED, arguments, cls.VARIABLES, cls.SWITCHES)

    @classmethod
    def _misspelt(cls, variables: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Return each variable that resembles one of ours, and the setting that was probably meant.

        Other variables that begin with HAMI_ are from Kubernetes (``HAMI_SCHEDULER_SERVICE_PORT``) or from a vendor.
        """
        known = cls.model_fields
        ours = {variable for name, field in known.items() for variable in env_names(name, field)}
        for variable in sorted(set(variables) - ours):
            name = variable.removeprefix(PREFIX).lower()
            meant = resembling(name, known, cutoff=0.85) if variable.startswith(PREFIX) else ""
            if meant and name not in known:
                yield variable, meant

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: flags, then environment, then file."""
        del env_settings, dotenv_settings, file_secret_settings
        given: dict[str, Any] = dict(getattr(init_settings, "init_kwargs", {}))
        flags, variables, in_file = given.pop("_sources", (given, {}, {}))
        return (
            InitSettingsSource(settings_cls, flags),
            _Environment(settings_cls, variables),
            InitSettingsSource(settings_cls, in_file),
        )

    @classmethod
    def _explained(
        cls,
        error: ValidationError,
        flags: Mapping[str, Any],
        variables: Mapping[str, str],
        written: Mapping[str, str],
        path: Path | str | None,
    ) -> ConfigError:
        findings = error.errors(include_url=False)
        told = [cls._told(finding, flags, variables, written, path) for finding in findings[:_TOLD]]
        (where, problem, fix), *others = told
        if not others:
            return ConfigError(where, problem, fix)
        problem = "; ".join([problem + (f" ({fix})" if fix else ""), *(str(ConfigError(*each)) for each in others)])
        left = len(findings) - len(told)
        return ConfigError(where, problem, f"and {left} more" if left else "")

    @classmethod
    def _told(
        cls,
        finding: ErrorDetails,
        flags: Mapping[str, Any],
        variables: Mapping[str, str],
        written: Mapping[str, str],
        path: Path | str | None,
    ) -> tuple[str, str, str]:
        """Return place, problem and fix of one finding."""
        name = str(finding["loc"][0]) if finding["loc"] else ""
        problem, fix = finding_in_words(finding)
        field = cls.model_fields.get(name)
        if field is None:
            where = str(path) if path and written else name or "settings"
            return where, str(finding["msg"]).removeprefix("Value error, "), ""
        flag, variables_of = flag_names(name, field)[0], env_names(name, field)
        if finding["type"] == "missing":
            wrong = "".join(f"; {each} has no effect" for each, meant in cls._misspelt(variables) if meant == name)
            return flag, "is required", f"give {flag} or set {variables_of[0]}{wrong}"
        variable = next((item for item in variables_of if item in variables), "")
        if name not in flags and variable:
            where = f"environment variable {variable}"
        elif name not in flags and name in written:
            where = f"{path}: {written[name]}"
        else:
            where = flag
        for part in finding["loc"][1:]:
            where = below(where, part)
        return where, problem, fix or field.description or ""
