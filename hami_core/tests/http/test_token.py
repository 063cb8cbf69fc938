"""A scrape needs the token that the file holds now; the kubelet renews the file."""

from __future__ import annotations

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from hami_core.errors import ConfigError
from hami_core.http.metrics import metrics_route
from hami_core.http.serve import Listener, Server
from hami_core.http.token import TokenFile


class Secret:
    """A folder mounted from a Secret: ``token`` links to ``..data/token``, and ``..data`` is swapped as a whole."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.path = folder / "token"
        self._version = 0
        self.renew("one")
        self.path.symlink_to("..data/token")

    def renew(self, token: str | None) -> None:
        self._version += 1
        version = self.folder / f"..{self._version}"
        version.mkdir()
        if token is not None:
            (version / "token").write_text(token)
        (self.folder / "..data_tmp").symlink_to(version.name)
        (self.folder / "..data_tmp").rename(self.folder / "..data")


async def test_renewed_token_replaces_the_old_one_at_once(tmp_path):
    secret = Secret(tmp_path)
    route = metrics_route(CollectorRegistry(), token=TokenFile(secret.path, "metrics_token_file"))
    server = Server([Listener("127.0.0.1:0", [route])])
    await server.start()
    url = f"http://{server.addresses[0]}/metrics"

    async def status(token: str) -> int:
        async with session.get(url, headers={"Authorization": f"Bearer {token}"}) as answer:
            return answer.status

    try:
        async with aiohttp.ClientSession() as session:
            assert [await status(token) for token in ("one", "two", "")] == [200, 401, 401]
            secret.renew("two\n")
            assert [await status(token) for token in ("one", "two", "")] == [401, 200, 401]
            for missing in (None, "", "\n"):
                secret.renew(missing)
                assert [await status(token) for token in ("two", "")] == [200, 401], "the one before stays"
            secret.renew("three")
            assert [await status(token) for token in ("two", "three")] == [401, 200]
    finally:
        await server.stop(0)


def test_unusable_token_file_is_refused_at_start(tmp_path):
    with pytest.raises(ConfigError, match=r"metrics_token_file: .*No such file"):
        TokenFile(tmp_path / "none", "metrics_token_file")
    (tmp_path / "empty").write_text(" \n")
    with pytest.raises(ConfigError, match="is empty"):
        TokenFile(tmp_path / "empty", "metrics_token_file")
