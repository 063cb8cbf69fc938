"""The vendor's rules in the real scheduler: pods are placed, and no device is overbooked."""

# ruff: noqa: S101 - these are tests
from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from hami_core.errors import RequestError
from hami_core.inventory import Inventory, PolicyDefaults
from hami_core.model import Allocation, ContainerKind, ContainerSpec, NodeFacts, PodFacts, Request
from hami_core.placement.request import pod_request
from hami_core.plugins.examine import illegal_keys
from hami_core.testing import samples
from hami_core.testing.suites.case import VendorCase
from hami_core.testing.suites.inventory import RELAXED

if TYPE_CHECKING:
    from hami_core.inventory import FilterOutcome
    from hami_core.model import Device, Family, PodRequest
    from hami_core.plugins.vendor import LoadedVendor
    from hami_core.testing.suites.case import FailureLog


class PlacementSuite(VendorCase):
    """Tests of Filter and Bind with the vendor's rules."""

    def test_smallest_pod_is_scheduled(self, loaded: LoadedVendor, devices: tuple[Device, ...]) -> None:
        """A pod that asks for the smallest possible number of devices fits, in each family with devices."""
        inventory = _inventory(loaded, devices)
        for family in loaded.families:
            ids = {device.id for device in devices if device.family == family.word}
            if ids:
                wanted, outcome = _smallest(loaded, inventory, family, len(ids))
                assert [name for name, _ in outcome.best] == ["node"], dict(outcome.refused)
                booked = inventory.book(wanted, "node")
                assert isinstance(booked, Allocation), booked
                assert len(booked.of(family.word)[0]) == wanted.containers[0].requests[0].count
                written = loaded.patch_annotations(PodFacts("default", wanted.name, wanted.uid), booked)
                assert not illegal_keys(written), f"patch_annotations: illegal keys {illegal_keys(written)}"

    @RELAXED
    @given(data=st.data())
    def test_no_device_is_overbooked(
        self, loaded: LoadedVendor, devices: tuple[Device, ...], reporter: FailureLog, data: st.DataObject
    ) -> None:
        """After any bookings in any order, the used slots, memory and cores of each device stay within its size."""
        inventory = _inventory(loaded, devices)
        for number in range(data.draw(st.integers(1, 12))):
            family = data.draw(st.sampled_from(loaded.families))
            container = data.draw(samples.plain_containers(family))
            try:
                inventory.book(_pod(loaded, f"pod-{number}", container), "node")
            except RequestError:
                continue
        reporter.check()
        for usage in inventory.usage("node"):
            assert usage.used_slots <= usage.device.slots, usage
            assert usage.used_memory_mib <= usage.device.memory_mib, usage
            assert usage.used_cores <= usage.device.cores, usage
        assert inventory.drift() == 0


def _smallest(
    loaded: LoadedVendor, inventory: Inventory, family: Family, most: int
) -> tuple[PodRequest, FilterOutcome]:
    """A pod that asks for the smallest number of devices that fits, and Filter's answer to it.

    If no number fits, it is the pod that asks for one device.
    """
    first: tuple[PodRequest, FilterOutcome] | RequestError | None = None
    for count in range(1, most + 1):
        container = ContainerSpec("main", ContainerKind.APP, {family.resources.count: str(count)})
        try:
            wanted = _pod(loaded, f"pod-{family.word}", container)
            tried = wanted, inventory.filter(wanted, ["node"])
        except RequestError as error:
            first = first or error
            continue
        if tried[1].best:
            return tried
        first = first or tried
    if isinstance(first, tuple):
        return first
    assert first is not None
    raise first


def _inventory(loaded: LoadedVendor, devices: tuple[Device, ...]) -> Inventory:
    """An inventory with one node that has every device once."""
    by_family: dict[str, dict[str, Device]] = defaultdict(dict)
    for device in devices:
        by_family[device.family].setdefault(device.id, device)
    inventory = Inventory(loaded.rules(), PolicyDefaults())
    inventory.set_node(NodeFacts("node"), {word: tuple(found.values()) for word, found in by_family.items()})
    return inventory


def _pod(loaded: LoadedVendor, name: str, container: ContainerSpec) -> PodRequest:
    def parse(spec: ContainerSpec, pod: PodFacts) -> tuple[Request, ...]:
        found = (loaded.parse_request(spec, pod, family) for family in loaded.families)
        return tuple(request for request in found if request is not None)

    return pod_request(name, "default", name, [container], {}, parse)
