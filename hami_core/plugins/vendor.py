"""One loaded vendor, with every hook of the table as a method, and its placement rules.

The methods raise `VendorError`, which is already counted and logged, and the caller decides what the failure means. The
callables of `LoadedVendor.rules` never raise: they turn a failure into a refusal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from hami_core.errors import VendorError
from hami_core.model import Reason, VendorRules
from hami_core.plugins.call import InPlace
from hami_core.plugins.hooks import NodeHooks, SchedulerHooks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pluggy

    from hami_core.model import DeviceUsage, Family, MetricSpec, Request, Slice
    from hami_core.plugins.call import Hook, HookCall, P, R
    from hami_core.plugins.discovery import Source


@dataclass(frozen=True, eq=False)
class LoadedVendor(SchedulerHooks, NodeHooks, InPlace):
    """A loaded vendor.

    Attributes:
        source: Its entry point and distribution.
        families: The families that it serves.
        api_version: The contract version that it states.
        manager: Its own pluggy manager, with its objects, the defaults and the wrappers.
        hooks: Hooks that the vendor itself implements, in the order of the specifications.
        sections: Sections of the device-config that it read.
        calls: Every hook by name.
        metric_specs: Its metrics by name.
    """

    source: Source
    families: tuple[Family, ...]
    api_version: tuple[int, int]
    manager: pluggy.PluginManager
    hooks: tuple[str, ...]
    sections: frozenset[str]
    calls: Mapping[str, HookCall[..., Any]]
    metric_specs: Mapping[str, MetricSpec]

    def of(self, hook: Hook[P, R]) -> HookCall[P, R]:
        """Return a hook as a callable."""
        return cast("HookCall[P, R]", self.calls[hook.name])

    @property
    def name(self) -> str:
        """Entry-point name."""
        return self.source.name

    @property
    def distribution(self) -> str:
        """Distribution name."""
        return self.source.distribution

    @property
    def version(self) -> str:
        """Distribution version."""
        return self.source.version

    @property
    def words(self) -> frozenset[str]:
        """The common words of its families."""
        return frozenset(family.word for family in self.families)

    def rules(self) -> tuple[VendorRules, ...]:
        """Return one set of placement rules for each family; their callables never raise."""
        rules = {name: call.rule() for name, call in self.calls.items() if call.implemented and call.hook.failed}
        if self.custom_filter.wrapped:
            # fit_mask would bypass a wrapper that refuses in custom_filter.
            rules.pop("fit_mask", None)
        if "account" in rules:
            rules["account"] = _or_plain(rules["account"])
        return tuple(self._rules_of(family, rules) for family in self.families)

    def _rules_of(self, family: Family, rules: Mapping[str, Any]) -> VendorRules:
        if not family.choose_is_preference or not self.choose.implemented:
            return VendorRules(family, **rules)
        if self.choose.wrapped:  # a wrapper may refuse, so every node needs a call of `choose`
            return VendorRules(replace(family, choose_is_preference=False), **rules)
        return VendorRules(family, **{**rules, "choose": self._prefer})

    def _prefer(
        self, request: Request, candidates: tuple[DeviceUsage, ...], policy: str, devices: tuple[DeviceUsage, ...]
    ) -> tuple[int, ...] | None:
        """Call `choose` of a family in which every combination serves. If it fails, devices are taken in order."""
        try:
            found = self.choose(request, candidates, policy, devices)
        except VendorError:
            return None
        if isinstance(found, Reason):
            text = "answered Reason, but the family declares choose_is_preference"
            self.choose.bad(text, (request, candidates, policy, devices))
            return None
        return found


def _or_plain(account: Callable[..., Slice | Reason | None]) -> Callable[..., Slice | Reason]:
    """Make a rule that returns the plain slice if the hook answers None."""

    def books(request: Request, device: DeviceUsage, piece: Slice, taken: tuple[DeviceUsage, ...]) -> Slice | Reason:
        booked = account(request, device, piece, taken)
        return piece if booked is None else booked

    return books
