"""Capabilities: a declared capability must work, and a missing one must be declared as missing."""

# ruff: noqa: S101 - these are tests
from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hami_core.capability import Capability, Support
from hami_core.model import ContainerKind, ContainerSpec, DeviceKind, PodFacts
from hami_core.testing.suites.case import VendorCase

if TYPE_CHECKING:
    from collections.abc import Callable

    from hami_core.model import Device, Family, Reason, Request, VendorRules
    from hami_core.plugins.vendor import LoadedVendor

_NEEDS: dict[Capability, tuple[str, Callable[[Family], object]]] = {
    Capability.MEMORY_LIMIT: ("resources.memory", lambda f: f.resources.memory),
    Capability.CORE_LIMIT: ("resources.cores", lambda f: f.resources.cores),
    Capability.PERCENT_MEMORY: ("resources.memory_percentage", lambda f: f.resources.memory_percentage),
    Capability.TYPE_SELECTORS: ("type_selectors", lambda f: f.type_selectors),
    Capability.UUID_SELECTORS: ("uuid_selectors", lambda f: f.uuid_selectors),
}
_PARTLY = {Support.FULL, Support.PARTIAL}


class CapabilitySuite(VendorCase):
    """Tests of declared capabilities."""

    def test_something_is_declared(self, loaded: LoadedVendor) -> None:
        """``hami plugins`` and the docs show the declarations."""
        for family in loaded.families:
            assert family.capabilities, f"family {family.word} declares no capabilities"

    def test_less_than_full_support_has_a_reason(self, loaded: LoadedVendor) -> None:
        """Users read the reason when they want to use the feature."""
        for family in loaded.families:
            for capability, grade in family.capabilities.items():
                assert grade.support is Support.FULL or grade.reason, f"{family.word}: {capability} needs a reason"

    def test_declared_support_has_its_names(self, loaded: LoadedVendor) -> None:
        """A capability that pods request by a resource or an annotation needs the name of it."""
        for family in loaded.families:
            for capability, (attribute, value) in _NEEDS.items():
                grade = family.capabilities.get(capability)
                if grade and grade.support in _PARTLY:
                    assert value(family), f"{family.word} declares {capability} and has no {attribute}"

    def test_uuid_selectors_select(self, loaded: LoadedVendor, devices: tuple[Device, ...]) -> None:
        """A "use" annotation that names one device admits only this device. "nouse" admits every other device."""
        for family, device in _declaring(loaded, devices, Capability.UUID_SELECTORS):
            for pair in family.uuid_selectors:
                for key, fits in ((pair.use, device.id), (pair.nouse, "another")):
                    other = "another" if fits == device.id else device.id
                    assert _uuid(loaded, family, {key: device.id}, fits) is None
                    assert _uuid(loaded, family, {key: device.id}, other) is not None

    def test_type_selectors_select(self, loaded: LoadedVendor, devices: tuple[Device, ...]) -> None:
        """A "use" annotation that names a model admits it. A "nouse" annotation refuses it."""
        for family, device in _declaring(loaded, devices, Capability.TYPE_SELECTORS):
            for pair in family.type_selectors:
                assert _type(loaded, family, {pair.use: device.type}, device.kind) is None
                assert _type(loaded, family, {pair.use: "no-such-model-at-all"}, device.kind) is not None
                assert _type(loaded, family, {pair.nouse: device.type}, device.kind) is not None


def _declaring(
    loaded: LoadedVendor, devices: tuple[Device, ...], capability: Capability
) -> list[tuple[Family, Device]]:
    """One device of each family that declares a capability as fully supported."""
    found = []
    for family in loaded.families:
        grade = family.capabilities.get(capability)
        device = next((device for device in devices if device.family == family.word), None)
        if grade and grade.support is Support.FULL and device is not None:
            found.append((family, device))
    if not found:
        pytest.skip(f"no family with devices here declares {capability.value} as full")
    return found


def _request(loaded: LoadedVendor, family: Family, annotations: dict[str, str]) -> Request:
    container = ContainerSpec("main", ContainerKind.APP, {family.resources.count: "1"})
    request = loaded.parse_request(container, PodFacts("default", "pod", "uid", annotations), family)
    assert request is not None, f"a container with {family.resources.count}=1 asks for nothing"
    return request


def _uuid(loaded: LoadedVendor, family: Family, annotations: dict[str, str], device_id: str) -> Reason | None:
    return _rules(loaded, family).check_uuid(_request(loaded, family, annotations), device_id)


def _type(loaded: LoadedVendor, family: Family, annotations: dict[str, str], kind: DeviceKind) -> Reason | None:
    return _rules(loaded, family).check_type(_request(loaded, family, annotations), kind)


def _rules(loaded: LoadedVendor, family: Family) -> VendorRules:
    return next(rules for rules in loaded.rules() if rules.family == family)
