"""A state machine for each device's health: one bad reading does not take a card away. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hami_core.model import Device, HealthChange


class State(StrEnum):
    """A device's health."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    """One bad reading. Still offered, and read again soon."""
    UNHEALTHY = "unhealthy"
    RECOVERING = "recovering"
    """Good readings again, but not yet enough. Not offered."""
    CORDONED = "cordoned"
    """Healthy, but an operator keeps new pods away."""


BAD_READINGS: Final = 2
"""Bad readings in a row after which a device is unhealthy."""
GOOD_READINGS: Final = 3
"""Good readings in a row after which an unhealthy device is offered again."""


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """The health of one device.

    Attributes:
        state: Its state.
        readings: Readings in a row towards the next state.
        reason: The last problem.
    """

    state: State = State.HEALTHY
    readings: int = 0
    reason: str = ""

    @property
    def offered(self) -> bool:
        """Whether the kubelet may hand out the device's slots."""
        return self.state in {State.HEALTHY, State.SUSPECT, State.CORDONED}

    def read(self, *, healthy: bool, reason: str = "") -> DeviceHealth:
        """The state after one more reading."""
        if healthy:
            return self._good()
        if self.state in {State.UNHEALTHY, State.RECOVERING}:
            return DeviceHealth(State.UNHEALTHY, 0, reason)
        bad = self.readings + 1 if self.state is State.SUSPECT else 1
        return DeviceHealth(State.UNHEALTHY if bad >= BAD_READINGS else State.SUSPECT, bad, reason)

    def _good(self) -> DeviceHealth:
        if self.offered:
            return DeviceHealth(State.HEALTHY)
        good = self.readings + 1 if self.state is State.RECOVERING else 1
        return DeviceHealth() if good >= GOOD_READINGS else DeviceHealth(State.RECOVERING, good, self.reason)


class HealthTracker:
    """The health of all devices of a vendor."""

    def __init__(self) -> None:
        self.states: dict[str, DeviceHealth] = {}

    def update(self, changes: Iterable[HealthChange]) -> list[tuple[str, DeviceHealth, DeviceHealth]]:
        """Apply readings. Returns the devices that changed state, as (device, before, after)."""
        changed = []
        for change in changes:
            before = self.states.get(change.device_id, DeviceHealth())
            after = before.read(healthy=change.healthy, reason=change.reason)
            self.states[change.device_id] = after
            if after.state is not before.state:
                changed.append((change.device_id, before, after))
        return changed

    def problem(self, device: str) -> str:
        """Why a device is suspect, unhealthy or recovering; empty if it is healthy."""
        return self.states.get(device, DeviceHealth()).reason

    @property
    def unsettled(self) -> bool:
        """Whether some device should be read again soon."""
        return any(h.state in {State.SUSPECT, State.RECOVERING} for h in self.states.values())

    def apply(self, devices: Iterable[Device]) -> tuple[Device, ...]:
        """Copies of the devices with their health filled in."""
        return tuple(replace(d, healthy=d.healthy and self.states.get(d.id, DeviceHealth()).offered) for d in devices)

    def states_shown(self, devices: Iterable[Device], cordoned: frozenset[str]) -> Mapping[str, State]:
        """Each device's state, as people and metrics see it."""
        found: dict[str, State] = {}
        for device in devices:
            state = self.states.get(device.id, DeviceHealth()).state
            state = State.UNHEALTHY if not device.healthy and state is State.HEALTHY else state
            found[device.id] = State.CORDONED if device.id in cordoned and state is State.HEALTHY else state
        return found
