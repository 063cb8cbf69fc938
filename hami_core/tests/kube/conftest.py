from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hami_core.kube.official import OfficialKubeApi, connect
from hami_core.tests.kube.apiserver import ApiServer


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as made:
        yield made


@pytest.fixture
async def api(server: ApiServer, tmp_path: Path) -> AsyncIterator[OfficialKubeApi]:
    made = await connect(server.kubeconfig(tmp_path))
    yield made
    await made.close()
