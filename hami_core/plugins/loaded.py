"""All loaded vendors together, as scheduler and agent use them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hami_core.errors import ConfigError, HamiError, VendorError, WireError
from hami_core.model import Mutation
from hami_core.plugins.discovery import SWITCH
from hami_core.vendorkit import capacity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hami_core.model import (
        Allocation,
        ContainerEdits,
        ContainerRef,
        ContainerSpec,
        Device,
        Family,
        NodeFacts,
        PodFacts,
        Request,
        Slice,
        VendorRules,
    )
    from hami_core.plugins.discovery import Source
    from hami_core.plugins.problem import Problem, Reporter
    from hami_core.plugins.vendor import LoadedVendor


@dataclass(frozen=True, slots=True)
class Registration:
    """The devices that all vendors list on one node object.

    Attributes:
        devices: Common word → devices. None: the vendor failed; the family keeps its last devices, and no new pods get
            them.
        errors: One entry for each vendor that failed.
    """

    devices: Mapping[str, tuple[Device, ...] | None]
    errors: tuple[HamiError, ...] = ()

    @property
    def closed(self) -> bool:
        """Whether any family of the node keeps its last devices."""
        return bool(self.errors)


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """The result of `hami_core.plugins.load`.

    Attributes:
        side: ``scheduler`` or ``node``.
        vendors: Vendors in the order of their names, including closed ones, whose hooks all fail.
        wrappers: Wrapper plugins in use.
        refused: Plugins that were found but not loaded, or that are closed. Each has a problem.
        reporter: Problems of loading and of every call since.
    """

    side: str
    vendors: tuple[LoadedVendor, ...]
    wrappers: tuple[Source, ...]
    refused: tuple[Source, ...]
    reporter: Reporter

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was found while loading."""
        return self.reporter.problems

    @property
    def families(self) -> dict[str, Family]:
        """All families by common word."""
        return {family.word: family for vendor in self.vendors for family in vendor.families}

    def vendor(self, name: str) -> LoadedVendor:
        """Return a vendor by its name.

        Raises:
            ConfigError: The vendor is not installed, or was not loaded, and why.
        """
        for vendor in self.vendors:
            if vendor.name == name:
                return vendor
        reasons = [str(problem) for problem in self.problems if problem.plugin == name and problem.severity == "error"]
        have = ", ".join(vendor.name for vendor in self.vendors) or "none"
        fix = f"pip install hami-{name}; loaded are: {have}"
        raise ConfigError(f"vendor {name}", "; ".join(reasons) or "is not installed", "" if reasons else fix)

    def require(self) -> None:
        """Check that a process can start with these vendors.

        Raises:
            ConfigError: A section of the device-config is wrong, or no vendor is loaded.
        """
        for problem in self.problems:
            if isinstance(problem.error, ConfigError):
                raise problem.error
        if not self.vendors:
            switched = f"{SWITCH}={os.environ[SWITCH]} leaves none" if SWITCH in os.environ else "none is installed"
            why = "; ".join(str(problem) for problem in self.problems) or switched
            raise ConfigError("vendors", f"no vendor is loaded: {why}", "for example: pip install 'hami[all]'")

    def rules(self) -> tuple[VendorRules, ...]:
        """Return the placement rules of every family; their callables never raise."""
        return tuple(rules for vendor in self.vendors for rules in vendor.rules())

    def register(self, node: NodeFacts) -> Registration:
        """Return the devices of a node by family. Never raises: a failed vendor closes only its own families."""
        devices: dict[str, tuple[Device, ...] | None] = {}
        errors: list[HamiError] = []
        for vendor in self.vendors:
            try:
                found = vendor.register(node)
                lists = {family.word: _offered(family, found, node) if found else () for family in vendor.families}
            except (VendorError, WireError) as error:
                errors.append(error)
                devices |= dict.fromkeys(vendor.words)
                continue
            devices |= lists
        return Registration(devices, tuple(errors))

    def parse(self, container: ContainerSpec, pod: PodFacts) -> tuple[Request, ...]:
        """Return what a container asks for, at most one request for each family.

        Raises:
            RequestError: The user's request is wrong.
            VendorError: A plugin failed, and the container names its resources. The caller must refuse the pod.
        """
        asked: list[Request] = []
        for vendor in self.vendors:
            try:
                found = [vendor.parse_request(container, pod, family) for family in vendor.families]
            except VendorError:
                if _names_any(container, vendor):
                    raise
                continue  # The failure is reported. It must not affect pods that do not use the vendor.
            asked += [request for request in found if request is not None]
        return tuple(asked)

    def mutate(self, container: ContainerSpec, pod: PodFacts) -> Mutation | None:
        """Merge what all vendors want changed on a container at admission.

        Raises:
            RequestError: The user's request is wrong. The caller must deny the pod.
            VendorError: A plugin failed and the container names its resources, or two vendors set one field to
                different values. The caller must deny the pod.
        """
        result: Mutation | None = None
        givers: dict[tuple[str, str], LoadedVendor] = {}
        for vendor in self.vendors:
            try:
                found = vendor.mutate_admission(container, pod)
            except VendorError:
                if _names_any(container, vendor):
                    raise
                continue  # as in `parse`
            if found is None:
                continue
            for part in ("limits", "requests", "pod_annotations"):
                for key, value in getattr(found, part).items():
                    other = givers.setdefault((part, key), vendor)
                    if other is not vendor and getattr(result, part)[key] != value:
                        raise _both("mutate_admission", f"{part} {key}", other, vendor)
            result = found if result is None else _merged(result, found)
        return result

    def patch_annotations(self, pod: PodFacts, allocation: Allocation) -> dict[str, str]:
        """Merge the annotations of all vendors with a slice in the allocation.

        Raises:
            VendorError: A plugin failed, two vendors answered one key, or one answered a key of the framework.
        """
        framework = {
            key
            for family in self.families.values()
            for key in (family.allocated_key, family.to_allocate_key, family.kept_key, family.mode_key)
        }
        merged: dict[str, str] = {}
        givers: dict[str, LoadedVendor] = {}
        for vendor in self.serving(allocation.families):
            for key, value in vendor.patch_annotations(pod, allocation).items():
                if key in framework:
                    raise VendorError(
                        vendor.name, vendor.source.label, "patch_annotations", f"{key} is written by the framework"
                    )
                if key in givers:
                    raise _both("patch_annotations", key, givers[key], vendor)
                givers[key] = vendor
                merged[key] = value
        return merged

    def lock_annotations(self, node: str, pod: PodFacts, words: Iterable[str]) -> dict[str, str]:
        """Return the node locks that the vendors of these families need: key → protocol.

        Raises:
            VendorError: A plugin failed, or two vendors name one lock with different protocols.
        """
        merged: dict[str, str] = {}
        givers: dict[str, LoadedVendor] = {}
        for vendor in self.serving(words):
            for key, protocol in vendor.lock_annotations(node, pod).items():
                if merged.setdefault(key, protocol) != protocol:
                    raise _both("lock_annotations", key, givers[key], vendor)
                givers.setdefault(key, vendor)
        return merged

    def allocate(self, slices: tuple[Slice, ...], container: ContainerRef) -> tuple[tuple[str, ContainerEdits], ...]:
        """Return the edits of each vendor with a slice in the container, with the vendor's name.

        Raises:
            VendorError: A plugin failed. The caller must refuse the container.
        """
        return tuple(
            (vendor.name, vendor.allocate(tuple(s for s in slices if s.family in vendor.words), container))
            for vendor in self.serving(s.family for s in slices)
        )

    def serving(self, words: Iterable[str]) -> tuple[LoadedVendor, ...]:
        """Return the vendors of some families, each once.

        Raises:
            VendorError: No vendor serves one of the families.
        """
        found: dict[str, LoadedVendor] = {}
        by_word = {family.word: vendor for vendor in self.vendors for family in vendor.families}
        for word in words:
            vendor = by_word.get(word)
            if vendor is None:
                raise VendorError(word, "", "", "no loaded vendor serves this family")
            found[vendor.name] = vendor
        return tuple(found.values())


def _offered(family: Family, found: Iterable[Device], node: NodeFacts) -> tuple[Device, ...]:
    """The family's devices among those found. They are unhealthy while the kubelet offers none of their resource.

    Raises:
        WireError: The node's allocatable amount can't be read.
    """
    devices = tuple(device for device in found if device.family == family.word)
    resource = family.offered_resource
    if not devices or not resource or capacity(replace(node, capacity=node.allocatable), resource):
        return devices
    why = f"the kubelet offers no {resource}"
    return tuple(replace(device, healthy=False, not_offered=device.not_offered or why) for device in devices)


def _names_any(container: ContainerSpec, vendor: LoadedVendor) -> bool:
    """Whether a container names a resource of a vendor."""
    named = {name for family in vendor.families for name in family.resources.names()}
    return not (named.isdisjoint(container.limits) and named.isdisjoint(container.requests))


def _merged(first: Mutation, second: Mutation) -> Mutation:
    names = {name for name, _ in first.env}
    return Mutation(
        uses_devices=first.uses_devices or second.uses_devices,
        limits={**first.limits, **second.limits},
        requests={**first.requests, **second.requests},
        env=first.env + tuple(pair for pair in second.env if pair[0] not in names),
        env_removed=first.env_removed | second.env_removed,
        pod_annotations={**first.pod_annotations, **second.pod_annotations},
        runtime_class=first.runtime_class or second.runtime_class,
    )


def _both(hook: str, what: str, first: LoadedVendor, second: LoadedVendor) -> VendorError:
    text = f"{what} is answered by vendor {first.name} ({first.source.label}) too; one of them must leave it out"
    return VendorError(second.name, second.source.label, hook, text)
