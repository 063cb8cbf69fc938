"""The fixtures of every suite: the vendor under test, its nodes and its devices."""

# ruff: noqa: S101 - these are tests
from __future__ import annotations

import contextlib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import yaml

from hami_core.errors import HamiError, WireError
from hami_core.model import EMPTY, NodeContext, NodeFacts
from hami_core.plugins.discovery import NODE, VENDORS, Source, installed
from hami_core.plugins.manager import build_vendor
from hami_core.plugins.problem import Reporter
from hami_core.testing import samples
from hami_core.testing.node_run import NodeRun

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from hami_core.model import Device
    from hami_core.plugins.problem import Problem
    from hami_core.plugins.vendor import LoadedVendor


_load_errors_told: set[tuple[type, str]] = set()


class FailureLog(Reporter):
    """Keeps failed calls until the next `check`, so that a test can say why a hook failed."""

    def __init__(self) -> None:
        super().__init__()
        self._unchecked: list[Problem] = []

    def failed(self, problem: Problem, kind: str, cause: BaseException | None) -> None:
        """Count a failed call, and keep the first few."""
        super().failed(problem, kind, cause)
        if len(self._unchecked) < 10:
            self._unchecked.append(problem)

    def check(self) -> None:
        """Fail with the first call that failed since the last check."""
        failed, self._unchecked = self._unchecked, []
        if failed:
            raise AssertionError(f"{failed[0].hook}: {failed[0].text}")


class VendorCase:
    """Base class of all suites. Define the fixture ``vendor``; all others have working defaults."""

    config: ClassVar[Mapping[str, Any]] = EMPTY
    """Sections of device-config.yaml to test with. If empty, the tests use the vendor's defaults."""

    node_fixtures: ClassVar[str] = ""
    """Glob of Node manifests, relative to the test file. The vendor's real node plugin has written to these nodes.
    Give at least one for each device model. If empty, nodes are made up from register keys and resource names."""

    @pytest.fixture
    def vendor(self) -> object:
        """The scheduler-side object: an instance of the entry point's class."""
        pytest.fail(f"{type(self).__name__} must define a fixture `vendor` that returns the vendor's object")

    @pytest.fixture
    def node_side(self) -> object | None:
        """The node-side object. It must find at least one device here. None: the node side is not tested."""
        return None

    @pytest.fixture
    def new_node_side(self, node_side: object | None) -> Callable[[], object]:
        """Makes another node-side object on the same machine, as a restart of the agent does."""
        return type(node_side)

    @pytest.fixture
    def set_health(self) -> Callable[[str, bool], None] | None:
        """Breaks (False) or mends (True) the device with an id, as the driver would show it. None: not tested."""
        return None

    @pytest.fixture
    def leftovers(self) -> Callable[[], Collection[str]] | None:
        """Names what `allocate` has made on the node and `release` removes, such as instances. None: not tested."""
        return None

    @pytest.fixture
    def node_context(self, tmp_path: Path) -> NodeContext:
        """The node that the node side serves, with a folder of its own."""
        return NodeContext("node", tmp_path)

    @pytest.fixture
    def reporter(self) -> FailureLog:
        """Counts the vendor's failures."""
        return FailureLog()

    @pytest.fixture(autouse=True)
    def no_hook_failed(self, reporter: FailureLog) -> Iterator[None]:
        """Fail each test during which a hook failed, with the cause of that failure."""
        yield
        try:
            reporter.check()
        except AssertionError as error:
            pytest.fail(str(error), pytrace=False)

    @pytest.fixture
    def loaded(self, vendor: object, reporter: Reporter) -> LoadedVendor:
        """The scheduler side, loaded as the scheduler loads it."""
        return self._built([(vendor, source_of(vendor, VENDORS))], reporter)

    @pytest.fixture
    def node_loaded(
        self, vendor: object, node_side: object | None, node_context: NodeContext, reporter: Reporter
    ) -> LoadedVendor:
        """Both sides, loaded as the agent loads them."""
        if node_side is None:
            pytest.skip("the node side is not tested: the fixture `node_side` returns None")
        return self._both(vendor, node_side, reporter, node_context)

    @pytest.fixture
    def node_run(
        self,
        vendor: object,
        node_loaded: LoadedVendor,
        new_node_side: Callable[[], object],
        node_context: NodeContext,
        reporter: Reporter,
    ) -> Iterator[NodeRun]:
        """The node with its agent. At the end every container is released."""
        run = NodeRun(node_loaded, lambda: self._both(vendor, new_node_side(), reporter, node_context))
        yield run
        run.release_all()

    def _both(self, vendor: object, node_side: object, reporter: Reporter, node: NodeContext) -> LoadedVendor:
        both = [(vendor, source_of(vendor, VENDORS)), (node_side, source_of(node_side, NODE))]
        return self._built(both, reporter, node)

    def _built(
        self, objects: Sequence[tuple[object, Source]], reporter: Reporter, node: NodeContext | None = None
    ) -> LoadedVendor:
        """The loaded vendor. If loading fails, the first test fails with the reason and the others are skipped."""
        try:
            return build_vendor(objects, [], self.config, reporter, node=node)
        except HamiError as error:
            told = (type(self), str(error))
        if told in _load_errors_told:
            pytest.skip("the vendor cannot be loaded, see the first failed test")
        _load_errors_told.add(told)
        pytest.fail(told[1], pytrace=False)

    @pytest.fixture
    def nodes(self, loaded: LoadedVendor) -> tuple[NodeFacts, ...]:
        """The nodes that `register` reads."""
        if not self.node_fixtures:
            return samples.made_up_nodes(loaded)
        folder = Path(inspect.getfile(type(self))).parent
        files = sorted(folder.glob(self.node_fixtures))
        assert files, f"no file matches {folder / self.node_fixtures}"
        return tuple(node_facts(yaml.safe_load(file.read_text("utf-8"))) for file in files)

    @pytest.fixture
    def devices(self, loaded: LoadedVendor, nodes: tuple[NodeFacts, ...]) -> tuple[Device, ...]:
        """All devices that the vendor reads from the nodes."""
        found: list[Device] = []
        for node in nodes:
            # Made-up nodes use both of HAMi's formats, and a vendor reads only one.
            with contextlib.nullcontext() if self.node_fixtures else contextlib.suppress(WireError):
                found += loaded.register(node) or ()
        assert found, "register() finds no device on any node; give Node manifests in `node_fixtures`"
        return tuple(found)


def node_facts(manifest: Mapping[str, Any]) -> NodeFacts:
    """The facts of a Node manifest that hooks receive."""
    metadata, status = manifest.get("metadata") or {}, manifest.get("status") or {}
    capacity = {key: str(value) for key, value in (status.get("capacity") or {}).items()}
    return NodeFacts(
        name=metadata.get("name", "node"),
        annotations=dict(metadata.get("annotations") or {}),
        labels=dict(metadata.get("labels") or {}),
        capacity=capacity,
        allocatable={key: str(value) for key, value in (status.get("allocatable") or capacity).items()},
    )


def source_of(plugin: object, group: str) -> Source:
    """The installed entry point that names the object's class; if there is none, a source without a distribution."""
    cls = type(plugin)
    for source, point in installed(group):
        if point.module.partition(".")[0] == cls.__module__.partition(".")[0] and point.load() is cls:
            return source
    return Source(cls.__name__.lower(), group, f"{cls.__module__}:{cls.__qualname__}")
