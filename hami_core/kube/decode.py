"""Decodes bodies of the API server into partial structs. An object that can't be decoded hides no other."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import structlog

from hami_core.kube.objects import ListMeta, ObjectList, Status
from hami_core.kube.port import ApiError, Page, Undecodable, WatchEvent

if TYPE_CHECKING:
    from hami_core.kube.port import Resource

log = structlog.get_logger(__name__)

T = TypeVar("T")


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Versioned(msgspec.Struct):
    metadata: _Meta = _Meta()


class _RawEvent(msgspec.Struct):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


@cache
def decoder(kind: Any) -> msgspec.json.Decoder[Any]:  # noqa: ANN401 - any struct or generic alias
    """The decoder of a type, cached."""
    return msgspec.json.Decoder(kind)


def _kind(resource: Resource[T]) -> Any:  # noqa: ANN401 - mypy does not take a type for hashable
    return resource.type


def decode(kind: Any, body: bytes, verb: str) -> Any:  # noqa: ANN401 - decodes whatever it is asked for
    """Decode an answer.

    Raises:
        ApiError: It can't be decoded as the wanted type.
    """
    try:
        return decoder(kind).decode(body)
    except msgspec.MsgspecError as error:
        raise ApiError(verb, 0, f"the answer can't be decoded: {error}", reason="Undecodable") from error


def page(resource: Resource[T], body: bytes) -> Page[T]:
    """Decode a list as a whole. If that fails, decode it object by object, so that one bad object hides no other."""
    bad: tuple[Undecodable, ...] = ()
    try:
        whole = decoder(ObjectList[resource.type]).decode(body)  # type: ignore[name-defined] # a type made at run time
        items, meta = tuple(whole.items or ()), whole.metadata
    except msgspec.ValidationError:
        items, meta, bad = _salvage(resource, body)
    return Page(items, meta.resource_version, meta.continue_, bad)


def _salvage(resource: Resource[T], body: bytes) -> tuple[tuple[T, ...], ListMeta, tuple[Undecodable, ...]]:
    whole = decode(ObjectList[msgspec.Raw], body, f"list {resource.plural}")
    good: list[T] = []
    bad: list[Undecodable] = []
    for raw in whole.items or ():
        try:
            good.append(decoder(_kind(resource)).decode(raw))
        except msgspec.MsgspecError as error:
            bad.append(_undecodable(bytes(raw), error))
            log.warning(
                "object left out: it can't be decoded", resource=resource.plural, object=bad[-1].key, error=str(error)
            )
    return tuple(good), whole.metadata, tuple(bad)


def _undecodable(body: bytes, error: Exception) -> Undecodable:
    try:
        meta = decoder(_Versioned).decode(body).metadata
    except msgspec.MsgspecError:
        meta = _Meta()
    key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    return Undecodable(key, meta.uid, meta.resource_version, body, str(error))


def watch_event(resource: Resource[T], line: bytes, verb: str) -> WatchEvent[T] | None:
    """Decode one event of a watch; None if its type is unknown.

    Raises:
        ApiError: The event is an error that ends the watch, such as status 410, or can't be decoded.
    """
    raw: _RawEvent = decode(_RawEvent, line, verb)
    if raw.type == "ERROR":
        status: Status = decode(Status, bytes(raw.object), verb)
        raise ApiError(verb, status.code, status.message or "watch error", reason=status.reason)
    if raw.type not in {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}:
        log.warning("unknown kind of watch event skipped", resource=resource.plural, type=raw.type)
        return None
    if raw.type != "BOOKMARK":
        try:
            decoded = decoder(_kind(resource)).decode(raw.object)
        except msgspec.MsgspecError as error:
            meta: _Versioned = decode(_Versioned, bytes(raw.object), verb)  # a watch needs the version to resume
            bad = _undecodable(bytes(raw.object), error)
            log.warning(
                "event skipped: its object can't be decoded", resource=resource.plural, object=bad.key, error=str(error)
            )
            return WatchEvent(raw.type, None, meta.metadata.resource_version, bad)
        return WatchEvent(raw.type, decoded, decoded.metadata.resource_version)
    meta = decode(_Versioned, bytes(raw.object), verb)
    return WatchEvent("BOOKMARK", None, meta.metadata.resource_version)
