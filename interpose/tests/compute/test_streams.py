"""Streams that come and go."""

from __future__ import annotations

from hami_interpose.limits import CorePolicy, DeviceLimit, Limits


def test_a_stream_does_not_take_what_another_was_granted_because_it_has_the_handle_of_one_that_is_gone(
    make_container, programs
):
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
        process.stdin.flush()

    assert grants_after("used") > 0
    go_on()
    before = grants_after("destroyed")
    go_on()
    assert grants_after("launched") - before == 2
    go_on()
    assert process.wait(timeout=60) == 0
