"""The Acme NPU: memory in steps of 512 MiB, two card types, and two cards only as a wired pair."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from hami_core import Capability, Family, Grade, Reason, Resources, SelectorKeys, Support, hookimpl
from hami_core.vendorkit import ceil_div, default_parse_request

STEP_MIB = 512
REGISTER_KEY = "hami.io/node-acme-register"
FAMILY = Family(
    word="ACME",
    resources=Resources(count="acme.example/npu", memory="acme.example/npu-memory"),
    allocated_key="hami.io/acme-devices-allocated",
    register_key=REGISTER_KEY,
    type_selectors=(SelectorKeys("acme.example/use-npu-type", "acme.example/nouse-npu-type"),),
    capabilities={
        Capability.SHARING: Grade(Support.FULL),
        Capability.MEMORY_LIMIT: Grade(Support.PARTIAL, "kept by Acme's runtime library, not by the driver"),
        Capability.TYPE_SELECTORS: Grade(Support.FULL),
        Capability.NODE_AGENT: Grade(Support.FULL),
    },
)


class Acme:
    """The scheduler side."""

    api_version = (1, 0)

    @hookimpl
    def families(self, config):
        return [FAMILY]

    @hookimpl
    def parse_request(self, container, pod, family):
        """Round memory up to the next 512 MiB."""
        asked = default_parse_request(container, pod, family)
        if asked is None or not asked.memory_mib:
            return asked
        return replace(asked, memory_mib=ceil_div(asked.memory_mib, STEP_MIB) * STEP_MIB)

    @hookimpl
    def choose(self, request, candidates, policy):
        """Choose cards 2n and 2n + 1 for a request of two. More than two are not wired to each other."""
        if request.count == 1:
            return None
        for pair in combinations(range(len(candidates)), 2):
            first, second = sorted(candidates[i].device.index for i in pair)
            if request.count == 2 and first % 2 == 0 and second == first + 1:
                return pair
        return Reason("AcmeNotAPair")
