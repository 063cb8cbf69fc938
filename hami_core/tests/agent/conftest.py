from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from hami_core.tests.agent.node import Life, Node


@pytest.fixture
def short_dir():
    """A folder with a path short enough for unix sockets."""
    path = Path(tempfile.mkdtemp(prefix="hami-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
async def node(short_dir):
    node = Node(short_dir)
    await node.kubelet.start()
    yield node
    await node.end()


@pytest.fixture
async def live(node):
    lives: list[Life] = []

    def begin(**how) -> Life:
        lives.append(Life(node, **how))
        return lives[-1]

    yield begin
    for life in lives:
        await life.die()
