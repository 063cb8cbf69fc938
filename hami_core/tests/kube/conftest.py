from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hami_core.kube.official import OfficialKubeApi, connect
from hami_core.tests.kube.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as made:
        yield made


@pytest.fixture
async def api(server: ApiServer, tmp_path: Path) -> AsyncIterator[OfficialKubeApi]:
    made = await connect(server.kubeconfig(tmp_path))
    yield made
    await made.close()
