"""MIG instances on a whole cluster: webhook, scheduler, kubelet, agent, instance, and its end."""

from __future__ import annotations

import pytest
from hami_nvidia.demo.stage import GpuNode

from tests.integration.bed import all_end, container, pod, seen
from tests.integration.mig import NODE, STAY, MigStage, gone, instance, planned, refused, shown, until


@pytest.mark.timeout(600)
async def test_the_place_of_an_ended_pod_is_used_again_after_a_restart(short_folder):
    nodes = [GpuNode(NODE, "a100", env={"HAMI_NVIDIA_OPERATING_MODE": "mig"})]
    async with MigStage(short_folder / "m", nodes) as stage:
        for name in ("a", "b"):
            await stage.submit(pod(name, [container("main", 9000, command=STAY)]))
            await stage.wait_running(name)
        first, second = await instance(stage, "a"), await instance(stage, "b")
        assert [one["placement"] for one in (first, second)] == [{"start": 6, "size": 1}, {"start": 5, "size": 1}]
        assert {one["profile"] for one in (first, second)} == {"1g.10gb"}
        assert {one["migUUID"] for one in (first, second)} == stage.mig_devices().keys()
        for name, one in (("a", first), ("b", second)):
            got = await until(lambda name=name: seen(stage, name, "main"))
            # CUDA names a MIG device by its own UUID, and the program writes it as a card's.
            assert [(uuid.partition("-")[2], size) for uuid, size in got] == [
                (one["migUUID"].partition("-")[2], stage.mig_devices()[one["migUUID"]])
            ]

        await stage.restart(f"agent:{NODE}")
        await stage.submit(pod("short", [container("main", 9000)]))
        assert not await all_end(stage, {"short"}, 60)
        ended = await planned(stage, "short")
        assert ended["placement"] == {"start": 4, "size": 1}
        await until(lambda: stage.mig_devices().keys() == {first["migUUID"], second["migUUID"]})
        await stage.call("DELETE", "/api/v1/namespaces/default/pods/a", {"gracePeriodSeconds": 0})
        await until(lambda: gone(stage, "a"))
        for name in ("c", "d"):
            await stage.submit(pod(name, [container("main", 9000, command=STAY)]))
            await stage.wait_running(name)
        third, fourth = await instance(stage, "c"), await instance(stage, "d")
        places = sorted((one["placement"] for one in (third, fourth)), key=lambda place: place["start"])
        assert places == [ended["placement"], first["placement"]]
        assert {one["migUUID"] for one in (second, third, fourth)} == stage.mig_devices().keys()
        assert await instance(stage, "b") == second, "its neighbour keeps its instance"
        await until(lambda: shown(stage, {second["migUUID"], third["migUUID"], fourth["migUUID"]}))

        await stage.submit(pod("big", [container("main", 70000)]))
        assert "container main needs 70000 MiB on one card" in await until(lambda: refused(stage, "big"))
        for name in ("b", "c", "d"):
            await stage.call("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})
        assert not await all_end(stage, {"big"}, 120), "the whole card is free again"
        assert (await planned(stage, "big"))["profile"] == "7g.80gb"
