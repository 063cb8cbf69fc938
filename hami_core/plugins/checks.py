"""Checks of hooks' answers. Each check returns the answer in its final form, or raises `Unusable` with the cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from hami_core.model import (
    INT32_MAX,
    Advertisement,
    ContainerEdits,
    Device,
    DeviceNode,
    DeviceUsage,
    HealthChange,
    Mount,
    Mutation,
    OciHook,
    Reason,
    Request,
    Slice,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import numpy as np

T = TypeVar("T")


class Unusable(Exception):  # noqa: N818 - it never leaves this package: the caller reports it
    """The answer has the wrong type or is out of range."""


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def instance(answer: object, kind: type[T]) -> T:
    """Accept an answer of one type."""
    if not isinstance(answer, kind):
        raise Unusable(f"answered {_kind(answer)}, expected {kind.__name__}")
    return answer


def sequence(answer: object, kind: type[T]) -> tuple[T, ...]:
    """Accept a sequence whose items have one type, and return a tuple. Strings and generators are refused."""
    if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
        raise Unusable(f"answered {_kind(answer)}, expected a sequence of {kind.__name__}")
    for position, item in enumerate(answer):
        if not isinstance(item, kind):
            raise Unusable(f"answered {_kind(item)} at position {position}, expected {kind.__name__}")
    return tuple(answer)


def changes(answer: object) -> tuple[HealthChange, ...]:
    """Accept the health of devices; None means that nothing is known."""
    return () if answer is None else sequence(answer, HealthChange)


def nothing(_: object) -> None:
    """Drop the answer of a hook that has none."""


def strings(answer: object) -> dict[str, str]:
    """Accept a mapping from str to str, as annotations are."""
    if not isinstance(answer, Mapping):
        raise Unusable(f"answered {_kind(answer)}, expected a mapping of str to str")
    for key, value in answer.items():
        if not isinstance(key, str) or not isinstance(value, str) or not key:
            raise Unusable(f"answered {key!r}: {value!r}, expected str to str")
    return dict(answer)


def _strings_or_none(answer: object) -> dict[str, str]:
    """Accept a mapping from str to str or None, as labels to set or remove are."""
    if not isinstance(answer, Mapping):
        return strings(answer)
    return strings({key: "" if value is None else value for key, value in answer.items()})


def merged(answers: Sequence[object]) -> dict[str, str]:
    """Merge the annotations of several answers into one mapping."""
    result: dict[str, str] = {}
    for got in map(strings, answers):
        twice = sorted(result.keys() & got.keys())
        if twice:
            raise Unusable(f"annotation {twice[0]} is answered twice")
        result |= got
    return result


def locks(answer: object) -> dict[str, str]:
    """Accept node locks, each with a known protocol; None means no locks."""
    got = {} if answer is None else strings(answer)
    for key, protocol in got.items():
        if protocol not in {"hami", "time"}:
            raise Unusable(f"lock {key} has the protocol {protocol!r}, expected 'hami' or 'time'")
    return got


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _bounded(thing: object, name: str, low: int = 0) -> None:
    value: object = getattr(thing, name)
    if type(value) is not int or not low <= value <= INT32_MAX:
        who = f"device {thing.id!r}: " if isinstance(thing, Device) else ""
        raise Unusable(f"{who}{name} is {value!r}, expected a whole number from {low} to {INT32_MAX}")


def devices(answer: object, words: Collection[str]) -> tuple[Device, ...]:
    """Accept devices with unique ids, known families and amounts within bounds."""
    found = sequence(answer, Device)
    seen: set[tuple[str, str]] = set()
    for device in found:
        if not _is_text(device.id):
            raise Unusable(f"a device of type {device.type!r} has the id {device.id!r}, expected a non-empty str")
        if device.family not in words:
            raise Unusable(
                f"device {device.id!r} is of family {device.family!r}, expected one of {', '.join(sorted(words))}"
            )
        if (device.family, device.id) in seen:
            raise Unusable(f"device {device.id!r} is listed twice")
        seen.add((device.family, device.id))
        for name in ("index", "slots", "memory_mib", "cores", "numa", "reserved_mib"):
            _bounded(device, name)
        if 0 < device.memory_mib <= device.reserved_mib:
            raise Unusable(f"device {device.id!r}: reserved_mib is {device.reserved_mib} of {device.memory_mib} MiB")
    return found


def request(answer: object, word: str, shown: Mapping[str, str]) -> Request:
    """Accept a request of the family asked about, with amounts in range, and put the pod's declared annotations in it.

    Args:
        answer: The answer.
        word: The family that was asked about.
        shown: The annotations that the hook was shown.
    """
    got = instance(answer, Request)
    if got.family != word:
        raise Unusable(f"answered a request for family {got.family!r}, asked about {word!r}")
    for name, low in (("count", 1), ("memory_mib", 0), ("cores", 0)):
        _bounded(got, name, low)
    percent: object = got.memory_percent
    if percent is not None and (type(percent) is not int or not 0 <= percent <= 100):
        raise Unusable(f"memory_percent is {percent!r}, expected None or a whole number from 0 to 100")
    if got.annotations is shown or got.annotations == shown:
        return got
    return replace(got, annotations=shown)


def mutation(answer: object) -> Mutation:
    """Accept a mutation whose parts are strings."""
    got = instance(answer, Mutation)
    for part in (got.limits, got.requests, got.pod_annotations):
        strings(part)
    for pair in got.env:
        if len(sequence(pair, str)) != 2:
            raise Unusable(f"env holds {pair!r}, expected (name, value)")
    instance(got.env_removed, frozenset)
    sequence(tuple(got.env_removed), str)
    instance(got.runtime_class, str)
    return got


def reason(answer: object) -> Reason | None:
    """Reduce one answer, or a list of answers, to one refusal: any refusal wins."""
    if answer is None or type(answer) is Reason:
        return answer
    if isinstance(answer, list):
        for item in answer:
            found = reason(item)
            if found is not None:
                return found
        return None
    raise Unusable(f"answered {_kind(answer)}, expected Reason or None")


def mask(answer: Any, columns: Mapping[str, np.ndarray]) -> np.ndarray:  # noqa: ANN401 - a numpy array, perhaps
    """Accept a boolean array of the columns' shape."""
    shape = next(iter(columns.values())).shape
    if str(getattr(answer, "dtype", "")) != "bool" or answer.shape != shape:
        got = f"{getattr(answer, 'dtype', _kind(answer))} of shape {getattr(answer, 'shape', ())}"
        raise Unusable(f"answered {got}, expected bool of shape {shape}")
    found: np.ndarray = answer
    return found


def no_device(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Make a mask that refuses every device."""
    any_column: np.ndarray = next(iter(columns.values()))
    nothing: np.ndarray = any_column != any_column  # noqa: PLR0124 - all False, without an import of numpy
    return nothing


def choice(
    answer: object, wanted: int, candidates: Sequence[DeviceUsage], *, may_refuse: bool = True
) -> tuple[int, ...] | Reason:
    """Accept as many different positions among the candidates as were wanted; or a refusal, if ``may_refuse``."""
    if isinstance(answer, Reason):
        if may_refuse:
            return answer
        raise Unusable("answered Reason, but the family declares choose_is_preference")
    got = sequence(answer, int)
    if any(isinstance(item, bool) for item in got):
        raise Unusable(f"answered {got!r}, expected positions, not truth values")
    if len(got) != wanted or len(set(got)) != wanted or any(not 0 <= item < len(candidates) for item in got):
        raise Unusable(f"answered {got!r}, expected {wanted} different positions from 0 to {len(candidates) - 1}")
    return got


def piece(answer: object, plain: Slice) -> Slice | Reason:
    """Accept a slice of the device that was asked about, or a refusal."""
    if isinstance(answer, Reason):
        return answer
    got = instance(answer, Slice)
    if (got.device_id, got.family) != (plain.device_id, plain.family):
        raise Unusable(f"answered a slice of {got.family} {got.device_id!r}, asked about {plain.device_id!r}")
    for name in ("memory_mib", "cores", "slots"):
        _bounded(got, name)
    return got


def number(answer: object) -> float:
    """Accept a finite number."""
    if isinstance(answer, bool) or not isinstance(answer, int | float) or not isfinite(answer):
        raise Unusable(f"answered {answer!r}, expected a finite number")
    return float(answer)


def advertisement(answer: object) -> Advertisement:
    """Accept an advertisement of strings whose slots each have health and NUMA node."""
    got = instance(answer, Advertisement)
    for name in ("annotations", "env"):
        _part(got, name, strings)
    _part(got, "labels", _strings_or_none)
    for resource, slots in _mapping(got.slots, "slots").items():
        for slot, state in _mapping(slots, f"slots[{resource!r}]").items():
            right = _is_text(slot) and isinstance(state, tuple) and len(state) == 2
            if not right or [type(part) for part in state] != [bool, int]:
                raise Unusable(f"slots[{resource!r}] holds {slot!r}: {state!r}, expected str to (healthy, NUMA node)")
    return got


def edits(answer: object) -> ContainerEdits:
    """Accept edits whose texts are strings, since the agent writes them into a CDI spec."""
    got = instance(answer, ContainerEdits)
    _part(got, "env", strings)
    for name, kind, texts in (
        ("mounts", Mount, ("host_path", "container_path")),
        ("device_nodes", DeviceNode, ("path", "host_path", "permissions")),
        ("hooks", OciHook, ("name", "path")),
    ):
        for item in _part(got, name, lambda value, kind=kind: sequence(value, kind)):  # type: ignore[misc]
            for text in texts:
                if not isinstance(getattr(item, text), str):
                    raise Unusable(f"{name}: {text} is {getattr(item, text)!r}, expected str")
    for name in ("limits", "region"):
        for file, content in _mapping(getattr(got, name), name).items():
            if not _is_text(file) or not isinstance(content, bytes):
                raise Unusable(f"{name} holds {file!r}: {_kind(content)}, expected a file name to bytes")
    return got


def _part(thing: object, name: str, check: Callable[[object], T]) -> T:
    """Check one attribute. A finding begins with the attribute's name."""
    try:
        return check(getattr(thing, name))
    except Unusable as finding:
        raise Unusable(f"{name}: {finding}") from None


def _mapping(value: object, name: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise Unusable(f"{name} is {_kind(value)}, expected a mapping")
    return value
