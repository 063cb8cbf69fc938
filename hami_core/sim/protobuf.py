"""Bodies in Kubernetes' protobuf, which kubectl sends for built-in kinds since 1.32, as plain JSON objects.

A body is `k8s`, a zero byte and a `runtime.Unknown`, which names the kind and contains the message. Go writes fields
that are not set as zeros; empty text is left out here, as Go leaves it out of JSON.
"""

from __future__ import annotations

import base64
import importlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from hami_core.sim.resources import PROTOBUF, Object, bad_request, unsupported_type

if TYPE_CHECKING:
    from collections.abc import Callable

api: Any = importlib.import_module("hami_core.sim.proto.kubernetes_pb2")  # generated, without types

_MAGIC = b"k8s\x00"
_INLINE = {"ephemeralContainerCommon", "handler", "localObjectReference", "volumeSource"}
"""Fields of messages that are embedded in Go: in JSON, their fields stand beside the others."""


def _time(message: Any, digits: str) -> str | None:  # noqa: ANN401 - Time or MicroTime
    if not message.HasField("seconds"):
        return None
    moment = datetime.fromtimestamp(message.seconds + message.nanos / 1e9, UTC)
    return moment.strftime(f"%Y-%m-%dT%H:%M:%S{digits}Z")


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "Quantity": lambda m: m.string,
    "IntOrString": lambda m: m.strVal if m.type else m.intVal,
    "Time": lambda m: _time(m, ""),
    "MicroTime": lambda m: _time(m, ".%f"),
    "FieldsV1": lambda m: orjson.loads(m.Raw),
}
"""Messages that are single values in JSON."""


def decode(body: bytes) -> Object:
    """The object in a body.

    Raises:
        ApiError: 400 for a malformed body, 415 for a kind that is not decoded.
    """
    if not body.startswith(_MAGIC):
        raise bad_request(f"the object provided is not {PROTOBUF}: it does not begin with k8s\\0")
    try:
        envelope = api.Unknown.FromString(body[len(_MAGIC) :])
        head = envelope.typeMeta
        kind = api.DESCRIPTOR.message_types_by_name.get(head.kind)
        if kind is None:
            raise unsupported_type(f"{head.kind} ({head.apiVersion}) in {PROTOBUF}: send application/json")
        message = GetMessageClass(kind).FromString(envelope.raw)
    except DecodeError as error:
        raise bad_request(f"the object provided is not {PROTOBUF}: {error}") from error
    return {"apiVersion": head.apiVersion, "kind": head.kind, **_object(message)}


def _object(message: Message) -> Object:
    found: Object = {}
    for field, value in message.ListFields():
        entry = field.message_type if field.message_type and field.message_type.GetOptions().map_entry else None
        plain: Any
        if entry:
            plain = {key: _value(value[key]) for key in value}
        elif field.name in _INLINE:
            found.update(_object(value))
            continue
        elif isinstance(value, Message | str | bytes | int | float):
            plain = _value(value)
        else:
            plain = [_value(one) for one in value]
        if plain not in ("", None):
            found[field.name] = plain
    return found


def _value(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if not isinstance(value, Message):
        return value
    scalar = _SCALARS.get(value.DESCRIPTOR.name)
    return scalar(value) if scalar else _object(value)
