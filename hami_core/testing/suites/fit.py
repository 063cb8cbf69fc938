"""The rules on devices: they answer every input, always in the same way, and never favour a larger request."""

# ruff: noqa: S101 - these are tests
from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hami_core.errors import RequestError, VendorError
from hami_core.model import DeviceKind, DeviceUsage, Reason, Request, Slice
from hami_core.plugins.checks import Unusable, choice
from hami_core.policies import DEVICE_POLICIES
from hami_core.testing import samples
from hami_core.testing.suites.case import VendorCase
from hami_core.testing.suites.inventory import RELAXED

if TYPE_CHECKING:
    from hami_core.model import Device, VendorRules
    from hami_core.plugins.vendor import LoadedVendor
    from hami_core.testing.suites.case import FailureLog


POLICIES = st.sampled_from(sorted(DEVICE_POLICIES))


class FitSuite(VendorCase):
    """Tests of the checks on kinds, ids and candidates."""

    @RELAXED
    @given(data=st.data())
    def test_checks_are_total_and_repeatable(
        self, loaded: LoadedVendor, devices: tuple[Device, ...], reporter: FailureLog, data: st.DataObject
    ) -> None:
        """For any declared annotation and any device, the answer is None or a reason. It is the same twice."""
        rules, request = _asked(loaded, data)
        device = data.draw(st.sampled_from(devices))
        kind = data.draw(st.sampled_from([device.kind, DeviceKind(request.family, ""), DeviceKind("?", "?", "?")]))
        usage = data.draw(samples.usages(device))
        device_id = data.draw(st.one_of(st.just(device.id), samples.ODD_TEXT))
        answers = [
            (
                rules.check_type(request, kind),
                rules.check_uuid(request, device_id),
                rules.custom_filter(request, usage, ()),
                rules.custom_filter(request, usage, (usage,)),
            )
            for _ in range(2)
        ]
        reporter.check()
        assert answers[0] == answers[1]

    @RELAXED
    @given(data=st.data())
    def test_asking_for_more_never_helps(
        self, loaded: LoadedVendor, devices: tuple[Device, ...], data: st.DataObject
    ) -> None:
        """A device refused to a request is refused to one with more memory or cores."""
        rules, request = _asked(loaded, data)
        device = data.draw(st.sampled_from(devices))
        usage = data.draw(samples.usages(device))
        memory = data.draw(st.integers(request.memory_mib, max(request.memory_mib, device.memory_mib)))
        cores = data.draw(st.integers(request.cores, max(request.cores, device.cores)))
        more = replace(request, memory_mib=memory if request.memory_mib else 0, cores=cores)
        refused = rules.custom_filter(request, usage, ()) is not None
        assert not refused or rules.custom_filter(more, usage, ()) is not None, f"{request} is refused, {more} is not"

    @RELAXED
    @given(data=st.data())
    def test_mask_agrees_with_the_filter(
        self, loaded: LoadedVendor, devices: tuple[Device, ...], data: st.DataObject
    ) -> None:
        """`fit_mask` and `custom_filter` are two forms of one rule, so they must agree."""
        rules, request = _asked(loaded, data)
        if rules.fit_mask is None:
            pytest.skip("the vendor has no fit_mask")
        usages = [data.draw(samples.usages(device)) for device in devices]
        mask = rules.fit_mask(request, _columns(usages))
        if mask is not None:
            one_by_one = [rules.custom_filter(request, usage, ()) is None for usage in usages]
            assert mask[:, 0].tolist() == one_by_one

    @RELAXED
    @given(data=st.data())
    def test_booked_slice_stays_on_its_device(
        self, loaded: LoadedVendor, devices: tuple[Device, ...], reporter: FailureLog, data: st.DataObject
    ) -> None:
        """The slice that `account` returns is on the same device and never larger than the device."""
        rules, request = _asked(loaded, data)
        if rules.account is None:
            pytest.skip("the vendor has no account")
        device = data.draw(st.sampled_from(devices))
        memory = min(request.memory_on(device.usable_mib), device.memory_mib)
        plain = Slice(device.id, device.family, memory, min(request.cores, device.cores), device.family, device.mode)
        usage = DeviceUsage(device)
        booked = rules.account(replace(request, family=device.family), usage, plain, (usage,))
        reporter.check()
        if booked is not None and not isinstance(booked, Reason):
            assert booked.memory_mib <= device.memory_mib
            assert booked.device_id == device.id

    @RELAXED
    @given(data=st.data())
    def test_choice_is_among_the_candidates(
        self, loaded: LoadedVendor, devices: tuple[Device, ...], reporter: FailureLog, data: st.DataObject
    ) -> None:
        """`choose` returns as many positions as were requested, or a reason, or leaves the choice to the policy."""
        rules, request = _asked(loaded, data)
        if rules.choose is None:
            pytest.skip("the vendor has no choose")
        candidates = tuple(DeviceUsage(device) for device in devices if device.family == request.family)
        assume(len(candidates) > 0)
        wanted = replace(request, count=data.draw(st.integers(1, len(candidates))))
        rules.choose(wanted, candidates, data.draw(POLICIES), candidates)
        reporter.check()

    @RELAXED
    @given(data=st.data())
    def test_choice_is_well_formed_whatever_the_links(
        self, loaded: LoadedVendor, devices: tuple[Device, ...], data: st.DataObject
    ) -> None:
        """`choose` gets more devices than the nodes have, with any links. Its answer is valid, and the same twice."""
        rules, request = _asked(loaded, data)
        if rules.choose is None:
            pytest.skip("the vendor has no choose")
        own = [device for device in devices if device.family == request.family]
        assume(own)
        row = data.draw(samples.linked_rows(data.draw(st.sampled_from(own))))
        wanted, policy = replace(request, count=data.draw(st.integers(1, len(row)))), data.draw(POLICIES)
        try:
            answer, again = (loaded.choose.answer((wanted, row, policy, row)) for _ in range(2))
        except VendorError:
            return  # no node of this vendor has such devices
        assert answer == again, f"choose answers {answer}, then {again}, for the same {wanted}"
        if answer is not None:
            try:
                choice(answer, wanted.count, row, may_refuse=not rules.family.choose_is_preference)
            except Unusable as finding:
                pytest.fail(f"choose {finding}, of {len(row)} candidates; asked for {wanted.count}")


def _asked(loaded: LoadedVendor, data: st.DataObject) -> tuple[VendorRules, Request]:
    """The rules of one family, and a request that the vendor has parsed."""
    rules = data.draw(st.sampled_from(loaded.rules()))
    container = data.draw(samples.plain_containers(rules.family))
    try:
        request = loaded.parse_request(container, data.draw(samples.pods([rules.family])), rules.family)
    except RequestError:
        request = None
    assume(request is not None)
    assert request is not None
    return rules, request


def _columns(usages: list[DeviceUsage]) -> dict[str, np.ndarray]:
    values = {
        "total_memory": [u.device.memory_mib for u in usages],
        "free_memory": [u.device.memory_mib - u.used_memory_mib for u in usages],
        "total_cores": [u.device.cores for u in usages],
        "free_cores": [u.device.cores - u.used_cores for u in usages],
        "slots": [u.device.slots for u in usages],
        "used_slots": [u.used_slots for u in usages],
        "numa": [u.device.numa for u in usages],
    }
    return {name: np.array(column, np.int64).reshape(-1, 1) for name, column in values.items()}
