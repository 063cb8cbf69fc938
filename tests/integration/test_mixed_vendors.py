"""NVIDIA, Ascend and Cambricon together: pods that request several vendors, and nodes that have several."""

from __future__ import annotations

import pytest

from tests.integration.mixed import MixedStage, booked, gpu, mlu, node, npu, pod

pytestmark = pytest.mark.timeout(300)


async def test_pod_of_three_vendors_gets_a_slice_of_each(short_folder):
    async with MixedStage(short_folder / "one", [node("n1", "a100x2", npus=2, mlus=2)]) as stage:
        await stage.submit(pod("mixed", gpu(3000), npu(8192), mlu(4096)))
        found = await stage.wait_running("mixed")
        gpus, npus, mlus = (booked(found, vendor) for vendor in ("nvidia", "ascend", "cambricon"))
        assert [[m for _, m in container] for container in gpus] == [[3000], [], []]
        assert [[m for _, m in container] for container in npus] == [[], [8192], []]
        assert [[m for _, m in container] for container in mlus] == [[], [], [4096]]
