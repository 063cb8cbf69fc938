"""The vendor's rules in the real scheduler: pods are placed, booked, freed and written, and no device is overbooked."""

# ruff: noqa: S101 - these are tests
from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_core.errors import RequestError
from hami_core.model import Allocation
from hami_core.placement.pod_usage import uses
from hami_core.plugins.examine import illegal_keys
from hami_core.plugins.served import declared_keys
from hami_core.testing import samples
from hami_core.testing.scheduling import NAMESPACE, NODE, Pod, Scheduler
from hami_core.testing.suites.case import VendorCase
from hami_core.testing.suites.inventory import RELAXED
from hami_core.wire import keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hami_core.inventory import FilterOutcome
    from hami_core.model import Device, Family, SelectorKeys
    from hami_core.plugins.vendor import LoadedVendor
    from hami_core.testing.suites.case import FailureLog

MOST_BYTES = 16 * 1024
"""Most bytes of annotations that a vendor may add to a pod. All annotations of an object together may have 256 KiB."""
WHOLE_CORES = 100
MOST_PODS = 12
SEQUENCES = settings(RELAXED, max_examples=40)
"""Settings for tests that draw a sequence of pods, which is long."""
_RESERVED = ("kubernetes.io", "k8s.io")


class PlacementSuite(VendorCase):
    """Tests of Filter and Bind with the vendor's rules."""

    def test_smallest_pod_is_scheduled(self, loaded: LoadedVendor, devices: tuple[Device, ...]) -> None:
        """A pod that asks for the smallest possible number of devices fits, in each family with devices."""
        scheduler = Scheduler(loaded, devices)
        for family in _with_devices(scheduler):
            pod, outcome = _smallest(scheduler, family)
            assert [name for name, _ in outcome.best] == [NODE], dict(outcome.refused)
            booked = scheduler.book(pod)
            assert isinstance(booked, Allocation), booked
            assert len(booked.of(family.word)[0]) == pod.request.containers[0].requests[0].count
            written = loaded.patch_annotations(pod.facts, booked)
            assert not illegal_keys(written), f"patch_annotations: illegal keys {illegal_keys(written)}"

    @RELAXED
    @given(data=st.data())
    def test_no_device_is_overbooked(
        self, loaded: LoadedVendor, devices: tuple[Device, ...], reporter: FailureLog, data: st.DataObject
    ) -> None:
        """After any bookings in any order, the used slots, memory and cores of each device stay within its size."""
        scheduler = Scheduler(loaded, devices)
        for _ in _booked(scheduler, data):
            pass
        reporter.check()
        for usage in scheduler.inventory.usage(NODE):
            assert usage.used_slots <= usage.device.slots, usage
            assert usage.used_memory_mib <= usage.device.memory_mib, usage
            assert usage.used_cores <= usage.device.cores, usage
        assert scheduler.inventory.drift() == 0

    @SEQUENCES
    @given(data=st.data())
    def test_freeing_gives_back_what_was_booked(
        self, loaded: LoadedVendor, devices: tuple[Device, ...], reporter: FailureLog, data: st.DataObject
    ) -> None:
        """After any bookings and frees, what is in use is the sum of the pods that are left, and a freed pod fits."""
        scheduler = Scheduler(loaded, devices)
        ends = data.draw(st.lists(st.lists(st.integers(0, MOST_PODS), max_size=2), min_size=MOST_PODS))
        live: dict[str, tuple[Pod, Allocation]] = {}
        for (pod, allocation), ending in zip(_booked(scheduler, data), ends, strict=False):
            live[pod.request.uid] = pod, allocation
            for number in ending:
                if live:
                    ended, _ = live.pop(sorted(live)[number % len(live)])
                    scheduler.inventory.release(ended.request.uid)
                    fits = scheduler.inventory.fits(ended.request)
                    reporter.check()
                    assert fits, f"{ended.request} was freed and fits no more"
        _assert_sums(scheduler, (allocation for _, allocation in live.values()))
        for uid in live:
            scheduler.inventory.release(uid)
        _assert_sums(scheduler, ())
        reporter.check()

    def test_emptied_node_takes_the_same_pods_again(self, loaded: LoadedVendor, devices: tuple[Device, ...]) -> None:
        """Hooks keep no account of their own of what is booked, so a node that was filled and emptied is as before."""
        scheduler = Scheduler(loaded, devices)
        for family in _with_devices(scheduler):
            for limits in scheduler.portions(family):
                first, second = (_fill(scheduler, family, limits) for _ in range(2))
                assert second == first, (
                    f"{first} pods of {family.word} with {limits} fit, then {second} on the same node"
                )

    @SEQUENCES
    @given(data=st.data())
    def test_booked_amounts_are_those_asked_for(
        self, loaded: LoadedVendor, devices: tuple[Device, ...], data: st.DataObject
    ) -> None:
        """A pod gets as many different devices as it asks for, and at least the memory it asks for on each."""
        scheduler = Scheduler(loaded, devices)
        for pod, allocation in _booked(scheduler, data):
            for request in pod.request.containers[0].requests:
                [pieces] = allocation.of(request.family)
                have = scheduler.devices[request.family]
                assert len(pieces) == request.count, f"{request} became {pieces}"
                for piece in pieces:
                    asked = request.memory_on(have[piece.device_id].usable_mib)
                    assert piece.memory_mib >= asked, f"{request} became {piece}, less than {asked} MiB"

    def test_whole_device_is_not_shared(self, loaded: LoadedVendor, devices: tuple[Device, ...]) -> None:
        """A pod that asks for all cores of a device has it for itself, before and after other pods come."""
        for family in _with_devices(Scheduler(loaded, devices)):
            part = Scheduler(loaded, devices).portions(family)[:2][-1]
            cores = family.resources.cores
            whole, small = ({**part, cores: amount} if cores else part for amount in ("100", "0"))
            for first in (whole, small):
                scheduler = Scheduler(loaded, devices)
                exclusive: dict[str, str] = {}
                for limits in (first, *[whole, small, small] * (MOST_PODS // 3)):
                    placed = scheduler.place(family, limits)
                    request = placed[0].request.containers[0].requests[0] if placed else None
                    if placed and request and request.cores >= WHOLE_CORES and family.full_card_rule:
                        [pieces] = placed[1].of(family.word)
                        exclusive |= {piece.device_id: str(request) for piece in pieces}
                    _assert_alone(scheduler, exclusive)

    @SEQUENCES
    @given(data=st.data())
    def test_pods_get_only_devices_that_they_select(
        self, loaded: LoadedVendor, devices: tuple[Device, ...], data: st.DataObject
    ) -> None:
        """A pod that names a device gets no other. A pod that refuses a device or a model never gets it."""
        scheduler = Scheduler(loaded, devices)
        family = data.draw(st.sampled_from(list(_with_devices(scheduler))))
        device = data.draw(st.sampled_from(list(scheduler.devices[family.word].values())))
        pairs = [(pair, {device.id}) for pair in family.uuid_selectors]
        alike = {other.id for other in scheduler.devices[family.word].values() if device.type in other.type}
        pairs += [(pair, alike) for pair in family.type_selectors]
        if not pairs:
            pytest.skip("no family has selectors")
        pair, named = data.draw(st.sampled_from(pairs))
        text = device.id if pair in family.uuid_selectors else device.type
        for key, wanted in _rules(pair):
            annotations = {key: data.draw(st.sampled_from([text, f" {text} ,no-such-device"]))}
            placed = scheduler.place(family, {}, annotations=annotations)
            got = {piece.device_id for piece in placed[1].of(family.word)[0]} if placed else set()
            wrong = got - named if wanted else got & named
            assert not wrong, f"a pod with {annotations} gets {sorted(wrong)}"

    @SEQUENCES
    @given(data=st.data())
    def test_bound_pod_can_be_read_back(
        self, loaded: LoadedVendor, devices: tuple[Device, ...], data: st.DataObject
    ) -> None:
        """The agent reads from the pod's annotations what the scheduler booked: devices, memory and cores."""
        scheduler = Scheduler(loaded, devices)
        for pod, allocation in _booked(scheduler, data):
            booked = [(p.family, p.device_id, p.memory_mib, p.cores) for c in allocation.containers for p in c.slices]
            given_back = scheduler.given(pod, scheduler.annotations(pod, allocation))
            read = [(p.family, p.device_id, p.memory_mib, p.cores) for one in given_back for p in one.slices]
            assert read == booked

    @SEQUENCES
    @given(data=st.data())
    def test_annotations_at_bind_are_the_vendors_own(
        self, loaded: LoadedVendor, devices: tuple[Device, ...], data: st.DataObject
    ) -> None:
        """`patch_annotations` is bounded and repeatable. It takes no key of HAMi, Kubernetes or the pod's selectors."""
        scheduler = Scheduler(loaded, devices)
        taken = {f.allocated_key for f in loaded.families} | {f.to_allocate_key for f in loaded.families}
        selectors = declared_keys(loaded.families) - {key for family in loaded.families for key in family.pod_keys}
        for pod, allocation in _booked(scheduler, data):
            written = loaded.patch_annotations(pod.facts, allocation)
            assert written == loaded.patch_annotations(pod.facts, allocation), (
                "patch_annotations differs the second time"
            )
            assert not illegal_keys(written), f"patch_annotations: illegal keys {illegal_keys(written)}"
            for key in written:
                domain = key.rpartition("/")[0]
                foreign = key in taken | selectors | keys.SYSTEM_POD_KEYS or keys.is_allocated_key(key)
                assert not foreign, f"patch_annotations writes {key}, which is not the vendor's"
                assert not domain.endswith(_RESERVED), (
                    f"patch_annotations writes {key}, which is reserved for Kubernetes"
                )
            size = sum(len(key) + len(value.encode()) for key, value in written.items())
            assert size <= MOST_BYTES, f"patch_annotations writes {size} bytes, at most {MOST_BYTES}"

    def test_all_memory_of_a_device_can_be_asked_for(self, loaded: LoadedVendor, devices: tuple[Device, ...]) -> None:
        """Limits count memory in units of ``memory_factor`` MiB, so as many units as a device has fit on it.

        Families with ``count_is_size`` are left out, because a pod with a size names no memory.
        """
        for word, have in Scheduler(loaded, devices).devices.items():
            for device in have.values():
                family = next(family for family in loaded.families if family.word == word)
                untold = not family.resources.memory or family.count_is_size
                if untold or device.mig_profiles or not device.healthy:
                    continue
                scheduler = Scheduler(loaded, [other for other in have.values() if other.type == device.type])
                limits = {family.resources.memory: str(device.usable_mib // max(family.memory_factor, 1))}
                assert scheduler.place(family, limits), f"a pod with {limits} does not fit on an idle {device}"

    def test_quota_counts_what_is_booked(self, loaded: LoadedVendor, devices: tuple[Device, ...]) -> None:
        """A ResourceQuota of as many units as a pod books admits the pod, and one unit less refuses it."""
        for family in _with_devices(Scheduler(loaded, devices)):
            names = family.resources
            for limits in Scheduler(loaded, devices).portions(family):
                scheduler = Scheduler(loaded, devices)
                placed = scheduler.place(family, limits)
                if placed is None:
                    continue
                pod, allocation = placed
                used = scheduler.inventory.quota.used(NAMESPACE, family.word)
                [pieces] = allocation.of(family.word)
                booked = sum(p.memory_mib for p in pieces), sum(p.cores for p in pieces), sum(p.slots for p in pieces)
                assert used == booked, f"the quota counts {used} of {pieces}"
                scheduler.inventory.release(pod.request.uid)
                factor = max(family.memory_factor, 1)
                for name, amount in ((names.memory, -(-used.memory_mib // factor)), (names.cores, used.cores)):
                    if name and amount:
                        for hard, admitted in ((amount, True), (amount - 1, False)):
                            scheduler.inventory.set_quota(NAMESPACE, "quota", {f"limits.{name}": str(hard)})
                            fits = scheduler.inventory.fits(pod.request)
                            assert fits == admitted, f"{pieces}: limits.{name}={hard} admits: {fits}"
                        scheduler.inventory.remove_quota(NAMESPACE, "quota")


def _with_devices(scheduler: Scheduler) -> Iterator[Family]:
    return (family for word, family in scheduler.families.items() if scheduler.devices[word])


def _booked(scheduler: Scheduler, data: st.DataObject) -> Iterator[tuple[Pod, Allocation]]:
    """Drawn pods of one container, each of them booked before the next is admitted."""
    containers = st.sampled_from(list(scheduler.families.values())).flatmap(samples.plain_containers)
    for container in data.draw(st.lists(containers, min_size=1, max_size=MOST_PODS)):
        try:
            pod = scheduler.admit(container.limits)
        except RequestError:
            continue
        allocation = scheduler.book(pod)
        if allocation is not None:
            yield pod, allocation


def _fill(scheduler: Scheduler, family: Family, limits: Mapping[str, str]) -> int:
    """Book pods until no more fits, free them all, and return how many there were."""
    booked: list[str] = []
    while len(booked) < MOST_PODS and (placed := scheduler.place(family, limits)):
        booked.append(placed[0].request.uid)
    for uid in booked:
        scheduler.inventory.release(uid)
    return len(booked)


def _assert_alone(scheduler: Scheduler, exclusive: Mapping[str, str]) -> None:
    """A device that a pod has as a whole has no other pod. A MIG instance is never a whole device."""
    for usage in scheduler.inventory.usage(NODE):
        device = usage.device
        owner = device.whole_only or exclusive.get(device.id, "")
        if not device.mig_profiles and device.cores <= WHOLE_CORES:
            assert not owner or len(usage.pods) <= 1, f"{device.id} is whole for {owner}, and has {usage.pods}"


def _assert_sums(scheduler: Scheduler, allocations: Iterable[Allocation]) -> None:
    """The use of each device is the sum of these allocations."""
    sums: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for allocation in allocations:
        for use in uses(allocation.containers):
            amounts = use.slots, use.memory_mib, use.cores
            key = use.family, use.device_id
            sums[key] = [have + more for have, more in zip(sums[key], amounts, strict=True)]
    for usage in scheduler.inventory.usage(NODE):
        have = [usage.used_slots, usage.used_memory_mib, usage.used_cores]
        key = usage.device.family, usage.device.id
        assert have == sums[key], (
            f"{usage.device.id}: slots, MiB and cores in use are {have}, the pods have {sums[key]}"
        )


def _rules(pair: SelectorKeys) -> list[tuple[str, bool]]:
    """The pair's keys, and whether each names what a pod wants."""
    return [(key, wanted) for key, wanted in ((pair.use, True), (pair.nouse, False)) if key]


def _smallest(scheduler: Scheduler, family: Family) -> tuple[Pod, FilterOutcome]:
    """A pod that asks for the smallest number of devices that fits, and Filter's answer to it.

    If no number fits, it is the pod that asks for one device.
    """
    first: tuple[Pod, FilterOutcome] | RequestError | None = None
    for count in range(1, len(scheduler.devices[family.word]) + 1):
        try:
            pod = scheduler.admit({family.resources.count: str(count)})
            tried = pod, scheduler.inventory.filter(pod.request, [NODE])
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
