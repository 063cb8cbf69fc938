"""The HTTP server over real sockets."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from hami_core.errors import ConfigError
from hami_core.http.health import Health
from hami_core.http.metrics import metrics_route
from hami_core.http.serve import Listener, Request, Response, Route, Server, parse_address


async def echo(request: Request) -> Response:
    return Response(200, request.method.encode() + b" " + request.body, "text/plain")


async def broken(_: Request) -> Response:
    raise RuntimeError("a bug")


ROUTES = [Route("POST", "/echo", echo), Route("GET", "/echo", echo), Route("GET", "/broken", broken)]


@asynccontextmanager
async def serving(*listeners: Listener):
    server = Server(listeners or [Listener("127.0.0.1:0", ROUTES, body_limit=1000)])
    await server.start()
    async with aiohttp.ClientSession() as session:
        yield server, session
    await server.stop(1)


def unix_session(path) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path)))


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "answer"),
    [
        ("POST", "/echo", b"x", 200, "POST x"),
        ("GET", "/echo", b"", 200, "GET "),
        ("PUT", "/echo", b"", 405, "PUT is not served here\n"),
        ("GET", "/else", b"", 404, "no such path: /else\n"),
        ("GET", "/broken", b"", 500, "internal error; the log has the details\n"),
    ],
)
async def test_routes(method, path, body, status, answer):
    async with serving() as (server, session):
        url = f"http://{server.addresses[0]}{path}"
        async with session.request(method, url, data=body) as response:
            assert (response.status, await response.text()) == (status, answer)


@pytest.mark.parametrize(
    ("port", "problem", "fix"),
    [
        (443, "may not listen on ports below 1024", "choose a port from 1024"),
        (8443, "permission denied", "another port"),
    ],
)
async def test_forbidden_port_error_names_the_fix(monkeypatch, port, problem, fix):
    async def start(_: web.TCPSite) -> None:
        raise PermissionError(errno.EACCES, f"error while attempting to bind on address ('0.0.0.0', {port})")

    monkeypatch.setattr(web.TCPSite, "start", start)
    with pytest.raises(ConfigError, match=f"--webhook-bind :{port}: .*{problem}.*{fix}"):
        await Server([Listener(f":{port}", ROUTES, setting="--webhook-bind")]).start()


async def test_a_body_over_the_limit_is_413_and_the_next_request_works():
    async with serving() as (server, session):
        url = f"http://{server.addresses[0]}/echo"
        async with session.post(url, data=b"x" * 1001) as response:
            assert response.status == 413
        async with session.post(url, data=b"x" * 1000) as response:
            assert response.status == 200


async def test_several_listeners_each_with_its_own_routes(tmp_path):
    path = tmp_path / "s.sock"
    first = Listener("127.0.0.1:0", ROUTES[:1])
    second = Listener(f"unix:{path}", ROUTES[1:])
    async with serving(first, second) as (server, session):
        async with session.post(f"http://{server.addresses[0]}/echo", data=b"a") as response:
            assert response.status == 200
        async with session.get(f"http://{server.addresses[0]}/broken") as response:
            assert response.status == 404
        async with unix_session(path) as unix, unix.get("http://x/echo") as response:
            assert response.status == 200


async def test_a_stale_socket_file_is_replaced(tmp_path):
    path = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    async with (
        serving(Listener(f"unix:{path}", ROUTES)),
        unix_session(path) as unix,
        unix.get("http://x/echo") as response,
    ):
        assert response.status == 200


async def test_stop_finishes_answers_and_takes_no_new_requests():
    entered, let_go = asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> Response:
        entered.set()
        await let_go.wait()
        return Response(200, b"done")

    server = Server([Listener("127.0.0.1:0", [Route("GET", "/slow", slow)])])
    await server.start()
    url = f"http://{server.addresses[0]}/slow"
    async with aiohttp.ClientSession() as session:
        under_way = asyncio.create_task(session.get(url))
        await entered.wait()
        stopping = asyncio.create_task(server.stop(30))
        await asyncio.sleep(0.05)
        async with aiohttp.ClientSession() as late:
            with pytest.raises(aiohttp.ClientConnectorError):
                await late.get(url)
        let_go.set()
        assert (await under_way).status == 200
        await stopping


@pytest.mark.parametrize(
    ("address", "parsed"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), (":9395", (None, 9395)), ("[::1]:1", ("::1", 1))],
)
def test_addresses(address, parsed):
    assert parse_address(address) == parsed


@pytest.mark.parametrize("address", ["", "host", "host:", "host:x", "host:65536"])
def test_bad_addresses_say_what_to_write(address):
    with pytest.raises(ConfigError, match="write host:port"):
        parse_address(address)


async def test_an_address_in_use_names_it():
    async with serving() as (server, _):
        with pytest.raises(ConfigError, match=server.addresses[0]):
            await Server([Listener(server.addresses[0], ROUTES)]).start()


async def test_health_names_what_is_missing():
    health, synced = Health(), []
    health.ready("pods", lambda: "" if synced else "not listed yet")
    health.ready("broken", lambda: 1 / 0 if not synced else "")
    async with serving(Listener("127.0.0.1:0", health.routes())) as (server, session):
        async with session.get(f"http://{server.addresses[0]}/readyz") as response:
            assert response.status == 503
            assert "pods: not listed yet" in await response.text()
        assert not health.is_ready
        synced.append(1)
        for path in ("/readyz", "/healthz"):
            async with session.get(f"http://{server.addresses[0]}{path}") as response:
                assert (response.status, await response.text()) == (200, "ok\n")


async def test_metrics_need_their_token():
    registry = CollectorRegistry()
    Counter("hami_test", "t", registry=registry).inc()
    async with serving(Listener("127.0.0.1:0", [metrics_route(registry, token=lambda: "s")])) as (server, session):
        url = f"http://{server.addresses[0]}/metrics"
        async with session.get(url) as response:
            assert response.status == 401
        for headers in (
            {"Authorization": "Bearer s"},
            {"X-HAMI-Token": "s"},
            {"X-HAMI-Token": "s", "Authorization": "B"},
        ):
            async with session.get(url, headers=headers) as response:
                assert response.status == 200
                assert "hami_test_total 1.0" in await response.text()
        for headers in ({"Authorization": "s"}, {"X-HAMI-Token": "Bearer s"}, {"X-HAMI-Token": ""}):
            async with session.get(url, headers=headers) as response:
                assert response.status == 401
