"""Regions looked at again and again: which there are, and what happened between two looks."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hami_interpose._processes import Names, Seen
from hami_interpose._regions import REGION_PART, Found, is_there, load
from hami_interpose._show import printable
from hami_interpose.region import RegionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from hami_interpose.region import DeviceUse

_RECORD: Final = "record.json"
_RECORD_LIMIT: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where a container's region is expected.

    Attributes:
        path: the region file.
        name: of the container, for people.
        required: somebody named it, so its absence is worth a line.
    """

    path: Path
    name: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class Rates:
    """What happened on a device between two looks.

    Attributes:
        seconds: that passed.
        compute_percent: device time that was charged, of the time that passed.
        waiting_percent: the same of the time that launches waited, summed over threads, so it may exceed 100.
        denied: allocations refused.
    """

    seconds: float
    compute_percent: float
    waiting_percent: float
    denied: int


@dataclass(frozen=True, slots=True)
class Container:
    """One container at one look: either `found` or `error`. `rates` by device; None where nothing is known yet."""

    place: Place
    found: Found | None = None
    error: str = ""
    rates: tuple[Rates | None, ...] = ()
    seen: dict[tuple[int, int], Seen] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Frame:
    """One look at all of them. `time` in seconds since 1970; `interval` since the look before, 0 at the first."""

    time: float
    interval: float
    containers: tuple[Container, ...]


def places(sources: Sequence[Path]) -> Iterator[Place]:
    """Region files behind what was named: a region, a container's folder, a folder of those, an agent's state."""
    for source in sources:
        if not source.is_dir():
            yield Place(source, printable(str(source)))
        elif is_there(source / REGION_PART) or is_there(source / _RECORD):
            yield _in_record(source, source.parent.parent, required=True)
        else:
            folder = source / "containers" if is_there(source / "containers") else source
            for record in sorted(folder.iterdir()):
                if is_there(record / _RECORD) or is_there(record / REGION_PART):
                    yield _in_record(record, folder.parent, required=False)


def _in_record(folder: Path, state: Path, *, required: bool) -> Place:
    """The region of a record's folder. Without CDI it lies in a folder of its own, which the record names."""
    record = _record(folder / _RECORD)
    words = [str(record.get(key, "")) for key in ("namespace", "pod", "container")]
    name = printable("/".join(words) if all(words) else str(folder))
    random_part = str(record.get("name", ""))
    serial = record.get("serial") is True and random_part.isalnum()
    return Place((state / "serial" / random_part if serial else folder) / REGION_PART, name, required)


def _record(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_RECORD_LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _rates(before: DeviceUse, after: DeviceUse, seconds: float) -> Rates | None:
    charged = after.compute.charged - before.compute.charged
    waited = after.compute.waited - before.compute.waited
    denied = after.denied - before.denied
    if before.uuid != after.uuid or min(charged, waited, denied) < 0:
        return None  # another device's figures, or a region that began anew
    return Rates(seconds, charged / seconds / 1e7, waited / seconds / 1e7, denied)


class Watch:
    """Looks at regions and remembers the look before. Regions may come, go and break between two looks."""

    def __init__(self, sources: Sequence[Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._sources = sources
        self._clock = clock
        self._names = Names()
        self._before: dict[Path, tuple[float, Found]] = {}
        self._last = 0.0

    def look(self) -> Frame:
        """Reads all of them now."""
        began, kept, containers = self._clock(), self._before, []
        self._before = {}
        for place in self._places():
            container = self._container(place, kept.get(place.path))
            if container is not None:
                containers.append(container)
        interval, self._last = (began - self._last if self._last else 0.0), began
        found = [c.found.region.processes for c in containers if c.found is not None]
        seen = self._names.find([process for processes in found for process in processes])
        named = tuple(Container(c.place, c.found, c.error, c.rates, _own(c, seen)) for c in containers)
        return Frame(time.time(), interval, named)

    def _places(self) -> list[Place]:
        found: dict[Path, Place] = {}
        for source in self._sources:
            try:
                for place in places([source]):
                    found.setdefault(place.path, place)
            except OSError:  # a folder that vanished or may not be listed
                found.setdefault(source, Place(source, printable(str(source))))
        return list(found.values())

    def _container(self, place: Place, before: tuple[float, Found] | None) -> Container | None:
        now = self._clock()
        try:
            found = load(place.path)
        except FileNotFoundError:
            return Container(place, error="no such file") if place.required else None
        except RegionError as error:
            return Container(place, error=f"at offset {error.offset}: {error.what}")
        except OSError as error:
            return Container(place, error=error.strerror or str(error))
        self._before[place.path] = (now, found)
        count = len(found.region.devices)
        rates: list[Rates | None] = [None] * count
        if before is not None and before[1].identity == found.identity and now > before[0]:
            pairs = zip(before[1].region.devices, found.region.devices, strict=False)
            for index, (old, new) in enumerate(pairs):
                rates[index] = _rates(old, new, now - before[0])
        return Container(place, found, rates=tuple(rates))


def _own(container: Container, seen: dict[tuple[int, int], Seen]) -> dict[tuple[int, int], Seen]:
    if container.found is None:
        return {}
    keys = {(process.pid, process.start_time) for process in container.found.region.processes}
    return {key: who for key, who in seen.items() if key in keys}
