"""The informer against a server that drops, forgets and refuses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from hami_core.kube.informer import Informer
from hami_core.kube.port import PODS, Page
from hami_core.tests.kube.apiserver import Fault, pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from hami_core.kube.objects import Pod


@pytest.fixture
async def running(api) -> AsyncIterator[Callable[..., Informer[Pod]]]:
    tasks: list[asyncio.Task[None]] = []

    def start(**selection: str) -> Informer[Pod]:
        informer = Informer(api, PODS, **selection)
        tasks.append(asyncio.create_task(informer.run()))
        return informer

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


async def test_list_then_changes(server, running):
    await server.put("pods", pod("a"))
    informer = running()
    await informer.synced.wait()
    assert list(informer.store) == ["default/a"]
    seen: list[tuple[str | None, str | None]] = []
    informer.on_change(lambda old, new: seen.append((old and old.key, new and new.key)))
    assert seen == [(None, "default/a")], "a handler is told what there is already"
    await server.put("pods", pod("b"))
    await server.put("pods", pod("a", metadata={"annotations": {"k": "v"}}))
    await server.remove("pods", "default/b")
    await until(lambda: len(seen) == 4)
    assert seen[1:] == [(None, "default/b"), ("default/a", "default/a"), ("default/b", None)]
    assert informer.store["default/a"].metadata.annotations == {"k": "v"}


async def test_more_than_a_page(server, running):
    for n in range(1201):
        await server.put("pods", pod(f"p{n}"))
    informer = running()
    await informer.synced.wait()
    assert len(informer.store) == 1201


async def test_first_list_is_taken_in_page_by_page(server, running):
    for n in range(501):
        await server.put("pods", pod(f"p{n:03}"))
    server.faults.append(lambda _, path: Fault(delay_s=60) if "continue=" in path else None)
    informer = running()
    await until(lambda: len(informer.store) == 500)
    assert not informer.synced.is_set()


async def test_cancelled_list_leaves_no_request_behind():
    class TwoPages:
        ended = False

        async def list(self, _resource, *, continue_token, **_selection):
            if not continue_token:
                return Page((), "1", continue_token="next")
            listing.cancel()
            try:
                await asyncio.Event().wait()
            finally:
                for _ in range(10):
                    await asyncio.sleep(0)  # as if it closed a connection
                self.ended = True

    api = TwoPages()
    listing = asyncio.create_task(Informer(api, PODS).run())
    await asyncio.gather(listing, return_exceptions=True)
    assert listing.cancelled()
    assert api.ended


async def test_later_list_changes_nothing_before_it_is_complete(server, running):
    for n in range(501):
        await server.put("pods", pod(f"p{n:03}"))
    informer = running()
    await informer.synced.wait()
    seen: list[str] = []
    informer.on_change(lambda _, new: seen.append(new.key if new else ""))
    del seen[:]
    failing = [2]

    def second_page(_: str, path: str) -> Fault | None:
        failing[0] -= "continue=" in path
        return Fault(status=500) if "continue=" in path and failing[0] >= 0 else None

    server.faults.append(second_page)
    for n in (0, 500):
        server.objects["pods"][f"default/p{n:03}"] = pod(f"p{n:03}", metadata={"resourceVersion": "9999"})
    waiting = asyncio.create_task(informer.refresh())
    await until(lambda: failing[0] == 1)
    await asyncio.sleep(0.05)
    assert seen == [], "the first page arrived, the second one failed"
    await waiting
    assert seen == ["default/p000", "default/p500"]


async def test_a_dropped_watch_resumes_without_listing(server, running):
    informer = running()
    await informer.synced.wait()
    await server.end_watches()
    await server.put("pods", pod("a"))
    await until(lambda: "default/a" in informer.store)
    lists = [r for r in server.requests if r[1].endswith("/pods")]
    assert len(lists) >= 2
    assert informer.version == str(server.version)


async def test_forgotten_version_lists_again_and_reports_the_changes(server, running):
    await server.put("pods", pod("gone"))
    await server.put("pods", pod("same"))
    informer = running()
    await informer.synced.wait()
    seen: list[tuple[str | None, str | None]] = []
    informer.on_change(lambda old, new: seen.append((old and old.key, new and new.key)))
    del seen[:]
    server.objects["pods"].pop("default/gone")
    server.objects["pods"]["default/new"] = pod("new", metadata={"resourceVersion": "99"})
    server.compact()
    await server.end_watches()
    await until(lambda: len(seen) == 2)
    assert seen == [("default/gone", None), (None, "default/new")]


@pytest.mark.parametrize(
    "fault", [Fault(status=500), Fault(status=429, headers={"Retry-After": "0"}), Fault(drop=True)]
)
async def test_failures_are_retried(server, running, fault):
    left = [2]

    def twice(method: str, _: str) -> Fault | None:
        left[0] -= 1
        return fault if left[0] >= 0 else None

    server.faults.append(twice)
    await server.put("pods", pod("a"))
    informer = running()
    await informer.synced.wait()
    assert list(informer.store) == ["default/a"]


async def test_recreated_pod_causes_two_handler_calls(server, running):
    await server.put("pods", pod("a", uid="one"))
    informer = running()
    await informer.synced.wait()
    seen: list[tuple[str | None, str | None]] = []
    informer.on_change(lambda old, new: seen.append((old and old.uid, new and new.uid)))
    server.objects["pods"]["default/a"] = pod("a", uid="two", metadata={"resourceVersion": "99"})
    await informer.refresh()
    assert seen == [(None, "one"), ("one", None), (None, "two")]


async def test_refresh_holds_everything_written_before_it(server, running):
    informer = running()
    await informer.synced.wait()
    # Written behind the watch's back: only a list can show it.
    server.objects.setdefault("pods", {})["default/a"] = pod("a", metadata={"resourceVersion": "5"})
    await informer.refresh()
    assert "default/a" in informer.store


async def test_refresh_waits_out_a_failing_server(server, running):
    informer = running()
    await informer.synced.wait()
    server.faults.append(lambda *_: Fault(status=500))
    waiting = asyncio.create_task(informer.refresh())
    await asyncio.sleep(0.3)
    assert not waiting.done()
    server.faults.clear()
    await waiting


async def test_failing_handler_does_not_stop_the_others(server, running):
    informer = running()
    await informer.synced.wait()
    seen: list[str] = []

    def broken(old: Pod | None, new: Pod | None) -> None:
        raise RuntimeError("broken")

    informer.on_change(broken)
    informer.on_change(lambda _, new: seen.append(new.key if new else ""))
    await server.put("pods", pod("a"))
    await until(lambda: seen == ["default/a"])


async def test_field_selector_reaches_the_server(server, running):
    await server.put("pods", pod("here", spec={"nodeName": "n1"}))
    await server.put("pods", pod("there", spec={"nodeName": "n2"}))
    informer = running(field_selector="spec.nodeName=n1")
    await informer.synced.wait()
    assert list(informer.store) == ["default/here"]


async def test_undecodable_event_is_skipped_and_the_next_one_applied(server, running):
    informer = running()
    await informer.synced.wait()
    await server.put("pods", pod("bad", spec={"nodeName": {"not": "text"}}))
    await server.put("pods", pod("good"))
    await until(lambda: "default/good" in informer.store)
    assert "default/bad" not in informer.store


async def test_object_that_becomes_undecodable_is_reported_and_kept(server, running):
    await server.put("pods", pod("a", spec={"nodeName": "n1"}))
    await server.put("pods", pod("born-bad", spec={"nodeName": 7}))
    informer = running()
    await informer.synced.wait()
    told: list[tuple[str, bool]] = []
    informer.on_undecodable(lambda key, found: told.append((key, found is not None)))
    assert told == [("default/born-bad", True)], "a handler is told what there is already"
    await server.put("pods", pod("a", spec={"nodeName": 7}))
    await until(lambda: ("default/a", True) in told)
    await informer.refresh()
    assert informer.store["default/a"].spec.node_name == "n1", "not even a fresh list makes it vanish"
    await server.put("pods", pod("a", spec={"nodeName": "n2"}))
    await server.remove("pods", "default/born-bad")
    await until(lambda: len(told) == 4)
    assert told[2:] == [("default/a", False), ("default/born-bad", False)]
    assert informer.store["default/a"].spec.node_name == "n2"


async def test_an_undecodable_object_that_is_deleted_is_gone(server, running):
    await server.put("pods", pod("a"))
    informer = running()
    await informer.synced.wait()
    await server.put("pods", pod("a", spec={"nodeName": 7}))
    await server.remove("pods", "default/a")
    await until(lambda: not informer.store)
