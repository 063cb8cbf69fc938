"""Inputs of the kit: made-up nodes, and hypothesis strategies for containers, annotations and devices in use."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from hami_core.errors import HamiError
from hami_core.model import (
    INT32_MAX,
    ContainerKind,
    ContainerSpec,
    Device,
    DeviceUsage,
    Family,
    NodeFacts,
    PodFacts,
)
from hami_core.plugins.served import declared_keys
from hami_core.testing.scheduling import Scheduler
from hami_core.wire.node import encode_devices_csv, encode_devices_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hami_core.plugins.vendor import LoadedVendor

ODD_TEXT = st.one_of(
    st.text(max_size=60),
    st.sampled_from(["", " ", ",", "a,b,,c", "\x00", "0" * 300, "[]", "{}", "null", '[{"id": 1}]', "[[[[", "true"]),
)
"""Values of annotations: arbitrary text, and text that looks almost right."""

QUANTITIES = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(["0", "1", "2", "100", "101", "1.5", "16Gi", "1e3", "-1", "+1", "1m", "", "NaN", "0x10", "1_000"]),
    st.text(max_size=8),
)
"""Amounts as a manifest may hold them, and text that is not an amount."""


def made_up_nodes(loaded: LoadedVendor) -> tuple[NodeFacts, ...]:
    """Three nodes with capacity. Two list two devices of each family, each in one of HAMi's two register formats.

    The third node has no register, for vendors whose register has another format.
    """
    annotations: list[dict[str, str]] = [{}, {}, {}]
    capacity: dict[str, str] = {}
    for family in loaded.families:
        memory_mib = _memory_mib(loaded, family)
        capacity |= dict.fromkeys(family.resources.names(), "16")
        if family.resources.memory:
            capacity[family.resources.memory] = str(memory_mib // max(family.memory_factor, 1))
        devices = [
            Device(f"{family.word}-{index}", index, 10, memory_mib, 100, f"{family.word}-model", family.word)
            for index in range(2)
        ]
        if family.register_key:
            annotations[0][family.register_key] = encode_devices_json(devices)
            annotations[1][family.register_key] = encode_devices_csv(devices)
    return tuple(
        NodeFacts(f"node-{position}", found, {}, capacity, capacity) for position, found in enumerate(annotations)
    )


def _memory_mib(loaded: LoadedVendor, family: Family) -> int:
    """Memory of a made-up device: what the vendor books for a whole one. 16 GiB if it does not say this in MiB."""
    with contextlib.suppress(HamiError):
        pod = Scheduler(loaded, ()).admit({family.resources.count: "1"})
        for request in pod.request.containers[0].requests:
            if request.family == family.word and request.memory_mib > 0:
                return request.memory_mib
    return 16384


def pods(families: Sequence[Family]) -> st.SearchStrategy[PodFacts]:
    """Pods with arbitrary text in the declared annotations."""
    keys = sorted(declared_keys(families))
    values = st.dictionaries(st.sampled_from(keys), ODD_TEXT, max_size=4) if keys else st.just({})
    return values.map(lambda annotations: PodFacts("default", "pod", "uid", annotations))


def odd_containers(families: Sequence[Family]) -> st.SearchStrategy[ContainerSpec]:
    """Containers with arbitrary text, or nothing, as amounts of the vendor's resources."""
    names = st.sampled_from([name for family in families for name in family.resources.names()])
    amounts = st.dictionaries(names, QUANTITIES, max_size=5)
    return st.builds(
        ContainerSpec,
        name=st.just("main"),
        kind=st.sampled_from(ContainerKind),
        limits=amounts,
        requests=amounts,
        env_names=st.just(frozenset({"PATH"})),
        privileged=st.booleans(),
    )


def plain_containers(family: Family) -> st.SearchStrategy[ContainerSpec]:
    """Containers with a valid request for a family."""
    names = family.resources
    optional = {
        names.memory: st.integers(0, 40000),
        names.memory_percentage: st.integers(1, 100),
        names.cores: st.one_of(st.sampled_from([100, 0]), st.integers(0, 100)),
    }
    limits = st.fixed_dictionaries(
        {names.count: st.integers(1, 4)}, optional={name: amount for name, amount in optional.items() if name}
    )
    return limits.map(
        lambda amounts: ContainerSpec("main", ContainerKind.APP, {name: str(value) for name, value in amounts.items()})
    )


class _EveryKey(dict[str, Any]):
    """A mapping that has every key, always with the same value."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self._value = value

    def __missing__(self, key: str) -> object:
        return self._value

    def __contains__(self, key: object) -> bool:
        return True

    def get(self, key: str, default: object = None) -> object:  # noqa: ARG002 - the signature of dict
        return self._value


@st.composite
def linked_rows(draw: st.DrawFn, device: Device) -> tuple[DeviceUsage, ...]:
    """Two to eight free copies of a device, in any order, that are neighbours by every measure a vendor may use.

    Their indexes and NUMA nodes are consecutive. Each has a link score to each other. Every key of ``custom`` names the
    device's pair.
    """
    ids = [f"{device.id}-{index}" for index in range(draw(st.sampled_from([2, 4, 6, 8])))]
    scores = draw(st.sampled_from([(0, 0), (1, 0), (100, 10), (100, 100)]))
    named = draw(
        st.sampled_from(
            [
                lambda index: index // 2,
                lambda index: str(index // 2),
                lambda index: index ^ 1,
                lambda index: ids[index ^ 1],
                lambda index: [ids[index ^ 1]],
            ]
        )
    )
    row = [
        DeviceUsage(
            replace(
                device,
                id=own,
                index=index,
                numa=index // 4,
                pair_scores={other: scores[at // 2 != index // 2] for at, other in enumerate(ids) if at != index},
                custom=_EveryKey(named(index)),
            )
        )
        for index, own in enumerate(ids)
    ]
    return tuple(draw(st.permutations(row)))


def usages(device: Device) -> st.SearchStrategy[DeviceUsage]:
    """The device with arbitrary bookings that fit on it."""
    return st.builds(
        DeviceUsage,
        device=st.just(device),
        used_slots=st.integers(0, min(device.slots, INT32_MAX)),
        used_memory_mib=st.integers(0, device.memory_mib),
        used_cores=st.integers(0, device.cores),
    )
