"""`register`: it answers every node object, and reads what the vendor's node plugin writes."""

# ruff: noqa: S101 - these are tests
from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hami_core.errors import WireError
from hami_core.model import NodeFacts
from hami_core.testing import samples
from hami_core.testing.suites.case import VendorCase

if TYPE_CHECKING:
    from hami_core.model import Device
    from hami_core.plugins.vendor import LoadedVendor
    from hami_core.testing.suites.case import FailureLog

RELAXED = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    report_multiple_bugs=False,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.differing_executors],
)
"""Settings of hypothesis that give the same examples on every machine. Examples only read the fixtures, so they can
share one instance. The first failure ends a test: shrinking took minutes, and reported exceptions in groups."""


class InventorySuite(VendorCase):
    """Tests of reading devices from node objects."""

    def test_devices_are_found(self, devices: tuple[Device, ...]) -> None:
        """Every device has slots, a type and something to share."""
        for device in devices:
            assert device.slots > 0, device
            assert device.type, device

    def test_node_without_the_vendors_traces_has_no_devices(self, loaded: LoadedVendor) -> None:
        """An empty node object has no devices."""
        assert not loaded.register(NodeFacts("empty"))

    def test_same_node_gives_the_same_devices(self, loaded: LoadedVendor, nodes: tuple[NodeFacts, ...]) -> None:
        """A second call gives the same devices, also if the nodes come in another order."""
        first = {node.name: _register(loaded, node) for node in nodes}
        assert {node.name: _register(loaded, node) for node in reversed(nodes)} == first

    @RELAXED
    @given(data=st.data())
    def test_register_is_total(
        self, loaded: LoadedVendor, nodes: tuple[NodeFacts, ...], reporter: FailureLog, data: st.DataObject
    ) -> None:
        """For any text in any key the answer is devices, nothing, or a `WireError`."""
        node = data.draw(st.sampled_from(nodes))
        keys = sorted({*node.annotations, *node.labels, *(f.register_key for f in loaded.families if f.register_key)})
        names = sorted({*node.capacity, *(name for family in loaded.families for name in family.resources.names())})
        changed = st.dictionaries(st.sampled_from(keys), samples.ODD_TEXT) if keys else st.just({})
        capacity = st.dictionaries(st.sampled_from(names), samples.QUANTITIES)
        drawn = data.draw(capacity)
        odd = NodeFacts(
            node.name, {**node.annotations, **data.draw(changed)}, data.draw(changed), {**node.capacity, **drawn}, drawn
        )
        _register(loaded, odd)
        reporter.check()

    @RELAXED
    @given(data=st.data())
    def test_register_survives_half_written_annotations(
        self, loaded: LoadedVendor, nodes: tuple[NodeFacts, ...], reporter: FailureLog, data: st.DataObject
    ) -> None:
        """`register` gets real annotations that were cut off or doubled, or have one wrong character."""
        node = data.draw(st.sampled_from([node for node in nodes if node.annotations] or list(nodes)))
        damaged = {key: data.draw(_damaged(text)) for key, text in node.annotations.items()}
        _register(loaded, NodeFacts(node.name, damaged, node.labels, node.capacity, node.allocatable))
        reporter.check()


def _register(loaded: LoadedVendor, node: NodeFacts) -> tuple[Device, ...] | None:
    try:
        return loaded.register(node)
    except WireError:
        return None


def _damaged(text: str) -> st.SearchStrategy[str]:
    position = st.integers(0, max(len(text) - 1, 0))
    return st.one_of(
        position.map(lambda cut: text[:cut]),
        st.just(text * 2),
        st.builds(lambda at, char: text[:at] + char + text[at + 1 :], position, st.characters()),
    )
