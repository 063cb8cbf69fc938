"""The life of a node: calls are repeated and come in any order, the agent restarts, devices fail and recover."""

# ruff: noqa: S101, S311 - these are tests, in a random order that is the same each time
from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hami_core.testing.suites.case import VendorCase

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hami_core.model import ContainerEdits
    from hami_core.testing.node_run import NodeRun
    from hami_core.testing.scheduling import Given

_ORDERS = 4


class LifecycleSuite(VendorCase):
    """Tests of the node side over time. Some need the fixtures ``set_health`` or ``leftovers``."""

    def test_each_container_gets_its_own_devices_in_any_order(self, node_run: NodeRun) -> None:
        """The kubelet starts containers in any order. The order must not decide which devices a container gets."""
        containers = node_run.neighbours()
        expected: dict[Given, ContainerEdits] = {}
        for seed in range(_ORDERS):
            for given in random.Random(seed).sample(containers, len(containers)):
                edits = node_run.allocate(given)
                first = expected.setdefault(given, edits)
                assert edits == first, f"allocate for {_named(given)} depends on the order of containers"
                twins = [_named(one) for one, got in expected.items() if one is not given and got == edits]
                assert not twins, f"allocate: {_named(given)} gets the same as {twins[0]}"
            node_run.release_all()
            node_run.restart()

    def test_answers_stay_after_other_containers_came_and_went(self, node_run: NodeRun) -> None:
        """The answer for a running container never changes, whatever happens to its neighbours."""
        containers = node_run.containers()
        answers = {given: node_run.allocate(given) for given in containers}
        for number, given in enumerate(containers):
            assert node_run.allocate(given) == answers[given], f"allocate for {_named(given)} has changed"
            if number % 2:
                node_run.release(given)
        for given in node_run.held:
            assert node_run.allocate(given) == answers[given], (
                f"after others were released, {_named(given)} gets another"
            )

    def test_restart_changes_no_answer(self, node_run: NodeRun) -> None:
        """After a restart at any point, a new node side gives the same answers. `allocate` comes first of all."""
        devices = node_run.loaded.discover()
        said = node_run.loaded.advertise(devices)
        answers: dict[Given, ContainerEdits] = {}
        for given in node_run.containers():
            answers[given] = node_run.allocate(given)
            node_run.restart()
            for one, edits in answers.items():
                assert node_run.allocate(one) == edits, (
                    f"after a restart, allocate for {_named(one)} answers differently"
                )
            assert node_run.loaded.discover() == devices, "after a restart, discover finds other devices"
            assert node_run.loaded.advertise(devices) == said, "after a restart, advertise answers differently"

    def test_released_slices_are_given_again(self, node_run: NodeRun) -> None:
        """After `release`, other pods get the same slices, again and again, also if the agent has restarted."""
        for life in range(3):
            for given in node_run.containers():
                ref = given.container
                node_run.allocate(replace(given, container=replace(ref, pod_uid=f"{ref.pod_uid}-{life}")))
            if life == 1:
                node_run.restart()
            for given in tuple(node_run.held):
                node_run.release(given)

    def test_nothing_is_made_twice(self, node_run: NodeRun, leftovers: Callable[[], Collection[str]] | None) -> None:
        """`allocate` is repeated after a crash and after a restart. What it has made, it must find again."""
        made = _listing(leftovers)
        for given in node_run.containers():
            node_run.allocate(given)
            before = made()
            node_run.allocate(given)
            assert made() == before, f"a repeated allocate for {_named(given)} makes {_more(made(), before)}"
            node_run.restart()
            for one in node_run.held:
                node_run.allocate(one)
            assert made() == before, f"allocate after a restart makes {_more(made(), before)}"

    def test_release_removes_what_allocate_made(
        self, node_run: NodeRun, leftovers: Callable[[], Collection[str]] | None
    ) -> None:
        """`release` removes everything of its container and nothing of others, also by a restarted agent."""
        made = _listing(leftovers)
        steps: list[tuple[Given, frozenset[str]]] = []
        for given in node_run.containers():
            before = made()
            node_run.allocate(given)
            steps.append((given, made() - before))
        assert any(own for _, own in steps), "allocate made nothing that `leftovers` names"
        left = made()
        for number, (given, own) in enumerate(random.Random(1).sample(steps, len(steps))):
            if number % 2:
                node_run.restart()
            node_run.release(given)
            left -= own
            assert made() >= left, f"release of {_named(given)} also removes {_more(left, made())}"
            assert made() <= left, f"release of {_named(given)} leaves {_more(made(), left)}"

    def test_tending_keeps_what_containers_have(
        self, node_run: NodeRun, leftovers: Callable[[], Collection[str]] | None
    ) -> None:
        """`tend` removes nothing that a container still has, also by an agent that has just restarted."""
        made = _listing(leftovers)
        for given in node_run.containers():
            node_run.allocate(given)
        before = made()
        for restart in (False, True):
            if restart:
                node_run.restart()
                node_run.loaded.discover()
            for _ in range(2):
                node_run.tend()
                assert made() >= before, f"tend removes {_more(before, made())} of a live container"

    def test_broken_device_is_reported_and_comes_back(
        self, node_run: NodeRun, set_health: Callable[[str, bool], None] | None
    ) -> None:
        """A device that fails is not offered until it works again. It comes back as the same device."""
        change = _health(set_health)
        devices = node_run.loaded.discover()
        good = _offered(node_run)
        for device in devices:
            if device.id in good:
                change(device.id, False)
                offered = _offered(node_run)
                assert device.id not in offered, f"{device.id} is broken; health and discover call it healthy"
                change(device.id, True)
                assert device.id in _offered(node_run), f"{device.id} works again; health or discover call it unhealthy"
                assert node_run.loaded.discover() == devices, f"{device.id} came back as another device"

    def test_broken_device_hides_no_other(
        self, node_run: NodeRun, set_health: Callable[[str, bool], None] | None
    ) -> None:
        """The other devices stay on offer, with the same ids and slots, also if the agent starts meanwhile."""
        change = _health(set_health)
        good = _offered(node_run)
        if len(good) < 2:
            pytest.skip("the node side finds fewer than two healthy devices here")
        for broken in sorted(good):
            change(broken, False)
            for _ in range(2):
                hidden = good - {broken} - _offered(node_run)
                assert not hidden, f"while {broken} is broken, {sorted(hidden)} are not offered"
                node_run.restart()
            change(broken, True)


def _offered(node_run: NodeRun) -> frozenset[str]:
    """Ids of the devices whose slots the agent offers."""
    known = node_run.loaded.discover()
    unhealthy = {change.device_id for change in node_run.loaded.health(known) if not change.healthy}
    return frozenset(device.id for device in node_run.loaded.discover() if device.healthy) - unhealthy


def _listing(leftovers: Callable[[], Collection[str]] | None) -> Callable[[], frozenset[str]]:
    if leftovers is None:
        pytest.skip("what allocate makes is not tested: the fixture `leftovers` returns None")
    return lambda: frozenset(leftovers())


def _health(set_health: Callable[[str, bool], None] | None) -> Callable[[str, bool], None]:
    if set_health is None:
        pytest.skip("health is not tested: the fixture `set_health` returns None")
    return set_health


def _named(given: Given) -> str:
    return f"{given.container.pod}/{given.container.container} on {sorted(given.devices)}"


def _more(there: Collection[str], expected: Collection[str]) -> str:
    return ", ".join(sorted(set(there) - set(expected)))
