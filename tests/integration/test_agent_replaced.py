"""An agent is replaced while pods arrive: pods wait for the next agent, and the kubelet rejects none."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from hami_nvidia.demo.stage import GpuNode, GpuStage

from tests.integration.bed import all_end, container, pod, wrong_slices

NODE = "gpu-1"
PATIENT = {"resync_seconds": 1.0, "status_seconds": 8.0}
"""Settings of a kubelet that, like a real one, reports an absent agent late."""


async def label(stage: GpuStage) -> str:
    node = await stage.call("GET", f"/api/v1/nodes/{NODE}")
    return str(node["metadata"]["labels"].get("hami.io/agent-nvidia", ""))


async def told(stage: GpuStage) -> set[str]:
    """Messages of all events."""
    events = await stage.call("GET", "/api/v1/namespaces/default/events")
    return {event["message"] for event in events["items"]}


@pytest.mark.timeout(600)
async def test_no_pod_is_rejected_while_its_agent_is_replaced(short_folder):
    async with GpuStage(short_folder / "r", [GpuNode(NODE, "a100x2", split=100)], kubelet=PATIENT) as stage:
        pods, over = [], asyncio.Event()

        async def stream() -> None:
            while not over.is_set():
                pods.append(pod(f"p{len(pods)}", [container("main", 500 + len(pods))]))
                await stage.submit(pods[-1])
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), 0.3)

        streaming = asyncio.create_task(stream())
        for _ in range(2):
            before = len(pods)
            while len(pods) < before + 3:
                await asyncio.sleep(0.05)
                assert not streaming.done(), streaming.result()
            await stage.replace(f"agent:{NODE}")
            while await label(stage) != "ready":
                await asyncio.sleep(0.05)
        over.set()
        await streaming
        left = await all_end(stage, {entry["metadata"]["name"] for entry in pods}, 240)
        assert not left, f"of {len(pods)} pods: {left}"
        assert not await wrong_slices(stage, pods)
        reason = "the node's nvidia agent is being replaced"
        assert any(reason in message for message in await told(stage)), "no event gave pods the reason"
        print(f"{len(pods)} pods while two agents were replaced", flush=True)
