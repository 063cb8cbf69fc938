"""One node with its agent, for the suites: containers get slices that the scheduler booked, and the agent restarts."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from hami_core.errors import HamiError
from hami_core.testing.scheduling import Given, Scheduler, facts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hami_core.model import ContainerEdits, Device, Family
    from hami_core.plugins.vendor import LoadedVendor

MOST_CONTAINERS: Final = 8


class NodeRun:
    """The agent's part of one node.

    Args:
        loaded: Both sides of the vendor.
        load: Loads both sides anew, with another node-side object.

    Attributes:
        loaded: Both sides, as the agent has them now.
        held: Containers with slices, in the order of their first `allocate`.
    """

    def __init__(self, loaded: LoadedVendor, load: Callable[[], LoadedVendor]) -> None:
        self.loaded = loaded
        self.held: list[Given] = []
        self._load = load

    def registered(self) -> tuple[Device, ...]:
        """The devices that the scheduler side reads from what the node advertises now."""
        return tuple(self.loaded.register(facts(self.loaded.advertise(self.loaded.discover()))) or ())

    def scheduler(self) -> Scheduler:
        """A scheduler for the node, with nothing booked. It spreads pods over devices."""
        return Scheduler(self.loaded, self.registered(), "spread")

    def containers(self) -> list[Given]:
        """Containers of pods that fit beside each other. Pods have one or two containers, and portions of any size."""
        scheduler = self.scheduler()
        found: list[Given] = []
        for word, family in scheduler.families.items():
            sizes = self.scheduler().portions(family) if scheduler.devices[word] else []
            for number in range(len(sizes) * 2):
                placed = scheduler.place(family, sizes[number % len(sizes)], 1 + number % 2)
                if placed is not None:
                    found += scheduler.given(placed[0], scheduler.annotations(*placed))
        assert found, "no pod fits on the devices that the node advertises"  # noqa: S101 - this is part of a test
        return found[:MOST_CONTAINERS]

    def neighbours(self) -> list[Given]:
        """Containers that ask for the same and share no device."""
        scheduler = self.scheduler()
        found: list[Given] = []
        for word, family in scheduler.families.items():
            devices = scheduler.devices[word]
            sizes = scheduler.portions(family) if devices else []
            for limits in sizes[-2:-1] or sizes:
                alike: list[Given] = []
                for _ in devices:
                    placed = scheduler.place(family, limits)
                    more = scheduler.given(placed[0], scheduler.annotations(*placed)) if placed else []
                    alike += [one for one in more if all(one.devices.isdisjoint(other.devices) for other in alike)]
                found += alike
        return found[:MOST_CONTAINERS]

    def unequal(self) -> list[tuple[Given, Given]]:
        """Pairs of containers. The second has more of the same device, or another device."""
        pairs: list[tuple[Given, Given]] = []
        scheduler = self.scheduler()
        for word in scheduler.devices:
            family = scheduler.families[word]
            alone = [self._alone(family, limits) for limits in scheduler.portions(family)]
            parts = [given for given in alone if given is not None][1:]
            pairs += [(parts[0], larger) for larger in parts[1:]]
        neighbours = self.neighbours()
        return pairs + [(neighbours[0], other) for other in neighbours[1:]]

    def several(self) -> list[Given]:
        """A container with two devices for each family that gives them, each on the idle node."""
        found: list[Given] = []
        for family in self.scheduler().families.values():
            scheduler = self.scheduler()
            with contextlib.suppress(HamiError):  # two devices may be refused
                pod = scheduler.admit({family.resources.count: "2"})
                booked = scheduler.book(pod)
                found += scheduler.given(pod, scheduler.annotations(pod, booked)) if booked else []
        return [given for given in found if len(given.devices) > 1]

    def _alone(self, family: Family, limits: Mapping[str, str]) -> Given | None:
        """A container on the idle node."""
        scheduler = self.scheduler()
        placed = scheduler.place(family, limits)
        return scheduler.given(placed[0], scheduler.annotations(*placed))[0] if placed else None

    def allocate(self, given: Given) -> ContainerEdits:
        """Call `allocate` for a container."""
        if given not in self.held:
            self.held.append(given)
        try:
            return self.loaded.allocate(given.slices, given.container)
        except HamiError as error:
            raise AssertionError(f"allocate refuses what the scheduler booked, {given.slices}: {error}") from error

    def release(self, given: Given) -> None:
        """Call `release` for a container that has ended."""
        self.held.remove(given)
        self.loaded.release(given.container)

    def release_all(self) -> None:
        """End every container."""
        for given in tuple(self.held):
            with contextlib.suppress(HamiError):
                self.release(given)

    def tend(self) -> None:
        """Call `tend` with every container that has not ended."""
        held = {f"{given.container.pod_uid}_{given.container.container}": given for given in self.held}
        records = {name: given.container for name, given in held.items()}
        self.loaded.tend(records, {name: given.slices for name, given in held.items()}, {})

    def restart(self) -> None:
        """Start the agent again. It knows nothing but its containers."""
        self.loaded = self._load()
