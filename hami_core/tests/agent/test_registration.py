"""The writer of a node's annotations and labels."""

from __future__ import annotations

import asyncio

from hami_core.agent.registration import NodeWriter


async def test_two_writers_of_one_label_restore_it_with_pauses(node):
    node.server.objects["nodes"]["n1"] = {"metadata": {"name": "n1", "uid": "n1", "resourceVersion": "1"}}
    writers = [NodeWriter(node.api, "n1"), NodeWriter(node.api, "n1")]
    tasks = [asyncio.create_task(coroutine) for w in writers for coroutine in (w.informer.run(), w.run())]
    for word, writer in zip("ab", writers, strict=True):
        writer.want({}, {"word": word})
    await asyncio.sleep(2)
    assert 2 < sum(writer.written for writer in writers) < 15
    tasks[2].cancel()
    tasks[3].cancel()
    async with asyncio.timeout(15):
        while node.server.objects["nodes"]["n1"]["metadata"]["labels"]["word"] != "a":
            await asyncio.sleep(0.05)
    writers[0].want({"fresh": "1"}, {})
    async with asyncio.timeout(15):
        while "fresh" not in node.server.objects["nodes"]["n1"]["metadata"].get("annotations", {}):
            await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
