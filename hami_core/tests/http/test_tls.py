"""TLS: self-signed pairs, reloading while serving, bad pairs that change nothing."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager

import aiohttp
import pytest
import trustme

from hami_core.errors import ConfigError
from hami_core.http import tls
from hami_core.http.serve import Listener, Request, Response, Route, Server


async def hello(_: Request) -> Response:
    return Response(200, b"hello")


def write(ca: trustme.CA, folder, *names: str) -> tls.TlsFiles:
    issued = ca.issue_cert(*names)
    files = tls.TlsFiles(folder / "tls.crt", folder / "tls.key")
    issued.private_key_pem.write_to_path(files.key)
    issued.cert_chain_pems[0].write_to_path(files.certificate)
    return files


@asynccontextmanager
async def serving(context: ssl.SSLContext):
    server = Server([Listener("127.0.0.1:0", [Route("GET", "/", hello)], tls=context)])
    await server.start()
    yield server.addresses[0]
    await server.stop(0)


async def serial(address: str) -> bytes:
    """The certificate a fresh handshake is shown."""
    client = ssl.create_default_context()
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    host, port = address.split(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=client)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return bytes(shown)


async def test_new_certificate_is_served_without_a_restart(tmp_path):
    ca = trustme.CA()
    files = write(ca, tmp_path, "localhost")
    context = tls.context(files)
    loads: list[int] = []
    task = asyncio.create_task(tls.reload_on_change(context, files, recheck_s=0.05, loaded=lambda: loads.append(1)))
    async with serving(context) as address:
        first = await serial(address)
        files.key.write_bytes(b"not a key")
        await asyncio.sleep(0.3)
        assert await serial(address) == first, "a pair that does not load changes nothing"
        write(ca, tmp_path, "localhost")
        while not loads:
            await asyncio.sleep(0.01)
        assert await serial(address) != first
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_clients_without_a_certificate_are_refused(tmp_path):
    ca = trustme.CA()
    files = write(ca, tmp_path, "127.0.0.1")
    ca.cert_pem.write_to_path(tmp_path / "ca.crt")
    context = tls.context(tls.TlsFiles(files.certificate, files.key, tmp_path / "ca.crt"))
    client = ssl.create_default_context()
    ca.configure_trust(client)
    async with serving(context) as address:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"https://{address}/", ssl=client)
        ca.issue_cert("client@x").configure_cert(client)
        async with aiohttp.ClientSession() as session, session.get(f"https://{address}/", ssl=client) as response:
            assert response.status == 200


async def test_self_signed_pair_is_made_once_and_verifies(tmp_path):
    files = tls.ensure_self_signed(tmp_path / "new", ["localhost", "127.0.0.1"])
    again = tls.ensure_self_signed(tmp_path / "new", ["localhost"])
    assert files.digest() == again.digest()
    assert files.key.stat().st_mode & 0o777 == 0o600
    client = ssl.create_default_context(cafile=str(files.certificate))
    async with (
        serving(tls.context(files)) as address,
        aiohttp.ClientSession() as session,
        session.get(f"https://{address}/", ssl=client) as response,
    ):
        assert response.status == 200


def test_key_of_another_certificate_is_refused_with_both_names(tmp_path):
    ca = trustme.CA()
    files = write(ca, tmp_path, "a")
    (tmp_path / "other").mkdir()
    other = write(ca, tmp_path / "other", "b")
    with pytest.raises(ConfigError, match="belong together") as caught:
        tls.context(tls.TlsFiles(files.certificate, other.key))
    assert str(other.key) in str(caught.value)
