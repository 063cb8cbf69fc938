"""Admission: a vendor turns the user's text into numbers, or into an error that the user understands."""

# ruff: noqa: S101 - these are tests
from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core.errors import RequestError
from hami_core.model import ContainerKind, ContainerSpec, PodFacts
from hami_core.testing import samples
from hami_core.testing.suites.case import VendorCase
from hami_core.testing.suites.inventory import RELAXED

if TYPE_CHECKING:
    from hami_core.plugins.vendor import LoadedVendor
    from hami_core.testing.suites.case import FailureLog

POD = PodFacts("default", "pod", "uid")


class AdmissionSuite(VendorCase):
    """Tests of requests and admission."""

    def test_one_device_is_one_device(self, loaded: LoadedVendor) -> None:
        """A container that sets only the count resource makes a request."""
        for family in loaded.families:
            container = ContainerSpec("main", ContainerKind.APP, {family.resources.count: "1"})
            request = loaded.parse_request(container, POD, family)
            assert request is not None
            assert request.count >= 1

    def test_container_that_asks_for_nothing_gets_nothing(self, loaded: LoadedVendor) -> None:
        """A container without a resource of the vendor makes no request, and the mutation does not use devices."""
        container = ContainerSpec("main", ContainerKind.APP, {"cpu": "1", "memory": "1Gi"})
        for family in loaded.families:
            assert loaded.parse_request(container, POD, family) is None
        mutation = loaded.mutate_admission(container, POD)
        assert mutation is None or not mutation.uses_devices

    @pytest.mark.parametrize("amount", ["-1", "1.5", "99999999999999999999", "abc", "", "1Qx"])
    def test_impossible_count_is_refused_by_name(self, loaded: LoadedVendor, amount: str) -> None:
        """The error names the resource, so that the user finds the line of the manifest."""
        for family in loaded.families:
            container = ContainerSpec("main", ContainerKind.APP, {family.resources.count: amount})
            with pytest.raises(RequestError) as raised:
                loaded.parse_request(container, POD, family)
            assert family.resources.count in str(raised.value)

    @pytest.mark.parametrize("amount", ["-1", "-100Mi", "abc", "1Qx"])
    def test_impossible_amount_is_refused_by_name(self, loaded: LoadedVendor, amount: str) -> None:
        """Memory and cores below 0, or text that is no amount, are refused. The error names the resource."""
        for family in loaded.families:
            names = family.resources
            for name in filter(None, (names.memory, names.cores)):
                container = ContainerSpec("main", ContainerKind.APP, {names.count: "1", name: amount})
                with pytest.raises(RequestError) as raised:
                    loaded.parse_request(container, POD, family)
                assert name in str(raised.value)

    @RELAXED
    @given(data=st.data())
    def test_request_is_never_less_than_the_limit(self, loaded: LoadedVendor, data: st.DataObject) -> None:
        """A vendor may round up. A smaller amount points to a wrong unit: amounts are MiB and percent.

        The memory limit counts units of ``memory_factor`` MiB. With ``amounts_are_totals``, each device has its part.
        With ``count_is_size``, the count is no number of devices.
        """
        family = data.draw(st.sampled_from(loaded.families))
        container = data.draw(samples.plain_containers(family))
        try:
            request = loaded.parse_request(container, POD, family)
        except RequestError:
            return
        names = family.resources
        limits = {name: int(amount) for name, amount in container.limits.items()}
        parts = limits[names.count] if family.amounts_are_totals else 1
        said = f"limits {dict(container.limits)} became {request}"
        assert request is not None, said
        assert family.count_is_size or request.count >= limits[names.count], said
        in_units = family.cores_are_units and not request.cores  # `account` turns percent into compute units
        assert in_units or request.cores >= limits.get(names.cores, 0) // parts, said
        memory = limits.get(names.memory, 0) * max(family.memory_factor, 1) // parts
        percent = limits.get(names.memory_percentage, 0)
        assert request.memory_mib >= memory, f"less memory than asked for: {said}"
        if percent and not request.memory_mib:
            assert (request.memory_percent or 0) >= percent, f"less memory than asked for: {said}"

    @RELAXED
    @given(data=st.data())
    def test_requests_are_total_and_bounded(
        self, loaded: LoadedVendor, reporter: FailureLog, data: st.DataObject
    ) -> None:
        """For any amounts and annotations the answer is a bounded request, None, or a `RequestError`."""
        container = data.draw(samples.odd_containers(loaded.families))
        pod = data.draw(samples.pods(loaded.families))
        for family in loaded.families:
            try:
                loaded.parse_request(container, pod, family)
            except RequestError as error:
                assert str(error)  # noqa: PT017 - raising is also a right answer
        reporter.check()

    @RELAXED
    @given(data=st.data())
    def test_admission_is_total(self, loaded: LoadedVendor, reporter: FailureLog, data: st.DataObject) -> None:
        """Any container is changed, left alone or refused. The same container gets the same answer twice."""
        container = data.draw(samples.odd_containers(loaded.families))
        pod = data.draw(samples.pods(loaded.families))
        answers: list[object] = []
        for _ in range(2):
            try:
                answers.append(loaded.mutate_admission(container, pod))
            except RequestError as error:
                answers.append(str(error))
        reporter.check()
        assert answers[0] == answers[1]
