"""Streams that come and go."""

from __future__ import annotations

import pytest
from hami_interpose.limits import CorePolicy, DeviceLimit, Limits


def test_stream_with_a_reused_handle_takes_no_grant_of_another(make_container, programs):
    """A launching thread remembers by its handle which streams have something left of a grant."""
    container = make_container(0)
    [device] = container.limits.devices
    container.write_limits(Limits((DeviceLimit(device.uuid, 0, 0, 50),), 2, core_policy=CorePolicy.FORCE))
    process = container.start(programs("again"))

    def grants_after(step):
        assert process.stdout.readline() == f"{step}\n", process.stderr.read()
        return container.region().devices[0].compute.grants

    def go_on():
        process.stdin.write("\n")

    assert grants_after("used") > 0
    go_on()
    before = grants_after("destroyed")
    go_on()
    assert grants_after("launched") - before == 2
    go_on()
    assert process.wait(timeout=60) == 0


def test_stream_with_a_handle_of_an_unlimited_device_is_limited(make_container, programs):
    """A launching thread remembers, by the handle too, which streams need not ask."""
    container = make_container(0, 0)
    first, second = container.limits.devices
    devices = (DeviceLimit(first.uuid, 0, 0, 50), DeviceLimit(second.uuid, 0, 0, 100))
    container.write_limits(Limits(devices, 2, core_policy=CorePolicy.FORCE))
    process = container.start(programs("again"), "moved")
    assert process.stdout.readline() == "launched\n", process.stderr.read()
    grants = [device.compute.grants for device in container.region().devices[:2]]
    assert grants[0] > 0
    assert grants[1] == 0
    process.stdin.write("\n")
    assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("way", ["green", "primary", "reset"])
def test_work_in_a_context_with_a_reused_handle_is_measured(make_container, programs, way):
    """Events end with their context, so with those of the one before nothing can be measured."""
    container = make_container(0)
    [device] = container.limits.devices
    container.write_limits(Limits((DeviceLimit(device.uuid, 0, 0, 50),), 2, core_policy=CorePolicy.FORCE))
    process = container.start(programs("again"), way)

    def compute_after(step):
        assert process.stdout.readline() == f"{step}\n", process.stderr.read()
        return container.region().devices[0].compute

    before = compute_after("used")
    process.stdin.write("\n")
    after = compute_after("launched")
    assert before.estimated < 0.2 * before.charged
    assert after.estimated - before.estimated < 0.2 * (after.charged - before.charged)
    process.stdin.write("\n")
    assert process.wait(timeout=60) == 0
