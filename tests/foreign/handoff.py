"""What replays ask about a pod that HAMi's hand-off gives to a device plugin: node lock, bind phase, refusals."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hami_core.testing.stage import StageNode
from hami_core.wire import keys
from tests.foreign.device_plugin import ForeignStage, Offer, registered, told, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

NODE = "n1"


@asynccontextmanager
async def one_node(folder: Path, vendor: str) -> AsyncIterator[ForeignStage]:
    """A cluster with the node `NODE`, which has no device plugin yet."""
    node = StageNode(NODE, annotations={"example.com/plugin": vendor})
    async with ForeignStage(folder, [node], [vendor]) as stage:
        yield stage


@asynccontextmanager
async def offering(stage: ForeignStage, offers: Sequence[Offer]) -> AsyncIterator[None]:
    """Serve these resources on the node `NODE`, and wait until its kubelet offers the first one."""
    async with registered(stage.cluster.node(NODE).plugin_dir, offers):
        await until(lambda: offered(stage, offers[0].resource))
        yield


async def offered(stage: ForeignStage, resource: str) -> bool:
    """Whether the node's kubelet offers a resource."""
    status = (await stage.node(NODE))["status"]
    return str(status["allocatable"].get(resource, "0")) != "0"


async def lock(stage: ForeignStage) -> str | None:
    """The node's lock."""
    found: str | None = (await stage.node(NODE))["metadata"].get("annotations", {}).get(keys.NODE_LOCK)
    return found


async def finished(stage: ForeignStage, name: str) -> dict[str, Any]:
    """A running pod whose hand-off the plugin has ended."""

    async def done() -> bool:
        phase = (await stage.pod(name))["metadata"]["annotations"].get(keys.BIND_PHASE)
        return bool(phase == keys.PHASE_SUCCESS)

    await stage.wait_running(name)
    await until(done)
    return await stage.pod(name)


async def failed(stage: ForeignStage, name: str) -> None:
    """Wait until the kubelet has refused a pod."""

    async def done() -> bool:
        return bool((await stage.pod(name))["status"].get("phase") == "Failed")

    await until(done)


async def refused(stage: ForeignStage, pod: dict[str, Any], why: str) -> None:
    """Submit a pod and wait for an event with the reason. The pod stays pending."""
    await stage.submit(pod)
    await told(stage, pod["metadata"]["name"], why)
