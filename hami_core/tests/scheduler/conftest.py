from __future__ import annotations

import io
import json
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from hami_core.kube.official import OfficialKubeApi, connect
from hami_core.plugins.discovery import VENDORS, Found, Source
from hami_core.plugins.load import assemble
from hami_core.scheduler.process import Options, Scheduler
from hami_core.testing import parts
from hami_core.tests.kube.apiserver import ApiServer
from hami_core.tests.scheduler import vendor
from hami_core.wire.signature import PrivateKey, generate_private_key

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from hami_core.plugins import Loaded


class Client:
    """Calls a scheduler as kube-scheduler and the API server do."""

    def __init__(self, scheduler: Scheduler, session: aiohttp.ClientSession) -> None:
        self.scheduler = scheduler
        self._session = session
        self.url = f"http://{scheduler.addresses[0]}"

    async def post(self, path: str, body: Any) -> Any:
        data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        async with self._session.post(self.url + path, data=data) as response:
            text = await response.text()
            assert response.status == 200, (response.status, text)
            return json.loads(text)

    async def raw(self, method: str, path: str, data: bytes | None = None) -> tuple[int, str]:
        body = None if data is None else io.BytesIO(data)
        async with self._session.request(method, self.url + path, data=body) as response:
            return response.status, await response.text()

    async def filter(self, pod: dict[str, Any], nodes: list[str]) -> Any:
        return await self.post("/filter", {"Pod": pod, "Nodes": None, "NodeNames": nodes})

    async def prioritize(self, pod: dict[str, Any], nodes: list[str]) -> dict[str, int]:
        answer = await self.post("/prioritize", {"Pod": pod, "Nodes": None, "NodeNames": nodes})
        return {entry["Host"]: entry["Score"] for entry in answer}

    async def bind(self, pod: dict[str, Any], node: str) -> str:
        meta = pod["metadata"]
        body = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": node}
        return str((await self.post("/bind", body))["Error"])

    async def admit(self, pod: dict[str, Any], **request: Any) -> Any:
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {"uid": "r1", "namespace": "default", "operation": "CREATE", "object": pod, **request},
        }
        return (await self.post("/webhook", review))["response"]

    @staticmethod
    def timeout(seconds: float) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(total=seconds)

    async def metrics(self) -> str:
        async with self._session.get(f"http://{self.scheduler.addresses[-1]}/metrics") as response:
            return await response.text()


def load(*vendors: type) -> Loaded:
    found = [
        Found(Source(cls.__name__.lower(), VENDORS, "tests", "tests", "0"), cls) for cls in vendors or (vendor.Acme,)
    ]
    return assemble(found, side="scheduler")


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as made:
        yield made


@pytest.fixture
async def api(server: ApiServer, tmp_path: Path) -> AsyncIterator[OfficialKubeApi]:
    made = await connect(server.kubeconfig(tmp_path))
    yield made
    await made.close()


@pytest.fixture
def signing_key() -> PrivateKey:
    return generate_private_key()


@pytest.fixture
async def start(api: OfficialKubeApi, signing_key: PrivateKey) -> AsyncIterator[Callable[..., Any]]:
    async with AsyncExitStack() as stack:

        async def made(
            *,
            loaded: Loaded | None = None,
            lead: Any = None,
            clock: Any = time.monotonic,
            wait: bool = True,
            **options: Any,
        ) -> Client:
            chosen = {"extender": "127.0.0.1:0", "metrics": "127.0.0.1:0", "signing_key": signing_key, **options}
            scheduler = Scheduler(api, loaded or load(), Options(**chosen), lead=lead, clock=clock)
            await scheduler.start()
            stack.push_async_callback(scheduler.stop)
            if wait:
                await scheduler.cluster.synced()
                await scheduler._tasks["server-version"]
            session = await stack.enter_async_context(aiohttp.ClientSession())
            return Client(scheduler, session)

        yield made


@pytest.fixture
def free_port() -> int:
    return parts.free_port()
