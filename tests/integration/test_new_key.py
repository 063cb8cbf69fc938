"""A new signing key is published while pods wait: the running agent reads it, and the refused pods start."""

from __future__ import annotations

import asyncio

from hami_nvidia.demo.stage import GpuNode, GpuStage

from hami_core.testing.stage import refusal_of
from hami_core.wire.signature import generate_private_key, key_id, private_key_pem, public_key_pem
from tests.integration.bed import all_end, container, pod, wrong_slices


async def test_pod_signed_with_unknown_key_starts_once_it_is_published(short_folder):
    async with GpuStage(short_folder / "k", [GpuNode("gpu-1", "a100x2")], kubelet={"resync_seconds": 2.0}) as stage:
        agent = stage.parts["agent:gpu-1"]
        key = generate_private_key()
        (stage.work / "signing.key").write_bytes(private_key_pem(key))
        await stage.restart("scheduler")
        waits = pod("waits", [container("main", 2000)])
        await stage.submit(waits)
        async with asyncio.timeout(60):
            why = ""
            while f"signed with key {key_id(key.public_key())}" not in why:
                await asyncio.sleep(0.2)
                why = refusal_of((await stage.pods())["waits"])
        before = agent.process.pid
        with (stage.work / "signing.pub").open("ab") as file:
            file.write(public_key_pem(key.public_key()))
        assert not await all_end(stage, {"waits"}, 60)
        assert not await wrong_slices(stage, [waits])
        assert agent.process.pid == before, "the agent was restarted"
        assert agent.process.poll() is None
