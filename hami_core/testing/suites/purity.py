"""Scheduler-side hooks are pure: they have no side effects, keep no memory, and give the same answer twice."""

# ruff: noqa: S101 - these are tests
from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

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
from hami_core.testing.growth import kept_memory
from hami_core.testing.isolation import watched
from hami_core.testing.suites.case import VendorCase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from hami_core.model import Device, NodeFacts
    from hami_core.plugins.vendor import LoadedVendor


class PuritySuite(VendorCase):
    """Tests for side effects of hooks."""

    def test_hooks_touch_nothing_but_their_arguments(
        self, loaded: LoadedVendor, nodes: tuple[NodeFacts, ...], devices: tuple[Device, ...]
    ) -> None:
        """Each hook runs twice: first to let it import modules, then watched."""
        for hook, call in scheduler_calls(loaded, nodes, devices):
            first = _outcome(call)
            with watched() as acts:
                second = _outcome(call)
            assert acts == [], f"{hook} touches {acts[0]}"
            assert first == second, f"{hook} answers differently the second time"

    def test_hooks_leave_their_arguments_alone(
        self, loaded: LoadedVendor, nodes: tuple[NodeFacts, ...], devices: tuple[Device, ...]
    ) -> None:
        """Other calls share the arguments, so hooks must not change them."""
        for hook, call in scheduler_calls(loaded, nodes, devices):
            before = repr((call.args, nodes, devices))
            _outcome(call)
            after = repr((call.args, nodes, devices))
            assert after == before, f"{hook} changes its arguments: {_difference(before, after)}"

    def test_hooks_print_nothing(
        self,
        loaded: LoadedVendor,
        nodes: tuple[NodeFacts, ...],
        devices: tuple[Device, ...],
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        """The scheduler's output is its log. A line for each call would fill it."""
        for hook, call in scheduler_calls(loaded, nodes, devices):
            capfd.readouterr()
            _outcome(call)
            out, err = capfd.readouterr()
            assert not out + err, f"{hook} prints {(out + err).splitlines()[0]!r}"

    def test_hooks_keep_no_memory(
        self, vendor: object, loaded: LoadedVendor, nodes: tuple[NodeFacts, ...], devices: tuple[Device, ...]
    ) -> None:
        """The scheduler runs for months, so hooks must not keep memory for each call. A bounded cache is allowed."""
        package = str(Path(inspect.getfile(type(vendor))).parent)
        seen: set[str] = set()
        for hook, call in scheduler_calls(loaded, nodes, devices):
            if hook not in seen:
                seen.add(hook)
                kept = kept_memory(call, package)
                assert not kept, f"{hook} {kept}"


def scheduler_calls(
    loaded: LoadedVendor, nodes: tuple[NodeFacts, ...], devices: tuple[Device, ...]
) -> Iterator[tuple[str, partial[Any]]]:
    """Name and typical call of every scheduler-side hook."""
    pod = PodFacts("default", "pod", "uid", {})  # a dict, so that a hook's change to it shows
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
            if rules.fit_mask is not None:
                yield "fit_mask", partial(_mask, rules.fit_mask, request, usage)
            if rules.choose is not None:
                yield "choose", partial(rules.choose, request, (usage,), "binpack", (usage,))
            if rules.account is not None:
                yield "account", partial(rules.account, request, usage, piece, (usage,))
            if rules.score_node is not None:
                yield "score_node", partial(rules.score_node, nodes[0], allocation, "binpack", (usage,))


def _mask(fit_mask: Callable[..., Any], request: Request, usage: DeviceUsage) -> list[list[bool]] | None:
    """The answer of `fit_mask` for one device, as plain data."""
    device = usage.device
    values = {
        "total_memory": device.memory_mib,
        "free_memory": device.memory_mib - usage.used_memory_mib,
        "total_cores": device.cores,
        "free_cores": device.cores - usage.used_cores,
        "slots": device.slots,
        "used_slots": usage.used_slots,
        "numa": device.numa,
    }
    answer = fit_mask(request, {name: np.array([[value]], np.int64) for name, value in values.items()})
    found: list[list[bool]] | None = None if answer is None else answer.tolist()
    return found


def _difference(before: str, after: str) -> str:
    """Short extracts of both texts around the first difference."""
    start = next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    return f"…{before[max(start - 40, 0) : start + 40]}… became …{after[max(start - 40, 0) : start + 60]}…"


def _outcome(call: Callable[[], Any]) -> object:
    try:
        return call()
    except HamiError as error:
        return str(error)
