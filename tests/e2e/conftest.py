"""Options and fixtures of the suite on real Kubernetes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.bed.errors import BedError
    from tests.e2e.bed.tools import Tools
    from tests.e2e.system import System

HERE = Path(__file__).parent
TOOLS: pytest.StashKey[Tools | BedError] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options for the versions of the cluster and for the selection of tests."""
    group = parser.getgroup("e2e", "HAMi on real Kubernetes")
    group.addoption("--kubernetes", default="1.36", metavar="MINOR", help="version of the bed (default 1.36)")
    group.addoption("--containerd", default="2", metavar="LINE", help="2 or 1.7 (default 2)")
    group.addoption("--smoke", action="store_true", help="run only the short form")
    group.addoption("--bed", metavar="DIR", type=Path, help="use a running bed with the chart installed")
    group.addoption("--record", action="store_true", help="store the observed behaviour as the new recordings")
    group.addoption("--if-possible", action="store_true", help="skip with the reason if no bed can run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark all tests of this folder as e2e. `--smoke` selects those that are marked as smoke."""
    mine = [item for item in items if HERE in item.path.parents]
    for item in mine:
        item.add_marker("e2e")
        # Tests have their own limits with good messages. This one only ends a test that hangs.
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))
    if config.getoption("--smoke"):
        out = [item for item in mine if not item.get_closest_marker("smoke")]
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the programs before the first test, because a first build takes longer than a test may."""
    config = session.config
    wanted = any(HERE in item.path.parents for item in session.items)
    if not wanted or config.getoption("--collect-only") or config.getoption("--bed"):
        return
    from tests.e2e.bed import tools as bed_tools
    from tests.e2e.bed.errors import BedError

    versions = {name: config.getoption(f"--{name}") for name in ("kubernetes", "containerd")}
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    try:
        config.stash[TOOLS] = bed_tools.find(**versions, say=terminal.write_line if terminal else print)
    except BedError as error:
        config.stash[TOOLS] = error


@pytest.fixture(scope="session")
def tools(request: pytest.FixtureRequest) -> Tools:
    """The programs of the requested versions."""
    from tests.e2e.bed.errors import BedError, MissingTool

    found = request.config.stash[TOOLS]
    if isinstance(found, MissingTool) and request.config.getoption("--if-possible"):
        pytest.skip(str(found))
    if isinstance(found, BedError):
        pytest.fail(str(found), pytrace=False)
    return found


@pytest.fixture
def work(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder with a short path, for a bed of the test's own. It is kept and printed if a test failed."""
    yield from _work(request)


@pytest.fixture(scope="module")
def module_work(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder like `work`, for all tests of a module."""
    yield from _work(request)


@pytest.fixture(scope="session")
def session_work(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder like `work`, for the whole session."""
    yield from _work(request)


def _work(request: pytest.FixtureRequest) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="bed-"))
    failed = request.session.testsfailed
    yield folder
    if request.session.testsfailed == failed:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"logs of the failed run are in {folder}")


@pytest.fixture(scope="session")
def system(request: pytest.FixtureRequest, session_work: Path) -> Iterator[System]:
    """A system of two nodes with two A100 each. All tests share it, so they must not leave pods behind."""
    from tests.e2e.system import System

    if bed := request.config.getoption("--bed"):
        yield System.attach(bed)
        return
    tools: Tools = request.getfixturevalue("tools")
    with System(session_work / "all", tools) as running:
        yield running


@pytest.fixture
def clean(system: System) -> Iterator[System]:
    """The shared system. After the test the namespace default is emptied."""
    yield system
    system.clean()
