"""Garbage on every endpoint of scheduler and agent gets an answer or a closed connection, never a crash or a 500."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import ssl
from urllib.parse import urlsplit

import grpc
import pytest

from hami_core.agent.proto import deviceplugin_pb2 as api
from hami_core.agent.proto import deviceplugin_pb2_grpc as rpc

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(90)]

PATHS = ("/filter", "/prioritize", "/bind", "/webhook", "/metrics", "/healthz", "/readyz", "/debug/stacks", "/", "/..")
METHODS = ("GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "BREW")
REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
BODIES = [
    b"",
    b"null",
    b"[]",
    b'"text"',
    b"{",
    b"\xff\xfe\x00",
    b"[" * 200_000,
    b'{"a":' * 100_000,
    b'{"Pod": {"spec": {"containers": null}}, "NodeNames": null}',
    b'{"Pod": 5, "NodeNames": "gpu-1"}',
    b'{"Pod": {"metadata": {"annotations": {"hami.io/gpu-scheduler-policy": 7}}}}',
    b'{"PodName": "a", "PodNamespace": "../..", "PodUID": "", "Node": "gpu-1\\r\\nX: y"}',
    b'{"NodeNames": ["\\ud800"], "Pod": {"metadata": {"uid": "u"}}}',
    json.dumps(REVIEW).encode(),
    json.dumps(REVIEW | {"request": {"uid": "u", "object": {"spec": {"containers": [None]}}}}).encode(),
    json.dumps(REVIEW | {"request": {"uid": "u" * 100_000, "object": []}}).encode(),
    json.dumps({"Pod": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": [1]}}}]}}}).encode(),
    json.dumps({"Pod": {"metadata": {"name": "x"}}, "NodeNames": ["n"] * 50_000}).encode(),
]
SOUND = {200, 400, 404, 405}


def doors(scene) -> list[str]:
    """Base URLs of all our HTTP servers."""
    return [scene.stage.extender_url, *(scene.url(part) for part in scene.stage.parts)]


async def test_any_method_path_and_body_gets_an_expected_status(checked_scene):
    async def ask(url: str, method: str, body: bytes) -> tuple[str, int]:
        async with checked_scene.stage.session.request(method, url, data=body, ssl=False) as answer:
            await answer.read()
            return f"{method} {url} {body[:60]!r}", answer.status

    cases = [
        (f"{door}{path}", method, BODIES[1]) for door in doors(checked_scene) for path in PATHS for method in METHODS
    ]
    cases += [
        (f"{door}{path}", "POST", body) for door in doors(checked_scene)[:2] for path in PATHS[:5] for body in BODIES
    ]
    for start in range(0, len(cases), 50):
        answers = await asyncio.gather(*(ask(*case) for case in cases[start : start + 50]))
        assert not [(what, status) for what, status in answers if status not in SOUND]
    for part in checked_scene.stage.parts.values():
        assert "request failed" not in part.log.read_text(errors="replace")


async def test_bytes_that_are_not_http_close_only_their_connection(checked_scene):
    noise = random.Random(1)
    texts = [
        noise.randbytes(5000),
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /filter HTTP/1.1\r\nContent-Length: -5\r\n\r\n{}",
        b"POST /filter HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n",
        b"POST /filter HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
        b"POST /filter HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\nGET",
        b"GET /metrics HTTP/1.1\r\n" + b"X: " + b"y" * 200_000 + b"\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 20_000,
        b"\x16\x03\x01" + noise.randbytes(400),
    ]

    async def send(door: str, text: bytes, *, tls: bool) -> None:
        where = urlsplit(door)
        context = ssl.create_default_context() if tls else None
        if context is not None:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(2):
                reader, writer = await asyncio.open_connection(where.hostname, where.port, ssl=context)
                try:
                    writer.write(text)
                    await writer.drain()
                    await reader.read(1000)
                finally:
                    writer.transport.abort()

    await asyncio.gather(
        *(
            send(door, text, tls=tls)
            for door in doors(checked_scene)
            for text in texts
            for tls in {False, door.startswith("https")}
        )
    )


async def test_half_open_connections_do_not_block_others(checked_scene):
    where = urlsplit(checked_scene.stage.extender_url)
    opened = [await asyncio.open_connection(where.hostname, where.port) for _ in range(200)]
    for _, writer in opened[::2]:
        writer.write(b"POST /fil")
    await checked_scene.check_unaffected()
    for _, writer in opened:
        writer.transport.abort()


async def test_agents_plugin_socket_survives_any_nonsense(checked_scene):
    (socket,) = [
        path
        for path in checked_scene.stage.cluster.node("gpu-2").plugin_dir.iterdir()
        if path.is_socket() and path.name != "kubelet.sock"
    ]
    reader, writer = await asyncio.open_unix_connection(str(socket))
    writer.write(random.Random(2).randbytes(10_000))
    with contextlib.suppress(OSError):
        await writer.drain()
        await asyncio.wait_for(reader.read(), 10)
    writer.transport.abort()
    async with grpc.aio.insecure_channel(f"unix://{socket}") as channel:
        stub = rpc.DevicePluginStub(channel)
        for ids in ([], ["nowhere"], ["\u0000"], ["x" * 10_000], [str(n) for n in range(20_000)]):
            one = api.ContainerAllocateRequest(devices_ids=ids)
            answer = await stub.Allocate(api.AllocateRequest(container_requests=[one] * 2))
            names = [device.name for part in answer.container_responses for device in part.cdi_devices]
            assert len(set(names)) == 2
            preferred = api.ContainerPreferredAllocationRequest(
                available_deviceIDs=ids, must_include_deviceIDs=["elsewhere"], allocation_size=-7
            )
            with contextlib.suppress(grpc.aio.AioRpcError):
                await stub.GetPreferredAllocation(api.PreferredAllocationRequest(container_requests=[preferred]))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.PreStartContainer(api.PreStartContainerRequest(devices_ids=["nowhere"]), timeout=30)
        assert "does not say which container holds nowhere" in (refused.value.details() or "")
        assert not (await stub.Allocate(api.AllocateRequest())).container_responses
