"""A pod's annotations: its allocation, by container and device, and what the user asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from hami_core.errors import RequestError, WireError
from hami_core.model import UNKNOWN_MODE, Allocation, ContainerKind, ContainerSlices, Slice, Weights
from hami_core.wire import jsontext, keys, mig
from hami_core.wire.quantity import parse_int_go, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hami_core.model import Family

MAX_CONTAINERS: Final = 1024
"""Limit of containers in one value."""

MISSING_FIELDS: Final = "pod annotation format error, missing fields, do not use nodeName in task spec"
"""HAMi's words for an entry with fewer than four fields."""

_UNSAFE = re.compile(r"[,:;]")
_MAX_WEIGHT: Final = 1_000_000
_INT64_MAX: Final = 2**63 - 1
_WEIGHT_WORDS: Final = ("slot", "core", "memory")


# --- pod devices -----------------------------------------------------------------------------------------------------


def encode_pod_devices(per_container: Iterable[Sequence[Slice]]) -> str:
    """Encode one family's slices: ``uuid,type,mem,cores:`` for each device, ``;`` after each container.

    Args:
        per_container: One entry for every container of the pod, init containers first, even if it has no slice.

    Raises:
        WireError: A device id is empty, or a device id or type contains a separator. Position is the container.
    """
    parts: list[str] = []
    for position, slices in enumerate(per_container):
        for piece in slices:
            word = piece.type or piece.family
            if not piece.device_id or _UNSAFE.search(piece.device_id) or _UNSAFE.search(word):
                raise WireError("device", position, f"{piece.device_id!r} ({word!r}) cannot be written to the pod")
            parts.append(f"{piece.device_id},{word},{piece.memory_mib},{piece.cores}:")
        parts.append(";")
    return "".join(parts)


def decode_pod_devices(text: str, *, key: str, family: str, strict: bool = False) -> tuple[tuple[Slice, ...], ...]:
    """Decode one family's slices.

    The last entry of the answer is an empty container that was not written: the text after the final ``;``.

    Args:
        text: The annotation.
        key: Its key, for errors.
        family: Common word of the family.
        strict: Whether to refuse what HAMi ignores: pieces without a comma, further fields, empty ids, a missing ``;``.

    Raises:
        WireError: The text is malformed; in HAMi's words. Position is the offset of the piece.
    """
    if len(text) > jsontext.MAX_BYTES:
        raise WireError(key, jsontext.MAX_BYTES, f"text of {len(text)} characters is too long")
    containers = text.split(";")
    if len(containers) > MAX_CONTAINERS + 1:
        raise WireError(key, len(text), f"{len(containers) - 1} containers, at most {MAX_CONTAINERS} are accepted")
    if strict and containers[-1]:
        raise WireError(key, len(text), "the last container does not end in ';'")
    decoded: list[tuple[Slice, ...]] = []
    offset = 0
    for container in containers:
        decoded.append(tuple(_slices(container, key, offset, family, strict=strict)))
        offset += len(container) + 1
    return tuple(decoded)


def _slices(container: str, key: str, offset: int, family: str, *, strict: bool) -> Iterable[Slice]:
    pieces = container.split(":")
    if strict and pieces[-1]:
        raise WireError(key, offset + len(container), "the last device does not end in ':'")
    for number, piece in enumerate(pieces):
        if "," in piece:
            yield _slice(piece, key, offset, family, strict=strict)
        elif strict and (piece or number < len(pieces) - 1):
            raise WireError(key, offset, f"malformed device {piece!r}")
        offset += len(piece) + 1


def _slice(piece: str, key: str, offset: int, family: str, *, strict: bool) -> Slice:
    fields = piece.split(",")
    if len(fields) < 4:
        raise WireError(key, offset, MISSING_FIELDS)
    if strict and (len(fields) > 4 or not fields[0]):
        raise WireError(key, offset, f"malformed device {piece!r}")
    amounts: list[int] = []
    for name, text in zip(("memory", "core"), fields[2:4], strict=True):
        try:
            amounts.append(parse_int_go(text, minimum=0))
        except ValueError as error:
            raise WireError(key, offset, f"invalid {name} field: {error}") from None
    kind = family if fields[1] == family else fields[1]  # one text for all slices, since a cluster has many
    return Slice(fields[0], family, amounts[0], amounts[1], kind)


# --- a pod's whole allocation ----------------------------------------------------------------------------------------


def allocation_annotations(
    allocation: Allocation, families: Mapping[str, Family], now: int, phase: str
) -> dict[str, str]:
    """Write an allocation as the annotations of one Binding.

    Readers find a container by its position. So every family's list has one entry for each container of the pod, init
    containers first, even if the container does not use the family.

    Args:
        allocation: Node and slices, with one `ContainerSlices` for each container of the pod.
        families: Families by common word, including all that the allocation uses.
        now: Time of the Bind in Unix seconds.
        phase: A word of `keys.PHASES`.

    Raises:
        WireError: A slice cannot be written, its family is unknown, or slices differ in a mode that the pod has once.
    """
    annotations = {
        keys.NODE: allocation.node,
        keys.ASSIGNED_TIME: str(now),
        keys.BIND_TIME: str(now),
        keys.BIND_PHASE: phase,
    }
    for word in allocation.families:
        family = families.get(word)
        if family is None:
            raise WireError("allocation", -1, f"no vendor serves {word!r}")
        text = encode_pod_devices(allocation.of(word))
        annotations[family.allocated_key] = text
        for key in filter(None, (family.to_allocate_key, family.kept_key)):
            annotations[key] = text
        if family.mode_key:
            annotations[family.mode_key] = _mode_of(allocation, family)
    reservations = mig.reservations(allocation)
    if reservations:
        annotations[keys.MIG_ALLOCATIONS] = mig.encode_reservations(reservations)
    return annotations


def _mode_of(allocation: Allocation, family: Family) -> str:
    modes = {piece.mode for pieces in allocation.of(family.word) for piece in pieces}
    if len(modes) > 1:
        raise WireError(family.mode_key, -1, f"slices of one pod have the modes {sorted(modes)}, one is allowed")
    return modes.pop()


def _with_mode(slices: Iterable[Slice], family: Family, annotations: Mapping[str, str]) -> Iterable[Slice]:
    if not family.mode_key:
        return slices
    mode = annotations.get(family.mode_key) or UNKNOWN_MODE
    return [replace(piece, mode=mode) for piece in slices]


def decode_allocation(
    annotations: Mapping[str, str],
    families: Mapping[str, Family],
    containers: Sequence[tuple[str, ContainerKind]],
    *,
    strict: bool = True,
    limits: Sequence[Mapping[str, object]] = (),
) -> Allocation | None:
    """Read a pod's allocation from its annotations.

    Args:
        annotations: The pod's annotations.
        families: Families by common word.
        containers: Name and kind of the pod's containers. Init containers come first, with sidecars at their place.
        strict: Whether each list must have exactly one entry for each container, and the pod a node. Otherwise the
            list is read as HAMi does: an entry's position is its container's, further entries must be empty, and
            missing entries count as empty.
        limits: Resource limits of each container, in the same order. HAMi v2.10 leaves containers without devices out
            of NVIDIA's list. Unless ``strict``, the limits say which container each entry of such a list is for.

    Returns:
        The allocation. None: the pod has no allocation of these families.

    Raises:
        WireError: A list or the MIG reservations are malformed, or they do not fit together.
    """
    present = _present(annotations, families)
    if not present:
        return None
    node = annotations.get(keys.NODE, "")
    if strict and not node:
        raise WireError(keys.NODE, -1, "missing on a pod with an allocation")
    slices: list[list[Slice]] = [[] for _ in containers]
    for word, family in present.items():
        key = _key_of(annotations, family)
        decoded = decode_pod_devices(annotations[key], key=key, family=word, strict=strict)
        for position, found in _listed(decoded, family, limits, len(containers), strict=strict):
            slices[position].extend(_with_mode(found, family, annotations))
    reserved = mig.decode_reservations(annotations.get(keys.MIG_ALLOCATIONS, ""))
    mig.apply_reservations(slices, reserved, strict=strict)
    return _allocation(node, containers, slices)


@dataclass(frozen=True, slots=True)
class Reading:
    """The readable part of a pod's allocation.

    Attributes:
        allocation: The slices of every list that can be read; None: the pod has no allocation.
        unread: Common word → what is wrong with the family's list. It can't be read, has malformed parts, or has fewer
            devices than the pod asks for. What the pod holds of this family is then not known for certain;
            ``allocation`` has what could be read.
    """

    allocation: Allocation | None
    unread: Mapping[str, str] = field(default_factory=dict)


def read_allocation(
    annotations: Mapping[str, str],
    families: Mapping[str, Family],
    containers: Sequence[tuple[str, ContainerKind]],
    limits: Sequence[Mapping[str, object]],
) -> Reading:
    """Read what a running pod holds, family by family, as `decode_allocation` does if not strict. Never raises.

    If a list is too short and does not show which container each entry is for, the last container gets all of its
    slices. They then count as long as the pod lives, as those of all app containers do.

    Args:
        annotations: The pod's annotations.
        families: Families by common word.
        containers: Name and kind of the pod's containers. Init containers come first, with sidecars at their place.
        limits: Resource limits of each container, in the same order.
    """
    present = _present(annotations, families)
    if not present:
        return Reading(None)
    unread: dict[str, str] = {}
    slices: list[list[Slice]] = [[] for _ in containers]
    for word, family in present.items():
        key = _key_of(annotations, family)
        try:
            decoded, damage = _decode_leniently(annotations[key], key, word)
            listed = _listed(decoded, family, limits, len(containers), strict=False, counted=True)
        except WireError as error:
            unread[word] = str(error)
            continue
        if damage:
            unread[word] = damage
        for position, found in listed:
            slices[position].extend(_with_mode(found, family, annotations))
        count, asked = sum(len(found) for _, found in listed), devices_asked(family, limits)
        if count < asked and word not in unread:
            unread[word] = f"{key}: {count} devices in the list, the pod asks for {asked}"
    try:
        mig.apply_reservations(slices, mig.decode_reservations(annotations.get(keys.MIG_ALLOCATIONS, "")), strict=False)
    except WireError as error:  # any family may own these instances
        unread = dict.fromkeys(present, str(error)) | unread
    return Reading(_allocation(annotations.get(keys.NODE, ""), containers, slices), unread)


def _decode_leniently(text: str, key: str, word: str) -> tuple[tuple[tuple[Slice, ...], ...], str]:
    """Decode a list that another program may have written, and say what is wrong with it; empty: nothing.

    Raises:
        WireError: HAMi's reader would refuse the list too.
    """
    try:
        return decode_pod_devices(text if text.endswith(";") else text + ";", key=key, family=word, strict=True), ""
    except WireError as error:
        return decode_pod_devices(text, key=key, family=word, strict=False), str(error)


def devices_asked(family: Family, limits: Iterable[Mapping[str, object]]) -> int:
    """Return how many devices of a family containers with these limits ask for. A malformed amount counts as 1."""
    total = 0
    for names in limits:
        if (text := names.get(family.resources.count)) is not None:
            try:
                total += max(0, int(parse_quantity(str(text))))
            except WireError:
                total += 1
    return total


def _present(annotations: Mapping[str, str], families: Mapping[str, Family]) -> dict[str, Family]:
    return {w: f for w, f in families.items() if f.allocated_key in annotations}


def _key_of(annotations: Mapping[str, str], family: Family) -> str:
    """The annotation that holds a family's whole allocation (`Family.kept_key`)."""
    if not family.kept_key:
        return family.allocated_key
    if family.kept_key in annotations:
        return family.kept_key
    lists = [key for key in (family.allocated_key, family.to_allocate_key) if key in annotations]
    return max(lists, key=lambda key: annotations[key].count(","))


def _listed(
    decoded: tuple[tuple[Slice, ...], ...],
    family: Family,
    limits: Sequence[Mapping[str, object]],
    containers: int,
    *,
    strict: bool,
    counted: bool = False,
) -> list[tuple[int, tuple[Slice, ...]]]:
    """Return one family's list as pairs: a container's position and its slices."""
    matched = _matched(decoded, containers, family.allocated_key, strict=strict)
    places = range(len(matched)) if strict else _places(matched, family, limits, counted=counted)
    return list(zip(places, matched, strict=True))


def _allocation(
    node: str, containers: Sequence[tuple[str, ContainerKind]], slices: Sequence[list[Slice]]
) -> Allocation:
    return Allocation(
        node, tuple(ContainerSlices(n, k, tuple(s)) for (n, k), s in zip(containers, slices, strict=True))
    )


def _matched(
    decoded: tuple[tuple[Slice, ...], ...], expected: int, key: str, *, strict: bool
) -> tuple[tuple[Slice, ...], ...]:
    """Drop the empty container at the end, and compare the rest with the number of the pod's containers."""
    written = decoded[:-1] if not decoded[-1] else decoded
    if strict and len(written) != expected:
        raise WireError(key, -1, f"{len(written)} containers in the list, the pod has {expected}")
    if any(written[expected:]):
        raise WireError(key, expected, f"devices for container {expected + 1}, the pod has {expected}")
    return written[:expected]


def _places(
    entries: Sequence[tuple[Slice, ...]], family: Family, limits: Sequence[Mapping[str, object]], *, counted: bool
) -> Sequence[int]:
    """Return the position of the container that each entry of a list is for.

    In a list with an entry for each container, it is the entry's own position. In a shorter list, the entries that are
    not empty belong to the containers with a limit, in order, because HAMi's device plugin gives devices out this way.

    Args:
        entries: The list.
        family: The family.
        limits: Resource limits of each container.
        counted: Whether the last container gets everything if a short list does not match the limits.

    Raises:
        WireError: The entries of a short list do not match what the containers ask for, and ``counted`` is false.
    """
    if len(entries) >= len(limits):
        return range(len(entries))
    asked = [str(names.get(family.resources.count, 0)) for names in limits]
    asking = [position for position, count in enumerate(asked) if count != "0"]
    held = [position for position, found in enumerate(entries) if found]
    if [str(len(entries[position])) for position in held] == [asked[position] for position in asking]:
        places = dict(zip(held, asking, strict=True))
        return [places.get(position, 0) for position in range(len(entries))]
    if counted:
        return [len(limits) - 1] * len(entries)
    listed, wanted = (", ".join(counts) or "none" for counts in (_lengths(entries), [asked[p] for p in asking]))
    problem = (
        f"{len(entries)} entries for {len(limits)} containers, with {listed} devices each; the containers ask for"
        f" {wanted} of {family.resources.count}: which container has which devices can't be told"
    )
    raise WireError(family.allocated_key, -1, problem)


def _lengths(entries: Sequence[tuple[Slice, ...]]) -> list[str]:
    return [str(len(found)) for found in entries]


# --- what users write ------------------------------------------------------------------------------------------------


def policy_contains(policy: str, token: str) -> bool:
    """Whether a policy, which is one word or a comma list, contains a word."""
    return token in (part.strip() for part in policy.split(","))


def parse_weights(text: str | None) -> Weights:
    """Read `hami.io/device-scoring-weights` (``slot=1,core=1,memory=3``); None gives the default weights.

    Raises:
        RequestError: The text is malformed; in HAMi's words.
    """
    if text is None:
        return Weights()
    parts = text.split(",")
    if len(parts) != 3:
        raise _bad_weights(text, "expected slot, core, and memory weights")
    weights: dict[str, int] = {}
    for part in parts:
        word, separator, value = (piece.strip() for piece in part.partition("="))
        if not separator:
            raise _bad_weights(text, "expected key=value entries")
        if word in weights:
            raise _bad_weights(text, f'duplicate "{word}" weight')
        weights[word] = _weight(text, word, value)
    if not any(weights.values()):
        raise _bad_weights(text, "at least one weight must be positive")
    return Weights(**weights)


def _weight(text: str, word: str, value: str) -> int:
    """Read one weight, with HAMi's order of checks."""
    try:
        weight = parse_int_go(value, minimum=-_INT64_MAX - 1, maximum=_INT64_MAX)
    except ValueError:
        raise _bad_weights(text, f'"{word}" weight must be an integer') from None
    if weight < 0:
        raise _bad_weights(text, f'"{word}" weight must not be negative')
    if word not in _WEIGHT_WORDS:
        raise _bad_weights(text, f'unknown weight "{word}"')
    if weight > _MAX_WEIGHT:
        raise _bad_weights(text, f'"{word}" weight must not exceed {_MAX_WEIGHT}')
    return weight


def _bad_weights(text: str, problem: str) -> RequestError:
    shown = text if len(text) <= 128 else text[:128] + "…"
    return RequestError(
        "pod",
        "annotation",
        f'invalid {keys.SCORING_WEIGHTS} annotation "{shown}": {problem}',
        'write for example "slot=1,core=1,memory=3"',
    )
