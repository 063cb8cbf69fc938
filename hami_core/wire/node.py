"""A node's annotations about its devices: registers (JSON and HAMi's older CSV), link scores, cordon, handshake."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec

from hami_core.errors import WireError
from hami_core.model import EMPTY, INT32_MAX, Device, MigPlacement, MigProfile
from hami_core.wire import jsontext
from hami_core.wire.quantity import parse_bool_go, parse_int_go

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

T = TypeVar("T")

MAX_DEVICES: Final = 4096
"""Limit of devices in one annotation."""

DEFAULT_MODE: Final = "hami-core"
"""Mode of a device whose entry has HAMi's older form of seven fields, without a mode."""

HANDSHAKE_TIMEOUT: Final = timedelta(seconds=60)
"""How long a node agent has to answer ``Requesting_…``."""

_Amount = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
_Text = Annotated[str, msgspec.Meta(max_length=253)]
_Slices = Annotated[int, msgspec.Meta(ge=0, le=1024)]
_shared_type = lru_cache(maxsize=512)(str)
"""Returns the equal text seen before, if it was seen lately. From Python 3.12, ``sys.intern`` keeps texts for ever."""
_CSV_UNSAFE = re.compile(r"[,:]")


# --- JSON ------------------------------------------------------------------------------------------------------------


class _Placement(msgspec.Struct, kw_only=True):
    start: _Slices = 0
    size: Annotated[int, msgspec.Meta(ge=1, le=1024)]


class _Profile(msgspec.Struct, omit_defaults=True, rename={"memory_mib": "memoryMB", "slice_count": "sliceCount"}):
    name: _Name
    memory_mib: _Amount = 0
    core: _Amount = 0
    slice_count: _Slices = 0
    placements: list[_Placement] | None = None


class _Device(msgspec.Struct, omit_defaults=True, rename={"mig_profiles": "migProfiles"}):
    """One device. Fields have the wire's order. Zero values are left out, so an unhealthy device has no ``health``."""

    id: _Name
    index: _Amount = 0
    count: _Amount = 0
    devmem: _Amount = 0
    devcore: _Amount = 0
    type: _Text = ""
    numa: Annotated[int, msgspec.Meta(ge=-1, le=INT32_MAX)] = 0
    mode: _Text = ""
    mig_profiles: list[_Profile] | None = None
    health: bool = False
    custominfo: dict[str, Any] | None = None


RESERVED_KEY: Final = "reservedmem"
"""Key in ``custominfo``: MiB of the device's memory that its driver keeps for itself."""
NOT_OFFERED_KEY: Final = "notoffered"
"""Key in ``custominfo``: why the node withholds the device from pods."""
WHOLE_ONLY_KEY: Final = "wholeonly"
"""Key in ``custominfo``: why the device is given only as a whole card."""
MAX_REASON: Final = 512
"""Limit of characters in such a reason."""

_DEVICES = msgspec.json.Decoder(list[_Device] | None)


def decode_devices_json(text: str, *, key: str, family: str) -> tuple[Device, ...]:
    """Decode a register annotation in HAMi's JSON form. Unknown keys are ignored.

    Raises:
        WireError: The text is malformed, a number is out of bounds, an id occurs twice, or there are too many devices.
    """
    entries = jsontext.decode(_DEVICES, text, key=key) or []
    devices = tuple(_device(entry, family, key, position) for position, entry in enumerate(entries))
    return _checked(devices, key)


def encode_devices_json(devices: Iterable[Device], *, custom: bool = False) -> str:
    """Encode a register annotation as HAMi does: without blanks, in HAMi's order of keys, without zero values.

    Args:
        devices: Devices in registration order.
        custom: Whether to publish `Device.custom` in ``custominfo``. Ascend does, NVIDIA does not. Reserved memory and
            the reasons in ``not_offered`` and ``whole_only`` are published there in any case.

    Example:
        >>> encode_devices_json([Device("ACME-0", 0, 10, 32768, 100, "Acme-X1", "ACME")])
        '[{"id":"ACME-0","count":10,"devmem":32768,"devcore":100,"type":"Acme-X1","health":true}]'
    """
    return jsontext.encode([_entry(device, custom=custom) for device in devices])


def encode_mig_profile(profile: MigProfile) -> str:
    """Encode one MIG profile as in a register annotation."""
    return jsontext.encode(_profile_entry(profile))


def _device(entry: _Device, family: str, key: str, position: int) -> Device:
    custom = dict(entry.custominfo or {})
    reserved, not_offered, whole_only = (custom.pop(k, None) for k in (RESERVED_KEY, NOT_OFFERED_KEY, WHOLE_ONLY_KEY))
    if reserved is not None and (type(reserved) is not int or not 0 <= reserved < max(entry.devmem, 1)):
        problem = f"custominfo.{RESERVED_KEY} is {reserved!r}, expected MiB below the device's {entry.devmem}"
        raise WireError(key, position, problem)
    for name, text in ((NOT_OFFERED_KEY, not_offered), (WHOLE_ONLY_KEY, whole_only)):
        if text is not None and not (isinstance(text, str) and 0 < len(text) <= MAX_REASON):
            raise WireError(key, position, f"custominfo.{name} must be a text of 1 to {MAX_REASON} characters")
    return Device(
        id=entry.id,
        index=entry.index,
        slots=entry.count,
        memory_mib=entry.devmem,
        cores=entry.devcore,
        type=_shared_type(entry.type),
        family=family,
        numa=max(entry.numa, 0),
        mode=entry.mode,
        healthy=entry.health and not not_offered,
        mig_profiles=tuple(_profile(p) for p in entry.mig_profiles or ()),
        custom=custom or EMPTY,
        reserved_mib=reserved or 0,
        not_offered=not_offered or "",
        whole_only=whole_only or "",
    )


def _profile(entry: _Profile) -> MigProfile:
    placements = tuple(MigPlacement(p.start, p.size) for p in entry.placements or ())
    return MigProfile(entry.name, entry.memory_mib, entry.core, entry.slice_count, placements)


def _entry(device: Device, *, custom: bool) -> _Device:
    info = dict(device.custom) if custom else {}
    if device.reserved_mib:
        info[RESERVED_KEY] = device.reserved_mib
    if device.not_offered:
        info[NOT_OFFERED_KEY] = device.not_offered[:MAX_REASON]
    if device.whole_only:
        info[WHOLE_ONLY_KEY] = device.whole_only[:MAX_REASON]
    return _Device(
        id=device.id,
        index=device.index,
        count=device.slots,
        devmem=device.memory_mib,
        devcore=device.cores,
        type=device.type,
        numa=device.numa,
        mode=device.mode,
        mig_profiles=[_profile_entry(p) for p in device.mig_profiles] or None,
        health=device.healthy,
        custominfo=info or None,
    )


def _profile_entry(profile: MigProfile) -> _Profile:
    placements = [_Placement(start=p.start, size=p.size) for p in profile.placements]
    return _Profile(profile.name, profile.memory_mib, profile.cores, profile.slice_count, placements or None)


def _checked(devices: tuple[Device, ...], key: str) -> tuple[Device, ...]:
    if len(devices) > MAX_DEVICES:
        raise WireError(key, MAX_DEVICES, f"{len(devices)} devices, at most {MAX_DEVICES} are accepted")
    seen: set[str] = set()
    for position, device in enumerate(devices):
        if device.id in seen:
            raise WireError(key, position, f"device {device.id!r} is listed twice")
        seen.add(device.id)
    return devices


# --- CSV (Hygon, Iluvatar) -------------------------------------------------------------------------------------------


def decode_devices_csv(text: str, *, key: str, family: str) -> tuple[Device, ...]:
    """Decode a register annotation in HAMi's older form ``id,count,mem,core,type,numa,health[,index,mode]:…``.

    Raises:
        WireError: The text is malformed; in HAMi's words. Position is the offset of the segment.
    """
    if len(text) > jsontext.MAX_BYTES:
        raise WireError(key, jsontext.MAX_BYTES, f"text of {len(text)} characters is too long")
    if ":" not in text:
        raise WireError(key, 0, "node annotation missing device separator")
    devices: list[Device] = []
    offset = 0
    for segment in text.split(":"):
        if segment:
            devices.append(_csv_device(segment, key=key, offset=offset, family=family))
        offset += len(segment) + 1
    return _checked(tuple(devices), key)


def encode_devices_csv(devices: Iterable[Device]) -> str:
    """Encode a register annotation in HAMi's older form, with nine fields for each device.

    Raises:
        WireError: A device's id, type or mode contains a separator.
    """
    parts: list[str] = []
    for position, device in enumerate(devices):
        for text in (device.id, device.type, device.mode):
            if _CSV_UNSAFE.search(text):
                raise WireError("device", position, f"{text!r} holds a separator of the format")
        health = "true" if device.healthy else "false"
        parts.append(
            f"{device.id},{device.slots},{device.memory_mib},{device.cores},{device.type},{device.numa},{health},"
            f"{device.index},{device.mode}:"
        )
    return "".join(parts)


def _csv_device(segment: str, *, key: str, offset: int, family: str) -> Device:
    if "," not in segment:
        raise WireError(key, offset, f'malformed node annotation segment: "{segment}"')
    fields = segment.split(",")
    if len(fields) not in {7, 9}:
        raise WireError(key, offset, f"unexpected field count {len(fields)} in node annotation")

    def number(name: str, text: str, minimum: int = 0) -> int:
        return _field(name, text, lambda t: parse_int_go(t, minimum=minimum), key, offset)

    count = number("count", fields[1])
    memory = number("memory", fields[2])
    cores = number("core", fields[3])
    healthy = _field("health", fields[6], _bool_go, key, offset)
    numa = number("numa", fields[5], minimum=-1)
    index, mode = 0, DEFAULT_MODE
    if len(fields) == 9:
        index, mode = number("index", fields[7], minimum=-INT32_MAX), fields[8]
        if index < 0:
            raise WireError(key, offset, f"index field must not be negative: {index}")
    if not fields[0]:
        raise WireError(key, offset, "empty device id")
    return Device(fields[0], index, count, memory, cores, fields[4], family, max(numa, 0), mode, healthy)


def _field(name: str, text: str, parse: Callable[[str], T], key: str, offset: int) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise WireError(key, offset, f"invalid {name} field: {error}") from None


def _bool_go(text: str) -> bool:
    value = parse_bool_go(text)
    if value is None:
        raise ValueError(f'strconv.ParseBool: parsing "{text}": invalid syntax')
    return value


# --- link scores and cordon ------------------------------------------------------------------------------------------


class _PairScores(msgspec.Struct):
    uuid: _Name
    score: dict[str, Annotated[int, msgspec.Meta(ge=-INT32_MAX, le=INT32_MAX)]] | None = None


_SCORES = msgspec.json.Decoder(list[_PairScores] | None)


def decode_pair_scores(text: str, *, key: str) -> dict[str, dict[str, int]]:
    """Decode the scores of the links between a node's devices: device id → other device id → score.

    Raises:
        WireError: The text is malformed, a score is out of bounds, or a device is listed twice.
    """
    scores: dict[str, dict[str, int]] = {}
    for position, entry in enumerate(jsontext.decode(_SCORES, text, key=key) or []):
        if entry.uuid in scores:
            raise WireError(key, position, f"device {entry.uuid!r} is listed twice")
        scores[entry.uuid] = entry.score or {}
    return scores


def encode_pair_scores(scores: Mapping[str, Mapping[str, int]]) -> str:
    """Encode link scores as HAMi does, in the order given.

    Args:
        scores: Device id → other device id → score.

    Example:
        >>> encode_pair_scores({"ACME-0": {"ACME-1": 100}})
        '[{"uuid":"ACME-0","score":{"ACME-1":100}}]'
    """
    return jsontext.encode([_PairScores(uuid, dict(row)) for uuid, row in scores.items()])


def with_pair_scores(devices: Sequence[Device], scores: Mapping[str, Mapping[str, int]]) -> tuple[Device, ...]:
    """Add link scores to their devices. Scores of devices that are not listed are left out."""
    return tuple(replace(device, pair_scores=scores.get(device.id, EMPTY)) for device in devices)


def decode_cordon(text: str) -> frozenset[str]:
    """Read the comma list of cordoned device ids, without blanks and empty entries."""
    return frozenset(part for part in (piece.strip() for piece in text.split(",")) if part)


# --- handshake -------------------------------------------------------------------------------------------------------


class Liveness(StrEnum):
    """What a node's handshake annotation means for its devices.

    Example:
        >>> Liveness("dead") is Liveness.DEAD
        True
    """

    KEEP = "keep"
    """The node is healthy, and there is nothing new to read."""
    REFRESH = "refresh"
    """The node is healthy. Write `format_requesting` and read the devices again. If the write fails, do nothing."""
    DEAD = "dead"
    """The agent has not answered, and the kubelet offers no devices."""


_REQUESTING: Final = "Requesting"
_TIME: Final = "%Y-%m-%d %H:%M:%S"
_REPORTED_TIME: Final = "%Y.%m.%d %H:%M:%S"


def judge_handshake(text: str | None, *, allocatable: int, now: datetime) -> Liveness:
    """Judge a handshake annotation as HAMi's CheckHealth does.

    Args:
        text: The annotation; None: absent.
        allocatable: The node's allocatable amount of the family's count resource.
        now: Local time without time zone, as HAMi writes it.

    Example:
        >>> from datetime import datetime
        >>> now = datetime(2026, 7, 3, 15, 36, 30)
        >>> str(judge_handshake("Reported_2026.07.03 15:36:20", allocatable=8, now=now))
        'refresh'
        >>> str(judge_handshake("Requesting_2026-07-03 15:35:10", allocatable=0, now=now))
        'dead'
    """
    if text is None or _REQUESTING not in text:
        return Liveness.REFRESH
    _, separator, stamp = text.partition("_")
    try:
        asked = datetime.strptime(stamp, _TIME) if separator else None  # noqa: DTZ007 - the format has no zone
    except ValueError:
        asked = None
    if asked is None or now < asked + HANDSHAKE_TIMEOUT or allocatable > 0:
        return Liveness.KEEP
    return Liveness.DEAD


def format_requesting(now: datetime) -> str:
    """Return the text by which HAMi's scheduler asks a node's agent whether it runs; ``now`` is local time.

    Example:
        >>> from datetime import datetime
        >>> format_requesting(datetime(2026, 7, 3, 15, 35, 10))
        'Requesting_2026-07-03 15:35:10'
    """
    return f"{_REQUESTING}_{now.strftime(_TIME)}"


def format_reported(now: datetime) -> str:
    """Return a running agent's answer; ``now`` is local time.

    Example:
        >>> from datetime import datetime
        >>> format_reported(datetime(2026, 7, 3, 15, 35, 10))
        'Reported_2026.07.03 15:35:10'
    """
    return f"Reported_{now.strftime(_REPORTED_TIME)}"
