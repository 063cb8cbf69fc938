"""When passes run: soon after a change, later while the kubelet asks for devices, at once if a container waits."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from hami_core.agent.passes import Passes


@pytest.fixture
async def passes(monkeypatch):
    monkeypatch.setattr("hami_core.agent.passes.CALM_S", 1.0)

    async def work() -> None:
        pass

    made = Passes(work, time.monotonic)
    runner = asyncio.ensure_future(made.run())
    yield made
    runner.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await runner


async def wait_for_pass(passes: Passes) -> None:
    while not passes.done:
        await asyncio.sleep(0.001)


async def test_pass_waits_while_the_kubelet_asks_for_devices(passes, monkeypatch):
    monkeypatch.setattr("hami_core.agent.passes.MAX_DELAY_S", 60.0)
    passes.delay()
    passes.wake()
    await asyncio.sleep(0.1)
    assert passes.begun == 0
    await asyncio.wait_for(wait_for_pass(passes), 10)


async def test_waiting_container_gets_its_pass_at_once(passes, monkeypatch):
    monkeypatch.setattr("hami_core.agent.passes.CALM_S", 60.0)
    monkeypatch.setattr("hami_core.agent.passes.MAX_DELAY_S", 60.0)
    passes.delay()
    passes.wake()
    await asyncio.sleep(0.01)
    passes.wake(urgent=True)
    await asyncio.wait_for(wait_for_pass(passes), 10)


async def test_pass_is_not_delayed_for_ever(passes, monkeypatch):
    monkeypatch.setattr("hami_core.agent.passes.CALM_S", 60.0)
    passes.delay()
    passes.wake()
    await asyncio.wait_for(wait_for_pass(passes), 10)
