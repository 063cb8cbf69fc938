from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hami_cambricon import sim

from hami_core.testing import build_library
from vendors.cambricon.tests.node.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Path:
    """The simulated libcndev.so, compiled once."""
    return build_library(sim.SOURCE, tmp_path_factory.mktemp("cndev") / "libcndev.so")


@pytest.fixture
def make_machine(tmp_path, library, monkeypatch) -> Callable[..., Machine]:
    """Makes a node with simulated cards, and sets the environment of its agent."""

    def make(**options: object) -> Machine:
        folder = tmp_path / "mlu"
        for name, value in sim.create(folder, library=library, **options).items():
            monkeypatch.setenv(name, value)
        return Machine(folder=folder, state_dir=tmp_path / "state")

    return make


@pytest.fixture
def machine(make_machine) -> Machine:
    """A node with two cards in sMLU mode."""
    return make_machine()
