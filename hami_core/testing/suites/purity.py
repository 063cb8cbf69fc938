"""Scheduler-side hooks are pure: no files, sockets, processes, clock or environment; same input, same answer."""

# ruff: noqa: S101 - these are tests
from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hami_core.errors import HamiError
from hami_core.model import (
    Allocation,
    ContainerKind,
    ContainerSlices,
    ContainerSpec,
    DeviceUsage,
    PodFacts,
    Request,
    Slice,
)
from hami_core.testing.isolation import watched
from hami_core.testing.suites.case import VendorCase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hami_core.model import Device, NodeFacts
    from hami_core.plugins.vendor import LoadedVendor


class PuritySuite(VendorCase):
    """What hooks touch beside their arguments."""

    def test_hooks_touch_nothing_but_their_arguments(
        self, loaded: LoadedVendor, nodes: tuple[NodeFacts, ...], devices: tuple[Device, ...]
    ) -> None:
        """Each hook once to let it import what it needs, then once watched."""
        for hook, call in scheduler_calls(loaded, nodes, devices):
            first = _outcome(call)
            with watched() as acts:
                second = _outcome(call)
            assert acts == [], f"{hook} touches {acts[0]}"
            assert first == second, f"{hook} answers differently the second time"

    def test_hooks_leave_their_arguments_alone(
        self, loaded: LoadedVendor, nodes: tuple[NodeFacts, ...], devices: tuple[Device, ...]
    ) -> None:
        """What is handed in is shared with others."""
        before = repr((nodes, devices))
        for _, call in scheduler_calls(loaded, nodes, devices):
            _outcome(call)
        assert repr((nodes, devices)) == before


def scheduler_calls(
    loaded: LoadedVendor, nodes: tuple[NodeFacts, ...], devices: tuple[Device, ...]
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """A typical call of every scheduler-side hook."""
    pod = PodFacts("default", "pod", "uid")
    for node in nodes:
        yield "register", partial(loaded.register, node)
    for rules in loaded.rules():
        family = rules.family
        container = ContainerSpec("main", ContainerKind.APP, {family.resources.count: "1"})
        yield "parse_request", partial(loaded.parse_request, container, pod, family)
        yield "mutate_admission", partial(loaded.mutate_admission, container, pod)
        request = loaded.parse_request(container, pod, family) or Request(family.word, 1)
        for device in [device for device in devices if device.family == family.word][:2]:
            usage = DeviceUsage(device)
            piece = Slice(device.id, family.word, device.memory_mib, 0, family.word, device.mode)
            slices = (ContainerSlices("main", ContainerKind.APP, (piece,)),)
            allocation = Allocation("node", slices)
            yield "check_type", partial(rules.check_type, request, device.kind)
            yield "check_uuid", partial(rules.check_uuid, request, device.id)
            yield "custom_filter", partial(rules.custom_filter, request, usage, ())
            yield "patch_annotations", partial(loaded.patch_annotations, pod, allocation)
            yield "lock_annotations", partial(loaded.lock_annotations, "node", pod)
            if rules.choose is not None:
                yield "choose", partial(rules.choose, request, (usage,), "binpack")
            if rules.account is not None:
                yield "account", partial(rules.account, request, usage, piece, (usage,))
            if rules.score_node is not None:
                yield "score_node", partial(rules.score_node, nodes[0], allocation, "binpack")


def _outcome(call: Callable[[], Any]) -> object:
    try:
        return call()
    except HamiError as error:
        return str(error)
