"""An administrator's overwriteEnv applies in a running cluster, also to containers that kubectl debug adds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hami_nvidia.demo.stage import GpuNode, GpuStage

from tests.integration.bed import container, pod

ALL = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
TELL = ["sh", "-c", "echo visible=$NVIDIA_VISIBLE_DEVICES; exec sleep 60"]


async def change(stage: GpuStage, body: Any, kind: str) -> Any:
    """Change a pod as ``kubectl debug`` does."""
    path = "/api/v1/namespaces/default/pods/free/ephemeralcontainers"
    headers = {"Content-Type": f"application/{kind}+json"}
    async with stage.session.patch(path, json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


@pytest.mark.timeout(120)
async def test_containers_without_devices_see_no_cards(short_folder):
    config = short_folder / "device-config.yaml"
    config.write_text("nvidia: {overwriteEnv: true, gpuCorePolicy: force}\n")
    flags = [f"--device-config-file={config}"]
    async with GpuStage(short_folder / "imposed", [GpuNode("n1", "a100x4")], scheduler=flags) as stage:
        main, init = (container(name, None, command=TELL) | ALL for name in ("main", "init"))
        init["command"] = [*TELL[:2], "echo visible=$NVIDIA_VISIBLE_DEVICES"]
        free = pod("free", [main], [init])
        free["spec"]["schedulerName"] = "hami-scheduler"
        await stage.submit(free)
        async with asyncio.timeout(60):
            while "visible=" not in await stage.log("free", "main"):
                await asyncio.sleep(0.1)
        for name in ("init", "main"):
            assert "visible=none" in await stage.log("free", name)
        before = (await stage.pods())["free"]
        added = {"spec": {"ephemeralContainers": [{"name": "one", "image": "i", **ALL}]}}
        await change(stage, added, "strategic-merge-patch")
        entry = {"name": "two", "image": "i", "env": [*ALL["env"], *ALL["env"]]}
        after = await change(
            stage, [{"op": "add", "path": "/spec/ephemeralContainers/-", "value": entry}], "json-patch"
        )
        for ephemeral in after["spec"].pop("ephemeralContainers"):
            assert {e["name"]: e["value"] for e in ephemeral["env"]} == {
                "GPU_CORE_UTILIZATION_POLICY": "force",
                "NVIDIA_VISIBLE_DEVICES": "none",
            }
            assert len(ephemeral["env"]) == 2
        assert after["spec"] == before["spec"]
        assert after["metadata"].get("annotations") == before["metadata"].get("annotations")
