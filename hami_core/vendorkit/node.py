"""What a vendor's node side needs: settings, what it writes to the node, paths of limits, waiting for room, intents."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self, TypeVar

from pydantic import AliasChoices, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from hami_core.documents import did_you_mean, finding_in_words
from hami_core.errors import ConfigError, DeviceError
from hami_core.vendorkit.intents import Intent, Intents, Owner
from hami_core.wire.env import LIMITS_DIR, PRELOAD_PATH, REGION_DIR, VGPU_ROOT
from hami_core.wire.node import encode_devices_json, encode_pair_scores, format_reported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hami_core.model import Slice

__all__ = [
    "LIMITS_DIR",
    "PRELOAD_PATH",
    "REGION_DIR",
    "VGPU_ROOT",
    "EnvironmentSettings",
    "Intent",
    "Intents",
    "Owner",
    "encode_devices_json",
    "encode_pair_scores",
    "format_reported",
    "slices_by_device",
    "wait_for_room",
]

log = logging.getLogger(__name__)

_ROOM_WAIT_S: Final = 5.0
"""How long `allocate`, which may take 10 s, waits for room on a full device."""
_ROOM_POLL_S: Final = 0.05
_T = TypeVar("_T")


def wait_for_room(
    make: Callable[[], _T],
    is_full: Callable[[DeviceError], bool],
    clock: Callable[[], float],
    sleep: Callable[[float], object],
) -> _T:
    """Call ``make`` again while the device is full, for 5 s at most: a container that has just ended is released soon.

    The kubelet tells of the end of a pod when it admits the next one. So `allocate` and `release` come at one time.

    Args:
        make: Makes or finds what a container gets of a device.
        is_full: Whether an error of ``make`` says that the device has no room.
        clock: Returns monotonic seconds, such as ``time.monotonic``.
        sleep: Waits so many seconds, such as ``time.sleep``.

    Raises:
        DeviceError: The device is still full, or ``make`` failed otherwise.

    Example:
        >>> import time
        >>> wait_for_room(lambda: "instance 1", lambda error: True, time.monotonic, time.sleep)
        'instance 1'
    """
    deadline = clock() + _ROOM_WAIT_S
    while True:
        try:
            return make()
        except DeviceError as error:
            if not is_full(error) or clock() >= deadline:
                raise
        sleep(_ROOM_POLL_S)


def slices_by_device(slices: Iterable[Slice]) -> dict[str, Slice]:
    """Return one slice for each device, by its id. Several slices of one device are added up; 0 means no limit.

    Example:
        >>> found = slices_by_device([Slice("A-0", "ACME", 1024, 30), Slice("A-0", "ACME", 1024, 0)])
        >>> found["A-0"].memory_mib, found["A-0"].cores
        (2048, 0)
    """
    found: dict[str, Slice] = {}
    for piece in slices:
        first = found.get(piece.device_id)
        found[piece.device_id] = (
            piece
            if first is None
            else replace(
                first,
                memory_mib=first.memory_mib and piece.memory_mib and first.memory_mib + piece.memory_mib,
                cores=first.cores and piece.cores and first.cores + piece.cores,
            )
        )
    return found


class EnvironmentSettings(BaseSettings):
    """A vendor's settings for one node: each field is an environment variable, ``<env_prefix><NAME>``.

    Example:
        >>> from pydantic_settings import SettingsConfigDict
        >>> class AcmeSettings(EnvironmentSettings):
        ...     model_config = SettingsConfigDict(env_prefix="HAMI_ACME_")
        ...     library: str = "libacme.so"
        >>> AcmeSettings.from_environment().library
        'libacme.so'
    """

    model_config = SettingsConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    @classmethod
    def from_environment(cls) -> Self:
        """Read the settings. Unknown variables with the prefix are logged.

        Raises:
            ConfigError: A value is invalid; the error names its variable.
        """
        prefix = cls.model_config.get("env_prefix", "")
        variables = {name: cls._variables(name) for name in cls.model_fields}
        known = sorted({variable for names in variables.values() for variable in names})
        for variable in sorted(os.environ):
            if variable.startswith(prefix) and variable not in known:
                hint = did_you_mean(variable.removeprefix(prefix), [name.removeprefix(prefix) for name in known])
                log.warning("environment variable %s has no effect: there is no such setting%s", variable, hint)
        try:
            return cls()
        except ValidationError as error:
            finding = error.errors(include_url=False)[0]
            name = str(finding["loc"][0])
            names = next((each for field, each in variables.items() if name == field or name in each), (name,))
            variable = next((each for each in names if each in os.environ), names[0])
            problem, fix = finding_in_words(finding)
            raise ConfigError(f"environment variable {variable}", problem, fix) from error

    @classmethod
    def _variables(cls, name: str) -> tuple[str, ...]:
        alias = cls.model_fields[name].validation_alias
        if isinstance(alias, AliasChoices):
            return tuple(str(choice) for choice in alias.choices)
        return (cls.model_config.get("env_prefix", "") + name.upper(),)
