"""A local copy of one kind of object, kept up to date by list and watch.

The copy is usable once `synced` is set. A dropped watch resumes at the last version seen; bookmarks keep that version
recent. If the server has forgotten the version (410), the informer lists again and reports the difference to its
handlers as ordinary changes. Failures back off with jitter. Memory is bounded by the partial structs kept.

If an object can't be decoded, the copy keeps its last version that could be. `undecodable` holds the bad version until
the object can be decoded again or is deleted.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import structlog

from hami_core.kube.objects import KubeObject
from hami_core.kube.port import ApiError, KubeApi, Resource

if TYPE_CHECKING:
    from hami_core.kube.port import Page, Undecodable, WatchEvent

    UndecodableHandler = Callable[[str, Undecodable | None], None]
    """Called as ``handler(key, found)``; None: the object can be decoded again or was deleted. Must not block."""

log = structlog.get_logger(__name__)

T = TypeVar("T", bound=KubeObject)
Handler = Callable[[T | None, T | None], None]
"""Called as ``handler(old, new)``. ``old`` is None for a new object, ``new`` is None for a deleted one. Must not block.

An object that was deleted and created again under its name causes two calls.
"""

PAGE: Final = 500
"""Most objects in one list call."""


BRIEF_S: Final = 1.0
"""A watch that ends sooner than this counts as a failure for the back-off."""


class Backoff:
    """Growing waits with jitter: the n-th is 50 % to 100 % of ``min(most, first * 2**n)`` seconds."""

    def __init__(self, first: float = 0.2, most: float = 30.0) -> None:
        self._first = first
        self._most = most
        self._failures = 0

    def next(self) -> float:
        """Count a failure; return the seconds to wait after it."""
        wait = min(self._most, self._first * 2.0 ** min(self._failures, 16))
        self._failures += 1
        return wait * random.uniform(0.5, 1.0)  # noqa: S311 - jitter

    def reset(self) -> None:
        """Forget earlier failures; call it after a success."""
        self._failures = 0


class Informer(Generic[T]):
    """List and watch one resource.

    Args:
        api: The API server.
        resource: The kind of object.
        namespace: One namespace; empty: all.
        label_selector: Only objects with these labels.
        field_selector: Only objects with these fields, such as ``spec.nodeName=n1``.
        trim: Applied to each object before it is stored, to drop what is not needed.
    """

    def __init__(
        self,
        api: KubeApi,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        trim: Callable[[T], T] | None = None,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self._api = api
        self._selection = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
        }
        self._trim = trim
        self._store: dict[str, T] = {}
        self._undecodable: dict[str, Undecodable] = {}
        self._undecodable_handlers: list[UndecodableHandler] = []
        self._version = ""
        self._handlers: list[Handler[T]] = []
        self._backoff = Backoff()
        self._refresh_waiters: list[asyncio.Future[None]] = []
        self._refresh_wanted = asyncio.Event()

    @property
    def store(self) -> Mapping[str, T]:
        """The objects by ``namespace/name`` (or name). A live read-only view."""
        return MappingProxyType(self._store)

    @property
    def undecodable(self) -> Mapping[str, Undecodable]:
        """The objects that can't be decoded, by the same keys. A live read-only view."""
        return MappingProxyType(self._undecodable)

    @property
    def version(self) -> str:
        """The resourceVersion the copy has reached."""
        return self._version

    def on_change(self, handler: Handler[T]) -> None:
        """Call ``handler(old, new)`` on each change, and at once for each object in the copy."""
        self._handlers.append(handler)
        for item in list(self._store.values()):
            self._call(handler, None, item)

    def on_undecodable(self, handler: UndecodableHandler) -> None:
        """Call ``handler(key, found)`` when an object can't be decoded and when that ends; at once for known ones."""
        self._undecodable_handlers.append(handler)
        for key, bad in list(self._undecodable.items()):
            self._tell(handler, key, bad)

    async def run(self) -> None:
        """Keep the copy up to date until cancelled."""
        while True:
            try:
                if not self._version or self._refresh_wanted.is_set():
                    await self._list()
                await self._watch()
            except ApiError as error:
                await self._after(error)
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("informer failed and will list again", resource=self.resource.plural)
                self._version = ""
                await asyncio.sleep(self._backoff.next())

    async def refresh(self) -> None:
        """Wait until the copy holds everything that was written before this call (a consistent list)."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._refresh_waiters.append(waiter)
        self._refresh_wanted.set()
        await waiter

    async def _after(self, error: ApiError) -> None:
        if error.status == 410:
            log.info("watch version is too old: listing again", resource=self.resource.plural)
            self._version = ""
            self._backoff.reset()
            return
        wait = max(self._backoff.next(), error.retry_after_s)
        log.warning("list or watch failed", resource=self.resource.plural, error=str(error), retry_s=round(wait, 2))
        await asyncio.sleep(wait)

    async def _list(self) -> None:
        waiters, self._refresh_waiters = self._refresh_waiters, []
        self._refresh_wanted.clear()
        try:
            found, bad, version = await self._list_pages()
        except BaseException:
            self._refresh_waiters += waiters
            if waiters:
                self._refresh_wanted.set()
            raise
        self._replace(found, bad)
        self._version = version
        self._backoff.reset()
        self.synced.set()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _list_pages(self) -> tuple[dict[str, T], dict[str, Undecodable], str]:
        """Every page. The server prepares the next page while this one is taken in.

        The first list puts each page into the copy at once, so that the process answers probes meanwhile. A later list
        changes nothing before it is complete.
        """
        found: dict[str, T] = {}
        bad: dict[str, Undecodable] = {}
        page = await self._page("")
        while True:
            following = asyncio.create_task(self._page(page.continue_token)) if page.continue_token else None
            try:
                await asyncio.sleep(0)  # sends the request
                for item in page.items:
                    kept = found[item.key] = self._trim(item) if self._trim else item
                    if not self.synced.is_set():
                        self._put(item.key, kept)
                bad |= {one.key: one for one in page.undecodable if one.key}
                if following is None:
                    return found, bad, page.resource_version
                page = await following
            finally:
                if following is not None:
                    following.cancel()
                    await asyncio.gather(following, return_exceptions=True)

    async def _page(self, continue_token: str) -> Page[T]:
        return await self._api.list(self.resource, limit=PAGE, continue_token=continue_token, **self._selection)

    def _replace(self, found: dict[str, T], bad: dict[str, Undecodable]) -> None:
        for key in [key for key in self._undecodable if key not in bad]:
            self._put_undecodable(key, None)
        for key in [key for key in self._store if key not in found and key not in bad]:
            self._put(key, None)
        for key, one in bad.items():
            self._put_undecodable(key, one)
        for key, item in found.items():
            old = self._store.get(key)
            if old is None or old.metadata.resource_version != item.metadata.resource_version:
                self._put(key, item)

    async def _watch(self) -> None:
        timeout_s = random.randint(240, 360)  # noqa: S311 - jitter
        stream = self._api.watch(self.resource, resource_version=self._version, timeout_s=timeout_s, **self._selection)
        wanted = asyncio.ensure_future(self._refresh_wanted.wait())
        consuming = asyncio.ensure_future(self._consume(stream))
        try:
            await asyncio.wait({wanted, consuming}, return_when=asyncio.FIRST_COMPLETED)
            if consuming.done():
                consuming.result()
        finally:
            for task in (wanted, consuming):
                task.cancel()
            await asyncio.gather(wanted, consuming, return_exceptions=True)

    async def _consume(self, stream: AsyncGenerator[WatchEvent[T], None]) -> None:
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            async for event in stream:
                self._backoff.reset()
                self._apply(event)
        finally:
            await stream.aclose()
        if clock() - started < BRIEF_S:
            # Back off, or a server that ends watches at once would be called in a tight loop.
            await asyncio.sleep(self._backoff.next())
        else:
            self._backoff.reset()

    def _apply(self, event: WatchEvent[T]) -> None:
        item, bad = event.object, event.undecodable
        if bad is not None and bad.key:
            gone = event.type == "DELETED"
            self._put_undecodable(bad.key, None if gone else bad)
            if gone:
                self._put(bad.key, None)
        if item is not None:
            self._put_undecodable(item.key, None)
            new = None if event.type == "DELETED" else item
            if new is not None and self._trim:
                new = self._trim(new)
            self._put(item.key, new)
        if event.resource_version:
            self._version = event.resource_version

    def _put_undecodable(self, key: str, bad: Undecodable | None) -> None:
        before = self._undecodable.pop(key, None)
        if bad is not None:
            self._undecodable[key] = bad
            old = self._store.get(key)
            if old is not None and bad.uid and old.metadata.uid != bad.uid:
                self._put(key, None)  # the stored object was replaced by another one of that name
        if before != bad:
            for handler in self._undecodable_handlers:
                self._tell(handler, key, bad)

    def _tell(self, handler: UndecodableHandler, key: str, bad: Undecodable | None) -> None:
        try:
            handler(key, bad)
        except Exception:
            log.exception("handler of undecodable objects failed", resource=self.resource.plural, object=key)

    def _put(self, key: str, new: T | None) -> None:
        old = self._store.pop(key, None) if new is None else self._store.get(key)
        if new is not None:
            self._store[key] = new
        if old is None and new is None:
            return
        recreated = old is not None and new is not None and old.metadata.uid != new.metadata.uid
        for handler in self._handlers:
            if recreated:
                self._call(handler, old, None)
                self._call(handler, None, new)
            else:
                self._call(handler, old, new)

    def _call(self, handler: Handler[T], old: T | None, new: T | None) -> None:
        try:
            handler(old, new)
        except Exception:
            item = new or old
            log.exception("change handler failed", resource=self.resource.plural, object=item and item.key)
